//! The progress of a download.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::units::{bytes_text, goodput, rate_text};
use crate::{bars, output};

/// Interval at which a bar is redrawn while no data arrives, so that it shows the falling rate.
const TICK: Duration = Duration::from_millis(200);

/// The progress bars of all downloads.
#[derive(Debug)]
pub(super) struct Bars(MultiProgress);

impl Bars {
    /// Creates the bars. Nothing is drawn if `is_quiet`, or if standard error is not a terminal.
    pub(super) fn new(is_quiet: bool) -> Self {
        let target = if is_quiet { ProgressDrawTarget::hidden() } else { bars::target() };
        Self(MultiProgress::with_draw_target(target))
    }

    /// Starts counting a download.
    pub(super) fn start(&self, name: &str) -> Progress {
        let bar = self.0.add(ProgressBar::no_length());
        bar.set_style(style());
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(TICK);
        Progress { bar, start: Instant::now(), received: 0, total: None }
    }

    /// Prints a line above the bars, on standard error.
    pub(super) fn print(&self, line: &str) {
        self.0.suspend(|| output::status(line));
    }
}

/// Returns the style of a bar, with the same units as the result.
fn style() -> ProgressStyle {
    let template = "{prefix} {wide_bar} {received} of {total} {rate} {eta}";
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    // A bar that cannot be drawn is not an error.
    style
        .with_key("received", |state: &ProgressState, to: &mut dyn Write| {
            let _ = to.write_str(&bytes_text(state.pos()));
        })
        .with_key("total", |state: &ProgressState, to: &mut dyn Write| {
            let _ = to.write_str(&state.len().map_or_else(|| "?".to_owned(), bytes_text));
        })
        .with_key("rate", |state: &ProgressState, to: &mut dyn Write| {
            let _ = to.write_str(&rate_text(goodput(state.pos(), state.elapsed())));
        })
}

/// Counts a download's bytes, and draws its bar.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    start: Instant,
    received: u64,
    total: Option<u64>,
}

impl Progress {
    /// Sets the length of the content, if it is known.
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

    /// Returns the average rate so far, in bits per second.
    pub(super) fn goodput(&self) -> f64 {
        goodput(self.received, self.elapsed())
    }

    /// Describes the progress, such as "1.2 MB of 3.0 MB".
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

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
