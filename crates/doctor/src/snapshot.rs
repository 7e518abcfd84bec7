//! What a host counts, at one time.
//!
//! Every part is a [`Reading`]: what could not be read is missing with the reason, and never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part of a snapshot: what was read, or why it could not be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// It was read.
    Seen(T),
    /// It was not.
    Missing(Missing),
}

impl<T> Reading<T> {
    /// What was read.
    pub fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(value) => Some(value),
            Self::Missing(_) => None,
        }
    }
}

/// Why a part could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// It needs a right that the process does not have: which one (`CAP_NET_ADMIN`), and what it would show.
    Right(String),
    /// The process may not use what it is read with, although every kernel has it: a sandbox (seccomp, a service manager's
    /// `RestrictAddressFamilies`) refuses it. What was refused (`AF_NETLINK`).
    Sandbox(String),
    /// It is not visible in this network namespace or container.
    Namespace,
    /// This kernel does not have it, or has it switched off.
    Kernel,
    /// It was there, and could not be understood: what was read, shortened.
    Malformed(String),
    /// Reading it failed: the system's error.
    Failed(String),
    /// It was not asked for.
    NotAsked,
}

/// Counters by name, as the kernel names them.
pub type Counters = BTreeMap<String, u64>;

/// What a host counts at one time, as it is seen from one network namespace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was taken, in nanoseconds of a clock that does not go backwards (CLOCK_BOOTTIME).
    pub taken: u64,
    /// How many nanoseconds it took to read everything: readings of one snapshot are as far apart.
    pub duration: u64,
    /// The network namespace, as its inode number; snapshots of different ones cannot be compared.
    pub namespace: Reading<u64>,
    /// The kernel's boot, as its identifier (`/proc/sys/kernel/random/boot_id`).
    pub boot: Reading<String>,
    /// The devices of this namespace, by name.
    pub devices: Reading<BTreeMap<String, Device>>,
    /// The queueing disciplines of its devices.
    pub qdiscs: Reading<Vec<Qdisc>>,
    /// For each CPU, what it did with received packets; of the whole host.
    pub softnet: Reading<Vec<SoftnetCpu>>,
    /// The limits of softnet, where they can be seen.
    pub backlog: Reading<Backlog>,
    /// The counters of the protocols.
    pub protocols: Reading<Protocols>,
    /// Connection tracking, if it is loaded.
    pub conntrack: Reading<Conntrack>,
    /// Memory of UDP sockets.
    pub memory: Reading<Memory>,
    /// UDP sockets of this namespace.
    pub sockets: Reading<BTreeMap<SocketKey, Socket>>,
    /// Sockets of AF_XDP of this namespace. Snapshots that were saved before these were known have none.
    #[serde(default = "not_asked")]
    pub xdp_sockets: Reading<XdpSockets>,
    /// The processes that own these sockets, by process ID.
    pub processes: Reading<BTreeMap<u32, Process>>,
    /// CPU pressure of the host.
    pub pressure: Reading<Pressure>,
    /// Packets that the kernel dropped, by its name of the reason (`SOCKET_RCVBUFF`), of the whole host since counting
    /// began.
    pub drop_reasons: Reading<Counters>,
    /// What applications of this host have told of their own losses, by name.
    pub applications: Reading<BTreeMap<String, Application>>,
    /// The route's and the paths' faults that ICMP told of and the kernel keeps: path MTUs lower than the device's.
    pub paths: Reading<Paths>,
}

/// A network device.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// Its index.
    pub index: u32,
    /// Its kind as rtnetlink names it (`veth`); empty for a physical one.
    pub kind: String,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub is_running: bool,
    /// The statistics that every device has (`rx_packets`, `rx_dropped`, `rx_missed_errors`, `tx_dropped`, …).
    pub statistics: Counters,
    /// The statistics of its driver (`ethtool -S`).
    pub driver: Reading<Driver>,
    /// Whether an XDP program is attached.
    pub has_xdp: bool,
    /// Whether one is attached outside of the driver, whose statistics then do not count what it drops.
    #[serde(default)]
    pub has_generic_xdp: bool,
}

/// What a driver counts.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Driver {
    /// By the driver's own names.
    pub statistics: Counters,
}

impl Default for Reading<Driver> {
    fn default() -> Self {
        not_asked()
    }
}

fn not_asked<T>() -> Reading<T> {
    Reading::Missing(Missing::NotAsked)
}

/// A queueing discipline.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Qdisc {
    /// The name of its device.
    pub device: String,
    /// Its kind (`fq_codel`, `tbf`).
    pub kind: String,
    /// Its handle, major and minor in one number.
    pub handle: u32,
    /// Its parent; `0xffffffff` is the root.
    pub parent: u32,
    /// What it has sent.
    pub packets: u64,
    /// What it has dropped.
    pub drops: u64,
    /// How often a packet had to wait.
    pub overlimits: u64,
    /// How often the device did not take a packet.
    pub requeues: u64,
    /// How many packets wait.
    pub queued: u64,
    /// How many bytes wait.
    pub queued_bytes: u64,
}

/// What one CPU did with received packets (`/proc/net/softnet_stat`).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SoftnetCpu {
    /// The CPU.
    pub cpu: u32,
    /// Packets that were processed.
    pub processed: u64,
    /// Packets that were dropped, since the backlog was full.
    pub dropped: u64,
    /// How often its turn ended with work left.
    pub time_squeezed: u64,
    /// Packets that were dropped by the flow limit.
    pub flow_limited: u64,
    /// Packets that wait in the backlog, where the kernel says so.
    pub queued: Option<u64>,
}

