//! What an observer sees: qlog, metrics and the lab's checker are all observers.

use core::net::SocketAddr;
use core::time::Duration;

use clearway_congestion::{Controller, Phase, RateSample, RttSnapshot, SendLimit, Snapshot};
use clearway_units::{Rate, ReleaseTime, Timestamp};
use clearway_wire::{ConnectionId, PacketNumber, PacketType, TransportParameters};

use crate::event::ConnectionError;
use crate::{Side, SpaceId};

/// Watches one connection. It is called at the moment things happen and must not block.
pub trait Observer: Send {
    /// Something happened at `now`.
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>);
}

/// Something that happened inside a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// The connection began.
    Started {
        /// Which end this is.
        side: Side,
        /// Where the peer is.
        remote: SocketAddr,
        /// The connection ID that this end chose for itself.
        local_id: ConnectionId,
        /// The connection ID that this end sends to.
        remote_id: ConnectionId,
        /// The client's first Destination Connection ID: it names traces of both ends.
        original_destination_id: ConnectionId,
    },
    /// Transport parameters are known.
    ParametersSet {
        /// The end whose parameters they are.
        owner: Side,
        /// All of them.
        parameters: &'a TransportParameters,
    },
    /// The application protocol was agreed on.
    ApplicationProtocol(&'a [u8]),
    /// The connection reached another stage of its life.
    StateUpdated(ConnectionState),
    /// A packet was built to be sent.
    PacketSent(PacketObservation<'a>),
    /// A packet was received and opened.
    PacketReceived(PacketObservation<'a>),
    /// A packet was received and not used.
    PacketDropped {
        /// Its size in bytes.
        size: usize,
        /// Why it was not used.
        reason: DropReason,
    },
    /// A packet was put aside until its keys are there.
    PacketBuffered {
        /// Its size in bytes.
        size: usize,
    },
    /// A packet was declared lost.
    PacketLost(LostPacket),
    /// Recovery's metrics after an event.
    Metrics(&'a Metrics),
    /// The congestion controller after that event: what it computes with can be asked for.
    Controller(&'a dyn Controller),
    /// The controller's phase changed.
    CongestionStateUpdated {
        /// Before.
        old: Phase,
        /// After.
        new: Phase,
    },
    /// Why sending stops has changed.
    SendLimitUpdated {
        /// Before, unless this is the first.
        old: Option<SendLimit>,
        /// After.
        new: SendLimit,
    },
    /// A timer was set, cancelled or went off.
    TimerUpdated {
        /// The timer.
        timer: TimerKind,
        /// What happened to it.
        change: TimerChange,
    },
    /// The keys of a space are gone.
    KeyDiscarded(SpaceId),
    /// 1-RTT keys were updated.
    KeyUpdated {
        /// Whether this end started it.
        is_local: bool,
    },
    /// The peer is at another address.
    PathUpdated {
        /// The address.
        remote: SocketAddr,
        /// Whether it has been validated.
        is_validated: bool,
        /// Congestion control and round-trip time begin anew, because more than the peer's port has
        /// changed (RFC 9000 §9.4). What is outstanding is not in flight on this path.
        is_new_path: bool,
    },
    /// The connection is over.
    Closed(&'a ConnectionError),
}

/// A stage of a connection's life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectionState {
    /// The handshake is going on.
    HandshakeStarted,
    /// TLS is done.
    HandshakeComplete,
    /// The peer is known to be done as well.
    HandshakeConfirmed,
    /// This end closed and answers with its CONNECTION_CLOSE.
    Closing,
    /// The peer closed; nothing is sent any more.
    Draining,
    /// All state may go.
    Closed,
}

/// A packet as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct PacketObservation<'a> {
    /// Its type.
    pub packet_type: PacketType,
    /// Its number.
    pub number: PacketNumber,
    /// The key phase bit of a 1-RTT packet.
    pub key_phase: bool,
    /// Its size on the wire in bytes.
    pub size: usize,
    /// Its frames, decrypted.
    pub payload: &'a [u8],
    /// Whether it was sent because a probe timeout expired.
    pub is_probe: bool,
    /// Whether it goes to another address than the current path's, to probe it: congestion control does
    /// not hold it back, and its loss is no sign of congestion.
    pub is_path_probe: bool,
}

/// A packet that was declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostPacket {
    /// Its space.
    pub space: SpaceId,
    /// Its number.
    pub number: PacketNumber,
    /// Its size in bytes.
    pub bytes: u64,
    /// Which rule declared it.
    pub trigger: LossTrigger,
    /// How much reordering was tolerated then.
    pub thresholds: LossThresholds,
}

/// How much reordering loss detection tolerates on the path (RFC 9002 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossThresholds {
    /// In packets (§6.1.1): a packet is lost when the largest acknowledged number of its space is greater by
    /// so many. Numbers that were left out do not count.
    pub packets: u64,
    /// In time (§6.1.2): a packet is lost so long after it was sent, if a later one of its space was
    /// acknowledged.
    pub time: Duration,
}

/// The rule by which a packet is lost (RFC 9002 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossTrigger {
    /// Enough later packets were acknowledged.
    ReorderingThreshold,
    /// A later packet was acknowledged and enough time has passed.
    TimeThreshold,
}

