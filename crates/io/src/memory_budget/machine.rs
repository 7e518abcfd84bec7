//! How much memory this process may use.

use std::fs;
use std::path::Path;

/// The memory that this process may use, in bytes: the smallest limit of its cgroup and those above (cgroup v2), or else all that
/// the machine has. `None` if neither can be read.
pub(super) fn memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok();
    let limit = cgroup.and_then(|text| of_cgroup(Path::new("/sys/fs/cgroup"), &text));
    machine.into_iter().chain(limit).min()
}

/// The MemTotal of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The smallest `memory.max` below `root` that applies to a process with this `/proc/self/cgroup`.
fn of_cgroup(root: &Path, cgroup: &str) -> Option<u64> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = |folder: &Path| -> Option<u64> {
        fs::read_to_string(root.join(folder).join("memory.max")).ok()?.trim().parse().ok()
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
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert!(memory().is_some());
    }
}
