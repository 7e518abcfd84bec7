//! One QUIC connection: a struct of independent parts, and the methods that pass data between them.
//!
//! The parts do not use each other. Each received frame is passed to the one part that owns its
//! state (`receive`), and the parts fill each packet in a fixed order (`transmit`).

mod ack_frequency;
mod application;
mod blocked;
mod bulk;
#[cfg(any(test, debug_assertions))]
mod caches;
mod closing;
mod compaction;
mod early;
mod frames;
mod lifecycle;
mod marks;
mod migrate;
mod migration;
mod mtu;
mod packet;
mod parameters;
mod probing;
mod receive;
mod response_ping;
mod shares;
mod state;
mod statistics;
mod timers;
mod transmit;
mod unsent;
mod versions;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use clearway_congestion::{Phase, SendLimit};
use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, ResetToken, TransportParameters, VarInt, Version};

pub(crate) use closing::Ended;
pub(crate) use parameters::local_parameters;
pub use statistics::{Statistics, Totals};
pub use timers::Deadlines;
pub(crate) use versions::{Attempt, reserved_parameter};

use crate::ack_frequency::AckFrequency;
use crate::address::{Arrival, SocketIndex};
use crate::config::TransportConfig;
use crate::datagram::Datagrams;
use crate::ecn::{EcnCodepoint, EcnState};
use crate::event::{ConnectionError, Event};
use crate::handshake::{ClientSessions, Handshake, Session};
use crate::ids::{LocalIds, RemoteIds, RoutingChange};
use crate::observer::{LostPacket, Observation, Observer, TimerKind};
use crate::packable::Packable;
use crate::path::Paths;
use crate::recovery::{PtoContext, Recovery};
use crate::space::ReceivedPackets;
use crate::space_id::{PerSpace, SpaceId, SpaceStates};
use crate::streams::Streams;
use crate::token::{MtuProbe, Token};
use crate::{Side, TransportError};
use clearway_units::memory::{OnDemand, Unused};

use marks::Marks;
use packet::Draft;
use receive::HeldPackets;
use shares::Shares;
use state::Lifecycle;
use versions::Versions;

/// Datagrams in the caller's buffer, to be sent with one system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The destination.
    pub destination: SocketAddr,
    /// The socket to send from.
    pub socket: SocketIndex,
    /// The local address to send from; `None` leaves the choice to the operating system.
    pub source_ip: Option<IpAddr>,
    /// The number of bytes in the buffer.
    pub size: usize,
    /// The size of each datagram except the last, if there are several.
    pub segment_size: Option<usize>,
    /// The ECN codepoint of all datagrams.
    pub ecn: EcnCodepoint,
}

/// One QUIC connection without I/O.
///
/// After every call that may change the state, the driver calls [`transmit`](Self::transmit) until
/// it returns `None`, reports each batch that was sent with [`transmitted`](Self::transmitted), and
/// sets its timer to [`deadline`](Self::deadline).
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    random: Random,
    marks: Marks,

    handshake: Handshake,
    versions: Versions,
    received: SpaceStates<ReceivedPackets>,
    recovery: Packable<Recovery>,
    paths: Paths,
    streams: Packable<Streams>,
    datagrams: Datagrams,
    ack_frequency: AckFrequency,
    local_ids: LocalIds,
    remote_ids: RemoteIds,

    lifecycle: Lifecycle,
    identity: Identity,
    peer: Peer,
    flags: Flags,
    idle: timers::IdleTimer,
    compaction: compaction::CompactionTimer,
    response_ping: response_ping::ResponsePingTimer,
    early: early::Early,
    blocked: blocked::BlockedTimer,
    held: OnDemand<HeldPackets>,
    outgoing: Outgoing,
    /// The state of failed sends on the current path, if this host currently cannot send there.
    unsent: Option<Box<unsent::Unsent>>,
    events: VecDeque<Event>,
    counters: statistics::Counters,
    /// The reason that the connection ended.
    close_reason: Option<Box<ConnectionError>>,
    watch: Watch,
}