/// The limits of softnet, in packets and microseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backlog {
    /// `net.core.netdev_max_backlog`.
    pub max_backlog: u64,
    /// `net.core.netdev_budget`.
    pub budget: u64,
    /// `net.core.netdev_budget_usecs`.
    pub budget_microseconds: u64,
}

/// The counters of the protocols, as `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/snmp6` name them.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Protocols {
    /// `Ip:` of `snmp`.
    pub ip: Counters,
    /// `IpExt:` of `netstat`.
    pub ip_ext: Counters,
    /// `TcpExt:` of `netstat`, of which `IPReversePathFilter` counts for all of IP.
    pub tcp_ext: Counters,
    /// `Icmp:` of `snmp`.
    pub icmp: Counters,
    /// `Udp:` of `snmp`.
    pub udp: Counters,
    /// `snmp6`, where there is IPv6; names begin with `Ip6`, `Icmp6`, `Udp6`.
    pub ipv6: Option<Counters>,
}

/// Connection tracking.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Conntrack {
    /// How many entries there are.
    pub count: u64,
    /// How many there may be.
    pub max: Option<u64>,
    /// `drop`, `early_drop`, `insert_failed`, … of all CPUs together (`/proc/net/stat/nf_conntrack` or ctnetlink).
    pub counters: Counters,
}

/// Memory of UDP sockets, in pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Pages in use.
    pub used: u64,
    /// `net.ipv4.udp_mem`: low, pressure, maximum; of the initial namespace only.
    pub limits: Option<[u64; 3]>,
    /// `net.core.rmem_max`: the largest receive buffer that may be asked for, in bytes.
    pub receive_buffer_max: Option<u64>,
}

/// The address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 with it where the socket permits that.
    V6,
}

/// What tells one socket from another while both live: the kernel's cookie, or where that is not to be had the inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SocketKey(pub u64);

/// A UDP socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Socket {
    /// Its address family.
    pub family: Family,
    /// Where it is bound, as address and port.
    pub local: String,
    /// Its peer if it is connected.
    pub remote: Option<String>,
    /// Its inode; 0 if no process has it open any more.
    pub inode: u64,
    /// Its owner's user ID.
    pub user: u32,
    /// Bytes that its receive queue is charged with: not those of payload, but those of memory.
    pub receive_queue: u64,
    /// The limit of that, in the same bytes (`sk_rcvbuf`, twice what was asked for), where it can be seen.
    pub receive_buffer: Option<u64>,
    /// Bytes that its send queue is charged with.
    pub send_queue: u64,
    /// The limit of that.
    pub send_buffer: Option<u64>,
    /// Datagrams that were dropped at the socket.
    pub drops: u64,
    /// The processes that have it open, by process ID.
    pub owners: Vec<u32>,
}

/// Sockets of AF_XDP.
pub type XdpSockets = BTreeMap<SocketKey, XdpSocket>;

/// A socket of AF_XDP, which takes packets at the device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct XdpSocket {
    /// Its inode.
    pub inode: u64,
    /// Its owner's user ID, where the kernel tells it.
    pub user: Option<u32>,
    /// The index of the device that it is bound to, if it is.
    pub device: Option<u32>,
    /// The device's queue.
    pub queue: Option<u32>,
    /// What it counts, as `struct xdp_diag_stats` names it: `rx_dropped`, `rx_invalid` and `rx_full` are packets that it lost,
    /// `fill_ring_empty` is how often there was no frame for one.
    pub statistics: Reading<Counters>,
}

/// What a process or thread does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It runs or could.
    Runnable,
    /// It waits for an event.
    Sleeping,
    /// It waits for a disk or a lock of the kernel and cannot be interrupted.
    Blocked,
    /// It was stopped (SIGSTOP, a debugger).
    Stopped,
    /// It has ended.
    Ended,
}

/// A process that owns sockets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its name (`/proc/PID/comm`).
    pub name: String,
    /// When it started, in clock ticks since boot: tells it from another with the same ID.
    pub started: u64,
    /// Its threads by thread ID, up to a bound.
    pub threads: BTreeMap<u32, Thread>,
    /// Limits of CPU time of its cgroup, if it has any.
    pub throttling: Option<Throttling>,
}

/// A thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// What it does now.
    pub state: RunState,
    /// For how many nanoseconds it ran (`schedstat`).
    pub ran: u64,
    /// For how many nanoseconds it could have run and waited for a CPU.
    pub waited: u64,
    /// How often it was put on a CPU.
    pub slices: u64,
}

/// Throttling of a cgroup (`cpu.stat`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Throttling {
    /// Periods that have passed.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled: u64,
    /// For how many microseconds it was.
    pub throttled_microseconds: u64,
}

/// Pressure on the CPUs (`/proc/pressure/cpu`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pressure {
    /// For how many microseconds some task waited for a CPU.
    pub some_microseconds: u64,
}

/// What an application tells of its own losses; all since it began.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Application {
    /// Its process ID.
    pub process: u32,
    /// Datagrams that it received.
    pub received: u64,
    /// Reads that the kernel truncated (MSG_TRUNC): what did not fit is lost and no counter of the kernel moves.
    pub truncated: u64,
    /// Datagrams that went from one of its queues to nowhere, since the queue was full.
    pub queue_full: u64,
    /// Datagrams of connections that it does not know.
    pub unknown_connections: u64,
    /// Packets that it could not decrypt.
    pub undecryptable: u64,
    /// Sends that the kernel refused for want of buffer (EAGAIN, ENOBUFS).
    pub send_refused: u64,
}

/// Faults of routes and paths that the kernel keeps.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Paths {
    /// Destinations whose path MTU was learned, with that MTU in bytes.
    pub path_mtus: BTreeMap<String, u32>,
}
