//! Clients' first packets: each is accepted, refused, answered with a Retry packet, or ignored.

use core::net::SocketAddr;
use std::sync::Arc;

use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{
    ConnectionId, LongPacketType, PreferredAddress, TransportErrorCode, TransportParameters,
    Version,
};

use super::{
    AcceptError, ConnectionHandle, Endpoint, PreferredAddresses, Received, TYPICAL_PARAMETERS,
    refusal, token,
};
use crate::Side;
use crate::address::{Arrival, SocketIndex};
use crate::config::TransportConfig;
use crate::connection::{Connection, ConnectionSetup, local_parameters, reserved_parameter};
use crate::drops::DropReason;
use crate::handshake::{
    ConnectionVersions, OpenParameters, Opening, ServerSessions, Session, SessionError, retry,
};
use crate::ids::LocalIds;
use crate::observer::Observer;
use crate::path::MINIMUM_INITIAL_SIZE;

/// The minimum length of the client's first Destination Connection ID, in bytes (RFC 9000 §7.2).
const MINIMUM_INITIAL_ID_LEN: usize = 8;

/// A client's first packet. The caller has to decide on it immediately.
#[derive(Debug)]
pub struct Incoming {
    arrival: Arrival,
    version: Version,
    destination: ConnectionId,
    source: ConnectionId,
    datagram: Vec<u8>,
    original_destination: ConnectionId,
    retry_source: Option<ConnectionId>,
    address_is_validated: bool,
    permits_greasing: bool,
}

impl Incoming {
    /// Forbids the client from clearing the QUIC bit of its packets, whatever the configuration
    /// says (RFC 9287), so that its packets can be recognized by their first byte.
    pub fn forbid_greasing(&mut self) {
        self.permits_greasing = false;
    }

    /// Returns the source address of the packet, which may be spoofed until it is validated.
    pub fn remote_address(&self) -> SocketAddr {
        self.arrival.remote
    }

    /// Returns the version of the packet.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether the address is validated (RFC 9000 §8.1) by a Retry or NEW_TOKEN token.
    pub fn address_is_validated(&self) -> bool {
        self.address_is_validated
    }

    /// Returns the same client without its datagram: enough to [refuse](Endpoint::refuse) it if
    /// accepting it panicked.
    pub fn without_datagram(&self) -> Self {
        Self { datagram: Vec::new(), ..*self }
    }

    /// Returns the datagram as it arrived, for another endpoint to receive.
    pub fn into_datagram(self) -> (Arrival, Vec<u8>) {
        (self.arrival, self.datagram)
    }
}

impl Endpoint {
    /// Returns whether this is a server that accepts connections of `version`.
    pub(super) fn accepts(&self, version: Version) -> bool {
        self.server.as_ref().is_some_and(|server| server.transport.versions().contains(&version))
    }

