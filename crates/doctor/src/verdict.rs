//! The interpretation of snapshots.

use serde::{Deserialize, Serialize};

/// Whether this host loses datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No stage lost more than the [floor](Finding::is_above_floor), and every relevant stage was
    /// seen.
    NoLoss,
    /// No loss on this host, but a large part of the arriving packets are stray: no socket is bound
    /// to the destination port.
    Stray,
    /// A stage loses more than the [floor](Finding::is_above_floor).
    Loss,
    /// No loss was seen, but a stage that may lose packets could not be seen, or the snapshots
    /// cannot be compared.
    Unknown,
}

impl Outcome {
    /// Returns the exit status of `clearway doctor`: 0 (also for stray packets), 1 for loss, or 2
    /// for unknown.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::NoLoss | Self::Stray => 0,
            Self::Loss => 1,
            Self::Unknown => 2,
        }
    }
}

/// The stages of a datagram's path, in this order: the receive path, then the send path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The device and its driver.
    Device,
    /// An XDP program, and AF_XDP sockets.
    Xdp,
    /// The backlog and the processing budget of each CPU.
    Softnet,
    /// IP: headers, addresses, routes, the reverse-path filter, reassembly.
    Ip,
    /// Firewall rules.
    Netfilter,
    /// Connection tracking.
    Conntrack,
    /// UDP: checksums, lengths, ports without a socket, memory shared by all sockets.
    Udp,
    /// The socket: its filter and its receive buffer.
    Socket,
    /// The application.
    Application,
    /// Sending: the application's calls and the socket's send buffer.
    SendSocket,
    /// Sending: IP, routes and path MTUs.
    SendIp,
    /// Sending: the queueing discipline.
    SendQdisc,
    /// Sending: the device.
    SendDevice,
}

impl Stage {
    /// All stages, in the order of the path.
    pub const ALL: [Self; 13] = [
        Self::Device,
        Self::Xdp,
        Self::Softnet,
        Self::Ip,
        Self::Netfilter,
        Self::Conntrack,
        Self::Udp,
        Self::Socket,
        Self::Application,
        Self::SendSocket,
        Self::SendIp,
        Self::SendQdisc,
        Self::SendDevice,
    ];

    /// Returns whether the stage is on the send path.
    pub fn is_of_sending(self) -> bool {
        self >= Self::SendSocket
    }

    /// Returns the stage's human-readable name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Device | Self::SendDevice => "device",
            Self::Xdp => "XDP",
            Self::Softnet => "softnet",
            Self::Ip | Self::SendIp => "IP",
            Self::Netfilter => "netfilter",
            Self::Conntrack => "conntrack",
            Self::Udp => "UDP",
            Self::Socket | Self::SendSocket => "socket",
            Self::Application => "application",
            Self::SendQdisc => "queueing discipline",
        }
    }
}

/// Why a stage loses packets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The device or its driver dropped packets, or had no room for them.
    DeviceReceive,
    /// An XDP program dropped the packets, or failed to redirect them.
    Xdp,
    /// An AF_XDP socket had no room for packets: its receive ring was full, or its fill ring was
    /// empty.
    XdpSocket,
    /// A CPU's backlog was full.
    BacklogFull,
    /// IP did not accept the packets' headers, versions or addresses.
    IpHeader,
    /// The reverse-path filter dropped the packets.
    ReversePathFilter,
    /// IP received packets but neither delivered them nor counted them as dropped: multicast to
    /// groups that no socket has joined, or sources that it does not accept.
    Undelivered,
    /// Some fragments could not be reassembled.
    Reassembly,
    /// A firewall rule dropped the packets.
    Firewall,
    /// The connection tracking table is full.
    ConntrackFull,
    /// No socket is bound to the port: the packets are stray.
    NoSocket,
    /// Packets had a bad checksum.
    BadChecksum,
    /// The length field does not match the packet.
    BadLength,
    /// A socket filter dropped the datagrams.
    SocketFilter,
    /// The memory shared by all UDP sockets is used up.
    UdpMemory,
    /// Datagrams arrive faster than the socket's reader reads them.
    Rate(Queue),
    /// The reader is fast enough, but bursts exceed the buffer.
    Burst(Queue),
    /// The reader is fast enough, but was prevented from running.
    Starved(Queue, Starvation),
    /// A socket overflows for an unknown reason.
    Overflow(Queue),
    /// One socket of a group that shares a port overflows, while other sockets of the group have
    /// room.
    HotSocket(Queue),
    /// Reads were truncated.
    TruncatedReads,
    /// The application's own queue was full.
    ApplicationQueue,
    /// Sends were rejected for lack of buffer space.
    SendBuffer,
    /// Packets exceeded a path's MTU.
    PathMtu,
    /// There was no route to the destination.
    NoRoute,
    /// A queueing discipline dropped the packets.
    QdiscFull,
    /// The device dropped outgoing packets.
    DeviceSend,
    /// A counter rose for an unknown reason.
    Other,
}

