//! Host settings outside the namespaces, changed by a fault. They are restored on drop.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::waiting::wait_until;

/// Maximum number of conntrack entries in all namespaces.
const CONNTRACK_MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// Current number of conntrack entries in this program's namespace.
const CONNTRACK_COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
/// Memory limits for the UDP sockets of all namespaces, in pages: low, pressure, maximum.
const UDP_MEMORY: &str = "/proc/sys/net/ipv4/udp_mem";
const SOCKET_STATISTICS: &str = "/proc/net/sockstat";
/// The parent folders of CPU cgroups, for version 2 and version 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
/// The period of the CPU limit in microseconds.
const PERIOD: u32 = 100_000;
/// Time to wait until the kernel allows the removal of a cgroup whose processes have exited.
const REMOVING: Duration = Duration::from_secs(2);

/// A kernel setting that is restored on drop.
pub(super) struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    fn set(path: &'static str, value: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{path}: {error}");
        let before = fs::read_to_string(path).map_err(failed)?;
        let setting = Self { path, before: before.trim().to_owned() };
        fs::write(path, value).map_err(failed)?;
        Ok(setting)
    }

    /// Limits the number of tracked connections.
    ///
    /// # Errors
    /// Returns an error if the host itself has tracked connections, which would fail, or if
    /// changing the limit is not permitted.
    pub(super) fn few_connections(count: u32) -> Result<Self, String> {
        let tracked = fs::read_to_string(CONNTRACK_COUNT);
        match tracked.as_deref().map(str::trim) {
            Ok("0") => Self::set(CONNTRACK_MAX, &count.to_string()),
            Ok(_) => Err("this host tracks connections itself".to_owned()),
            Err(error) => Err(format!("{CONNTRACK_COUNT}: {error}")),
        }
    }

    /// Limits UDP sockets to `pages` more pages than they currently use.
    pub(super) fn little_udp_memory(pages: u64) -> Result<Self, String> {
        let text = fs::read_to_string(SOCKET_STATISTICS)
            .map_err(|error| format!("{SOCKET_STATISTICS}: {error}"))?;
        let used = used_pages(&text)
            .ok_or(format!("{SOCKET_STATISTICS} does not contain the UDP memory"))?;
        let limit = used + pages;
        Self::set(UDP_MEMORY, &format!("{limit} {limit} {limit}"))
    }
}

fn used_pages(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("UDP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    words.nth(1)?.parse().ok()
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.path, &self.before) {
            let Self { path, before } = self;
            eprintln!("xtask: cannot restore {path} to {before}: {error}");
        }
    }
}

/// A cgroup with limited CPU time.
pub(super) struct Group {
    path: PathBuf,
}

impl Group {
    /// Creates a cgroup that may run for `quota` of every 100,000 microseconds.
    pub(super) fn create(name: &str, quota: u32) -> Result<Self, String> {
        let [unified, separate] = GROUPS.map(Path::new);
        let enabled = fs::read_to_string(unified.join("cgroup.subtree_control"));
        let is_unified = enabled.is_ok_and(|it| it.split_whitespace().any(|word| word == "cpu"));
        let (path, settings) = match is_unified {
            true => (unified.join(name), vec![("cpu.max", format!("{quota} {PERIOD}"))]),
            false if separate.join("cpu.cfs_quota_us").exists() || separate.exists() => {
                let quota = ("cpu.cfs_quota_us", quota.to_string());
                (separate.join(name), vec![("cpu.cfs_period_us", PERIOD.to_string()), quota])
            }
            false => return Err("this host has no cgroups that limit CPU time".to_owned()),
        };
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Self { path };
        for (file, value) in settings {
            group.write(file, &value)?;
        }
        Ok(group)
    }

    /// Moves a process into the cgroup.
    pub(super) fn add(&self, process: u32) -> Result<(), String> {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The processes in the cgroup have exited by then.
impl Drop for Group {
    fn drop(&mut self) {
        let is_removed = wait_until(REMOVING, || Ok(fs::remove_dir(&self.path).is_ok()));
        if is_removed != Ok(true) && fs::remove_dir(&self.path).is_err() {
            eprintln!("xtask: cannot remove {}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_udp_are_found() {
        let text =
            "sockets: used 40\nTCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3\nUDP: inuse 2 mem 17\n";
        assert_eq!(used_pages(text), Some(17));
        assert_eq!(used_pages("UDP: inuse 2"), None);
        assert_eq!(used_pages(""), None);
    }
}
