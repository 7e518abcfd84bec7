//! An endpoint: routes datagrams to connections, and accepts new connections, refuses them, or
//! sends Retry.

mod accepting;
mod common_delay;
mod config;
mod incoming;
mod offload;
mod refusal;
pub(crate) mod reset;
mod reset_keys;
mod slots;
mod token;

mod routes;

use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use clearway_units::{Random, Timestamp};
use clearway_wire::header::Invariant;
use clearway_wire::{ConnectionId, ResetToken, Version};
use slab::Slab;

use crate::Side;
use crate::address::{Arrival, SocketIndex};
use crate::connection::{
    Attempt, Connection, ConnectionSetup, Deadlines, Transmit, local_parameters, reserved_parameter,
};
use crate::drops::DropReason;
use crate::ecn::EcnCodepoint;
use crate::handshake::version;
use crate::ids::{LocalIds, MINIMUM_RESET_SIZE};
use crate::observer::Observer;
use crate::send_failure::SendFailure;

pub use accepting::AcceptOptions;
use common_delay::CommonDelay;
pub use config::{
    AcceptError, ClientConfig, ConnectError, EndpointConfig, PreferredAddresses, ServerConfig,
};
pub use incoming::Incoming;
pub use offload::{RetryOffload, TokenValidity};
use reset::ResetLimiter;
use routes::Routes;
use slots::ConnectionSlot;
pub use token::SharedTokens;
use token::TokenKeys;
#[cfg(fuzzing)]
pub use token::fuzzing::check_token;

/// Identifies one of an endpoint's connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionHandle(usize);

impl ConnectionHandle {
    /// Returns a small number, unique among the endpoint's current connections; it is reused after
    /// a connection has ended.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// The outcome of receiving a datagram.
#[derive(Debug)]
pub enum Received {
    /// The datagram belongs to this connection, which has processed it. Call `transmit` for the
    /// connection, and update its timer.
    Connection {
        /// The connection.
        handle: ConnectionHandle,
        /// Whether the datagram was sent by the peer and had not been received before. Anyone who
        /// has seen a connection ID can send datagrams to that connection or replay the peer's
        /// datagrams.
        is_authentic: bool,
    },
    /// The datagram contains the first packet of a new connection: accept, refuse, retry or ignore
    /// it.
    Incoming(Incoming),
    /// The datagram belongs to a connection that has ended.
    Ended,
    /// The datagram belongs to no connection and does not start one: its connection ended long ago
    /// or belongs to another endpoint. It may be answered with a stateless reset (RFC 9000 §10.3).
    Unknown,
    /// The endpoint replies to the datagram, which would start a connection in an unsupported
    /// version, or carries an invalid token.
    Answered,
    /// The datagram was dropped for this reason.
    Dropped(DropReason),
}

/// A set of connections that share a socket; the socket itself is not part of it.
pub struct Endpoint {
    config: EndpointConfig,
    server: Option<Arc<ServerConfig>>,
    /// Whether there is or was a `server`, in which case there may be connections whose state is
    /// lost.
    is_server: bool,
    random: Random,
    token_keys: TokenKeys,
    /// Connections are boxed individually, so that the table can grow without moving them, and
    /// vacant slots cost little.
    connections: Slab<ConnectionSlot>,
    routes: Routes,
    replies: VecDeque<(Transmit, Vec<u8>)>,
    resets: ResetLimiter,
    totals: EndpointTotals,
    common_delay: CommonDelay,
}

/// Counters of datagrams that belong to none of the endpoint's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct EndpointTotals {
    /// Datagrams whose connection ID is unknown and that do not start a connection: with a short
    /// header, or with a long header of an accepted version other than an Initial packet's. Their
    /// connection has ended or belongs to another endpoint.
    pub datagrams_unknown: u64,
    /// Stateless resets sent in response (RFC 9000 §10.3).
    pub stateless_resets_sent: u64,
}

/// The maximum number of queued packets that belong to no connection. Additional packets are
/// dropped, which is allowed because none is required.
const MAX_REPLIES: usize = 64;
/// The approximate size of encoded transport parameters, in bytes.
const TYPICAL_PARAMETERS: usize = 192;

impl Endpoint {
    /// Creates an endpoint, which accepts connections if `server` is given.
    pub fn new(
        config: EndpointConfig,
        server: Option<Arc<ServerConfig>>,
        now: Timestamp,
        mut random: Random,
    ) -> Self {
        let token_keys = TokenKeys::generate(&mut random);
        let (routes, is_server) = (Routes::new(), server.is_some());
        Self {
            config,
            server,
            is_server,
            token_keys,
            connections: Slab::new(),
            routes,
            replies: VecDeque::new(),
            resets: ResetLimiter::new(now),
            totals: EndpointTotals::default(),
            common_delay: CommonDelay::new(),
            random,
        }
    }

