//! The vocabulary to which the events of every dialect are converted.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::controller_metrics::Metric;

/// An event of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The time since the first event of the trace.
    pub at: Duration,
    /// The content of the event.
    pub kind: EventKind,
}

/// The content of an event. Values that are missing from a trace are `None`. Large variants are
/// boxed, because millions of events are moved in memory.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A packet was sent.
    PacketSent(Packet),
    /// A packet was received and decrypted.
    PacketReceived(Packet),
    /// A packet was declared lost.
    PacketLost(Lost),
    /// A received packet or datagram was dropped.
    PacketDropped {
        /// The packet's type, if the trace has it.
        packet_type: PacketType,
        /// The length of the packet or datagram in bytes.
        length: Option<u64>,
        /// The reason that the packet was dropped.
        reason: Option<Box<str>>,
    },
    /// The recovery metrics that are present have changed.
    Metrics(Box<Metrics>),
    /// The congestion controller changed its state.
    CongestionState(CongestionState),
    /// The reason why data cannot be sent has changed.
    Blocked(BlockedUpdate),
    /// A timer was set, expired or was canceled.
    Timer(Timer),
    /// The transport parameters of an endpoint.
    Parameters(Box<Parameters>),
    /// The constants of recovery.
    RecoveryParameters(Box<RecoveryParameters>),
    /// The connection changed its state.
    ConnectionState(Box<str>),
    /// The connection ended.
    Closed(Box<Close>),
    /// The keys of 1-RTT packets were updated (RFC 9001 §6).
    KeyUpdated {
        /// Whether this endpoint initiated the update.
        is_local: Option<bool>,
    },
    /// The maximum datagram size changed.
    Mtu {
        /// The new size in bytes.
        new: u64,
        /// Whether the search for a larger size has ended.
        is_done: bool,
    },
    /// The peer's address changed, or the address was validated.
    Path(Box<str>),
    /// The state of ECN on the path changed.
    Ecn(Box<str>),
    /// The conditions that currently suppress window growth, each with the round in which it began
    /// (namespace `clearway`).
    Suppressors(Vec<(Box<str>, u64)>),
    /// The number of reductions of the congestion window changed (namespace `clearway`).
    CongestionEvents {
        /// The number of reductions so far.
        events: u64,
        /// The number of reductions that were undone because the losses were spurious.
        undone: u64,
    },
    /// Internal variables of the congestion controller changed (namespace `clearway`).
    Controller(Vec<Metric>),
    /// A loss turned out to be spurious (quic-go).
    SpuriousLoss {
        /// The packet number.
        number: u64,
    },
    /// Stream data moved between the application and the transport.
    StreamDataMoved {
        /// The stream.
        stream: u64,
        /// The offset of the first byte.
        offset: u64,
        /// The length in bytes.
        length: u64,
        /// Whether the application passed the data to the transport for sending.
        from_application: bool,
        /// Whether received data was passed to the application.
        to_application: bool,
    },
    /// Any other event, by its name. Its data is ignored.
    Other(Box<str>),
}

/// The end of a connection, or the contents of a CONNECTION_CLOSE frame.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Close {
    /// Whether this endpoint closed the connection. `None` for a frame.
    pub is_local: Option<bool>,
    /// Whether the error is the application's, rather than QUIC's.
    pub is_of_application: Option<bool>,
    /// The error's name or number, as written in the trace.
    pub error: Option<Box<str>>,
    /// The error's number, if the trace has it in addition to the name.
    pub code: Option<u64>,
    /// The reason phrase.
    pub reason: Option<Box<str>>,
    /// The trigger of the connection's end.
    pub trigger: Option<Box<str>>,
}

/// The packet number spaces (RFC 9000 §12.3).
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
    /// Another type, or the type is missing.
    #[default]
    Unknown,
}

impl PacketType {
    /// Returns the packet number space of this type. `None` if such packets have no number.
    pub const fn space(self) -> Option<PacketSpace> {
        match self {
            Self::Initial => Some(PacketSpace::Initial),
            Self::Handshake => Some(PacketSpace::Handshake),
            Self::ZeroRtt | Self::OneRtt => Some(PacketSpace::Application),
            Self::Retry | Self::VersionNegotiation | Self::Unknown => None,
        }
    }

    /// Returns the type's name in the drafts.
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
            // Some writers of the later drafts kept the upper case of the early ones.
            name if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                Self::of_name(&name.to_ascii_lowercase())
            }
            _ => Self::Unknown,
        }
    }
}

/// A packet that was sent or received.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Packet {
    /// The packet's type.
    pub packet_type: PacketType,
    /// The packet number, if the packet has one.
    pub number: Option<u64>,
    /// The packet's total length in bytes.
    pub length: Option<u64>,
    /// The packet's frames; `None` if the trace does not have them.
    pub frames: Option<Vec<Frame>>,
    /// Whether the packet is a PTO probe (RFC 9002 §6.2.4).
    pub is_probe: bool,
    /// Whether the packet is an MTU probe (RFC 8899).
    pub is_mtu_probe: bool,
}

/// A packet that was declared lost.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Lost {
    /// The packet's type.
    pub packet_type: PacketType,
    /// The packet number.
    pub number: Option<u64>,
    /// The packet's length in bytes.
    pub length: Option<u64>,
    /// The reason that the packet was declared lost.
    pub trigger: Option<LossTrigger>,
    /// Whether the packet was an MTU probe, in which case its loss does not indicate congestion.
    pub is_mtu_probe: bool,
}

