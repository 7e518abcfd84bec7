//! Snapshots of the running system. Linux only, and read-only; it sends nothing except queries to
//! the kernel.
//!
//! Expensive work is limited. The owners of sockets are searched for only when a new socket
//! appears, and only within a small share of the time. Drivers are also queried only within a share
//! of the time. Data that changes slowly (routes) is read every few seconds.

mod cgroups;
mod files;
mod links;
mod netlink;
mod processes;
mod sockets;
mod text;
mod xdp_sockets;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::net::netlink::SOCK_DIAG;
use rustix::time::{ClockId, clock_gettime};

use crate::snapshot::{
    Application, Backlog, Conntrack, Counters, Device, Driver, Memory, Missing, Paths, Pressure,
    Protocols, Reading, Snapshot,
};
use files::{Files, missing, number, parsed};
use netlink::Netlink;
use processes::Owners;

/// Interval between readings of data that changes slowly.
const SLOW: Duration = Duration::from_secs(2);
/// Snapshots may take 1/`CORE_SHARE` of a core, in addition to one-time work.
const CORE_SHARE: u32 = 150;
/// Minimum interval between queries of a driver, as a multiple of the duration of its last query:
/// some drivers query their device.
const DRIVER_SHARE: u32 = 200;
/// Maximum number of devices whose drivers are queried.
const MAX_DRIVERS: usize = 256;

/// Returns the drop counts by kernel drop reason.
type DropReasons = Box<dyn FnMut() -> Reading<Counters> + Send>;
/// Returns the statistics of the driver of a device, by its name.
type DriverStatistics = Box<dyn FnMut(&str) -> Reading<Driver> + Send>;
/// Returns the counters that applications report.
type Applications = Box<dyn FnMut() -> Reading<BTreeMap<String, Application>> + Send>;

/// Takes snapshots of this system, as seen from the network namespace of the thread that created
/// it.
///
/// ```
/// # #[cfg(target_os = "linux")] {
/// use clearway_doctor::{Collector, Reading};
///
/// let mut collector = Collector::new();
/// let snapshot = collector.collect();
/// match &snapshot.protocols {
///     Reading::Seen(protocols) => println!("{:?}", protocols.udp.get("RcvbufErrors")),
///     Reading::Missing(why) => println!("not to be seen: {why:?}"),
/// }
/// # }
/// ```
pub struct Collector {
    files: Files,
    routing: Result<Netlink, Missing>,
    diagnosis: Result<Netlink, Missing>,
    owners: Owners,
    only: Option<u32>,
    drop_reasons: DropReasons,
    driver_statistics: DriverStatistics,
    applications: Applications,
    slow: Option<(Instant, Slow)>,
    drivers: Drivers,
    /// The CPU time of a snapshot, smoothed; `None` before the second, since the first snapshot has
    /// to search for everything.
    cost: Option<Duration>,
    is_begun: bool,
}

/// Latest results of driver queries, by the device's name and index, and when to query each driver
/// again.
#[derive(Default)]
struct Drivers {
    next: Option<Instant>,
    readings: BTreeMap<(String, u32), Reading<Driver>>,
}

/// Data that changes slowly.
#[derive(Clone)]
struct Slow {
    boot: Reading<String>,
    backlog: Reading<Backlog>,
    paths: Reading<Paths>,
    limits: Option<[u64; 3]>,
    receive_buffer_max: Option<u64>,
    conntrack_max: Option<u64>,
}

impl Default for Collector {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Collector {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Collector").field("only", &self.only).finish_non_exhaustive()
    }
}

impl Collector {
    /// Creates a collector for all sockets of the namespace and the processes that own them.
    pub fn new() -> Self {
        Self::with(Files::of_system(), None)
    }

    /// Creates a collector for the sockets of one process only. This is cheaper, since no search is
    /// needed.
    pub fn of_process(process: u32) -> Self {
        Self::with(Files::of_system(), Some(process))
    }

    fn with(files: Files, only: Option<u32>) -> Self {
        Self {
            routing: Netlink::open(None),
            diagnosis: Netlink::open(Some(SOCK_DIAG)),
            owners: Owners::new(only, &files),
            files,
            only,
            drop_reasons: Box::new(|| Reading::Missing(Missing::NotAsked)),
            driver_statistics: Box::new(|_| Reading::Missing(Missing::NotAsked)),
            applications: Box::new(|| Reading::Missing(Missing::NotAsked)),
            slow: None,
            drivers: Drivers::default(),
            cost: None,
            is_begun: false,
        }
    }

    /// Sets the source of the drop counts by reason, which the kernel does not expose in `/proc`.
    #[must_use]
    pub fn with_drop_reasons(
        mut self,
        read: impl FnMut() -> Reading<Counters> + Send + 'static,
    ) -> Self {
        self.drop_reasons = Box::new(read);
        self
    }

    /// Sets the source of the driver statistics (`ethtool -S`), which is called with the device's
    /// name. It is called for each device with each snapshot, or less often if that takes more than
    /// a two-hundredth of the time.
    #[must_use]
    pub fn with_driver_statistics(
        mut self,
        read: impl FnMut(&str) -> Reading<Driver> + Send + 'static,
    ) -> Self {
        self.driver_statistics = Box::new(read);
        self
    }

