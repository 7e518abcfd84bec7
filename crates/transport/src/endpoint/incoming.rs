//! Clients' first packets: each is accepted, refused, answered with a Retry packet, or ignored.

use core::net::{IpAddr, SocketAddr};

use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{ConnectionId, LongPacketType, TransportErrorCode, Version};

use super::{Endpoint, Received, refusal, token};
use crate::address::Arrival;
use crate::drops::DropReason;
use crate::handshake::{ClientHello, read_client_hello, retry};
use crate::path::MINIMUM_INITIAL_SIZE;

/// The minimum length of the client's first Destination Connection ID, in bytes (RFC 9000 §7.2).
const MINIMUM_INITIAL_ID_LEN: usize = 8;

/// A client's first packet, which the endpoint does not keep. A copy has the same facts, for a
/// decision on another thread; the endpoint accepts a client only once.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(super) arrival: Arrival,
    pub(super) version: Version,
    pub(super) destination: ConnectionId,
    pub(super) source: ConnectionId,
    pub(super) datagram: Vec<u8>,
    /// The client's later datagrams, in order.
    further: Vec<Vec<u8>>,
    pub(super) original_destination: ConnectionId,
    pub(super) retry_source: Option<ConnectionId>,
    pub(super) address_is_validated: bool,
    pub(super) permits_greasing: bool,
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

    /// Returns the local IP address to which the packet was sent, if the system reports it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.arrival.local_ip
    }

    /// Returns the Destination Connection ID of the client's very first packet, before any Retry.
    /// Logs of connections are named by it.
    pub fn original_destination_id(&self) -> ConnectionId {
        self.original_destination
    }

    /// Returns whether the client can be made to validate its address with a Retry packet: it
    /// ignores a second one (RFC 9000 §17.2.5.2).
    pub fn may_retry(&self) -> bool {
        self.retry_source.is_none()
    }

    /// Returns what the client offers in its ClientHello, as far as it has arrived. This decrypts
    /// the packets, which takes some microseconds. A large ClientHello takes two datagrams, so the
    /// first one alone may not contain the server name. Returns `None` if the packets cannot be
    /// decrypted.
    pub fn client_hello(&self) -> Option<ClientHello> {
        let datagrams = core::iter::once(&self.datagram).chain(&self.further);
        read_client_hello(self.version, &self.destination, datagrams.map(Vec::as_slice))
    }

    /// Adds a later datagram of this client, for [`client_hello`](Self::client_hello). The endpoint
    /// does not process it. The caller limits the number and size of the datagrams.
    pub fn push_further(&mut self, datagram: Vec<u8>) {
        self.further.push(datagram);
    }

    /// Removes and returns the later datagrams, in order.
    pub fn take_further(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.further)
    }

    /// Returns the same client without its datagrams: enough to [refuse](Endpoint::refuse) it if
    /// accepting it panicked.
    pub fn without_datagram(&self) -> Self {
        Self { datagram: Vec::new(), further: Vec::new(), ..*self }
    }

    /// Returns the first datagram as it arrived, for another endpoint to receive.
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
            further: Vec::new(),
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
