//! A time limit for benchmarks whose programs might deadlock.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Exits the process with an error after the time limit, unless dropped earlier. The programs
/// started by this process exit with it: benchmark programs when their standard input closes, other
/// programs by means of [`ending_with_this`].
pub(super) struct Bounded(
    #[expect(dead_code, reason = "dropping it is what ends the wait")] Sender<()>,
);

impl Bounded {
    pub(super) fn new(name: &'static str, limit: Duration) -> Self {
        let (sender, ended) = channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let seconds = limit.as_secs();
                eprintln!(
                    "xtask: bench {name} is still running after {seconds} s: a program is \
                     probably stuck; its output is above"
                );
                std::process::exit(1);
            }
        });
        Self(sender)
    }
}

/// Returns arguments of `env` that start a program in this folder, on any of these cores. The
/// kernel sends the program SIGTERM when this process exits for any reason.
pub(super) fn ending_with_this<'a>(folder: &'a str, cores: &'a str) -> [&'a str; 8] {
    ["--chdir", folder, "setpriv", "--pdeathsig", "TERM", "taskset", "--cpu-list", cores]
}

/// Both cores, for programs with more than one worker thread.
pub(super) const ALL_CORES: &str = "0,1";
