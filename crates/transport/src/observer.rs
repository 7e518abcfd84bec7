//! Observations of connections. qlog, metrics and the lab's checker are all implemented as
//! observers.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_congestion::{Controller, Phase, RateSample, RttSnapshot, SendLimit, Snapshot};
use clearway_units::{Rate, ReleaseTime, Timestamp};
use clearway_wire::{ConnectionId, PacketNumber, PacketType, TransportParameters, Version};

use crate::drops::DropReason;
use crate::event::ConnectionError;
use crate::{EcnCodepoint, EcnState, Side, SocketIndex, SpaceId};

/// Observes one connection. It is called as each event occurs, and must not block.
pub trait Observer: Send {
    /// Reports an event at `now`.
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>);
}

/// An event inside a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// The connection began.
    Started {
        /// This endpoint's role: client or server.
        side: Side,
        /// The peer's address.
        remote: SocketAddr,
        /// This endpoint's own connection ID.
        local_id: ConnectionId,
        /// The Destination Connection ID that this endpoint sends to.
        remote_id: ConnectionId,
        /// The client's first Destination Connection ID, which identifies the traces of both
        /// endpoints.
        original_destination_id: ConnectionId,
    },
    /// The version was chosen (RFC 9368). A client chooses one when it starts, again when it
    /// receives a Version Negotiation packet, and again when the server switches to another
    /// version.
    VersionInformation {
        /// The versions that the client supports, the preferred one first; empty on the server.
        client: &'a [Version],
        /// The versions that the server supports; on the client, those listed in a Version
        /// Negotiation packet.
        server: &'a [Version],
        /// The chosen version; `None` if there is no common version.
        chosen: Option<Version>,
    },
    /// The transport parameters of one endpoint are known.
    ParametersSet {
        /// The endpoint that sent the parameters.
        owner: Side,
        /// The parameters.
        parameters: &'a TransportParameters,
    },
    /// A client offers early data, under these remembered transport parameters of the server (RFC
    /// 9000 §7.4.1).
    ParametersRestored(&'a TransportParameters),
    /// A client's early data was rejected: its 0-RTT packets are abandoned, and their contents are
    /// retransmitted (RFC 9001 §4.6.2).
    EarlyDataRejected,
    /// The application protocol was negotiated.
    ApplicationProtocol(&'a [u8]),
    /// The connection changed state.
    StateUpdated(ConnectionState),
    /// A packet was built to be sent.
    PacketSent(PacketObservation<'a>),
    /// A packet was received and decrypted.
    PacketReceived(PacketObservation<'a>),
    /// A packet was received and dropped.
    PacketDropped {
        /// The size of the dropped packet in bytes.
        size: usize,
        /// The reason.
        reason: DropReason,
    },
    /// A packet was buffered until its keys are available.
    PacketBuffered {
        /// The size of the buffered packet in bytes.
        size: usize,
    },
    /// A packet was declared lost.
    PacketLost(LostPacket),
    /// The metrics of loss recovery after an event.
    Metrics(&'a Metrics),
    /// The congestion controller after that event; gives access to controller-specific metrics.
    Controller(&'a dyn Controller),
    /// The controller's phase changed.
    CongestionStateUpdated {
        /// The previous phase.
        old: Phase,
        /// The new phase.
        new: Phase,
    },
    /// The state of ECN on the path has changed. Not reported if ECN is disabled.
    EcnStateUpdated {
        /// The previous state; `None` for the first.
        old: Option<EcnState>,
        /// The new state.
        new: EcnState,
    },
    /// The limit on sending has changed.
    SendLimitUpdated {
        /// The previous limit; `None` for the first.
        old: Option<SendLimit>,
        /// The new limit.
        new: SendLimit,
    },
    /// A timer was set, canceled, or expired.
    TimerUpdated {
        /// The timer.
        timer: TimerKind,
        /// The change to the timer.
        change: TimerChange,
    },
    /// The keys of a packet number space were discarded.
    KeyDiscarded(SpaceId),
    /// 1-RTT keys were updated.
    KeyUpdated {
        /// Whether this endpoint initiated the update.
        is_local: bool,
    },
    /// The path changed, or the peer's address on it was validated.
    PathUpdated {
        /// The socket of this endpoint.
        socket: SocketIndex,
        /// The peer's address.
        remote: SocketAddr,
        /// Whether the peer's address has been validated.
        is_validated: bool,
        /// Whether congestion control and the round-trip time were reset because more of the peer's
        /// address than its port has changed (RFC 9000 §9.4). Outstanding packets then do not count
        /// as in flight on this path.
        is_new_path: bool,
    },
    /// The maximum datagram size of the path changed, or the search for a larger one began or ended
    /// (RFC 9000 §14.3).
    MtuUpdated {
        /// The previous size, in bytes of UDP payload.
        old: u16,
        /// The new size.
        new: u16,
        /// Whether the search is complete for now.
        is_done: bool,
    },
    /// The connection ended.
    Closed(&'a ConnectionError),
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectionState {
    /// The handshake has begun.
    HandshakeStarted,
    /// The TLS handshake is complete (RFC 9001 §4.1.1).
    HandshakeComplete,
    /// The handshake is confirmed: the peer is known to have completed it too (RFC 9001 §4.1.2).
    HandshakeConfirmed,
    /// This endpoint closed the connection, and responds to packets with a CONNECTION_CLOSE (RFC
    /// 9000 §10.2.1).
    Closing,
    /// The peer closed the connection; nothing more is sent (RFC 9000 §10.2.2).
    Draining,
    /// The state of the connection can be freed.
    Closed,
}

/// A packet in an observation.
#[derive(Clone, Copy, Debug)]
pub struct PacketObservation<'a> {
    /// The packet type.
    pub packet_type: PacketType,
    /// The packet number.
    pub number: PacketNumber,
    /// The key phase bit of a 1-RTT packet.
    pub key_phase: bool,
    /// The packet's size on the wire in bytes.
    pub size: usize,
    /// The packet's frames, decrypted.
    pub payload: &'a [u8],
    /// Whether the packet was sent because a probe timeout expired.
    pub is_probe: bool,
    /// Whether the packet probes a path other than the current one: congestion control does not
    /// delay it, and its loss is not a congestion signal.
    pub is_path_probe: bool,
    /// Whether the packet probes the path's MTU: it may be larger than other datagrams and exceed
    /// the window, and its loss is not a congestion signal (RFC 9000 §14.4).
    pub is_mtu_probe: bool,
    /// The ECN codepoint with which the packet's datagram was sent or received.
    pub ecn: EcnCodepoint,
}

/// A packet that was declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostPacket {
    /// The packet number space of the lost packet.
    pub space: SpaceId,
    /// The packet number.
    pub number: PacketNumber,
    /// The size of the lost packet in bytes.
    pub bytes: u64,
    /// The reason why the packet was declared lost.
    pub trigger: LossTrigger,
    /// The reordering that was tolerated when the packet was declared lost.
    pub thresholds: LossThresholds,
}

/// The reordering that loss detection tolerates on the path (RFC 9002 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossThresholds {
    /// The packet threshold (§6.1.1): a packet is lost when the largest acknowledged packet number
    /// of its space is greater by this many, not counting intentionally skipped numbers.
    pub packets: u64,
    /// The time threshold (§6.1.2): a packet is lost this long after it was sent if a later one in
    /// its space was acknowledged.
    pub time: Duration,
}

/// The reason why a packet was declared lost (RFC 9002 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossTrigger {
    /// Enough later packets were acknowledged.
    ReorderingThreshold,
    /// A later packet was acknowledged and enough time has passed.
    TimeThreshold,
    /// The packet was not sent: its datagram, a path MTU probe, exceeds the interface's MTU.
    Refused,
}

/// The metrics of loss recovery and congestion control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Metrics {
    /// The round-trip time, once there is a sample.
    pub rtt: Option<RttSnapshot>,
    /// Consecutive probe timeouts without an acknowledgment (`pto_count` of RFC 9002 §A.3).
    pub pto_count: u32,
    /// Total number of probe timeouts.
    pub probe_timeouts: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// The controller's state.
    pub congestion: Snapshot,
    /// The pacing rate, once there is one.
    pub pacing_rate: Option<Rate>,
    /// The last delivery rate sample, once there is one.
    pub delivery_rate: Option<RateSample>,
    /// The reordering that is tolerated.
    pub loss_thresholds: LossThresholds,
}

/// A timer of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerKind {
    /// The end of the closing or draining state (RFC 9000 §10.2).
    Closing,
    /// The idle timeout (RFC 9000 §10.1).
    Idle,
    /// The handshake timeout.
    Handshake,
    /// The next PING that keeps an idle connection alive (RFC 9000 §10.1.2).
    KeepAlive,
    /// The next PING from a client that is waiting for a response from the server.
    ResponsePing,
    /// The next DATA_BLOCKED or STREAM_DATA_BLOCKED frame of a sender that is blocked by flow
    /// control (RFC 9000 §4.1).
    Blocked,
    /// The discarding of the previous 1-RTT keys (RFC 9001 §6.5).
    KeyDiscard,
    /// Path validation (RFC 9000 §8.2.4).
    PathValidation,
    /// The probe timeout (RFC 9002 §6.2).
    ProbeTimeout,
    /// Time-threshold loss detection (RFC 9002 §6.1.2).
    Loss,
    /// A delayed acknowledgment (RFC 9000 §13.2.1).
    Ack,
    /// The time at which the pacer allows the next packet.
    Pacing,
    /// The release of memory that only a busy connection needs.
    Compaction,
}

impl TimerKind {
    pub(crate) const COUNT: usize = 13;
}

/// A change to a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerChange {
    /// The timer was set to this time.
    Set(Timestamp),
    /// The timer was set to the time at which the pacer allows the next packet.
    Paced(ReleaseTime),
    /// The timer expired.
    Expired,
    /// The timer was canceled.
    Cancelled,
}
