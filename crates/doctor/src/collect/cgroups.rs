//! CPU time limits of a process's cgroups.

use std::path::{Path, PathBuf};

use super::files::{self, Files};
use super::text;
use crate::snapshot::Throttling;

/// Maximum depth of a cgroup in the hierarchy.
const MAX_DEPTH: usize = 32;

/// The cgroup hierarchies that may limit CPU time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cgroups {
    /// The mount points, each with its part of the hierarchy and whether it uses version 2.
    mounts: Vec<Mount>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    /// The cgroup at the root of the mount.
    root: String,
    at: PathBuf,
    is_second_version: bool,
}

impl Cgroups {
    /// Finds the mounted hierarchies of this system.
    pub(super) fn of(files: &Files) -> Self {
        let text = files::read(&files.proc("thread-self/mountinfo")).unwrap_or_default();
        Self { mounts: text.lines().filter_map(mount).collect() }
    }

    /// Returns the strongest throttling of a process: that of the cgroup, its own or an ancestor,
    /// that was throttled the longest.
    pub(super) fn throttling(&self, process: u32, files: &Files) -> Option<Throttling> {
        let memberships = files::read(&files.proc(format!("{process}/cgroup"))).ok()?;
        let folders = memberships.lines().filter_map(|line| self.folder(line));
        folders
            .flat_map(|(at, below)| {
                let ancestors = below.ancestors().take(MAX_DEPTH).map(Path::to_owned);
                ancestors.map(move |below| at.join(below).join("cpu.stat")).collect::<Vec<_>>()
            })
            .filter_map(|file| text::throttling(&files::read(&file).ok()?).ok()?)
            .max_by_key(|throttling| throttling.throttled_microseconds)
    }

    /// Parses a line of `/proc/PID/cgroup` (`0::/a/b`, `1:cpu,cpuacct:/a`). Returns the mount point
    /// of its hierarchy and the path below.
    fn folder(&self, line: &str) -> Option<(&Path, PathBuf)> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_second_version = number == "0" && controllers.is_empty();
        if !is_second_version && !controllers.split(',').any(|name| name == "cpu") {
            return None;
        }
        let mut mounts = self.mounts.iter();
        let mount = mounts.find(|mount| mount.is_second_version == is_second_version)?;
        let below = path.strip_prefix(mount.root.trim_end_matches('/'))?;
        let below = PathBuf::from(below.trim_start_matches('/'));
        // The path of a cgroup outside of this namespace contains `..`.
        let is_below =
            below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_below.then_some((&mount.at, below))
    }
}

/// Parses a line of `mountinfo` if it is a cgroup v2 mount, or a cgroup v1 mount with the CPU
/// controller.
fn mount(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, at) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let is_second_version = match file_system.next()? {
        "cgroup2" => true,
        "cgroup" => {
            let options = file_system.nth(1)?;
            options.split(',').any(|option| option == "cpu").then_some(false)?
        }
        _ => return None,
    };
    Some(Mount { root: root.to_owned(), at: at.into(), is_second_version })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str =
        "35 25 0:30 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu";
    const SECOND: &str = "42 25 0:40 /outer /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw";

    fn cgroups() -> Cgroups {
        Cgroups { mounts: [FIRST, SECOND].into_iter().filter_map(mount).collect() }
    }

    #[test]
    fn mounts_of_cgroups_are_found() {
        let cgroups = cgroups();
        assert_eq!(cgroups.mounts.len(), 2);
        assert!(cgroups.mounts[1].is_second_version && cgroups.mounts[1].root == "/outer");
        for other in [
            "",
            "35 25 0:30",
            "35 25 0:30 / /sys - sysfs sysfs rw",
            "35 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "35 25 0:30 / /x rw - cgroup",
        ] {
            assert_eq!(mount(other), None, "{other}");
        }
    }

    #[test]
    fn a_membership_is_a_folder() {
        let cgroups = cgroups();
        let folder = |line| cgroups.folder(line).map(|(at, below)| at.join(below));
        assert_eq!(folder("1:cpu,cpuacct:/a"), Some("/sys/fs/cgroup/cpu/a".into()));
        assert_eq!(folder("0::/outer/b"), Some("/sys/fs/cgroup/b".into()));
        assert_eq!(folder("0::/other"), None);
        assert_eq!(folder("0::/outer/../b"), None);
        assert_eq!(folder("4:memory:/a"), None);
        assert_eq!(folder("4"), None);
    }

    #[test]
    fn the_cgroup_that_throttles_most_is_told() {
        let root = std::env::temp_dir().join(format!("clearway-cgroups-{}", std::process::id()));
        let at = root.join("sys/fs/cgroup");
        std::fs::create_dir_all(at.join("a/b")).unwrap();
        std::fs::create_dir_all(root.join("proc/7")).unwrap();
        std::fs::write(root.join("proc/7/cgroup"), "0::/a/b\n").unwrap();
        let text = |time| format!("nr_periods 9\nnr_throttled 3\nthrottled_usec {time}\n");
        std::fs::write(at.join("a/cpu.stat"), text(50)).unwrap();
        std::fs::write(at.join("a/b/cpu.stat"), text(0)).unwrap();
        let mounts = vec![Mount { root: "/".to_owned(), at, is_second_version: true }];
        let throttling = Cgroups { mounts }.throttling(7, &Files::below(&root)).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((throttling.periods, throttling.throttled_microseconds), (9, 50));
    }
}
