//! The vocabulary that every dialect is brought to.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::controller_metrics::Metric;

/// An event of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The time since the first event of the trace.
    pub at: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// The contents of an event. Values that a trace does not contain are `None`. The large variants are boxed: events are
/// passed on by the million.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A packet was sent.
    PacketSent(Packet),
    /// A packet was received and opened.
    PacketReceived(Packet),
    /// A packet was declared lost.
    PacketLost(Lost),
    /// A received packet or datagram was dropped.
    PacketDropped {
        /// Its length in bytes.
        length: Option<u64>,
        /// The reason.
        reason: Option<Box<str>>,
    },
    /// Metrics of recovery changed: those that are present.
    Metrics(Box<Metrics>),
    /// The controller is in another state.
    CongestionState(CongestionState),
    /// Why data cannot be sent changed.
    Blocked(BlockedUpdate),
    /// A timer was set, ran out or was cancelled.
    Timer(Timer),
    /// What an end announced in its transport parameters.
    Parameters(Box<Parameters>),
    /// The constants of recovery.
    RecoveryParameters(Box<RecoveryParameters>),
    /// The connection is in another state.
    ConnectionState(Box<str>),
    /// The connection ended.
    Closed {
        /// Whether this endpoint ended it.
        is_local: Option<bool>,
        /// The error's name or number.
        error: Option<Box<str>>,
        /// The reason that was given.
        reason: Option<Box<str>>,
        /// What made it end.
        trigger: Option<Box<str>>,
    },
    /// The largest datagram is another one, in bytes.
    Mtu {
        /// What it is now.
        new: u64,
        /// Whether the search has ended.
        is_done: bool,
    },
    /// The peer's address, or whether it is validated, changed.
    Path(Box<str>),
    /// What is known of ECN on the path.
    Ecn(Box<str>),
    /// What keeps the window from growing now, and since which round (namespace `clearway`).
    Suppressors(Vec<(Box<str>, u64)>),
    /// How often the window was reduced, and how often that was taken back (namespace `clearway`).
    CongestionEvents {
        /// Reductions.
        events: u64,
        /// Of those, the ones that were taken back.
        undone: u64,
    },
    /// What the controller computes with changed (namespace `clearway`).
    Controller(Vec<Metric>),
    /// A loss turned out to be none (quic-go).
    SpuriousLoss {
        /// The packet number.
        number: u64,
    },
    /// Data of a stream moved on.
    StreamDataMoved {
        /// The stream.
        stream: u64,
        /// The offset of the first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Whether it came from the application, to be sent.
        from_application: bool,
        /// Whether it went to the application, received.
        to_application: bool,
    },
    /// Anything else, by its name. Nothing is used of it.
    Other(Box<str>),
}

/// The packet-number spaces (RFC 9000 §12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PacketSpace {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Application,
}

/// The type of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PacketType {
    /// Initial.
    Initial,
    /// Handshake.
    Handshake,
    /// 0-RTT.
    ZeroRtt,
    /// 1-RTT.
    OneRtt,
    /// Retry.
    Retry,
    /// Version Negotiation.
    VersionNegotiation,
    /// Another one, or none.
    #[default]
    Unknown,
}

impl PacketType {
    /// The space whose packet numbers it has. `None` if it has none.
    pub const fn space(self) -> Option<PacketSpace> {
        match self {
            Self::Initial => Some(PacketSpace::Initial),
            Self::Handshake => Some(PacketSpace::Handshake),
            Self::ZeroRtt | Self::OneRtt => Some(PacketSpace::Application),
            Self::Retry | Self::VersionNegotiation | Self::Unknown => None,
        }
    }

    /// Its name in the drafts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::ZeroRtt => "0RTT",
            Self::OneRtt => "1RTT",
            Self::Retry => "retry",
            Self::VersionNegotiation => "version_negotiation",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn of_name(name: &str) -> Self {
        match name {
            "initial" => Self::Initial,
            "handshake" => Self::Handshake,
            "0RTT" | "0rtt" | "zerortt" => Self::ZeroRtt,
            "1RTT" | "1rtt" | "onertt" => Self::OneRtt,
            "retry" => Self::Retry,
            "version_negotiation" => Self::VersionNegotiation,
            _ => Self::Unknown,
        }
    }
}

/// A packet that was sent or received.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Packet {
    /// Its type.
    pub packet_type: PacketType,
    /// Its number, if it has one.
    pub number: Option<u64>,
    /// Its length in bytes, all of it.
    pub length: Option<u64>,
    /// Its frames; `None` if the trace does not have them.
    pub frames: Option<Vec<Frame>>,
    /// Whether it probes (RFC 9002 §6.2.4).
    pub is_probe: bool,
    /// Whether it probes for a larger datagram (RFC 8899).
    pub is_mtu_probe: bool,
}

