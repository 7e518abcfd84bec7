//! The QUIC version of a connection, and how it changes (RFC 9368, RFC 9369 §4).

use core::slice;
use std::sync::Arc;

use clearway_units::{Random, Timestamp};
use clearway_wire::header::VersionNegotiation;
use clearway_wire::{ConnectionId, TransportParameters, VarInt, Version};

use super::parameters::{LOCAL_ACTIVE_CONNECTION_ID_LIMIT, local_parameters};
use super::{Connection, Peer};
use crate::event::ConnectionError;
use crate::handshake::{ClientSessions, Handshake, SessionError, version};
use crate::ids::RemoteIds;
use crate::observer::Observation;
use crate::space_id::SpaceId;
use crate::{Side, TransportError};
use clearway_units::memory::OnDemand;

/// The versions of a connection.
#[derive(Debug)]
pub(super) struct Versions {
    /// The version of the client's first flight or, after a Version Negotiation packet, of its
    /// second one.
    chosen: Version,
    /// The negotiated version, once known.
    negotiated: Option<Version>,
    /// Whether this client chose its version because of a Version Negotiation packet.
    has_reacted: bool,
    /// The state that a client needs to restart; `None` once the server has answered.
    attempt: Option<Box<Attempt>>,
}

/// The state that a client needs to restart in another version.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) sessions: Arc<dyn ClientSessions>,
    /// The token from an earlier connection, as the application stores it.
    pub(crate) token: Vec<u8>,
}

/// The keys that decrypt a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenWith {
    /// The keys of the connection's version.
    Current,
    /// The Initial keys of another version.
    OtherInitial,
    /// No keys: a packet of this version is not allowed.
    Nothing,
}

impl Versions {
    pub(super) fn new(
        chosen: Version,
        negotiated: Option<Version>,
        attempt: Option<Attempt>,
    ) -> Self {
        Self { chosen, negotiated, has_reacted: false, attempt: attempt.map(Box::new) }
    }

    /// Returns the version of the client's first flight.
    pub(super) fn chosen(&self) -> Version {
        self.chosen
    }

    /// Returns whether this client chose its version because of a Version Negotiation packet.
    pub(super) fn has_reacted(&self) -> bool {
        self.has_reacted
    }

    /// Notes that the server has answered, so that Version Negotiation packets no longer have an
    /// effect.
    pub(super) fn on_answer(&mut self) {
        self.attempt = None;
    }
}

impl Connection {
    /// Returns the QUIC version in which packets are sent: the client's first version until another
    /// is negotiated.
    pub fn version(&self) -> Version {
        self.handshake.version()
    }

    /// Returns the versions that can be negotiated, the preferred one first.
    fn spoken(&self) -> &[Version] {
        if self.config.version_information {
            &self.config.versions
        } else {
            slice::from_ref(&self.versions.chosen)
        }
    }

    /// Returns the keys for a long header packet of `version`. A server decrypts Initial packets of
    /// the client's first version and of the negotiated one. A client that has not seen a CRYPTO
    /// frame expects the server to switch to any version that was offered (RFC 9369 §4.1).
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if there are no Initial keys.
    pub(super) fn keys_for(
        &mut self,
        version: Version,
        space: SpaceId,
    ) -> Result<OpenWith, TransportError> {
        if version == self.handshake.version() {
            return Ok(OpenWith::Current);
        }
        let is_settled = self.versions.negotiated.is_some();
        if space != SpaceId::Initial {
            // Before the version is settled there are no keys, and the packet may be held.
            return Ok(if is_settled { OpenWith::Nothing } else { OpenWith::Current });
        }
        let is_expected = match self.side {
            Side::Client => !is_settled && self.spoken().contains(&version),
            Side::Server => is_settled && version == self.versions.chosen,
        };
        if !is_expected {
            return Ok(OpenWith::Nothing);
        }
        if self.side.is_client() {
            self.handshake.expect_version(version)?;
        }
        Ok(OpenWith::OtherInitial)
    }

    /// Handles a client's receipt of an authenticated Initial packet of `version`, to which the
    /// server may have switched.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the session cannot switch to this version.
    pub(super) fn follow_version(
        &mut self,
        now: Timestamp,
        version: Version,
    ) -> Result<(), TransportError> {
        if version == self.handshake.version() {
            return Ok(());
        }
        self.handshake.follow_version(version)?;
        self.versions.negotiated = Some(version);
        self.observe_versions(now, &[], Some(version));
        Ok(())
    }

    /// Settles the version when handshake data is received: a client takes it from the packet's
    /// version; a server may have chosen it itself.
    pub(super) fn settle_version(&mut self, now: Timestamp) {
        if self.versions.negotiated.is_some() {
            return;
        }
        self.versions.negotiated = match self.side {
            Side::Client => Some(self.handshake.version()),
            Side::Server => self.handshake.session().negotiated_version(),
        };
        if self.side.is_server() && self.versions.negotiated.is_some() {
            self.observe_versions(now, &[], self.versions.negotiated);
        }
    }

