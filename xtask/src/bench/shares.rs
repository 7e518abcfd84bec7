//! A fixed share of a core for each of some threads: cgroups that are created for the threads and
//! removed when they have exited, even if this process is interrupted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The period of the CPU limit in microseconds. It is short enough that the data arriving while a
/// thread is throttled fits into a socket's buffer.
const PERIOD: u64 = 20_000;
/// A script that removes folders when its standard input closes. A cgroup can be removed once it
/// contains no process.
const GUARDIAN: &str = "cat > /dev/null; try=0; while [ $try -lt 100 ]; do rmdir \"$@\" 2> /dev/null; \
    left=; for folder; do [ -e \"$folder\" ] && left=yes; done; [ $left ] || exit 0; \
    sleep 0.1; try=$((try + 1)); done; exit 1";

/// The cgroup version (v1 or v2) of the CPU controller on this machine (cgroups(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// The cgroups of a server's threads.
pub(super) struct Shares {
    version: Version,
    /// The folder of each thread's cgroup.
    folders: Vec<PathBuf>,
    /// For version 2, the cgroup of the process, which contains those of the threads.
    parent: Option<PathBuf>,
    guardian: Child,
}

impl Shares {
    /// Creates cgroups for `count` threads of a process, each limited to `percent` of a core.
    /// `name` distinguishes these cgroups from those of other processes.
    ///
    /// # Errors
    /// Returns an error if this machine has no CPU cgroups, or this user cannot create any.
    pub(super) fn new(name: &str, count: usize, percent: u64) -> Result<Self, String> {
        let (version, root) = find(Path::new("/sys/fs/cgroup"))?;
        let name = format!("clearway-bench-{}-{name}", std::process::id());
        let parent = (version == Version::Two).then(|| root.join(&name));
        let folder = |index: usize| match &parent {
            Some(parent) => parent.join(index.to_string()),
            None => root.join(format!("{name}-{index}")),
        };
        let folders: Vec<PathBuf> = (0..count).map(folder).collect();
        // The inner folders come first, in the order of removal.
        let guardian = guard(folders.iter().chain(&parent))?;
        let shares = Self { version, folders, parent, guardian };
        shares.make(percent)?;
        Ok(shares)
    }

    fn make(&self, percent: u64) -> Result<(), String> {
        let quota = (PERIOD * percent / 100).to_string();
        if let Some(parent) = &self.parent {
            make_folder(parent)?;
        }
        for folder in &self.folders {
            make_folder(folder)?;
            match self.version {
                Version::One => {
                    write(&folder.join("cpu.cfs_period_us"), &PERIOD.to_string())?;
                    write(&folder.join("cpu.cfs_quota_us"), &quota)?;
                }
                Version::Two => write(&folder.join("cgroup.type"), "threaded")?,
            }
        }
        if let Some(parent) = &self.parent {
            write(&parent.join("cgroup.subtree_control"), "+cpu")?;
            for folder in &self.folders {
                write(&folder.join("cpu.max"), &format!("{quota} {PERIOD}"))?;
            }
        }
        Ok(())
    }

    /// Moves each of these threads of a process into its cgroup.
    pub(super) fn give(&self, process: u32, threads: &[u32]) -> Result<(), String> {
        if let Some(parent) = &self.parent {
            write(&parent.join("cgroup.procs"), &process.to_string())?;
        }
        let file = match self.version {
            Version::One => "tasks",
            Version::Two => "cgroup.threads",
        };
        for (thread, folder) in threads.iter().zip(&self.folders) {
            write(&folder.join(file), &thread.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        let is_removed = self.guardian.wait().is_ok_and(|status| status.success());
        if !is_removed {
            let folders: Vec<_> = self.folders.iter().chain(&self.parent).collect();
            eprintln!("xtask: cannot remove these cgroups; remove them with rmdir: {folders:?}");
        }
    }
}

/// Pins each thread to one core. Threads get successive cores, starting with `first`; after the
/// last core, core 0 follows.
pub(super) fn pin(threads: &[u32], first: usize) -> Result<(), String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for (index, thread) in threads.iter().enumerate() {
        let mut set = CpuSet::new();
        set.set((first + index) % cores);
        sched_setaffinity(Pid::from_raw(thread.cast_signed()), &set)
            .map_err(|error| format!("cannot pin thread {thread} to one core: {error}"))?;
    }
    Ok(())
}

/// Returns the cgroup version, and the folder in which to create new cgroups.
fn find(mounted: &Path) -> Result<(Version, PathBuf), String> {
    let controllers = fs::read_to_string(mounted.join("cgroup.subtree_control"));
    if controllers.is_ok_and(|all| all.split_whitespace().any(|it| it == "cpu")) {
        return Ok((Version::Two, mounted.to_owned()));
    }
    let first = mounted.join("cpu");
    match first.join("cpu.cfs_quota_us").exists() {
        true => Ok((Version::One, first)),
        false => Err(format!("there is no CPU cgroup controller in {}", mounted.display())),
    }
}

fn guard<'a>(folders: impl Iterator<Item = &'a PathBuf>) -> Result<Child, String> {
    let mut command = Command::new("sh");
    // Ctrl-C in the terminal also interrupts the other processes of this group.
    command.args(["-c", GUARDIAN, "sh"]).args(folders).process_group(0).stdin(Stdio::piped());
    command.spawn().map_err(|error| format!("sh: {error}"))
}

fn make_folder(folder: &Path) -> Result<(), String> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_does_not_have_is_an_error() {
        let error = find(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error, "there is no CPU cgroup controller in /nowhere");
    }

    #[test]
    fn folders_are_removed_when_the_input_of_the_guardian_ends() {
        let outer = std::env::temp_dir().join(format!("clearway-shares-{}", std::process::id()));
        let inner = outer.join("0");
        fs::create_dir_all(&inner).unwrap();
        let mut guardian = guard([&inner, &outer].into_iter()).unwrap();
        assert!(inner.exists());
        drop(guardian.stdin.take());
        assert!(guardian.wait().unwrap().success());
        assert!(!outer.exists());
    }
}
