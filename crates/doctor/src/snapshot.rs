//! Counters of a host at one point in time.
//!
//! Every part is a [`Reading`]: a part that could not be read is missing, with the reason, and is
//! never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A part of a snapshot: its value, or why it could not be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value was read.
    Seen(T),
    /// The value could not be read.
    Missing(Missing),
}

impl<T> Reading<T> {
    /// Returns the value, if it was read.
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
    /// Reading the part requires a privilege that the process lacks. Contains the privilege's name
    /// (`CAP_NET_ADMIN`), and what it would show.
    Right(String),
    /// A sandbox (seccomp, a service manager's `RestrictAddressFamilies`) denies the process access
    /// to an interface that every kernel provides. Contains the interface's name (`AF_NETLINK`).
    Sandbox(String),
    /// The part is not visible in this network namespace or container.
    Namespace,
    /// This kernel lacks the feature, or has it disabled.
    Kernel,
    /// The part could not be parsed. Contains the text that was read, shortened.
    Malformed(String),
    /// Reading the part failed with this system error.
    Failed(String),
    /// The part was not requested.
    NotAsked,
}

/// Counters by their kernel names.
pub type Counters = BTreeMap<String, u64>;

/// Counters of a host at one point in time, as seen from one network namespace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time of the snapshot, in nanoseconds of a clock that never goes backwards (CLOCK_BOOTTIME).
    pub taken: u64,
    /// Time that reading everything took, in nanoseconds: readings of one snapshot are up to this
    /// far apart.
    pub duration: u64,
    /// The network namespace, as its inode number; snapshots of different namespaces cannot be
    /// compared.
    pub namespace: Reading<u64>,
    /// The kernel's boot, as its identifier (`/proc/sys/kernel/random/boot_id`).
    pub boot: Reading<String>,
    /// The devices of this namespace, by name.
    pub devices: Reading<BTreeMap<String, Device>>,
    /// The queueing disciplines of the namespace's devices.
    pub qdiscs: Reading<Vec<Qdisc>>,
    /// Counters of each CPU's packet processing, for the entire host.
    pub softnet: Reading<Vec<SoftnetCpu>>,
    /// The limits of softnet packet processing, if they are visible.
    pub backlog: Reading<Backlog>,
    /// The protocol counters.
    pub protocols: Reading<Protocols>,
    /// The state of connection tracking, if its module is loaded.
    pub conntrack: Reading<Conntrack>,
    /// Memory use of UDP sockets.
    pub memory: Reading<Memory>,
    /// UDP sockets of this namespace.
    pub sockets: Reading<BTreeMap<SocketKey, Socket>>,
    /// AF_XDP sockets of this namespace. Snapshots saved by earlier versions do not contain them.
    #[serde(default = "not_asked")]
    pub xdp_sockets: Reading<XdpSockets>,
    /// The processes that own these sockets, by process ID.
    pub processes: Reading<BTreeMap<u32, Process>>,
    /// CPU pressure of the host.
    pub pressure: Reading<Pressure>,
    /// Packets that the kernel dropped, by its name for the reason (`SOCKET_RCVBUFF`), on the whole
    /// host since counting began.
    pub drop_reasons: Reading<Counters>,
    /// Losses reported by applications of this host, by name.
    pub applications: Reading<BTreeMap<String, Application>>,
    /// Route and path problems that ICMP reported and the kernel remembers: path MTUs below the
    /// device's MTU.
    pub paths: Reading<Paths>,
}

/// A network device.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// The device's index.
    pub index: u32,
    /// The device's kind in rtnetlink (`veth`); empty for a physical device.
    pub kind: String,
    /// The device's MTU, in bytes.
    pub mtu: u32,
    /// Whether the device is up and has a carrier.
    pub is_running: bool,
    /// The statistics that every device has (`rx_packets`, `rx_dropped`, `rx_missed_errors`,
    /// `tx_dropped`, …).
    pub statistics: Counters,
    /// The statistics of the device's driver (`ethtool -S`).
    pub driver: Reading<Driver>,
    /// Whether an XDP program is attached.
    pub has_xdp: bool,
    /// Whether an XDP program is attached in generic mode (outside of the driver), in which case
    /// the driver's statistics do not count its drops.
    #[serde(default)]
    pub has_generic_xdp: bool,
}