/// A packet that was declared lost.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Lost {
    /// Its type.
    pub packet_type: PacketType,
    /// Its number.
    pub number: Option<u64>,
    /// Its length in bytes.
    pub length: Option<u64>,
    /// Why it was declared lost.
    pub trigger: Option<LossTrigger>,
    /// Whether it probed for a larger datagram, so that its loss is no sign of congestion.
    pub is_mtu_probe: bool,
}

/// Why a packet was declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossTrigger {
    /// RFC 9002 §6.1.1.
    ReorderingThreshold,
    /// RFC 9002 §6.1.2.
    TimeThreshold,
    /// A probe timeout.
    ProbeTimeout,
}

/// A frame, in as much detail as is used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Frame {
    /// PADDING.
    Padding,
    /// PING.
    Ping,
    /// ACK: the acknowledged ranges, and the stated delay.
    Ack {
        /// Packet numbers.
        ranges: Vec<RangeInclusive<u64>>,
        /// The delay.
        delay: Option<Duration>,
        /// Packets that came with a mark of congestion.
        ce: Option<u64>,
        /// Packets that came as capable of ECN, by either mark.
        ect: Option<u64>,
    },
    /// CRYPTO.
    Crypto {
        /// The offset of the first byte.
        offset: u64,
        /// Bytes.
        length: Option<u64>,
    },
    /// STREAM.
    Stream {
        /// The stream.
        stream: u64,
        /// The offset of the first byte.
        offset: u64,
        /// Bytes.
        length: Option<u64>,
        /// Whether the stream ends here.
        is_last: bool,
    },
    /// MAX_DATA.
    MaxData {
        /// The limit in bytes.
        maximum: u64,
    },
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// The stream.
        stream: u64,
        /// The limit in bytes.
        maximum: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// How many there may be.
        maximum: u64,
    },
    /// DATA_BLOCKED.
    DataBlocked {
        /// The limit in bytes.
        limit: u64,
    },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// The stream.
        stream: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// How many there may be.
        limit: u64,
    },
    /// RESET_STREAM.
    ResetStream {
        /// The stream.
        stream: u64,
    },
    /// STOP_SENDING.
    StopSending {
        /// The stream.
        stream: u64,
    },
    /// PATH_CHALLENGE.
    PathChallenge,
    /// PATH_RESPONSE.
    PathResponse,
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM (RFC 9221).
    Datagram {
        /// Bytes.
        length: Option<u64>,
    },
    /// CONNECTION_CLOSE.
    ConnectionClose,
    /// Another one, by its name.
    Other(Box<str>),
}

impl Frame {
    /// Whether a packet with it asks for an acknowledgement (RFC 9002 §2).
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Ack { .. } | Self::Padding | Self::ConnectionClose)
    }
}

impl Packet {
    /// Whether it asks for an acknowledgement. Where its frames are not known, any packet with a number
    /// might.
    pub fn is_ack_eliciting(&self) -> bool {
        match &self.frames {
            Some(frames) => frames.iter().any(Frame::is_ack_eliciting),
            None => self.packet_type.space().is_some(),
        }
    }
}

/// Metrics of recovery.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Metrics {
    /// The congestion window in bytes.
    pub congestion_window: Option<u64>,
    /// Bytes in flight.
    pub bytes_in_flight: Option<u64>,
    /// Packets in flight.
    pub packets_in_flight: Option<u64>,
    /// The slow start threshold in bytes.
    pub slow_start_threshold: Option<u64>,
    /// The pacing rate in bits per second.
    pub pacing_rate: Option<u64>,
    /// The least round-trip time.
    pub minimum_rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Option<Duration>,
    /// The latest round-trip time.
    pub latest_rtt: Option<Duration>,
    /// The mean deviation of the round-trip time.
    pub rtt_variation: Option<Duration>,
    /// Probe timeouts in a row.
    pub pto_count: Option<u64>,
    /// Packets lost in all (quiche).
    pub lost_packets: Option<u64>,
    /// Whether the controller takes the connection for limited by its application (quiche).
    pub is_application_limited: Option<bool>,
}

/// The states of congestion controllers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum CongestionState {
    /// Slow start.
    SlowStart,
    /// Conservative slow start (RFC 9406).
    ConservativeSlowStart,
    /// Congestion avoidance.
    CongestionAvoidance,
    /// Recovery.
    Recovery,
    /// The controller takes the connection for limited by its application.
    ApplicationLimited,
    /// BBR: Startup.
    Startup,
    /// BBR: Drain.
    Drain,
    /// BBR: ProbeBW; the part of it by the draft's name.
    ProbeBandwidth(Box<str>),
    /// BBR: ProbeRTT.
    ProbeRtt,
    /// Another one.
    Other(Box<str>),
    /// The trace has not reported it yet.
    #[default]
    Unknown,
}

