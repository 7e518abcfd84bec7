//! The progress of reading a file.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{bars, output};

/// Minimum reading time of a file before progress is shown.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between lines if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress output: a line that is redrawn if standard error is a terminal, and otherwise a line
/// from time to time.
pub(crate) struct Progress {
    name: String,
    begin: Instant,
    last_line: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts showing the progress of reading the file at `path`.
    pub(crate) fn start(path: &Path) -> Self {
        Self { name: path.display().to_string(), begin: Instant::now(), last_line: None, bar: None }
    }

    /// Records that this many bytes of the decompressed file were read.
    pub(crate) fn advance(&mut self, bytes: u64) {
        if self.begin.elapsed() < TIMEOUT {
            return;
        }
        let megabytes = bytes / 1_000_000;
        let text = format!("{}: {megabytes} MB read", self.name);
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(spinner);
            bar.set_message(text);
            bar.tick();
        } else if self.last_line.is_none_or(|last| last.elapsed() >= LINE_INTERVAL) {
            self.last_line = Some(Instant::now());
            output::status(&text);
        }
    }
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, bars::target());
    match ProgressStyle::with_template("{spinner} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