    /// Sets the source of the counters that applications report, by the application's name.
    #[must_use]
    pub fn with_applications(
        mut self,
        read: impl FnMut() -> Reading<BTreeMap<String, Application>> + Send + 'static,
    ) -> Self {
        self.applications = Box::new(read);
        self
    }

    /// Returns the minimum interval between snapshots that keeps their cost below 1 % of a core,
    /// regardless of the number of sockets. Returns 0 until two snapshots have been taken.
    pub fn least_interval(&self) -> Duration {
        self.cost.unwrap_or_default().saturating_mul(CORE_SHARE)
    }

    /// Takes a snapshot. Parts that cannot be read are [missing](Reading::Missing), with the
    /// reason.
    pub fn collect(&mut self) -> Snapshot {
        let before = cpu_time();
        let snapshot = self.take();
        let used = cpu_time().saturating_sub(before);
        if std::mem::replace(&mut self.is_begun, true) {
            let smoothed = |cost: Duration| cost.mul_f64(0.75).saturating_add(used.mul_f64(0.25));
            self.cost = Some(self.cost.map_or(used, smoothed));
        }
        snapshot
    }

    fn take(&mut self) -> Snapshot {
        let taken = boot_time();
        // The parts that must be consistent with each other come first: where datagrams are
        // counted, and where they are queued.
        let mut sockets = sockets::sockets(diagnosis(&mut self.diagnosis), &self.files);
        let xdp_sockets = xdp_sockets::xdp_sockets(diagnosis(&mut self.diagnosis), &self.files);
        let protocols = protocols(&self.files);
        let drop_reasons = (self.drop_reasons)();
        let applications = (self.applications)();
        let softnet = parsed(&self.files.net("softnet_stat"), text::softnet);
        let mut devices = match &mut self.routing {
            Ok(netlink) => links::devices(netlink),
            Err(missing) => Reading::Missing(missing.clone()),
        };
        let qdiscs = match (&mut self.routing, &devices) {
            (Ok(netlink), Reading::Seen(devices)) => links::qdiscs(netlink, devices),
            (_, Reading::Missing(missing)) => Reading::Missing(missing.clone()),
            (Err(missing), _) => Reading::Missing(missing.clone()),
        };
        let processes = match &mut sockets {
            Reading::Seen(sockets) => {
                let processes = self.owners.enter(sockets, &self.files);
                if self.only.is_some() {
                    sockets.retain(|_, socket| !socket.owners.is_empty());
                }
                processes
            }
            Reading::Missing(missing) => Reading::Missing(missing.clone()),
        };
        if let Reading::Seen(devices) = &mut devices {
            self.drivers.enter(devices, &mut self.driver_statistics);
        }
        let slow = self.slow();
        Snapshot {
            taken,
            namespace: namespace(&self.files),
            boot: slow.boot,
            devices,
            qdiscs,
            softnet,
            backlog: slow.backlog,
            protocols,
            conntrack: conntrack(&self.files, slow.conntrack_max),
            memory: memory(&self.files, slow.limits, slow.receive_buffer_max),
            sockets,
            xdp_sockets,
            processes,
            pressure: pressure(&self.files),
            drop_reasons,
            applications,
            paths: slow.paths,
            duration: boot_time().saturating_sub(taken),
        }
    }

    fn slow(&mut self) -> Slow {
        let now = Instant::now();
        if let Some((read, slow)) = &self.slow
            && now.duration_since(*read) < SLOW
        {
            return slow.clone();
        }
        let files = &self.files;
        let path = files.proc("sys/kernel/random/boot_id");
        let slow = Slow {
            boot: parsed(&path, |text| Ok(text.trim().to_owned())),
            backlog: backlog(files),
            paths: match &mut self.routing {
                Ok(netlink) => links::paths(netlink),
                Err(missing) => Reading::Missing(missing.clone()),
            },
            limits: parsed(&files.proc("sys/net/ipv4/udp_mem"), text::three).seen().copied(),
            receive_buffer_max: number(&files.proc("sys/net/core/rmem_max")).seen().copied(),
            conntrack_max: number(&files.proc("sys/net/netfilter/nf_conntrack_max"))
                .seen()
                .copied(),
        };
        self.slow = Some((now, slow.clone()));
        slow
    }
}

impl Drivers {
    /// Fills in the current or the last driver statistics of these devices.
    fn enter(&mut self, devices: &mut BTreeMap<String, Device>, ask: &mut DriverStatistics) {
        let began = Instant::now();
        let is_due = self.next.is_none_or(|next| next <= began);
        let key = |name: &String, device: &Device| (name.clone(), device.index);
        if is_due {
            let asked = devices.iter().take(MAX_DRIVERS);
            self.readings = asked.map(|(name, it)| (key(name, it), ask(name))).collect();
            self.next = began.checked_add(began.elapsed().saturating_mul(DRIVER_SHARE));
        }
        for (name, device) in devices {
            // A device that has appeared since the last query was not queried.
            if let Some(driver) = self.readings.get(&key(name, device)) {
                device.driver = driver.clone();
            }
        }
    }
}

