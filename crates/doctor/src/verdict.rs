//! What the snapshots mean.

use serde::{Deserialize, Serialize};

/// Whether datagrams are lost at this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No stage lost more than the [floor](Finding::is_above_floor), and every stage that matters
    /// was seen.
    NoLoss,
    /// No loss of this host, but a large part of what arrives is stray: no socket is bound to the
    /// destination port.
    Stray,
    /// A stage loses more than the [floor](Finding::is_above_floor).
    Loss,
    /// No loss was seen, but a stage that may lose could not be seen; or the snapshots cannot be
    /// compared.
    Unknown,
}

impl Outcome {
    /// The exit status of `clearway doctor`: 0 (also for stray packets), 1 for loss, or 2 for
    /// unknown.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::NoLoss | Self::Stray => 0,
            Self::Loss => 1,
            Self::Unknown => 2,
        }
    }
}

/// The stages that a datagram passes, in this order: those of receiving, then those of sending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The device and its driver.
    Device,
    /// An XDP program, and sockets of AF_XDP.
    Xdp,
    /// The queue and the budget of each CPU.
    Softnet,
    /// IP: headers, addresses, routes, the reverse-path filter, reassembly.
    Ip,
    /// A firewall's rules.
    Netfilter,
    /// Connection tracking.
    Conntrack,
    /// UDP: checksums, lengths, ports without a socket, memory of all sockets.
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
    /// All, in the order of the path.
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

    /// Whether it is one of those of sending.
    pub fn is_of_sending(self) -> bool {
        self >= Self::SendSocket
    }

    /// Its name for people.
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

/// Why a stage loses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Packets that the device or its driver dropped, or had no room for.
    DeviceReceive,
    /// An XDP program dropped them, or could not send them on.
    Xdp,
    /// A socket of AF_XDP had no room for them: its receive ring was full, or its fill ring empty.
    XdpSocket,
    /// A CPU's backlog was full.
    BacklogFull,
    /// Headers, versions or addresses that IP does not accept.
    IpHeader,
    /// The reverse-path filter.
    ReversePathFilter,
    /// IP received packets, and neither delivered them nor counted them as lost: multicast that
    /// nobody has joined, or sources that it does not accept.
    Undelivered,
    /// Fragments that were not completed.
    Reassembly,
    /// A firewall's rule.
    Firewall,
    /// The table of connections is full.
    ConntrackFull,
    /// No socket is bound to the port: the packets are stray.
    NoSocket,
    /// A wrong checksum.
    BadChecksum,
    /// A length that does not fit.
    BadLength,
    /// A socket's filter.
    SocketFilter,
    /// The memory of all UDP sockets is used up.
    UdpMemory,
    /// More datagrams arrive than the socket's reader takes.
    Rate(Queue),
    /// The reader is fast enough, but bursts are larger than the buffer.
    Burst(Queue),
    /// The reader is fast enough, but is kept from running.
    Starved(Queue, Starvation),
    /// A socket overflows, and why could not be determined.
    Overflow(Queue),
    /// One socket of a group that shares a port overflows, while others have room.
    HotSocket(Queue),
    /// Reads that were truncated.
    TruncatedReads,
    /// The application's own queue was full.
    ApplicationQueue,
    /// Sends that were refused for want of buffer.
    SendBuffer,
    /// Packets that were larger than a path takes.
    PathMtu,
    /// No route to the destination.
    NoRoute,
    /// A queueing discipline dropped them.
    QdiscFull,
    /// The device dropped what it had to send.
    DeviceSend,
    /// A counter rose, and what made it rise is not known.
    Other,
}

/// What was measured at a socket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// The socket's local address.
    pub local: String,
    /// The process that reads it, as ID and name, if it is known.
    pub process: Option<(u32, String)>,
    /// Datagrams that arrived, per second, dropped ones included.
    pub arrival_rate: Option<f64>,
    /// Datagrams that were taken out while the queue was not empty, per second.
    pub drain_rate: Option<f64>,
    /// Whether these rates are this socket's own. If not, other sockets of the namespace may have
    /// taken datagrams that are counted here: both rates are the most that they may be, and their
    /// ratio the least.
    #[serde(default)]
    pub are_rates_exact: bool,
    /// Bytes of the buffer that one datagram is charged with.
    pub charge: Option<f64>,
    /// The buffer, in charged bytes.
    pub buffer: Option<u64>,
    /// After how many seconds at these rates a buffer of this size, empty at first, overflows.
    pub buffer_seconds: Option<f64>,
    /// A buffer that would have held the bursts, in bytes to ask for with `SO_RCVBUF`.
    pub sufficient_buffer: Option<u64>,
}