impl CongestionState {
    pub(super) fn of_name(name: &str) -> Self {
        match name {
            "slow_start" => Self::SlowStart,
            "conservative_slow_start" => Self::ConservativeSlowStart,
            "congestion_avoidance" => Self::CongestionAvoidance,
            "recovery" => Self::Recovery,
            "application_limited" => Self::ApplicationLimited,
            "startup" | "bbr_startup" => Self::Startup,
            "drain" | "bbr_drain" => Self::Drain,
            "probe_rtt" | "bbr_probe_rtt" => Self::ProbeRtt,
            name => match name.strip_prefix("bbr_").unwrap_or(name).strip_prefix("probe_bw") {
                Some(part) => {
                    Self::ProbeBandwidth(format!("ProbeBW{}", part.to_uppercase()).into())
                }
                None => Self::Other(name.into()),
            },
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::SlowStart => "slow start",
            Self::ConservativeSlowStart => "conservative slow start",
            Self::CongestionAvoidance => "congestion avoidance",
            Self::Recovery => "recovery",
            Self::ApplicationLimited => "application-limited",
            Self::Startup => "Startup",
            Self::Drain => "Drain",
            Self::ProbeRtt => "ProbeRTT",
            Self::ProbeBandwidth(name) | Self::Other(name) => name,
            Self::Unknown => "unknown",
        }
    }

    /// Whether only BBR and its like have it.
    pub const fn is_of_model(&self) -> bool {
        matches!(self, Self::Startup | Self::Drain | Self::ProbeBandwidth(_) | Self::ProbeRtt)
    }
}

/// Why data cannot be sent, or that it can.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockedUpdate {
    /// The stream that it is about; `None`: the whole connection.
    pub stream: Option<u64>,
    /// The reason; `None`: nothing is in the way.
    pub reason: Option<Blocked>,
}

/// Why data cannot be sent (quic-events §5.17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Blocked {
    /// There is nothing to send.
    Application,
    /// The congestion window.
    CongestionControl,
    /// The pacer.
    Pacing,
    /// What an address that is not validated may get (RFC 9000 §8.1).
    Amplification,
    /// The connection's flow control.
    ConnectionFlowControl,
    /// A stream's flow control.
    StreamFlowControl,
    /// Something else.
    Other,
}

impl Blocked {
    /// What it is, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::CongestionControl => "congestion window",
            Self::Pacing => "pacing",
            Self::Amplification => "amplification limit",
            Self::ConnectionFlowControl => "flow control of the connection",
            Self::StreamFlowControl => "flow control of a stream",
            Self::Other => "another reason",
        }
    }

    pub(super) fn of_name(name: &str) -> Self {
        match name {
            "application" => Self::Application,
            "congestion_control" => Self::CongestionControl,
            "pacing" => Self::Pacing,
            "amplification_protection" => Self::Amplification,
            "connection_flow_control" => Self::ConnectionFlowControl,
            "stream_flow_control" => Self::StreamFlowControl,
            _ => Self::Other,
        }
    }
}

/// A timer changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timer {
    /// Which, as the trace calls it.
    pub timer: Box<str>,
    /// What happened to it.
    pub event: TimerEvent,
}

/// What happened to a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimerEvent {
    /// It was set, to run out after so long.
    Set(Option<Duration>),
    /// It ran out.
    Expired,
    /// It no longer runs.
    Cancelled,
}

/// What an end announced in its transport parameters (RFC 9000 §18.2).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Parameters {
    /// Whether this endpoint sent it, rather than the peer.
    pub is_local: Option<bool>,
    /// max_idle_timeout; zero is none.
    pub max_idle_timeout: Option<Duration>,
    /// max_ack_delay.
    pub max_ack_delay: Option<Duration>,
    /// initial_max_data.
    pub initial_max_data: Option<u64>,
    /// initial_max_stream_data_bidi_local.
    pub initial_max_stream_data_bidi_local: Option<u64>,
    /// initial_max_stream_data_bidi_remote.
    pub initial_max_stream_data_bidi_remote: Option<u64>,
    /// initial_max_stream_data_uni.
    pub initial_max_stream_data_uni: Option<u64>,
}

/// The constants of recovery.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RecoveryParameters {
    /// The largest datagram that is sent, in bytes.
    pub max_datagram_size: Option<u64>,
    /// The congestion window to begin with, in bytes.
    pub initial_window: Option<u64>,
    /// The least congestion window in bytes.
    pub minimum_window: Option<u64>,
    /// Reordering that is tolerated, in packets.
    pub reordering_threshold: Option<u64>,
    /// Reordering that is tolerated, as a multiple of the round-trip time.
    pub time_threshold: Option<f64>,
    /// The controller's name.
    pub controller: Option<Box<str>>,
}
