//! The endpoints' processes. None outlives its cell.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::environment::{Environment, Place};

/// Set when the user interrupts the program. All waits then return.
pub(crate) static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Polling interval for a process's state.
const INTERVAL: Duration = Duration::from_millis(5);
/// How long a process may take to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time after its limit at which a process ends even if this program has been killed.
const SLACK: Duration = Duration::from_secs(20);

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A running process, in its own process group; terminated when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
    /// The file with its standard output and standard error.
    log: PathBuf,
}

impl Process {
    /// Starts `command` in a location, for at most `limit`.
    pub(crate) fn start(
        environment: &Environment,
        place: Place,
        command: &Command,
        limit: Duration,
        log: &Path,
    ) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        // timeout(1) bounds the run even if this program is killed.
        let mut bounded = Command::new("timeout");
        bounded.args(["--kill-after=5", &(limit + SLACK).as_secs().to_string()]);
        bounded.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => bounded.env(name, value),
                None => bounded.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            bounded.current_dir(folder);
        }
        bounded.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let spawned = environment.at(place, move || bounded.spawn())?;
        let name = command.get_program().to_string_lossy();
        let child = spawned.map_err(|error| io::Error::other(format!("{name}: {error}")))?;
        Ok(Self { child, status: None, log: log.to_owned() })
    }

    /// Returns the exit status, if the process has exited.
    pub(crate) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits until the process exits; returns `None` if that takes longer than `limit`, or the user
    /// interrupts.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            let status = self.status()?;
            if status.is_some() || start.elapsed() > limit || is_interrupted() {
                return Ok(status);
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Waits for a line for which `wanted` returns a value, and returns that value; `None` if the
    /// process exits first, or if it takes longer than `limit`.
    pub(crate) fn wait_for_line<T>(
        &mut self,
        limit: Duration,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let start = Instant::now();
        loop {
            // The status is read first, so that the output read after it is complete.
            let has_ended = self.status()?.is_some();
            let text = self.output();
            // The last line may be incomplete.
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(found) = complete.lines().find_map(&wanted) {
                return Ok(Some(found));
            }
            if has_ended || start.elapsed() > limit || is_interrupted() {
                return Ok(None);
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Returns the process's output.
    pub(crate) fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Terminates the process with SIGTERM, and with SIGKILL if that does not help.
    pub(crate) fn stop(&mut self) -> io::Result<Option<ExitStatus>> {
        self.signal(Signal::TERM);
        let start = Instant::now();
        while self.status()?.is_none() && start.elapsed() < EXIT_TIMEOUT {
            std::thread::sleep(INTERVAL);
        }
        self.signal(Signal::KILL);
        self.status = Some(self.child.wait()?);
        Ok(self.status)
    }

    /// Signals the whole group, unless the process has exited: then its ID may belong to another
    /// process.
    fn signal(&mut self, signal: Signal) {
        if self.status().is_ok_and(|status| status.is_none())
            && let Some(group) = Pid::from_raw(self.child.id().cast_signed())
        {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.stop();
        }
    }
}