/// Returns the open netlink socket, or why there is none.
fn diagnosis(socket: &mut Result<Netlink, Missing>) -> Result<&mut Netlink, Missing> {
    socket.as_mut().map_err(|missing| missing.clone())
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, rest) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), rest.unwrap_or_default())
}

/// Returns CLOCK_BOOTTIME, in nanoseconds.
fn boot_time() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(time.tv_nsec))
}

fn namespace(files: &Files) -> Reading<u64> {
    let path = files.proc("thread-self/ns/net");
    match fs::metadata(&path) {
        Ok(data) => Reading::Seen(data.ino()),
        Err(error) => Reading::Missing(missing(&path, &error)),
    }
}

fn backlog(files: &Files) -> Reading<Backlog> {
    let read = |name: &str| match number(&files.proc("sys/net/core").join(name)) {
        Reading::Seen(value) => Ok(value),
        // Every kernel has these counters, but shows them only in the initial namespace.
        Reading::Missing(Missing::Kernel) => Err(Missing::Namespace),
        Reading::Missing(missing) => Err(missing),
    };
    let backlog = || {
        Ok(Backlog {
            max_backlog: read("netdev_max_backlog")?,
            budget: read("netdev_budget")?,
            budget_microseconds: read("netdev_budget_usecs")?,
        })
    };
    backlog().map_or_else(Reading::Missing, Reading::Seen)
}

fn protocols(files: &Files) -> Reading<Protocols> {
    let mut snmp = match parsed(&files.net("snmp"), text::pairs) {
        Reading::Seen(groups) => groups,
        Reading::Missing(missing) => return Reading::Missing(missing),
    };
    let mut netstat = match parsed(&files.net("netstat"), text::pairs) {
        Reading::Seen(groups) => groups,
        // `netstat` is newer than `snmp`: if it is absent, its counters are missing, not 0.
        Reading::Missing(Missing::Kernel) => BTreeMap::new(),
        Reading::Missing(missing) => return Reading::Missing(missing),
    };
    let ipv6 = match parsed(&files.net("snmp6"), text::lines) {
        Reading::Seen(counters) => Some(counters),
        Reading::Missing(Missing::Kernel) => None,
        Reading::Missing(missing) => return Reading::Missing(missing),
    };
    let take = |groups: &mut BTreeMap<String, Counters>, name| groups.remove(name);
    let (Some(ip), Some(udp)) = (take(&mut snmp, "Ip"), take(&mut snmp, "Udp")) else {
        return Reading::Missing(Missing::Malformed("snmp has no Ip or Udp lines".to_owned()));
    };
    Reading::Seen(Protocols {
        ip,
        ip_ext: take(&mut netstat, "IpExt").unwrap_or_default(),
        tcp_ext: take(&mut netstat, "TcpExt").unwrap_or_default(),
        icmp: take(&mut snmp, "Icmp").unwrap_or_default(),
        udp,
        ipv6: ipv6.map(of_datagrams),
    })
}

/// Selects the `snmp6` counters that matter for UDP; there are a hundred more counters for
/// individual ICMP types.
fn of_datagrams(mut counters: Counters) -> Counters {
    const PREFIXES: [&str; 5] =
        ["Ip6", "Udp6", "Icmp6InMsgs", "Icmp6InErrors", "Icmp6InPktTooBigs"];
    counters.retain(|name, _| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    counters
}

fn conntrack(files: &Files, max: Option<u64>) -> Reading<Conntrack> {
    let path = files.net("stat/nf_conntrack");
    let counters = match parsed(&path, text::conntrack) {
        Reading::Seen(counters) => counters,
        Reading::Missing(missing) => return Reading::Missing(missing),
    };
    let count = number(&files.proc("sys/net/netfilter/nf_conntrack_count")).seen().copied();
    let count = count.or_else(|| counters.get("entries").copied());
    match count {
        Some(count) => Reading::Seen(Conntrack { count, max, counters }),
        None => Reading::Missing(Missing::Kernel),
    }
}

fn memory(files: &Files, limits: Option<[u64; 3]>, buffer_max: Option<u64>) -> Reading<Memory> {
    match parsed(&files.net("sockstat"), text::udp_pages) {
        Reading::Seen(used) => {
            Reading::Seen(Memory { used, limits, receive_buffer_max: buffer_max })
        }
        Reading::Missing(missing) => Reading::Missing(missing),
    }
}

fn pressure(files: &Files) -> Reading<Pressure> {
    let path = files.proc("pressure/cpu");
    match parsed(&path, text::pressure) {
        Reading::Seen(some_microseconds) => Reading::Seen(Pressure { some_microseconds }),
        // On a kernel without the file, the directory is missing, too.
        Reading::Missing(Missing::Namespace) => Reading::Missing(Missing::Kernel),
        Reading::Missing(missing) => Reading::Missing(missing),
    }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
