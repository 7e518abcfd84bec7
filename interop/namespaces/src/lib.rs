//! Network namespaces for `cargo xtask interop` and `cargo xtask balance-test`. They are unnamed,
//! so a namespace disappears when its last process has exited.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Time limit for creating a namespace.
const LIMIT: Duration = Duration::from_secs(10);
/// Environment variable that is set once the program runs as root in its own user namespace.
const IS_ROOT: &str = "CLEARWAY_IS_ROOT";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    /// An idle process in the namespace that exits when its standard input closes, i.e. when this
    /// program exits.
    holder: Child,
}

impl Namespace {
    /// Creates an empty namespace.
    ///
    /// # Errors
    /// Returns an error if the user lacks the permission, or the program `unshare` is missing.
    pub fn create() -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        // The process has its own process group, so that Ctrl-C does not end it before the
        // processes in the namespace.
        let mut holder = command.process_group(0).spawn().map_err(|error| {
            io::Error::other(format!("unshare: {error} (it is in the package util-linux)"))
        })?;
        let path = PathBuf::from(format!("/proc/{}/ns/net", holder.id()));
        match wait_until_other(&path, &mut holder) {
            Ok(file) => Ok(Self { file, holder }),
            Err(error) => {
                let _ = holder.kill();
                let _ = holder.wait();
                Err(error)
            }
        }
    }

    /// Runs `action` on a thread in the namespace. Processes started by `action` are in the
    /// namespace too, and sockets that it opens stay there.
    ///
    /// # Errors
    /// Returns an error if the thread cannot enter the namespace, or panics.
    pub fn run<T: Send>(&self, action: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.file.as_fd(), kind)?;
                Ok(action())
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    }
}

impl Namespace {
    /// Returns the ID of a process in the namespace, valid for as long as this value exists.
    pub fn process(&self) -> u32 {
        self.holder.id()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Waits until the process's namespace is different from this program's.
fn wait_until_other(path: &PathBuf, holder: &mut Child) -> io::Result<File> {
    let ours = std::fs::read_link("/proc/self/ns/net")?;
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if holder.try_wait()?.is_some() {
            break;
        }
        if std::fs::read_link(path).is_ok_and(|theirs| theirs != ours) {
            return File::open(path);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other("cannot create network namespaces (unshare --net failed)"))
}

/// Restarts this program as root in a new user namespace, if the user may create user namespaces
/// but not network namespaces. Returns if the restart is unnecessary or impossible.
pub fn become_root() {
    let may = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(arguments).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let as_root = ["--user", "--map-root-user", "--net"];
    if std::env::var_os(IS_ROOT).is_some() || may(&["--net"]) || !may(&as_root) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new("unshare");
    command.args(&as_root[..2]).arg(program).args(std::env::args_os().skip(1));
    // Returns only on failure; the caller then uses loopback addresses.
    let _ = command.env(IS_ROOT, "1").exec();
}

/// Runs `ip` in the current thread's network namespace.
///
/// # Errors
/// Returns an error if `ip` fails. The error contains the arguments and the output.
pub fn ip(arguments: &[&str]) -> io::Result<()> {
    let failed =
        |why: &str| io::Error::other(format!("ip {}: {}", arguments.join(" "), why.trim()));
    let output = Command::new("ip").args(arguments).output();
    let output =
        output.map_err(|error| failed(&format!("{error} (it is in the package iproute2)")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(&String::from_utf8_lossy(&output.stderr))),
    }
}