/// The connection IDs of the handshake (RFC 9000 §7.3), and address validation tokens.
#[derive(Debug)]
struct Identity {
    /// The Destination Connection ID of the client's first Initial.
    original_destination: ConnectionId,
    /// This endpoint's Source Connection ID in the handshake.
    local: ConnectionId,
    /// The Source Connection ID of the Retry that this client followed.
    retry_source: Option<ConnectionId>,
    /// Whether the peer's Source Connection ID has replaced the client's random one.
    remote_is_known: bool,
    tokens: OnDemand<Tokens>,
    /// The name of the server that the client connects to.
    server_name: Option<Box<str>>,
    /// The store in which a client keeps the server's tokens.
    sessions: Option<Arc<dyn ClientSessions>>,
}

/// Address validation tokens (RFC 9000 §8.1), which are needed only briefly.
#[derive(Debug, Default)]
struct Tokens {
    /// The token in this client's Initial packets.
    initial: Vec<u8>,
    /// The candidates for this server's NEW_TOKEN frame, one for each version that may be
    /// negotiated.
    for_versions: Vec<(Version, Vec<u8>)>,
    /// The token of this server's NEW_TOKEN frame, until it is acknowledged.
    new: Option<Vec<u8>>,
}

impl Unused for Tokens {
    fn unused() -> &'static Self {
        static UNUSED: Tokens = Tokens { initial: Vec::new(), for_versions: Vec::new(), new: None };
        &UNUSED
    }
}

impl Identity {
    /// Releases tokens that are no longer needed when the connection becomes idle.
    fn compact(&mut self) {
        let Tokens { initial, for_versions, new } = &*self.tokens;
        if initial.is_empty() && for_versions.is_empty() && new.is_none() {
            self.tokens.release();
        }
    }
}

/// The peer's transport parameters.
#[derive(Debug, Default)]
struct Peer {
    /// Boxed because few parameters are read after the handshake, and the connection fits into a
    /// page of memory without them.
    parameters: Box<TransportParameters>,
    parameters_are_known: bool,
}

/// Pending frames and flags that none of the connection's parts owns.
#[derive(Debug, Default)]
struct Flags {
    handshake_done_pending: bool,
    /// The number of late Handshake packets from the client that may still trigger another
    /// HANDSHAKE_DONE; 0 once it is acknowledged.
    handshake_done_repeats: u8,
    new_token_pending: bool,
    ping_pending: bool,
    /// Whether the application has polled all events.
    has_found_no_event: bool,
    initial_from_server_seen: bool,
    /// The number of handshake probes sent before the probe timer expired.
    early_probes: u8,
    /// The number of requests for the missing part of a ClientHello.
    hello_requests: u8,
    /// The time at which a packet was last sent to the peer's new port regardless of the congestion
    /// window.
    new_port_probed_at: Option<Timestamp>,
    /// The server's preferred address that this client has chosen.
    preferred_address: Option<Box<SocketAddr>>,
    /// Whether the connection has moved to the server's preferred address (RFC 9000 §9.6).
    is_at_preferred_address: bool,
    /// The local address that was lost, kept until the server responds to another one.
    local_ip_left: Option<Box<IpAddr>>,
}

/// The state of `transmit` between calls: buffers, and the batch that has not been reported as
/// transmitted yet.
#[derive(Debug, Default)]
struct Outgoing {
    buffers: OnDemand<OutgoingBuffers>,
    awaits_kernel: bool,
    /// Whether the batch is for a path other than the current one.
    is_off_path: bool,
    batch_elicits_ack: bool,
    /// The size of the batch's last datagram, if it counts toward the anti-amplification limit.
    last_counted: u16,
    probes: PerSpace<u8>,
    limit: Option<SendLimit>,
    /// The datagram size that was last passed to the connection's parts.
    datagram_size: u16,
    /// Whether the search for a larger size was complete when this was last reported.
    mtu_is_done: bool,
    /// The path MTU probe in the batch.
    mtu_probe: Option<MtuProbe>,
    /// The recent bandwidth shares of unreliable datagrams and streams while both had data to send.
    shares: Shares,
    /// The ECN codepoint of the datagram that is being built.
    ecn: EcnCodepoint,
}

/// Buffers that are reused for every packet to avoid allocations.
#[derive(Debug, Default)]
struct OutgoingBuffers {
    tokens: PerSpace<Vec<Token>>,
    settled: Vec<(SpaceId, Token)>,
    drafts: Vec<Draft>,
}

impl Unused for OutgoingBuffers {
    fn unused() -> &'static Self {
        static UNUSED: LazyLock<OutgoingBuffers> = LazyLock::new(OutgoingBuffers::default);
        &UNUSED
    }
}

