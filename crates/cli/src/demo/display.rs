//! Progress bars of the demo's downloads.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::watch::Watch;
use crate::relay::{LossWindow, Relay};
use crate::units::{bytes_text, goodput, rate_text};
use crate::{bars, output};

/// Shows progress bars if standard error is a terminal, and otherwise a line at the end of each
/// run.
pub(super) struct Display {
    bars: MultiProgress,
    is_terminal: bool,
}

impl Drop for Display {
    /// Ends the line of the progress bars, so that the next output begins on a new line.
    fn drop(&mut self) {
        if self.is_terminal {
            output::status("");
        }
    }
}

/// The progress bar of one run.
pub(super) struct Bar {
    bars: MultiProgress,
    bar: ProgressBar,
    watch: Watch,
    relay: Relay,
    is_terminal: bool,
    name: String,
}

impl Display {
    pub(super) fn new() -> Self {
        let bars = MultiProgress::with_draw_target(bars::target());
        Self { bars, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Creates a progress bar for a run that downloads `size` bytes through `relay`.
    pub(super) fn bar(&self, name: &str, size: u64, watch: Watch, relay: Relay) -> Bar {
        let bar = self.bars.add(ProgressBar::new(size));
        let template = "{prefix:9} {wide_bar} {decimal_bytes:>9} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        let bars = self.bars.clone();
        Bar { bars, bar, watch, relay, is_terminal: self.is_terminal, name: name.to_owned() }
    }
}

impl Bar {
    /// Shows the progress of the run.
    pub(super) fn update(&mut self, received: u64, time: Duration) {
        if self.is_terminal {
            self.bar.set_position(received);
            // The field has a fixed width, so that the bar does not move.
            let loss = match self.relay.status().loss_window {
                LossWindow::Open => "losses",
                LossWindow::None | LossWindow::Waiting | LossWindow::Over => "",
            };
            self.bar.set_message(format!("{}  {loss:6}", self.text(received, time)));
        }
    }

    fn text(&self, received: u64, time: Duration) -> String {
        let window = bytes_text(self.watch.metrics().window);
        let rate = rate_text(goodput(received, time));
        format!("{:5.2} s {rate:>12}  window {window:>9}", time.as_secs_f64())
    }

    /// Replaces the bar with the result of the run. Returns the relay.
    pub(super) fn finish(self, received: u64, time: Duration, error: Option<&str>) -> Relay {
        let end = error.map_or_else(String::new, |error| format!("  FAILED: {error}"));
        let text = self.text(received, time);
        let line = format!("{:9} {:>9} {text}{end}", self.name, bytes_text(received));
        self.bar.finish_and_clear();
        // If standard error is not a terminal, the bars are hidden, and would hide the line too.
        if !self.is_terminal || self.bars.println(&line).is_err() {
            output::status(&line);
        }
        self.relay
    }
}