/// Measurements of a socket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// The socket's local address.
    pub local: String,
    /// The ID and name of the process that reads the socket, if known.
    pub process: Option<(u32, String)>,
    /// Datagrams arriving per second, including dropped ones.
    pub arrival_rate: Option<f64>,
    /// Datagrams read per second while the queue was not empty.
    pub drain_rate: Option<f64>,
    /// Whether these rates belong to this socket alone. If not, other sockets of the namespace may
    /// have received some of the counted datagrams. Both rates are then upper bounds, and their
    /// ratio is a lower bound.
    #[serde(default)]
    pub are_rates_exact: bool,
    /// Bytes charged to the receive buffer per datagram.
    pub charge: Option<f64>,
    /// The size of the receive buffer, in charged bytes.
    pub buffer: Option<u64>,
    /// Time in seconds after which an initially empty buffer of this size overflows at these rates.
    pub buffer_seconds: Option<f64>,
    /// Buffer size that would have held the bursts, in bytes to request with `SO_RCVBUF`.
    pub sufficient_buffer: Option<u64>,
}

/// The reason why a reader could not run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Starvation {
    /// The reader waited for a CPU that other threads used, for this fraction of the time.
    CpuPressure(f64),
    /// The reader was stopped (SIGSTOP, a debugger).
    Stopped,
    /// The reader's cgroup was throttled, for this fraction of the time.
    Throttled(f64),
    /// The reader waited for a disk or a kernel lock.
    Blocked,
}

/// How certain a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The counters are consistent with this cause, but also with another one.
    Possible,
    /// Several counters agree on this cause.
    Certain,
}

/// A counter that rose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// The counter's source and name (`Udp: RcvbufErrors`, `packets dropped by 0.0.0.0:4433`).
    pub counter: String,
    /// The increase of the counter.
    pub rise: u64,
}

/// A recommended action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Action {
    /// One sentence that describes the action, with names and sizes.
    pub text: String,
    /// A command that shows the cause or performs the action, if there is one. It is never run
    /// automatically.
    pub command: Option<String>,
}

/// A stage that drops packets, or a source of stray packets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The stage at which packets are lost.
    pub stage: Stage,
    /// The cause of the losses.
    pub cause: Cause,
    /// The earlier stage whose losses caused these losses; `None` for an independent fault.
    #[serde(default)]
    pub consequence_of: Option<Stage>,
    /// Packets lost at this stage between the first and the last snapshot.
    pub lost: u64,
    /// Packets lost per second.
    pub per_second: f64,
    /// Share of lost packets, from 0 to 1, among those that reached this stage, or among the
    /// arrivals at a socket if these were measured. `None` until all findings have been collected.
    #[serde(default)]
    pub share: Option<f64>,
    /// Whether the loss is large enough to determine the outcome: at least 1 packet in 1,000 and 1
    /// packet per second, or for rejected packets ([`Cause::is_refusal`]) 1 packet in 10 and 10
    /// packets per second. For this, losses of one kind at neighboring stages are added up.
    #[serde(default)]
    pub is_above_floor: bool,
    /// How certain the finding is.
    pub certainty: Certainty,
    /// The counters that the finding is based on.
    pub evidence: Vec<Evidence>,
    /// Recommended actions, best first.
    pub actions: Vec<Action>,
}

