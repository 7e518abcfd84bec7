//! Programs that run in namespaces. Each has its own process group, so that Ctrl-C interrupts only
//! this program, which then stops the others.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clearway_namespaces::Namespace;
use rustix::process::{Pid, Signal, kill_process};

use crate::waiting::{POLLING, check_interrupt, wait_until};

/// Time limit for a program to start.
const STARTING: Duration = Duration::from_secs(10);
/// Time limit for a program to exit after SIGTERM.
const ENDING: Duration = Duration::from_secs(5);

/// A running program; killed when dropped.
pub(crate) struct Program {
    /// Name of the program, for the reader.
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The program's ready message.
    said: String,
}

impl Program {
    /// Starts a program in a namespace, and waits until it prints a line that begins with the word
    /// `ready`. The program's standard error is appended to `log`. Must be called from the main
    /// thread: the kernel kills the program when the thread that started it exits.
    pub(crate) fn start(
        name: &str,
        namespace: &Namespace,
        (program, arguments): (&Path, &[&str]),
        ready: &str,
        log: &Path,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let log = File::options().create(true).append(true).open(log).map_err(failed)?;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", namespace.process()));
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).process_group(0);
        let mut child = command.spawn().map_err(|error| {
            format!("{name}: nsenter: {error} (it is in the package util-linux)")
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        if let Some(output) = output {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    // The receiver may be gone; the pipe is still drained.
                    let _ = sender.send(line);
                }
            });
        }
        let said = String::new();
        let mut program = Self { name: name.to_owned(), child, input, lines, said };
        let began = Instant::now();
        loop {
            let line = program.next_line(STARTING.saturating_sub(began.elapsed()))?;
            if line.split(' ').next() == Some(ready) {
                program.said = line;
                return Ok(program);
            }
        }
    }

    /// Returns the program's ready message.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Returns the next line that the program prints.
    pub(crate) fn next_line(&mut self, limit: Duration) -> Result<String, String> {
        let began = Instant::now();
        loop {
            check_interrupt()?;
            match self.lines.recv_timeout(POLLING) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("{} exited; see its log", self.name));
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() > limit => {
                    return Err(format!("{} did not print anything", self.name));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the program's process ID.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to the program's standard input.
    pub(crate) fn say(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("no pipe")?;
        writeln!(input, "{line}").map_err(|error| format!("{}: {error}", self.name))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).ok_or("no process ID")?;
        kill_process(pid, signal).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Stops the program as a service manager does, and waits until it has exited.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM)?;
        let has_ended = wait_until(ENDING, || match self.child.try_wait() {
            Ok(status) => Ok(status.is_some()),
            Err(error) => Err(format!("{}: {error}", self.name)),
        });
        match has_ended? {
            true => Ok(()),
            false => Err(format!("{} is still running after SIGTERM", self.name)),
        }
    }
}

/// A program that has exited is not killed: the standard library knows that its ID may have been
/// reused.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