impl Outgoing {
    /// Discards the draft packets of the current datagram.
    fn clear_drafts(&mut self) {
        if let Some(buffers) = self.buffers.used() {
            buffers.drafts.clear();
        }
    }

    /// Releases the buffers when the connection becomes idle, unless they are in use.
    fn compact(&mut self) {
        if self.buffers.tokens.iter().all(|(_, tokens)| tokens.is_empty()) {
            self.buffers.release();
        }
    }
}

/// The observer and the values last reported to it.
struct Watch {
    observer: Option<Box<dyn Observer>>,
    phase: Option<Phase>,
    lost: Vec<LostPacket>,
    /// The deadlines last reported to the observer; unused without an observer.
    timers: Option<Box<[Option<Timestamp>; TimerKind::COUNT]>>,
    in_flight: u64,
    ecn: Option<EcnState>,
}

/// The parameters of a new connection.
pub(crate) struct ConnectionSetup {
    pub(crate) side: Side,
    /// The version of the client's first flight.
    pub(crate) version: Version,
    /// The negotiated version, if already settled.
    pub(crate) negotiated: Option<Version>,
    /// The state that a client needs to restart in another version.
    pub(crate) attempt: Option<Attempt>,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) session: Box<dyn Session>,
    pub(crate) arrival: Arrival,
    pub(crate) random: Random,
    pub(crate) local_ids: LocalIds,
    pub(crate) local_id: ConnectionId,
    pub(crate) remote_id: ConnectionId,
    /// The Destination Connection ID from which the Initial keys are derived.
    pub(crate) initial_id: ConnectionId,
    pub(crate) original_destination: ConnectionId,
    pub(crate) retry_source: Option<ConnectionId>,
    pub(crate) token: Vec<u8>,
    pub(crate) new_tokens: Vec<(Version, Vec<u8>)>,
    pub(crate) address_is_validated: bool,
    pub(crate) server_name: Option<Box<str>>,
    pub(crate) sessions: Option<Arc<dyn ClientSessions>>,
    pub(crate) observer: Option<Box<dyn Observer>>,
}

impl Connection {
    /// Returns this endpoint's role: client or server.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the settings of this endpoint.
    pub fn config(&self) -> &TransportConfig {
        &self.config
    }