    /// Handles a long header packet of an accepted version that belongs to no known connection.
    pub(super) fn receive_first(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        datagram: &[u8],
    ) -> Received {
        let Some(server) = self.server.clone() else {
            return Received::Dropped(DropReason::ConnectionUnknown);
        };
        let id_len = self.config.id_generator.len();
        let Ok(header) = ProtectedHeader::decode(datagram, id_len) else {
            return Received::Dropped(DropReason::Invalid);
        };
        let HeaderKind::Long {
            packet_type: LongPacketType::Initial,
            version,
            destination,
            source,
            token,
            ..
        } = header.kind
        else {
            self.totals.datagrams_unknown = self.totals.datagrams_unknown.saturating_add(1);
            return Received::Unknown;
        };
        // RFC 9000 §14.1: smaller datagrams are discarded. §7.2: so are short connection IDs, if
        // the client chose them. After a Retry this endpoint chose them.
        let is_chosen_rightly = destination.len() >= MINIMUM_INITIAL_ID_LEN;
        let may_be_ours = !token.is_empty() && destination.len() == id_len;
        if datagram.len() < MINIMUM_INITIAL_SIZE || !(is_chosen_rightly || may_be_ours) {
            return Received::Dropped(DropReason::Invalid);
        }
        let mut incoming = Incoming {
            arrival,
            version,
            destination,
            source,
            datagram: datagram.to_vec(),
            original_destination: destination,
            retry_source: None,
            address_is_validated: false,
            permits_greasing: true,
        };
        if token.is_empty() {
            return Received::Incoming(incoming);
        }
        let (keys, now) = self.token_keys(now);
        let lifetime = server.retry_token_lifetime;
        let retry = keys.open_retry(version, token, arrival.remote, destination, now, lifetime);
        match retry {
            Ok(original_destination) => {
                incoming.original_destination = original_destination;
                incoming.retry_source = Some(destination);
                incoming.address_is_validated = true;
            }
            Err(token::TokenError::Expired | token::TokenError::WrongAddress) => {
                // RFC 9000 §8.1.3: an invalid Retry token fails the attempt immediately.
                self.refuse_with(incoming, TransportErrorCode::INVALID_TOKEN);
                return Received::Answered;
            }
            // The client changed the version after the Retry, which is forbidden (RFC 9369 §4.1).
            Err(token::TokenError::WrongVersion) => {
                return Received::Dropped(DropReason::UnsupportedVersion);
            }
            Err(token::TokenError::NotOurs) if !is_chosen_rightly => {
                return Received::Dropped(DropReason::Invalid);
            }
            Err(token::TokenError::NotOurs) => {
                let (client, lifetime) = (arrival.remote.ip(), server.new_token_lifetime);
                let opened = keys.open_new_token(version, token, client, now, lifetime);
                incoming.address_is_validated = opened.is_ok();
            }
        }
        Received::Incoming(incoming)
    }