/// What kept a reader from running.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Starvation {
    /// It waited for a CPU that others had: the part of the time.
    CpuPressure(f64),
    /// It was stopped.
    Stopped,
    /// Its cgroup was throttled: the part of the time.
    Throttled(f64),
    /// It waited for a disk or a lock of the kernel.
    Blocked,
}

/// How sure a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It fits, but something else would look the same.
    Possible,
    /// Several counters agree.
    Certain,
}

/// A counter that moved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// Where it is (`Udp: RcvbufErrors`, `drops of 0.0.0.0:4433`).
    pub counter: String,
    /// By how much it rose.
    pub rise: u64,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Action {
    /// One sentence that says it, with names and sizes.
    pub text: String,
    /// A command that shows or does it, if there is one. Nothing is ever run.
    pub command: Option<String>,
}

/// A stage that loses, or packets that are stray.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The stage.
    pub stage: Stage,
    /// Why.
    pub cause: Cause,
    /// The earlier stage whose losses brought these about; `None` for a fault of its own.
    #[serde(default)]
    pub consequence_of: Option<Stage>,
    /// Packets that were lost there between the first and the last snapshot.
    pub lost: u64,
    /// The same for each second.
    pub per_second: f64,
    /// The same as a part, from 0 to 1, of what came to this stage; at a socket whose arrivals were
    /// measured, of those. `None` until everything is counted.
    #[serde(default)]
    pub share: Option<f64>,
    /// Whether this is enough to decide the outcome: at least 1 packet in 1,000 and 1 packet per
    /// second, or for packets that are refused ([`Cause::is_refusal`]) 1 packet in 10 and 10
    /// packets per second. Losses of one kind at neighboring stages are added up for this.
    #[serde(default)]
    pub is_above_floor: bool,
    /// How sure it is.
    pub certainty: Certainty,
    /// What it was concluded from.
    pub evidence: Vec<Evidence>,
    /// What to do, the best first.
    pub actions: Vec<Action>,
}

/// A stage that could not be seen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unseen {
    /// The stage.
    pub stage: Stage,
    /// What was not seen and why, in a sentence.
    pub why: String,
    /// What would show it (a right, a namespace), if anything would.
    pub needed: Option<String>,
    /// Whether losses may hide there. If not, it would only have explained more.
    #[serde(default)]
    pub may_hide_loss: bool,
}

/// What a sequence of snapshots means.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether datagrams are lost.
    pub outcome: Outcome,
    /// Seconds between the first and the last snapshot.
    pub seconds: f64,
    /// What is lost, the worst first: above the floor before below it, faults of their own before
    /// their consequences, and then by the number of packets. Stray packets are last.
    pub findings: Vec<Finding>,
    /// What is lost elsewhere on this host, and does not concern the [scope](crate::Scope):
    /// context, which never decides the outcome.
    #[serde(default)]
    pub elsewhere: Vec<Finding>,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
    /// Readings that contradict themselves: counters that went backwards, snapshots of different
    /// namespaces.
    pub oddities: Vec<String>,
}

impl Verdict {
    /// The verdict of nothing.
    pub(crate) fn unknown() -> Self {
        let (findings, elsewhere) = (Vec::new(), Vec::new());
        let (unseen, oddities) = (Vec::new(), Vec::new());
        Self { outcome: Outcome::Unknown, seconds: 0.0, findings, elsewhere, unseen, oddities }
    }
}

impl Cause {
    /// The name in metrics and in JSON.
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

    /// The socket that it is about, if it is about one.
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

    /// Whether packets are refused for what they are (a closed port, a firewall's rule, a wrong
    /// checksum, no route to their destination), which any sender can bring about, and not lost for
    /// want of room or time.
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

    /// Whether the packets are stray: no socket is bound to their destination port.
    pub fn is_stray(&self) -> bool {
        *self == Self::NoSocket
    }
}
