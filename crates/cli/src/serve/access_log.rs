//! The access log: one line on standard output for each request.

use std::net::SocketAddr;
use std::time::Duration;

use crate::foreign::Foreign;
use crate::output;
use crate::units::bytes_text;

/// The access log. Requests do not wait for it: if its reader is too slow, lines are dropped and
/// counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessLog {
    is_quiet: bool,
}

impl AccessLog {
    /// Creates a log, which contains only problems if `is_quiet`.
    pub(super) const fn new(is_quiet: bool) -> Self {
        Self { is_quiet }
    }

    /// Prints why a path could not be served, even with `--quiet`.
    pub(super) fn problem(self, path: &str, problem: &str) {
        output::status(&format!(
            "clearway: cannot serve {}: {}",
            Foreign(path).quoted(),
            Foreign(problem)
        ));
    }

    /// Prints a line; `outcome` is the length of the content, or the reason that the response is
    /// incomplete.
    pub(super) fn line(
        self,
        client: Option<SocketAddr>,
        method: &str,
        path: &str,
        status: u16,
        outcome: Result<u64, String>,
        time: Duration,
    ) {
        if self.is_quiet {
            return;
        }
        let client = client.map_or_else(|| "-".to_owned(), |client| client.to_string());
        let outcome = match outcome {
            Ok(length) => bytes_text(length),
            Err(error) => format!("aborted: {}", Foreign(&error)),
        };
        let (method, path, time) = (Foreign(method), Foreign(path).quoted(), time.as_secs_f64());
        output::event(&format!("{client} {method} {path} {status} {outcome} {time:.3} s"));
    }
}
