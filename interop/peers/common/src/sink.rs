use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::{ClientOptions, PATTERN, PERIOD, zero_length};

/// Receives the body of one response: counts it, checks it if its bytes are known, and writes it if requested.
pub struct Sink {
    output: Option<Box<dyn Write + Send>>,
    generated: bool,
    expected: Option<u64>,
    received: u64,
}

impl Sink {
    /// The sink of request number `index`. Only the body of the first request is written.
    pub fn new(options: &ClientOptions, index: u64) -> Result<Self> {
        let output: Option<Box<dyn Write + Send>> = match options.output.as_deref() {
            Some(path) if index == 0 && path == Path::new("-") => Some(Box::new(std::io::stdout())),
            Some(path) if index == 0 => Some(Box::new(BufWriter::new(File::create(path)?))),
            _ => None,
        };
        let expected = zero_length(options.url.path());
        Ok(Self { output, generated: expected.is_some(), expected, received: 0 })
    }

    /// The sink of a generated body of `length` bytes.
    pub fn of_generated(length: u64) -> Self {
        Self { output: None, generated: true, expected: Some(length), received: 0 }
    }

    /// Receives the response's status and the value of its content-length.
    pub fn start(&mut self, status: u16, content_length: Option<u64>) -> Result<()> {
        if status != 200 {
            self.generated = false;
            self.expected = None;
        }
        match (self.expected, content_length) {
            (Some(expected), Some(announced)) if expected != announced => {
                bail!("requested {expected} bytes, but content-length is {announced}")
            }
            (None, announced) => self.expected = announced,
            _ => {}
        }
        Ok(())
    }

    /// Receives the next bytes of the body.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        if self.generated {
            self.check(bytes)?;
        }
        if let Some(output) = &mut self.output {
            output.write_all(bytes)?;
        }
        self.received += bytes.len() as u64;
        Ok(())
    }

    /// Receives the end of the body and returns its length.
    pub fn finish(mut self) -> Result<u64> {
        if let Some(output) = &mut self.output {
            output.flush()?;
        }
        if let Some(expected) = self.expected {
            ensure!(
                self.received == expected,
                "the body ended after {} of {expected} bytes",
                self.received
            );
        }
        Ok(self.received)
    }

    fn check(&self, bytes: &[u8]) -> Result<()> {
        let mut position = self.received;
        for piece in bytes.chunks(PATTERN.len() - PERIOD) {
            let phase = (position % PERIOD as u64) as usize;
            ensure!(
                piece == &PATTERN[phase..phase + piece.len()],
                "wrong bytes between {position} and {}",
                position + piece.len() as u64
            );
            position += piece.len() as u64;
        }
        Ok(())
    }
}

/// The result of a client.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The total length of all bodies.
    pub bytes: u64,
    /// The time from the first request to the last byte of the last body, without the handshake.
    pub elapsed: Duration,
    /// 200 if all responses have this status, otherwise the first other status.
    pub status: u16,
}

impl Summary {
    /// Summarizes the responses (status, bytes) to requests of which the first was sent at `begin`.
    pub fn new(begin: Instant, responses: &[(u16, u64)]) -> Self {
        let other = responses.iter().map(|(status, _)| *status).find(|status| *status != 200);
        Self {
            bytes: responses.iter().map(|(_, bytes)| bytes).sum(),
            elapsed: begin.elapsed(),
            status: other.unwrap_or(200),
        }
    }

    /// Prints the line that a client ends with. Returns an error unless every status was 200.
    pub fn print(&self, options: &ClientOptions) -> Result<()> {
        let seconds = self.elapsed.as_secs_f64();
        let line = format!(
            r#"{{"bytes":{},"seconds":{seconds:.6},"status":{}}}"#,
            self.bytes, self.status
        );
        if options.output.as_deref() == Some(Path::new("-")) {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
        ensure!(self.status == 200, "status {}", self.status);
        Ok(())
    }
}
