//! How far a download is.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units::{bytes_text, goodput};

/// How often a bar is drawn without news, so that one sees that nothing comes.
const TICK: Duration = Duration::from_millis(200);

/// Counts a download, and draws a bar if a person watches.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    start: Instant,
    received: u64,
    total: Option<u64>,
}

impl Progress {
    /// Begins to count. Nothing is drawn if `is_quiet`, or if standard error is no terminal.
    pub(super) fn start(name: &str, is_quiet: bool) -> Self {
        let target = match is_quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template(
            "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
        ) {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(TICK);
        Self { bar, start: Instant::now(), received: 0, total: None }
    }

    /// The length is known.
    pub(super) fn expect(&mut self, total: Option<u64>) {
        self.total = total;
        if let Some(total) = total {
            self.bar.set_length(total);
        }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.bar.set_position(self.received);
    }

    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Bits per second until now.
    pub(super) fn goodput(&self) -> f64 {
        goodput(self.received, self.elapsed())
    }

    /// How far it is, in words.
    pub(super) fn text(&self) -> String {
        let received = bytes_text(self.received);
        match self.total {
            Some(total) => format!("{received} of {}", bytes_text(total)),
            None => received,
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
