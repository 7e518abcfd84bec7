//! The endpoints' processes. No process outlives its cell.

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
/// Time limit for a process to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
/// Grace period after a process's time limit. When it expires, the process is killed even if this
/// program has been killed.
const SLACK: Duration = Duration::from_secs(20);

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A running process, in its own process group; terminated when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
    /// The file that receives the process's standard output and standard error.
    log: PathBuf,
}

impl Process {
    /// Starts `command` in one of the locations, with the time limit `limit`.
    pub(crate) fn start(
        environment: &Environment,
        place: Place,
        command: &Command,
        limit: Duration,
        log: &Path,
    ) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        // timeout(1) limits the run time even if this program is killed.
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

    /// Returns the exit status if the process has exited.
    pub(crate) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits until the process exits. Returns `None` if it does not exit within `limit`, or the
    /// user interrupts.
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

    /// Waits for an output line for which `wanted` returns a value, and returns that value. Returns
    /// `None` if the process exits first, or the line does not appear within `limit`.
    pub(crate) fn wait_for_line<T>(
        &mut self,
        limit: Duration,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let start = Instant::now();
        loop {
            // The status is read first, so that output that is read afterwards is complete.
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

    /// Terminates the process with SIGTERM, or with SIGKILL if it does not exit.
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

    /// Signals the whole process group. Does nothing if the process has exited, because its ID may
    /// already belong to another process.
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