    /// Returns the counters of datagrams that belong to no connection.
    pub fn totals(&self) -> EndpointTotals {
        self.totals
    }

    /// Returns the number of connections.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Returns the configuration of accepted connections, if the endpoint accepts any.
    pub fn server(&self) -> Option<&Arc<ServerConfig>> {
        self.server.as_ref()
    }

    /// Stops or starts accepting connections.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        self.is_server |= server.is_some();
        self.server = server;
    }

    /// Returns whether a UDP payload from `remote` carries the ID of one of the endpoint's
    /// connections. A payload without such an ID may be the first packet of a new connection, a
    /// stateless reset, or garbage.
    pub fn has_connection_for(&mut self, remote: SocketAddr, datagram: &[u8]) -> bool {
        self.connection_for(remote, datagram).is_some()
    }

    /// Returns the connection that a UDP payload from `remote` belongs to by its connection ID,
    /// whether or not [`receive`](Self::receive) has already processed it.
    pub fn connection_for(
        &mut self,
        remote: SocketAddr,
        datagram: &[u8],
    ) -> Option<ConnectionHandle> {
        let invariant = Invariant::decode(datagram, self.config.id_generator.len()).ok()?;
        let destination = ConnectionId::new(invariant.destination_connection_id()).ok()?;
        self.routes.find(&destination, remote).map(ConnectionHandle)
    }

    /// Processes one received UDP payload. It is decrypted in place, so its bytes are meaningless
    /// afterwards.
    pub fn receive(&mut self, now: Timestamp, arrival: Arrival, datagram: &mut [u8]) -> Received {
        let id_len = self.config.id_generator.len();
        let Ok(invariant) = Invariant::decode(datagram, id_len) else {
            // A stateless reset of another version may begin with anything (RFC 9000 §10.3).
            if let Some(received) = self.receive_reset(now, arrival, datagram) {
                return received;
            }
            self.note_stray(now, arrival.remote, datagram.len(), DropReason::Invalid);
            return Received::Dropped(DropReason::Invalid);
        };
        let destination = ConnectionId::new(invariant.destination_connection_id()).ok();
        if let Some(destination) = destination
            && let Some(index) = self.routes.find(&destination, arrival.remote)
            && let Some(place) = self.connections.get_mut(index)
        {
            let Some(connection) = place.connection_mut().filter(|it| !it.is_closed()) else {
                return self.receive_late(now, arrival, datagram, index);
            };
            let is_authentic = connection.receive(now, arrival, datagram);
            if let Some(growth) = connection.take_rtt_growth() {
                self.common_delay.on_sample(index, now, growth);
            }
            return Received::Connection { handle: ConnectionHandle(index), is_authentic };
        }
        if let Some(received) = self.receive_reset(now, arrival, datagram) {
            return received;
        }
        self.note_stray(now, arrival.remote, datagram.len(), DropReason::ConnectionUnknown);
        match invariant {
            Invariant::Short { .. } => {
                self.answer_unknown(now, arrival, datagram);
                Received::Unknown
            }
            Invariant::Long { version, .. } if self.accepts(version) => {
                self.receive_first(now, arrival, datagram)
            }
            Invariant::Long {
                version,
                destination_connection_id: destination,
                source_connection_id: source,
                ..
            } => {
                let server = self.server.as_ref().filter(|_| version != Version::NEGOTIATION);
                let Some(server) = server else {
                    return Received::Dropped(DropReason::ConnectionUnknown);
                };
                let spoken = server.transport.versions();
                let size = datagram.len();
                let random = &mut self.random;
                let reply = version::negotiate(spoken, size, destination, source, random);
                match self.reply(arrival, reply) {
                    true => Received::Answered,
                    false => Received::Dropped(DropReason::UnsupportedVersion),
                }
            }
        }
    }

    /// Processes a datagram of a connection that has ended. The datagram is not decrypted, so it is
    /// a stateless reset if it ends with the token (RFC 9000 §10.3.1).
    fn receive_late(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        datagram: &mut [u8],
        index: usize,
    ) -> Received {
        if let Some(received) = self.receive_reset(now, arrival, datagram) {
            return received;
        }
        let Some(connection) = self.connection_mut(ConnectionHandle(index)) else {
            self.answer_late(index);
            return Received::Ended;
        };
        let is_authentic = connection.receive(now, arrival, datagram);
        Received::Connection { handle: ConnectionHandle(index), is_authentic }
    }

    /// Returns the keys of address validation tokens, and the current time on the clock that
    /// determines token age.
    fn token_keys(&self, now: Timestamp) -> (TokenKeys, Timestamp) {
        let shared = self.server.as_ref().and_then(|server| server.shared_tokens.as_ref());
        TokenKeys::choose(shared, &self.token_keys, now)
    }

    /// Checks whether a datagram that belongs to no known connection is a stateless reset, which
    /// looks like any other packet (RFC 9000 §10.3.1).
    fn receive_reset(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        datagram: &[u8],
    ) -> Option<Received> {
        let tail = datagram.last_chunk().filter(|_| datagram.len() >= MINIMUM_RESET_SIZE)?;
        if !self.routes.expects_reset_from(arrival.remote) {
            return None;
        }
        let concealed = self.config.reset_key.conceal(&ResetToken::new(*tail));
        let index = self.routes.find_reset(&(arrival.remote, concealed))?;
        match self.connections.get_mut(index)? {
            ConnectionSlot::Kept(entry) => {
                entry.receive_reset(now);
                Some(Received::Connection { handle: ConnectionHandle(index), is_authentic: true })
            }
            ConnectionSlot::Released(released) => {
                released.receive_reset();
                Some(Received::Ended)
            }
        }
    }

    /// Responds to a packet of an unknown connection with a stateless reset, if one may be sent.
    ///
    /// A client-only endpoint sends none (§10.3 allows that), because the packet either belongs to
    /// one of its connections that has ended, or is a stateless reset. A server that does not know
    /// the connection either would mistake the reset for one of its packets, and both would send
    /// resets to each other until the resets are too small (§10.3.3).
    fn answer_unknown(&mut self, now: Timestamp, arrival: Arrival, datagram: &[u8]) {
        self.totals.datagrams_unknown = self.totals.datagrams_unknown.saturating_add(1);
        let id_len = self.config.id_generator.len();
        let Some(id) = datagram.get(1..).and_then(|rest| rest.get(..id_len)) else { return };
        let Ok(id) = ConnectionId::new(id) else { return };
        if !self.is_server || id.is_empty() || !self.resets.allows(now) {
            return;
        }
        let tokens = self.config.reset_key.tokens(&id);
        for reset in reset::build_all(datagram.len(), tokens, &mut self.random) {
            if self.reply(arrival, Some(reset)) {
                let sent = &mut self.totals.stateless_resets_sent;
                *sent = sent.saturating_add(1);
            }
        }
    }

    /// Starts a connection to the server `server_name` at `remote`.
    pub fn connect(
        &mut self,
        now: Timestamp,
        client: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<ConnectionHandle, ConnectError> {
        if self.connections.len() >= self.config.max_connections {
            return Err(ConnectError::TooManyConnections);
        }
        let local_ids = self.local_ids();
        let local_id = local_ids.first();
        // Unpredictable, and at least 8 bytes (RFC 9000 §7.2).
        let remote_id = ConnectionId::new(&self.random.array::<12>()).unwrap_or_default();
        let version = client.transport.first_version();
        let parameters = local_parameters(&client.transport, local_id, version);
        let (identifier, value) = reserved_parameter(&mut self.random);
        let mut encoded = Vec::with_capacity(TYPICAL_PARAMETERS);
        parameters.encode(&mut encoded, Some((identifier, &value)));
        let negotiates = client.transport.version_information();
        let others = if negotiates { client.transport.versions() } else { &[] };
        let session = client
            .sessions
            .clone()
            .connect(version, others, server_name, encoded)
            .map_err(ConnectError::Session)?;
        let token = match client.token.as_slice() {
            [] => client.sessions.take_token(server_name).unwrap_or_default(),
            token => token.to_vec(),
        };
        let first_token = version::token_for(version, &token);
        let attempt = Attempt { sessions: client.sessions.clone(), token };
        let start = ConnectionSetup {
            side: Side::Client,
            version,
            negotiated: None,
            attempt: negotiates.then_some(attempt),
            config: client.transport.clone(),
            session,
            arrival: Arrival {
                remote,
                socket: SocketIndex::default(),
                local_ip: None,
                ecn: EcnCodepoint::NotEct,
            },
            random: self.random.fork(),
            local_ids,
            local_id,
            remote_id,
            initial_id: remote_id,
            original_destination: remote_id,
            retry_source: None,
            token: first_token,
            new_tokens: Vec::new(),
            address_is_validated: true,
            server_name: Some(server_name.into()),
            sessions: Some(client.sessions.clone()),
            observer,
        };
        let connection = Connection::new(now, start).map_err(ConnectError::Transport)?;
        let handle = self.insert(connection, local_id, None);
        self.note_attempt(handle, remote);
        Ok(handle)
    }

    /// Returns when [`on_deadline`](Self::on_deadline) has to be called for a connection.
    ///
    /// While most connections of the endpoint wait longer than expected for responses, because a
    /// host that they share is busy, the timers of connections without a recent response are
    /// extended by the same delay. [`Connection::deadline`] does not include it.
    ///
    /// A busy host should handle the deadlines of [silence](Deadlines::silence) after everything
    /// else, and only a bounded number of them between two receives: the probes that they trigger
    /// are useless to a host that does not receive the responses.
    pub fn deadlines(&mut self, handle: ConnectionHandle, now: Timestamp) -> Deadlines {
        let delay = self.common_delay.at(now);
        self.connections.get(handle.0).map_or_else(Deadlines::default, |it| it.deadlines(delay))
    }

    /// Runs the timers of a connection that have expired at `now`. All datagrams that arrived by
    /// `received_until` have been processed, but later ones may be queued. Timers that detect the
    /// peer's silence therefore run only if they had expired by `received_until`, because the
    /// packets that they wait for may be in the queue. [Their deadline](Deadlines::silence) stays
    /// in the past until the next call.
    ///
    /// Otherwise an endpoint on a busy host would send probes for packets that have been
    /// acknowledged (RFC 9002 §6.2), and its peer would have to answer them.
    pub fn on_deadline(
        &mut self,
        handle: ConnectionHandle,
        now: Timestamp,
        received_until: Timestamp,
    ) {
        let delay = self.common_delay.at(now);
        if let Some(place) = self.connections.get_mut(handle.0) {
            place.note_end(now);
        }
        if let Some(connection) = self.connection_mut(handle) {
            connection.on_delayed_deadline(now, received_until, delay);
            if let Some(growth) = connection.take_rtt_growth() {
                self.common_delay.on_silence(handle.0, now, growth);
            }
        }
    }

    /// Builds datagrams of a connection; see [`Connection::transmit`]. Connection IDs that the
    /// datagrams issue are registered here before the datagrams are sent.
    pub fn transmit(
        &mut self,
        handle: ConnectionHandle,
        now: Timestamp,
        buffer: &mut [u8],
        max_datagrams: usize,
    ) -> Option<Transmit> {
        let connection = self.connection_mut(handle)?;
        let transmit = connection.transmit(now, buffer, max_datagrams);
        self.settle(handle);
        transmit
    }

    /// See [`Connection::transmitted`].
    pub fn transmitted(&mut self, handle: ConnectionHandle, now: Timestamp) {
        if let Some(connection) = self.connection_mut(handle) {
            connection.transmitted(now);
        }
    }

    /// See [`Connection::transmit_refused`].
    pub fn transmit_refused(&mut self, handle: ConnectionHandle, now: Timestamp) {
        if let Some(connection) = self.connection_mut(handle) {
            connection.transmit_refused(now);
        }
    }

    /// See [`Connection::transmit_failed`].
    pub fn transmit_failed(
        &mut self,
        handle: ConnectionHandle,
        now: Timestamp,
        failure: SendFailure,
    ) {
        if let Some(connection) = self.connection_mut(handle) {
            connection.transmit_failed(now, failure);
        }
    }

    /// Returns the next packet that belongs to no connection: Version Negotiation, Retry, a refusal
    /// or a stateless reset.
    pub fn next_reply(&mut self) -> Option<(Transmit, Vec<u8>)> {
        self.replies.pop_front()
    }

    /// Creates the IDs of a new connection.
    fn local_ids(&mut self) -> LocalIds {
        let EndpointConfig { id_generator, reset_key, .. } = &self.config;
        LocalIds::new(id_generator.clone(), reset_key, &mut self.random)
    }

    /// Queues a packet that belongs to no connection, if there is one and the queue is not full.
    /// Returns whether a packet was queued.
    fn reply(&mut self, arrival: Arrival, reply: Option<Vec<u8>>) -> bool {
        let Some(bytes) = reply.filter(|_| self.replies.len() < MAX_REPLIES) else { return false };
        let transmit = Transmit {
            destination: arrival.remote,
            socket: arrival.socket,
            source_ip: arrival.local_ip,
            size: bytes.len(),
            segment_size: None,
            ecn: EcnCodepoint::NotEct,
        };
        self.replies.push_back((transmit, bytes));
        true
    }
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.connections.len())
            .finish_non_exhaustive()
    }
}