/// Counters of a driver.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Driver {
    /// Statistics under the driver's own names.
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
    /// The name of the queueing discipline's device.
    pub device: String,
    /// The kind of queueing discipline (`fq_codel`, `tbf`).
    pub kind: String,
    /// The queueing discipline's handle, with major and minor in one number.
    pub handle: u32,
    /// The handle of the parent; `0xffffffff` is the root.
    pub parent: u32,
    /// Number of packets sent.
    pub packets: u64,
    /// Number of packets dropped.
    pub drops: u64,
    /// Number of times that a packet had to wait.
    pub overlimits: u64,
    /// Number of times that the device did not accept a packet.
    pub requeues: u64,
    /// Number of queued packets.
    pub queued: u64,
    /// Number of queued bytes.
    pub queued_bytes: u64,
}

/// Counters of one CPU's packet processing (`/proc/net/softnet_stat`).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SoftnetCpu {
    /// The CPU's number.
    pub cpu: u32,
    /// Packets that were processed.
    pub processed: u64,
    /// Packets that were dropped because the backlog was full.
    pub dropped: u64,
    /// Number of times that the CPU ran out of its processing budget with packets left to process.
    pub time_squeezed: u64,
    /// Packets that were dropped by the flow limit.
    pub flow_limited: u64,
    /// Packets in the backlog, if the kernel reports them.
    pub queued: Option<u64>,
}

/// The limits of softnet packet processing, in packets and microseconds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backlog {
    /// `net.core.netdev_max_backlog`.
    pub max_backlog: u64,
    /// `net.core.netdev_budget`.
    pub budget: u64,
    /// `net.core.netdev_budget_usecs`.
    pub budget_microseconds: u64,
}

/// The protocol counters, named as in `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/snmp6`.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Protocols {
    /// The `Ip:` counters of `/proc/net/snmp`.
    pub ip: Counters,
    /// The `IpExt:` counters of `/proc/net/netstat`.
    pub ip_ext: Counters,
    /// The `TcpExt:` counters of `/proc/net/netstat`; `IPReversePathFilter` counts packets of all
    /// IP protocols.
    pub tcp_ext: Counters,
    /// The `Icmp:` counters of `/proc/net/snmp`.
    pub icmp: Counters,
    /// The `Udp:` counters of `/proc/net/snmp`.
    pub udp: Counters,
    /// The counters of `/proc/net/snmp6`, if IPv6 is available; their names begin with `Ip6`,
    /// `Icmp6` or `Udp6`.
    pub ipv6: Option<Counters>,
}

/// State of connection tracking.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Conntrack {
    /// Number of tracked connections.
    pub count: u64,
    /// Maximum number of tracked connections.
    pub max: Option<u64>,
    /// `drop`, `early_drop`, `insert_failed`, … summed over all CPUs (`/proc/net/stat/nf_conntrack`
    /// or ctnetlink).
    pub counters: Counters,
}

/// Memory use of UDP sockets, in pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Pages in use.
    pub used: u64,
    /// `net.ipv4.udp_mem`: low, pressure, maximum; visible only in the initial namespace.
    pub limits: Option<[u64; 3]>,
    /// `net.core.rmem_max`: the maximum receive buffer that can be requested, in bytes.
    pub receive_buffer_max: Option<u64>,
}

/// The address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, including IPv4 if the socket is dual-stack.
    V6,
}

/// Identity of an open socket: the kernel's cookie, or the inode if there is no cookie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SocketKey(pub u64);

