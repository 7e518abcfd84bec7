//! Programs that run with a time limit.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::waiting::wait_until;

/// Time limit for a server to start.
const STARTING: Duration = Duration::from_secs(15);
/// Timeout for a TCP connection over loopback.
const CONNECTING: Duration = Duration::from_millis(200);
/// Maximum number of bytes to keep of a program's output.
const TEXT: u64 = 1 << 20;

/// A program's standard output and standard error, in this order.
pub(crate) struct Finished {
    pub(crate) is_success: bool,
    pub(crate) text: String,
}

impl Finished {
    /// Returns the printed text if the program succeeded.
    pub(crate) fn success(self) -> Result<String, String> {
        match self.is_success {
            true => Ok(self.text),
            false => Err(last_lines(&self.text)),
        }
    }
}

/// Returns the last lines of a text, joined into one line.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

/// A running program; killed when dropped.
pub(crate) struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program, and kills it if it takes longer than `limit`.
pub(crate) fn finish(mut command: Command, limit: Duration) -> Result<Finished, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let mut guard = Guard(child);
    let (output, errors) = (guard.0.stdout.take(), guard.0.stderr.take());
    let output = output.map(|output| std::thread::spawn(move || read(output)));
    let errors = errors.map(|errors| std::thread::spawn(move || read(errors)));
    let mut status = None;
    let is_over = wait_until(limit, || {
        status = guard.0.try_wait().map_err(|error| format!("{name}: {error}"))?;
        Ok(status.is_some())
    })?;
    drop(guard);
    let text = [output, errors].into_iter().flatten().filter_map(|reader| reader.join().ok());
    let text: String = text.collect();
    match is_over {
        true => Ok(Finished { is_success: status.is_some_and(|status| status.success()), text }),
        false => Err(format!("not finished after {} s: {}", limit.as_secs(), last_lines(&text))),
    }
}

fn read(source: impl Read) -> String {
    let (mut text, mut source) = (Vec::new(), source);
    // Data that was read before an error is kept.
    let _ = source.by_ref().take(TEXT).read_to_end(&mut text);
    let _ = std::io::copy(&mut source, &mut std::io::sink());
    String::from_utf8_lossy(&text).into_owned()
}

/// A server that logs to a file; killed when dropped.
pub(crate) struct Server {
    guard: Guard,
    log: PathBuf,
}

impl Server {
    pub(crate) fn start(command: Command, log: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", log.display());
        let output = std::fs::File::create(log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        // The kernel kills the server when this program exits for any reason.
        let mut bound = Command::new("setpriv");
        bound.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
        bound.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let child = bound.spawn().map_err(|error| format!("setpriv: {error}"))?;
        Ok(Self { guard: Guard(child), log: log.to_owned() })
    }

    /// Returns the server's process ID.
    pub(crate) fn id(&self) -> u32 {
        self.guard.0.id()
    }

    /// Returns whether the server is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.guard.0.try_wait(), Ok(None))
    }

    /// Returns the content of the server's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until `is_ready` returns true for the server's log.
    ///
    /// # Errors
    /// Returns an error if the server exits or is not ready in time.
    pub(crate) fn wait(&mut self, is_ready: impl Fn(&str) -> bool) -> Result<(), String> {
        self.wait_for(STARTING, is_ready)
    }

    /// Like [`wait`](Self::wait), but with a given time limit.
    pub(crate) fn wait_for(
        &mut self,
        limit: Duration,
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let log = self.log.clone();
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        let is_ready = wait_until(limit, || {
            if is_ready(&read()) {
                return Ok(true);
            }
            match self.guard.0.try_wait() {
                Ok(None) => Ok(false),
                _ => Err(format!("the server exited: {}", last_lines(&read()))),
            }
        })?;
        match is_ready {
            true => Ok(()),
            false => {
                Err(format!("no response within {} s: {}", limit.as_secs(), last_lines(&read())))
            }
        }
    }

    /// Waits until the server accepts TCP connections. The servers used here accept QUIC by then
    /// too.
    pub(crate) fn wait_for_tcp(&mut self, address: SocketAddr) -> Result<(), String> {
        self.wait(|_| TcpStream::connect_timeout(&address, CONNECTING).is_ok())
    }
}