/// A part of a stage that could not be read, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unseen {
    /// The stage that could not be read completely.
    pub stage: Stage,
    /// One sentence that states what could not be read and why.
    pub why: String,
    /// The requirement for making the part visible (a privilege, a namespace), if it can be made
    /// visible.
    pub needed: Option<String>,
    /// Whether losses may be hidden there. If not, the part would only have added detail.
    #[serde(default)]
    pub may_hide_loss: bool,
}

/// The result of analyzing a sequence of snapshots.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether datagrams are lost.
    pub outcome: Outcome,
    /// Seconds between the first and the last snapshot.
    pub seconds: f64,
    /// Losses, worst first. Losses above the floor precede those below it, then independent faults
    /// precede their consequences, and the rest is sorted by the number of packets. Stray packets
    /// are last.
    pub findings: Vec<Finding>,
    /// Losses elsewhere on this host that do not concern the [scope](crate::Scope): they are listed
    /// as context, and never determine the outcome.
    #[serde(default)]
    pub elsewhere: Vec<Finding>,
    /// Parts that could not be seen.
    pub unseen: Vec<Unseen>,
    /// Inconsistent readings: counters that went backwards, snapshots of different namespaces.
    pub oddities: Vec<String>,
}

impl Verdict {
    /// Returns the verdict for an empty sequence of snapshots.
    pub(crate) fn unknown() -> Self {
        let (findings, elsewhere) = (Vec::new(), Vec::new());
        let (unseen, oddities) = (Vec::new(), Vec::new());
        Self { outcome: Outcome::Unknown, seconds: 0.0, findings, elsewhere, unseen, oddities }
    }
}

impl Cause {
    /// Returns the cause's name in metrics and in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DeviceReceive => "device_receive",
            Self::Xdp => "xdp",
            Self::XdpSocket => "xdp_socket",
            Self::BacklogFull => "backlog_full",
            Self::IpHeader => "ip_header",
            Self::ReversePathFilter => "reverse_path_filter",
            Self::Undelivered => "undelivered",
            Self::Reassembly => "reassembly",
            Self::Firewall => "firewall",
            Self::ConntrackFull => "conntrack_full",
            Self::NoSocket => "no_socket",
            Self::BadChecksum => "bad_checksum",
            Self::BadLength => "bad_length",
            Self::SocketFilter => "socket_filter",
            Self::UdpMemory => "udp_memory",
            Self::Rate(_) => "rate",
            Self::Burst(_) => "burst",
            Self::Starved(..) => "starved",
            Self::Overflow(_) => "overflow",
            Self::HotSocket(_) => "hot_socket",
            Self::TruncatedReads => "truncated_reads",
            Self::ApplicationQueue => "application_queue",
            Self::SendBuffer => "send_buffer",
            Self::PathMtu => "path_mtu",
            Self::NoRoute => "no_route",
            Self::QdiscFull => "qdisc_full",
            Self::DeviceSend => "device_send",
            Self::Other => "other",
        }
    }

    /// Returns the measurements of the socket that the cause is about, if any.
    pub fn queue(&self) -> Option<&Queue> {
        match self {
            Self::Rate(queue)
            | Self::Burst(queue)
            | Self::Starved(queue, _)
            | Self::Overflow(queue)
            | Self::HotSocket(queue) => Some(queue),
            _ => None,
        }
    }

    /// Returns whether packets are rejected because of their content or destination (a closed port,
    /// a firewall rule, a bad checksum, no route), which any sender can cause, rather than dropped
    /// for lack of buffer space or CPU time.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Xdp
                | Self::IpHeader
                | Self::ReversePathFilter
                | Self::Undelivered
                | Self::Reassembly
                | Self::Firewall
                | Self::NoSocket
                | Self::BadChecksum
                | Self::BadLength
                | Self::SocketFilter
                | Self::NoRoute
        )
    }

    /// Returns whether the packets are stray: no socket is bound to their destination port.
    pub fn is_stray(&self) -> bool {
        *self == Self::NoSocket
    }
}