/// Recovery's metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Metrics {
    /// The round-trip time, once there is a sample.
    pub rtt: Option<RttSnapshot>,
    /// Probe timeouts in a row.
    pub pto_count: u32,
    /// Probe timeouts ever.
    pub probe_timeouts: u64,
    /// Bytes in flight.
    pub bytes_in_flight: u64,
    /// The controller's state.
    pub congestion: Snapshot,
    /// The pacing rate, once there is one.
    pub pacing_rate: Option<Rate>,
    /// The last sample of the delivery rate, once there is one.
    pub delivery_rate: Option<RateSample>,
    /// How much reordering is tolerated.
    pub loss_thresholds: LossThresholds,
}

/// Why a packet was not used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// It is not a QUIC packet, or one that breaks the header's rules.
    Invalid,
    /// Its version is not spoken here.
    UnsupportedVersion,
    /// Its connection ID is not this connection's.
    ConnectionUnknown,
    /// There are no keys for it (any more).
    KeyUnavailable,
    /// It could not be authenticated.
    DecryptionFailure,
    /// It was received before.
    Duplicate,
    /// The connection is in no state to use it.
    Unexpected,
}

/// A timer of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerKind {
    /// The end of the closing or draining state (RFC 9000 §10.2).
    Closing,
    /// The idle timeout (RFC 9000 §10.1).
    Idle,
    /// How long a handshake may take.
    Handshake,
    /// The next PING that keeps an idle connection alive (RFC 9000 §10.1.2).
    KeepAlive,
    /// The next PING of a client that waits for data of the server's.
    Answer,
    /// The next DATA_BLOCKED or STREAM_DATA_BLOCKED of a sender that flow control holds back (RFC 9000 §4.1).
    Blocked,
    /// The previous 1-RTT keys are discarded (RFC 9001 §6.5).
    KeyDiscard,
    /// Path validation (RFC 9000 §8.2.4).
    PathValidation,
    /// The probe timeout (RFC 9002 §6.2).
    ProbeTimeout,
    /// Loss detection by time (RFC 9002 §6.1.2).
    Loss,
    /// An acknowledgement that may wait (RFC 9000 §13.2.1).
    Ack,
    /// The pacer.
    Pacing,
}

impl TimerKind {
    pub(crate) const COUNT: usize = 12;
}

/// What happened to a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimerChange {
    /// It will go off then.
    Set(Timestamp),
    /// It waits for the pacer.
    Paced(ReleaseTime),
    /// It went off.
    Expired,
    /// It will not go off.
    Cancelled,
}
