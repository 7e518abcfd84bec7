//! Programs whose expected actions each have a time limit.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time limit for a program to print the expected line, and to exit.
const BOUND: Duration = Duration::from_secs(60);

/// A running program, whose standard input stays open until the caller waits for its exit. Killed
/// when dropped.
pub(super) struct Bounded {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The program's standard error output, available once it has exited.
    errors: Receiver<String>,
    /// The command line, for error messages.
    command: String,
    bound: Duration,
}

/// A program that has exited.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The program's standard error output.
    pub(super) errors: String,
}

impl Bounded {
    pub(super) fn start(command: &mut Command) -> Result<Self, String> {
        Self::start_with(command, BOUND)
    }

    fn start_with(command: &mut Command, bound: Duration) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child =
            child.map_err(|error| format!("cannot run {:?}: {error}", command.get_program()))?;
        let input = child.stdin.take();
        let ((line, lines), (text, errors)) = (channel(), channel());
        if let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) {
            // The receivers may already be gone.
            std::thread::spawn(move || {
                let printed = BufReader::new(output).lines().map_while(Result::ok);
                printed.for_each(|printed| drop(line.send(printed)));
            });
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = errors.read_to_end(&mut bytes);
                let _ = text.send(String::from_utf8_lossy(&bytes).into_owned());
            });
        }
        Ok(Self { child, input, lines, errors, command: format!("{command:?}"), bound })
    }

    /// Waits for a line on standard output that begins with the word `ready`, and returns the rest
    /// of the line.
    pub(super) fn wait_for(&mut self, ready: &str) -> Result<String, String> {
        let end = Instant::now() + self.bound;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some((_, rest)) = line.split_once(' ').filter(|(word, _)| *word == ready)
                    {
                        return Ok(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.too_slow(&format!("print {ready:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let errors = self.errors.recv_timeout(self.bound).unwrap_or_default();
                    return Err(format!(
                        "the program exited before it printed {ready:?}: {}\n{errors}",
                        self.command
                    ));
                }
            }
        }
    }

    /// Closes the program's standard input, and waits until the program exits.
    pub(super) fn end(mut self) -> Result<Ended, String> {
        self.input = None;
        let Ok(errors) = self.errors.recv_timeout(self.bound) else {
            return Err(self.too_slow("end"));
        };
        let status =
            self.child.wait().map_err(|error| format!("waiting for {}: {error}", self.command))?;
        Ok(Ended { status, errors })
    }

    fn too_slow(&self, what: &str) -> String {
        format!(
            "a program did not {what} within {} seconds, and was stopped. Under valgrind it is \
             about fifty times slower: try again while fewer programs run. If it happens again, \
             run it by hand to see where it waits: {}",
            self.bound.as_secs(),
            self.command
        )
    }
}

/// Kills the program; has no effect if it has already exited.
impl Drop for Bounded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, bound: Duration) -> Bounded {
        Bounded::start_with(Command::new("sh").args(["-c", script]), bound).unwrap()
    }

    #[test]
    fn a_line_and_the_end_are_waited_for() {
        let mut program =
            shell("echo first; echo ready at 7; read line; echo bad >&2; exit 3", BOUND);
        assert_eq!(program.wait_for("ready").as_deref(), Ok("at 7"));
        let ended = program.end().unwrap();
        assert_eq!((ended.status.code(), ended.errors.as_str()), (Some(3), "bad\n"));
    }

    #[test]
    fn a_program_that_ends_too_early_is_quoted() {
        let error = shell("echo missing >&2", BOUND).wait_for("ready").unwrap_err();
        assert!(error.contains("missing") && error.contains("before it printed"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped() {
        let short = Duration::from_millis(50);
        let error = shell("echo ready; exec cat /dev/zero >/dev/null", short).end().err().unwrap();
        assert!(error.contains("did not end within"), "{error}");
        let error = shell("exec cat", short).wait_for("ready").unwrap_err();
        assert!(error.contains("try again while fewer programs run"), "{error}");
    }
}