/// A UDP socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Socket {
    /// The socket's address family.
    pub family: Family,
    /// The socket's local address and port.
    pub local: String,
    /// The address of the socket's peer, if it is connected.
    pub remote: Option<String>,
    /// The socket's inode; 0 if no process has it open any more.
    pub inode: u64,
    /// The user ID of the socket's owner.
    pub user: u32,
    /// Bytes charged to the socket's receive queue: memory, not payload.
    pub receive_queue: u64,
    /// The limit of the receive queue, in charged bytes (`sk_rcvbuf`, twice the requested size), if
    /// it is visible.
    pub receive_buffer: Option<u64>,
    /// Bytes charged to the socket's send queue.
    pub send_queue: u64,
    /// The limit of the send queue, in charged bytes.
    pub send_buffer: Option<u64>,
    /// Datagrams dropped at the socket.
    pub drops: u64,
    /// The IDs of the processes that have the socket open.
    pub owners: Vec<u32>,
}

/// AF_XDP sockets.
pub type XdpSockets = BTreeMap<SocketKey, XdpSocket>;

/// An AF_XDP socket, which receives packets directly from a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct XdpSocket {
    /// The socket's inode.
    pub inode: u64,
    /// The user ID of the socket's owner, if the kernel reports it.
    pub user: Option<u32>,
    /// The index of the device that the socket is bound to, if any.
    pub device: Option<u32>,
    /// The device's receive queue that the socket is bound to.
    pub queue: Option<u32>,
    /// The socket's counters, named as in `struct xdp_diag_stats`: `rx_dropped`, `rx_invalid` and
    /// `rx_full` count lost packets, and `fill_ring_empty` how many times no frame was available
    /// for a packet.
    pub statistics: Reading<Counters>,
}

/// Current state of a process or thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Running or ready to run.
    Runnable,
    /// Waiting for an event.
    Sleeping,
    /// Waiting for a disk or a kernel lock, uninterruptibly.
    Blocked,
    /// Stopped (SIGSTOP, a debugger).
    Stopped,
    /// The process or thread has ended.
    Ended,
}

/// A process that owns sockets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// The name of the process (`/proc/PID/comm`).
    pub name: String,
    /// Start time in clock ticks since boot; distinguishes it from another process with the same
    /// ID.
    pub started: u64,
    /// The process's threads by thread ID, up to a limit.
    pub threads: BTreeMap<u32, Thread>,
    /// CPU time limits of the process's cgroup, if any.
    pub throttling: Option<Throttling>,
}

/// A thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// The name of the thread.
    pub name: String,
    /// The thread's current state.
    pub state: RunState,
    /// Nanoseconds during which the thread ran (`schedstat`).
    pub ran: u64,
    /// Nanoseconds during which the thread was ready to run but waited for a CPU.
    pub waited: u64,
    /// Number of times that the thread was scheduled onto a CPU.
    pub slices: u64,
}

/// Throttling of a cgroup (`cpu.stat`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Throttling {
    /// Number of elapsed enforcement periods.
    pub periods: u64,
    /// Number of enforcement periods in which the cgroup was throttled.
    pub throttled: u64,
    /// Microseconds during which the cgroup was throttled.
    pub throttled_microseconds: u64,
}

/// CPU pressure (`/proc/pressure/cpu`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pressure {
    /// Microseconds during which some task waited for a CPU.
    pub some_microseconds: u64,
}

/// Losses that an application reports, cumulative since its start.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Application {
    /// The application's process ID.
    pub process: u32,
    /// Number of datagrams that the application received.
    pub received: u64,
    /// Reads that the kernel truncated (MSG_TRUNC): the rest of each datagram is lost, and no
    /// kernel counter rises.
    pub truncated: u64,
    /// Datagrams that were dropped because one of the application's queues was full.
    pub queue_full: u64,
    /// Datagrams that belong to no known connection.
    pub unknown_connections: u64,
    /// Packets that the application could not decrypt.
    pub undecryptable: u64,
    /// Sends that the kernel rejected for lack of buffer space (EAGAIN, ENOBUFS).
    pub send_refused: u64,
}

/// Route and path problems that the kernel remembers.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Paths {
    /// Destinations with a learned path MTU, and the MTU in bytes.
    pub path_mtus: BTreeMap<String, u32>,
}