    /// Reports the initial versions of the connection. A server that may switch versions has not
    /// decided yet.
    pub(super) fn observe_first_version(&mut self, now: Timestamp) {
        let chosen = match self.side {
            Side::Client => Some(self.versions.chosen),
            Side::Server => self.versions.negotiated,
        };
        if chosen.is_some() {
            self.observe_versions(now, &[], chosen);
        }
    }

    /// Reports the versions; `listed` contains those in the server's Version Negotiation packet.
    fn observe_versions(&mut self, now: Timestamp, listed: &[Version], chosen: Option<Version>) {
        if self.watch.observer.is_none() {
            return;
        }
        let spoken = self.spoken().to_vec();
        let (client, server) = match self.side {
            Side::Client => (&spoken[..], listed),
            Side::Server => (&[][..], &spoken[..]),
        };
        self.observe(now, &Observation::VersionInformation { client, server, chosen });
    }

    /// Checks the peer's version information (RFC 9368 §4).
    pub(super) fn check_versions(&self, peer: &TransportParameters) -> Result<(), TransportError> {
        let information = peer.version_information.as_ref();
        match self.side {
            Side::Server => version::check_client(information, self.versions.chosen),
            Side::Client => {
                let expected = version::Expected {
                    spoken: self.spoken(),
                    chosen: self.versions.chosen,
                    negotiated: self.handshake.version(),
                    has_reacted: self.versions.has_reacted,
                };
                version::check_server(information, expected)
            }
        }
    }

    /// Processes a Version Negotiation packet, if it answers our first packet and no other has been
    /// received (RFC 9000 §6.2). A packet that lists the attempted version is ignored, and so is
    /// any that answers a second attempt (RFC 9368 §4). Returns whether it was accepted.
    pub(super) fn receive_version_negotiation(
        &mut self,
        now: Timestamp,
        packet: &VersionNegotiation<'_>,
    ) -> bool {
        let is_answer = packet.destination == self.identity.local.as_bytes()
            && packet.source == self.remote_ids.current().as_bytes();
        let is_first = self.side.is_client()
            && !self.flags.initial_from_server_seen
            && self.identity.retry_source.is_none()
            && !self.versions.has_reacted;
        let lists_ours = packet.versions().any(|version| version == self.versions.chosen);
        if !is_answer || !is_first || lists_ours {
            return false;
        }
        let listed: Vec<Version> = packet.versions().collect();
        let common = version::select(self.spoken(), &listed);
        self.observe_versions(now, &listed, common);
        match (common, self.versions.attempt.take()) {
            (Some(common), Some(attempt)) => self.begin_again(now, common, &attempt),
            _ => self.abandon(now, ConnectionError::VersionMismatch),
        }
        true
    }

    /// Restarts in `version` (RFC 9368 §2.1) with another ClientHello and keys derived from another
    /// connection ID. Packet numbers continue, as after a Retry.
    fn begin_again(&mut self, now: Timestamp, version: Version, attempt: &Attempt) {
        if let Err(error) = self.recovery.get_mut().abandon_outstanding(SpaceId::Initial, now) {
            return self.fail(now, error);
        }
        self.dispatch_tokens();
        if let Err(error) = self.withdraw_early_data(now) {
            return self.fail(now, error);
        }
        // Unpredictable, and at least 8 bytes (RFC 9000 §7.2).
        let remote_id = ConnectionId::new(&self.random.array::<12>()).unwrap_or_default();
        self.versions.chosen = version;
        self.versions.has_reacted = true;
        self.identity.original_destination = remote_id;
        self.identity.remote_is_known = false;
        self.identity.tokens.initial = version::token_for(version, &attempt.token);
        self.remote_ids = RemoteIds::new(remote_id, LOCAL_ACTIVE_CONNECTION_ID_LIMIT);
        self.held = OnDemand::default();
        self.peer = Peer::default();
        match self.new_handshake(version, attempt, &remote_id) {
            Ok(handshake) => {
                self.handshake = handshake;
                self.start_handshake(now);
            }
            Err(error) => self.abandon(now, ConnectionError::TransportError(error)),
        }
    }

    fn new_handshake(
        &mut self,
        version: Version,
        attempt: &Attempt,
        remote_id: &ConnectionId,
    ) -> Result<Handshake, TransportError> {
        let parameters = local_parameters(&self.config, self.identity.local, version);
        let (identifier, value) = reserved_parameter(&mut self.random);
        let mut encoded = Vec::new();
        parameters.encode(&mut encoded, Some((identifier, &value)));
        let name = self.identity.server_name.as_deref().unwrap_or_default();
        let others = self.spoken();
        let sessions = attempt.sessions.clone();
        let session = sessions
            .connect(version, others, name, encoded)
            .map_err(SessionError::into_transport)?;
        Handshake::new(Side::Client, version, session, remote_id)
    }
}

/// Returns a transport parameter with a reserved identifier, which ensures that peers keep ignoring
/// unknown parameters (RFC 9000 §18.1).
pub(crate) fn reserved_parameter(random: &mut Random) -> (VarInt, [u8; 4]) {
    let value = random.array::<4>();
    let identifier = random.below(1 << 32).saturating_mul(31).saturating_add(27);
    (VarInt::saturating(identifier), value)
}
