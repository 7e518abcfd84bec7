//! Programs that print an address when they are ready.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time limit for a program to exit on its own.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A running server or link, terminated when dropped.
pub(crate) struct Running {
    child: Child,
    /// The address that the program listens on.
    pub(crate) address: String,
}

impl Running {
    /// Starts `program` and waits until it prints its address, to standard output or, for `clearway
    /// link`, to standard error.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", program.display());
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let mut running = Self { child, address: String::new() };
        let is_link = arguments.first() == Some(&"link");
        let source: Option<Box<dyn Read + Send>> = match is_link {
            true => errors.map(|errors| Box::new(errors) as _),
            false => output.map(|output| Box::new(output) as _),
        };
        let mut source = BufReader::new(source.ok_or("no pipe")?);
        let mut lines = String::new();
        while running.address.is_empty() {
            let before = lines.len();
            if source.read_line(&mut lines).map_err(failed)? == 0 {
                return Err(format!(
                    "{} did not print its address, but {lines:?}",
                    program.display()
                ));
            }
            running.address = address(&lines[before..]).unwrap_or_default().to_owned();
        }
        // The pipe stays open and is drained in the background.
        std::thread::spawn(move || std::io::copy(&mut source, &mut std::io::sink()));
        Ok(running)
    }
}

/// Parses the address from `listening ADDRESS`, `listening on https://ADDRESS (h3)`, or `relaying
/// ADDRESS to …`.
fn address(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("listening ").or_else(|| line.strip_prefix("relaying "))?;
    let rest = rest.strip_prefix("on https://").unwrap_or(rest);
    rest.split_whitespace().next()
}

impl Running {
    fn terminate(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// After SIGTERM, a server answers its clients' pending requests. If a client's last datagram was
/// lost, the server would wait for the idle timeout. After a second SIGTERM, it exits immediately.
impl Drop for Running {
    fn drop(&mut self) {
        self.terminate();
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < EXIT_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
        }
        let _ = self.child.wait();
    }
}
