//! The access log: one line on standard output for each request.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::output;
use crate::units::bytes_text;

/// The maximum length of what a client has chosen, such as the path, in the log: in bytes, after it is escaped.
const MAX_LENGTH: usize = 1024;

/// The access log. Requests do not wait until it is written: if its reader is too slow, lines are left out and counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessLog {
    is_quiet: bool,
}

impl AccessLog {
    /// A log of nothing but problems if `is_quiet`.
    pub(super) const fn new(is_quiet: bool) -> Self {
        Self { is_quiet }
    }

    /// Prints why a path could not be served, even with `--quiet`.
    pub(super) fn problem(self, path: &str, problem: &str) {
        output::status(&format!("clearway: cannot serve \"{}\": {problem}", Escaped(path)));
    }

    /// Prints a line; `outcome` is the length of the content, or why it was cut off.
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
            Err(error) => format!("cut off: {}", Escaped(&error)),
        };
        let (method, path, time) = (Escaped(method), Escaped(path), time.as_secs_f64());
        output::event(&format!("{client} {method} \"{path}\" {status} {outcome} {time:.3} s"));
    }
}

/// Text that a client has chosen: it must neither contain control characters for the terminal nor be of any length.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = MAX_LENGTH;
        for (at, character) in self.0.char_indices() {
            let escaped = character.escape_debug();
            // All of them are ASCII, or one character as it is.
            let length = if escaped.len() == 1 { character.len_utf8() } else { escaped.len() };
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return write!(formatter, "… ({} more bytes)", self.0.len() - at),
            }
            escaped.into_iter().try_for_each(|part| formatter.write_char(part))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_is_escaped_and_cut() {
        assert_eq!(Escaped("/a\"\u{1b}[2J/ü").to_string(), "/a\\\"\\u{1b}[2J/ü");
        let all = "x".repeat(MAX_LENGTH);
        assert_eq!(Escaped(&all).to_string(), all);
        let cut = Escaped(&format!("{all}\"yz")).to_string();
        assert_eq!(cut, format!("{all}… (3 more bytes)"));
        let quotes = Escaped(&"\"".repeat(50_000)).to_string();
        assert!(quotes.len() < MAX_LENGTH + 30, "{}", quotes.len());
    }
}
