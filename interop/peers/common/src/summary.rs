use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::ClientOptions;

/// The results of a client.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The total length of all bodies.
    pub bytes: u64,
    /// The time from the first request to the last byte of the last body, without the handshake.
    pub elapsed: Duration,
    /// The HTTP status of the responses: 200 if all of them have this status, otherwise the first
    /// other status.
    pub status: u16,
}

impl Summary {
    /// Summarizes the responses (status, bytes), where the first request was sent at `begin`.
    pub fn new(begin: Instant, responses: &[(u16, u64)]) -> Self {
        let other = responses.iter().map(|(status, _)| *status).find(|status| *status != 200);
        Self {
            bytes: responses.iter().map(|(_, bytes)| bytes).sum(),
            elapsed: begin.elapsed(),
            status: other.unwrap_or(200),
        }
    }

    /// Prints the final line of a client's output. Returns an error unless every status was 200.
    pub fn print(&self, options: &ClientOptions) -> Result<()> {
        if options.output.as_deref() == Some(Path::new("-")) {
            eprintln!("{self}");
        } else {
            println!("{self}");
        }
        ensure!(self.status == 200, "status {}", self.status);
        Ok(())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        write!(
            formatter,
            r#"{{"bytes":{},"seconds":{seconds:.6},"status":{}}}"#,
            self.bytes, self.status
        )
    }
}
