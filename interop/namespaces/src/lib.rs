//! Network namespaces for `cargo xtask interop` and `cargo xtask balance-test`. They have no names: nothing is left of one
//! when its last process has ended.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// How long making a namespace may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Set in the environment of the program once it has become root in a user namespace of its own.
const IS_ROOT: &str = "CLEARWAY_IS_ROOT";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
    /// A process that does nothing in it, and ends when its standard input does: when this program ends.
    holder: Child,
}

impl Namespace {
    /// Makes an empty namespace.
    ///
    /// # Errors
    /// If this user may not, or the program `unshare` is missing.
    pub fn create() -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        // In a group of its own, so that Ctrl-C does not end it before what it holds.
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

    /// Runs `action` on a thread in the namespace. Processes that it starts are there, too, and sockets that it opens
    /// stay there.
    ///
    /// # Errors
    /// If the thread cannot enter the namespace, or panics.
    pub fn run<T: Send>(&self, action: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.file.as_fd(), kind)?;
                Ok(action())
            });
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
        })
    }
}

impl Namespace {
    /// The ID of a process in it, for as long as this exists.
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

/// Waits until the namespace of the process is another than ours.
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
    Err(io::Error::other("network namespaces cannot be made (unshare --net failed)"))
}

/// If this user may not make network namespaces, but may make a user namespace, starts this program again as root in a
/// new one. Returns if there is no need or no way.
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
    // Only returns if it fails; then the loopback is used.
    let _ = command.env(IS_ROOT, "1").exec();
}

/// Runs `ip` in the namespace of the thread.
///
/// # Errors
/// If it fails, with the arguments and what it has said.
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