/// The reason that a packet was declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossTrigger {
    /// The packet threshold (RFC 9002 §6.1.1).
    ReorderingThreshold,
    /// The time threshold (RFC 9002 §6.1.2).
    TimeThreshold,
    /// A probe timeout (PTO).
    ProbeTimeout,
}

/// A frame, with the fields that the analysis uses.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Frame {
    /// PADDING.
    Padding,
    /// PING.
    Ping,
    /// ACK.
    Ack {
        /// The ranges of acknowledged packet numbers.
        ranges: Vec<RangeInclusive<u64>>,
        /// The ACK Delay that the frame reports.
        delay: Option<Duration>,
        /// The number of packets received with ECN-CE.
        ce: Option<u64>,
        /// The number of packets received with ECT(0) or ECT(1).
        ect: Option<u64>,
    },
    /// CRYPTO.
    Crypto {
        /// The offset of the first byte.
        offset: u64,
        /// The length in bytes.
        length: Option<u64>,
    },
    /// STREAM.
    Stream {
        /// The stream.
        stream: u64,
        /// The offset of the first byte.
        offset: u64,
        /// The length in bytes.
        length: Option<u64>,
        /// Whether the stream ends with this frame (FIN).
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
        /// The limit on the number of streams.
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
        /// The limit on the number of streams.
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
        /// The length in bytes.
        length: Option<u64>,
    },
    /// CONNECTION_CLOSE.
    ConnectionClose(Box<Close>),
    /// Another frame type, by its name.
    Other(Box<str>),
}

impl Frame {
    /// Returns whether the frame is ack-eliciting (RFC 9002 §2).
    pub const fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Self::Ack { .. } | Self::Padding | Self::ConnectionClose(_))
    }
}

impl Packet {
    /// Returns whether the packet is ack-eliciting. A packet with a number whose frames are unknown
    /// counts as ack-eliciting, because it may be.
    pub fn is_ack_eliciting(&self) -> bool {
        match &self.frames {
            Some(frames) => frames.iter().any(Frame::is_ack_eliciting),
            None => self.packet_type.space().is_some(),
        }
    }
}

/// Recovery metrics.
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
    /// The minimum round-trip time.
    pub minimum_rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Option<Duration>,
    /// The latest round-trip time.
    pub latest_rtt: Option<Duration>,
    /// The mean deviation of the round-trip time (`rttvar`).
    pub rtt_variation: Option<Duration>,
    /// The number of consecutive probe timeouts.
    pub pto_count: Option<u64>,
    /// The total number of lost packets (quiche).
    pub lost_packets: Option<u64>,
    /// Whether the controller regards the connection as application-limited (quiche).
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
    /// The controller regards the connection as application-limited.
    ApplicationLimited,
    /// BBR: Startup.
    Startup,
    /// BBR: Drain.
    Drain,
    /// BBR: ProbeBW, with the name of its phase in the draft.
    ProbeBandwidth(Box<str>),
    /// BBR: ProbeRTT.
    ProbeRtt,
    /// Another state, by its name.
    Other(Box<str>),
    /// No state has been logged yet.
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

    /// Returns the name of the state.
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

    /// Returns whether this state exists only in BBR and other model-based controllers.
    pub const fn is_of_model(&self) -> bool {
        matches!(self, Self::Startup | Self::Drain | Self::ProbeBandwidth(_) | Self::ProbeRtt)
    }
}

/// A change in the reason why data cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockedUpdate {
    /// The stream that is blocked. `None` for the whole connection.
    pub stream: Option<u64>,
    /// The reason. `None` if data can be sent.
    pub reason: Option<Blocked>,
}

/// The reason why data cannot be sent (quic-events §5.17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Blocked {
    /// The application has nothing to send.
    Application,
    /// The congestion window is full.
    CongestionControl,
    /// The pacer delays sending.
    Pacing,
    /// The anti-amplification limit for an unvalidated address is reached (RFC 9000 §8.1).
    Amplification,
    /// The connection's flow control limit is reached.
    ConnectionFlowControl,
    /// A stream's flow control limit is reached.
    StreamFlowControl,
    /// Another reason.
    Other,
}

impl Blocked {
    /// Returns the reason in words, for human readers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::CongestionControl => "congestion window",
            Self::Pacing => "pacing",
            Self::Amplification => "amplification limit",
            Self::ConnectionFlowControl => "connection flow control",
            Self::StreamFlowControl => "stream flow control",
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
    /// The timer's name in the trace.
    pub timer: Box<str>,
    /// The change.
    pub event: TimerEvent,
}

/// A change to a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimerEvent {
    /// The timer was set to expire after this time, if the trace contains the time.
    Set(Option<Duration>),
    /// The timer expired.
    Expired,
    /// The timer was canceled.
    Cancelled,
}

/// The transport parameters of an endpoint (RFC 9000 §18.2).
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Parameters {
    /// Whether the parameters are this endpoint's own, rather than the peer's.
    pub is_local: Option<bool>,
    /// max_idle_timeout. Zero means that there is no idle timeout.
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
    /// The maximum size of datagrams that are sent, in bytes.
    pub max_datagram_size: Option<u64>,
    /// The initial congestion window in bytes.
    pub initial_window: Option<u64>,
    /// The minimum congestion window in bytes.
    pub minimum_window: Option<u64>,
    /// The packet reordering threshold.
    pub reordering_threshold: Option<u64>,
    /// The tolerated reordering, as a multiple of the round-trip time.
    pub time_threshold: Option<f64>,
    /// The congestion controller's name.
    pub controller: Option<Box<str>>,
}