    /// Returns the peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.paths.current().remote()
    }

    /// Returns the local address that the peer sends to; `None` if the socket does not report it, or
    /// this is a client that has received nothing.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.paths.current().local_ip()
    }

    /// Returns whether the TLS handshake is still incomplete.
    pub fn is_handshaking(&self) -> bool {
        !self.handshake.is_complete()
    }

    /// Returns whether the handshake is confirmed (RFC 9001 §4.1.2).
    pub fn is_confirmed(&self) -> bool {
        self.lifecycle.is_confirmed()
    }

    /// Returns whether the connection has ended for the application (closing, draining or drained).
    pub fn is_closed(&self) -> bool {
        self.lifecycle.is_closed()
    }

    /// Returns why the connection has ended, once it [has](Self::is_closed): the same as in
    /// [`Event::Closed`].
    pub fn close_reason(&self) -> Option<&ConnectionError> {
        self.close_reason.as_deref()
    }

    /// Returns whether the closing or draining state is over (RFC 9000 §10.2).
    pub fn is_drained(&self) -> bool {
        self.lifecycle.is_drained()
    }

    /// Returns the TLS session, which provides the negotiated application protocol, the peer's
    /// certificates, and more.
    pub fn session(&self) -> &dyn Session {
        self.handshake.session()
    }

    /// Returns the peer's transport parameters, once they are known.
    pub fn peer_parameters(&self) -> Option<&TransportParameters> {
        self.peer.parameters_are_known.then_some(&self.peer.parameters)
    }

    /// Returns the next event; `None` if there is none at present.
    pub fn next_event(&mut self) -> Option<Event> {
        let event = self.take_event();
        self.flags.has_found_no_event = event.is_none();
        event
    }

    fn take_event(&mut self) -> Option<Event> {
        if self.events.front().is_some_and(Event::is_end_by_peer)
            && let Some(event) = self.next_part_event()
        {
            // Events received before the end are reported before it.
            return Some(event);
        }
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.lifecycle.is_closed() {
            return None;
        }
        self.next_part_event()
    }

    /// Returns whether there is an event that the application does not expect, because its last
    /// call to [`next_event`](Self::next_event) returned `None`. Returns `true` only once until
    /// `next_event` returns `None` again. Calls by the application can cause events too, not only
    /// received or sent packets: resetting a stream frees buffer space for writers of other
    /// streams.
    pub fn has_unseen_events(&mut self) -> bool {
        let has_events =
            !self.events.is_empty() || !self.lifecycle.is_closed() && self.has_part_events();
        has_events && core::mem::take(&mut self.flags.has_found_no_event)
    }

    /// Closes the connection with `error_code` and `reason` (RFC 9000 §10.2). Undelivered data is
    /// lost.
    pub fn close(&mut self, now: Timestamp, error_code: VarInt, reason: &[u8]) {
        self.close_by_application(now, error_code, reason);
    }

    /// Returns the next change to the connection IDs that identify this connection's datagrams.
    pub(crate) fn next_routing_change(&mut self) -> Option<RoutingChange> {
        self.local_ids.next_routing_change()
    }

    /// Returns the Destination Connection ID of the client's first Initial packet, which identifies
    /// the connection in the traces of both endpoints.
    pub fn original_destination_id(&self) -> ConnectionId {
        self.identity.original_destination
    }

    /// Returns the server name that the client requested.
    pub fn server_name(&self) -> Option<&str> {
        self.identity.server_name.as_deref()
    }

    /// Returns the stateless reset token: a datagram from the peer's address that ends with it is a
    /// stateless reset.
    pub(crate) fn reset_token(&self) -> Option<ResetToken> {
        self.remote_ids.reset_token()
    }

    /// Handles a stateless reset: the peer has lost the state of the connection (RFC 9000 §10.3.1).
    pub(crate) fn receive_reset(&mut self, now: Timestamp) {
        self.drain(now, ConnectionError::Reset);
    }

    /// Returns all connection IDs that identify this connection's datagrams.
    pub(crate) fn local_ids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.local_ids.active()
    }

    fn pto_context(&self) -> PtoContext {
        PtoContext {
            is_client: self.side.is_client(),
            handshake_confirmed: self.lifecycle.is_confirmed(),
            peer_completed_address_validation: self.peer_completed_address_validation(),
            at_amplification_limit: self.at_amplification_limit(),
            has_handshake_keys: self.handshake.protection().can_seal(SpaceId::Handshake),
            max_ack_delay: self.ack_frequency.max_ack_delay(),
        }
    }

    /// Returns whether the peer has validated this endpoint's address (RFC 9002 §A.8): always true
    /// on a server; a client learns it from an ACK of a Handshake packet.
    fn peer_completed_address_validation(&self) -> bool {
        self.side.is_server()
            || self.lifecycle.is_confirmed()
            || self.recovery.get().largest_acknowledged(SpaceId::Handshake).is_some()
    }

    fn at_amplification_limit(&self) -> bool {
        self.paths.current().amplification_credit() < self.smallest_datagram()
    }

    /// Returns the excess of the newest RTT sample over the smoothed RTT, if there was a sample
    /// since the last call.
    pub(crate) fn take_rtt_growth(&mut self) -> Option<Duration> {
        self.recovery.unpacked_mut()?.take_rtt_growth()
    }

    /// Returns the probe timeout without backoff, which is the unit of other timers.
    fn probe_timeout(&self) -> Duration {
        self.recovery.pto(self.ack_frequency.max_ack_delay())
    }

    /// Returns the largest UDP payload for the current path, in bytes, not counting MTU probes.
    fn max_datagram_size(&self) -> usize {
        usize::from(self.paths.mtu().size())
    }

    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        if let Some(observer) = &mut self.watch.observer {
            observer.observe(now, observation);
        }
    }

    fn fail(&mut self, now: Timestamp, error: TransportError) {
        self.close_by_transport(now, error);
    }

    fn report_closed(&mut self, now: Timestamp, error: ConnectionError) {
        self.observe(now, &Observation::Closed(&error));
        self.close_reason = Some(Box::new(error.clone()));
        self.events.push_back(Event::Closed(error));
    }
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("remote", &self.remote_address())
            .field("local_id", &self.identity.local)
            .field("lifecycle", &self.lifecycle)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "connection/extensions_tests.rs"]
mod extensions_tests;
#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
