//! The progress of a sweep.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use clearway_terminal::{bars, output};

/// The interval at which a line is printed if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// A progress bar if standard error is a terminal; otherwise a line that is printed periodically.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    begin: Instant,
    last_line: Instant,
    runs: u64,
    all_runs: u64,
    cost: u64,
    all_cost: u64,
}

impl Progress {
    /// Starts showing the progress of `all_runs` runs, whose estimated total cost is `all_cost`.
    pub(super) fn start(all_runs: u64, all_cost: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(all_cost), bars::target());
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let begin = Instant::now();
        Self { bar, begin, last_line: begin, runs: 0, all_runs, cost: 0, all_cost }
    }

    /// Records that a run with this estimated cost is done.
    pub(super) fn add(&mut self, cost: u64) {
        self.runs = self.runs.saturating_add(1);
        self.cost = self.cost.saturating_add(cost);
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.cost);
                bar.set_message(self.text());
            }
            None if self.last_line.elapsed() >= LINE_INTERVAL => {
                self.last_line = Instant::now();
                output::status(&self.text());
            }
            None => {}
        }
    }

    fn text(&self) -> String {
        let left = estimate(self.begin.elapsed(), self.cost, self.all_cost);
        format!("{} of {} runs, about {} left", self.runs, self.all_runs, clock_text(left))
    }

    /// Hides the bar while `print` prints something else.
    pub(super) fn around<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns the time that the remaining work will take at the same speed.
fn estimate(elapsed: Duration, done: u64, all: u64) -> Duration {
    let left = all.saturating_sub(done);
    match done {
        0 => Duration::ZERO,
        done => elapsed.mul_f64(left as f64 / done as f64),
    }
}

/// Formats a time as on a clock, such as `1:05` or `2:00:00`.
fn clock_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_from_the_elapsed_time() {
        let second = Duration::from_secs(1);
        assert_eq!(estimate(second, 0, 100), Duration::ZERO);
        assert_eq!(estimate(second, 25, 100), second * 3);
        assert_eq!(estimate(second, 100, 100), Duration::ZERO);
    }

    #[test]
    fn times_are_written_as_on_a_clock() {
        assert_eq!(clock_text(Duration::from_millis(65_900)), "1:05");
        assert_eq!(clock_text(Duration::from_secs(7205)), "2:00:05");
    }
}
