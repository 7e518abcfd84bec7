//! The memory available to this process.

use std::fs;
use std::path::Path;

/// Returns the memory that this process may use, in bytes: the smallest limit of its cgroup and the
/// parent cgroups, of either version, or else all memory of the machine. `None` if neither can be
/// read.
pub(super) fn memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok();
    let limit = cgroup.and_then(|text| of_cgroup(Path::new("/sys/fs/cgroup"), &text));
    machine.into_iter().chain(limit).min()
}

/// Returns MemTotal of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the smallest limit below `root` that applies to a process with this `/proc/self/cgroup`:
/// `memory.max` of version 2, or `memory.limit_in_bytes` of version 1, which is close to 2^63 if
/// unlimited.
fn of_cgroup(root: &Path, cgroup: &str) -> Option<u64> {
    let limits = cgroup.lines().filter_map(|line| {
        // A line has a number, controllers (none in version 2), and a path.
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.strip_prefix('/')?);
        match controllers {
            "" => smallest(root, path, "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                smallest(&root.join("memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    limits.min()
}

/// Returns the smallest number in the files of this name in the directory `path` below `root` and
/// its parents.
fn smallest(root: &Path, path: &str, name: &str) -> Option<u64> {
    let limit = |folder: &Path| -> Option<u64> {
        fs::read_to_string(root.join(folder).join(name)).ok()?.trim().parse().ok()
    };
    Path::new(path).ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_a_cgroup_and_those_above_counts() {
        let root = std::env::temp_dir().join(format!("clearway-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        for (folder, limit) in [("", "max"), ("a", "1048576"), ("a/b", "max")] {
            fs::write(root.join(folder).join("memory.max"), format!("{limit}\n")).unwrap();
        }
        assert_eq!(of_cgroup(&root, "0::/a/b\n"), Some(1 << 20));
        assert_eq!(of_cgroup(&root, "1:cpu:/x\n0::/\n"), None);
        assert_eq!(of_cgroup(&root, "0::/a/missing\n"), Some(1 << 20));
        fs::create_dir_all(root.join("memory/c/d")).unwrap();
        for (folder, limit) in [("", "9223372036854771712"), ("c", "2097152"), ("c/d", "4194304")] {
            let file = root.join("memory").join(folder).join("memory.limit_in_bytes");
            fs::write(file, format!("{limit}\n")).unwrap();
        }
        assert_eq!(of_cgroup(&root, "8:cpu,memory:/c/d\n1:name=systemd:/\n0::/\n"), Some(2 << 20));
        assert_eq!(of_cgroup(&root, "8:memory:/c/d\n0::/a\n"), Some(1 << 20));
        // In a container, the path in `/proc/self/cgroup` is the host's path.
        assert_eq!(of_cgroup(&root, "8:memory:/docker/1\n"), Some(9_223_372_036_854_771_712));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert!(memory().is_some());
    }
}
