//! Accepting clients: the connection IDs, the TLS session and the tokens of a server's connection.

use std::sync::Arc;

use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, PreferredAddress, TransportParameters, Version};

use super::{
    AcceptError, ConnectionHandle, Endpoint, Incoming, PreferredAddresses, ServerConfig,
    TYPICAL_PARAMETERS,
};
use crate::Side;
use crate::address::{Arrival, SocketIndex};
use crate::connection::{Connection, ConnectionSetup, local_parameters, reserved_parameter};
use crate::handshake::{ConnectionVersions, OpenParameters, Opening, Session, SessionError};
use crate::ids::LocalIds;
use crate::observer::Observer;

/// Settings with which one client is accepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcceptOptions {
    /// The configuration of this connection, or `None` for the endpoint's. Only its TLS sessions
    /// and transport settings are used: tokens and preferred addresses are the endpoint's.
    pub config: Option<Arc<ServerConfig>>,
    /// Whether early data may be accepted, if the configuration accepts any. On by default.
    pub early_data: bool,
}

impl Default for AcceptOptions {
    fn default() -> Self {
        Self { config: None, early_data: true }
    }
}

impl Endpoint {
    /// Accepts the client.
    ///
    /// # Errors
    /// Returns an error if this is not a server, the endpoint has no room, the client's
    /// packet is not authentic, or TLS cannot start. The client gets a reply, CONNECTION_REFUSED,
    /// only if the endpoint has no room, or no longer accepts the client's version.
    pub fn accept(
        &mut self,
        now: Timestamp,
        incoming: Incoming,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<ConnectionHandle, AcceptError> {
        self.accept_with(now, incoming, AcceptOptions::default(), observer)
    }

    /// Accepts the client with `options`.
    ///
    /// # Errors
    /// Returns the same errors as [`accept`](Self::accept).
    pub fn accept_with(
        &mut self,
        now: Timestamp,
        mut incoming: Incoming,
        options: AcceptOptions,
        observer: Option<Box<dyn Observer>>,
    ) -> Result<ConnectionHandle, AcceptError> {
        let Some(own) = self.server.clone() else { return Err(AcceptError::NotAServer) };
        let AcceptOptions { config, early_data } = options;
        let server = config.as_ref().unwrap_or(&own);
        if let Some(error) = self.refusal(server, &incoming) {
            self.refuse(incoming);
            return Err(error);
        }
        let mut local_ids = self.local_ids();
        let local_id = local_ids.first();
        let preferred =
            self.preferred_address(&own.preferred_addresses, incoming.arrival, &mut local_ids);
        let parameters = self.parameters(server, &incoming, local_id, preferred);
        let mut session =
            self.session(server, incoming.version, parameters).map_err(AcceptError::Session)?;
        if !early_data {
            session.reject_early_data();
        }
        let new_tokens = self.new_tokens(now, server, &incoming);
        let may_change = server.transport.may_change_from(incoming.version);
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

    /// Returns the reason to refuse a client that would otherwise be accepted.
    fn refusal(&self, server: &ServerConfig, incoming: &Incoming) -> Option<AcceptError> {
        if self.connections.len() >= self.config.max_connections {
            return Some(AcceptError::TooManyConnections);
        }
        let is_accepted = server.transport.versions().contains(&incoming.version);
        (!is_accepted).then_some(AcceptError::UnsupportedVersion)
    }

    /// Returns the transport parameters of a server's connection.
    fn parameters(
        &self,
        server: &ServerConfig,
        incoming: &Incoming,
        local_id: ConnectionId,
        preferred: Option<PreferredAddress>,
    ) -> TransportParameters {
        TransportParameters {
            grease_quic_bit: server.transport.grease_quic_bit() && incoming.permits_greasing,
            preferred_address: preferred.map(Box::new),
            original_destination_connection_id: Some(incoming.original_destination),
            retry_source_connection_id: incoming.retry_source,
            stateless_reset_token: Some(self.config.reset_key.token(&local_id)),
            ..local_parameters(&server.transport, local_id, incoming.version)
        }
    }

    /// Returns a NEW_TOKEN token for each version that the connection may have.
    fn new_tokens(
        &mut self,
        now: Timestamp,
        server: &ServerConfig,
        incoming: &Incoming,
    ) -> Vec<(Version, Vec<u8>)> {
        let client = incoming.arrival.remote.ip();
        let versions = if server.transport.may_change_from(incoming.version) {
            server.transport.versions()
        } else {
            core::slice::from_ref(&incoming.version)
        };
        let (keys, issued) = self.token_keys(now);
        let mut seal = |version: &Version| {
            (*version, keys.seal_new_token(*version, client, issued, &mut self.random))
        };
        versions.iter().map(&mut seal).collect()
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
        ServerConfig { sessions, transport: config, .. }: &ServerConfig,
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
}