    /// Accepts the client.
    ///
    /// # Errors
    /// Returns an error if this is not a server, the endpoint has no room, the client's
    /// packet is not authentic, or TLS cannot start. The client gets a reply, CONNECTION_REFUSED,
    /// only if the endpoint has no room.
    pub fn accept(
        &mut self,
        now: Timestamp,
        mut incoming: Incoming,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<ConnectionHandle, AcceptError> {
        let Some(server) = self.server.clone() else { return Err(AcceptError::NotAServer) };
        if self.connections.len() >= self.config.max_connections {
            self.refuse(incoming);
            return Err(AcceptError::TooManyConnections);
        }
        let mut local_ids = self.local_ids();
        let local_id = local_ids.first();
        let addresses = &server.preferred_addresses;
        let preferred = self.preferred_address(addresses, incoming.arrival, &mut local_ids);
        let parameters = TransportParameters {
            grease_quic_bit: server.transport.grease_quic_bit() && incoming.permits_greasing,
            preferred_address: preferred.map(Box::new),
            original_destination_connection_id: Some(incoming.original_destination),
            retry_source_connection_id: incoming.retry_source,
            stateless_reset_token: Some(self.config.reset_key.token(&local_id)),
            ..local_parameters(&server.transport, local_id, incoming.version)
        };
        let may_change = server.transport.may_change_from(incoming.version);
        let session = self
            .session(&server.sessions, &server.transport, incoming.version, parameters)
            .map_err(AcceptError::Session)?;
        let client = incoming.arrival.remote.ip();
        let versions = if may_change {
            server.transport.versions()
        } else {
            core::slice::from_ref(&incoming.version)
        };
        let (keys, issued) = self.token_keys(now);
        let mut seal = |version: &Version| {
            (*version, keys.seal_new_token(*version, client, issued, &mut self.random))
        };
        let new_tokens = versions.iter().map(&mut seal).collect();
        let start = ConnectionSetup {
            side: Side::Server,
            version: incoming.version,
            negotiated: (!may_change).then_some(incoming.version),
            attempt: None,
            config: server.transport.clone(),
            session,
            arrival: incoming.arrival,
            random: self.random.fork(),
            local_ids,
            local_id,
            remote_id: incoming.source,
            initial_id: incoming.destination,
            original_destination: incoming.original_destination,
            retry_source: incoming.retry_source,
            token: Vec::new(),
            new_tokens,
            address_is_validated: incoming.address_is_validated,
            server_name: None,
            sessions: None,
            observer,
        };
        let mut connection = Connection::new(now, start).map_err(AcceptError::Transport)?;
        // A packet that was modified or forged may have wrong connection IDs, which must not block
        // those of the genuine packet.
        if !connection.receive(now, incoming.arrival, &mut incoming.datagram) {
            return Err(AcceptError::NotAuthentic);
        }
        let key = (incoming.destination, incoming.arrival.remote);
        let handle = self.insert(connection, local_id, Some(key));
        self.routes.add_initial(key, handle.0);
        Ok(handle)
    }

    /// Returns the preferred_address transport parameter for a client, with the connection ID of
    /// sequence number 1 (RFC 9000 §5.1.1). A server with zero-length connection IDs cannot have
    /// one (§18.2).
    fn preferred_address(
        &mut self,
        addresses: &PreferredAddresses,
        arrival: Arrival,
        local_ids: &mut LocalIds,
    ) -> Option<PreferredAddress> {
        let is_main = arrival.socket == SocketIndex::default();
        let PreferredAddresses { v4, v6 } = *addresses;
        if (v4.is_none() && v6.is_none()) || self.config.id_generator.len() == 0 || !is_main {
            return None;
        }
        let connection_id = local_ids.add_preferred(&mut self.random);
        Some(PreferredAddress {
            ipv4: v4,
            ipv6: v6,
            connection_id,
            stateless_reset_token: self.config.reset_key.token(&connection_id),
        })
    }

    /// Starts the TLS session of a server's connection. If the server may switch versions, the
    /// session starts once the ClientHello shows what the client offers.
    fn session(
        &mut self,
        sessions: &Arc<dyn ServerSessions>,
        config: &TransportConfig,
        version: Version,
        parameters: TransportParameters,
    ) -> Result<Box<dyn Session>, SessionError> {
        let grease = reserved_parameter(&mut self.random);
        if config.may_change_from(version) {
            let parameters = OpenParameters { parameters, grease };
            let spoken = config.versions();
            return Ok(Box::new(Opening::new(sessions.clone(), version, spoken, parameters)));
        }
        let mut encoded = Vec::with_capacity(TYPICAL_PARAMETERS);
        parameters.encode(&mut encoded, Some((grease.0, &grease.1)));
        let versions = ConnectionVersions { original: version, negotiated: version };
        sessions.clone().accept(versions, encoded)
    }

    /// Refuses the client with CONNECTION_REFUSED.
    pub fn refuse(&mut self, incoming: Incoming) {
        self.refuse_with(incoming, TransportErrorCode::CONNECTION_REFUSED);
    }

    /// Refuses the client with INTERNAL_ERROR (RFC 9000 §20.1), because this end failed to start
    /// the connection.
    pub fn refuse_with_internal_error(&mut self, incoming: Incoming) {
        self.refuse_with(incoming, TransportErrorCode::INTERNAL_ERROR);
    }

    /// Sends a Retry packet, which makes the client validate its address (RFC 9000 §8.1.2).
    pub fn retry(&mut self, now: Timestamp, incoming: &Incoming) {
        let source = self.config.id_generator.generate(&mut self.random);
        let (keys, issued) = self.token_keys(now);
        let token = keys.seal_retry(
            incoming.version,
            incoming.arrival.remote,
            incoming.destination,
            source,
            issued,
            &mut self.random,
        );
        let [unused] = self.random.array();
        let Incoming { version, arrival, destination, source: client, .. } = *incoming;
        let reply = retry::build(version, client, source, destination, &token, unused);
        self.reply(arrival, reply);
    }

    fn refuse_with(&mut self, incoming: Incoming, code: TransportErrorCode) {
        let source = self.config.id_generator.generate(&mut self.random);
        let Incoming { version, destination, source: client, .. } = incoming;
        let reply = refusal::build(version, destination, client, source, code);
        self.reply(incoming.arrival, reply);
    }
}
