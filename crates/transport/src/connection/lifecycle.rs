//! Connection setup and the stages of the handshake.

use clearway_units::Timestamp;
use clearway_wire::frame;
use clearway_wire::header::Retry;
use clearway_wire::{ConnectionId, TransportErrorCode, TransportParameters, Version};

use super::blocked::BlockedTimer;
use super::compaction::CompactionTimer;
use super::marks::Marks;
use super::parameters::{LOCAL_ACTIVE_CONNECTION_ID_LIMIT, local_parameters};
use super::probing::MAX_HANDSHAKE_DONE_REPEATS;
use super::response_ping::ResponsePingTimer;
use super::state::Lifecycle;
use super::timers::IdleTimer;
use super::versions::Versions;
use super::{Connection, ConnectionSetup, Flags, Identity, Outgoing, Peer, Tokens, Watch};
use crate::TransportError;
use crate::ack_frequency::AckFrequency;
use crate::config::TransportConfig;
use crate::datagram::Datagrams;
use crate::event::Event;
use crate::handshake::{Handshake, retry};
use crate::observer::{ConnectionState, Observation};
use crate::packable::Packable;
use crate::path::{BASE_DATAGRAM_SIZE, Paths};
use crate::recovery::{Recovery, RecoveryConfig};
use crate::space::{AckPolicy, ReceivedPackets};
use crate::space_id::{SpaceId, SpaceStates};
use crate::streams::Streams;
use clearway_units::memory::OnDemand;

impl Identity {
    /// Selects the server's token for the negotiated version (RFC 9369 §5).
    fn choose_new_token(&mut self, version: Version) {
        let mut tokens = core::mem::take(&mut self.tokens.for_versions).into_iter();
        self.tokens.new = tokens.find(|(of, _)| *of == version).map(|(_, token)| token);
    }
}

impl Connection {
    pub(crate) fn new(now: Timestamp, start: ConnectionSetup) -> Result<Self, TransportError> {
        let ConnectionSetup { side, config, session, arrival, mut random, local_ids, .. } = start;
        let paths = Paths::new(arrival, start.local_id, start.address_is_validated, config.mtu());
        let paths = if side.is_client() { paths.of_client() } else { paths };
        let datagram_size = paths.mtu().size();
        let recovery = Recovery::new(
            now,
            RecoveryConfig {
                initial_rtt: config.initial_rtt,
                packet_threshold: config.packet_threshold,
                skip_packet_numbers: config.skip_packet_numbers,
                max_datagram_size: u64::from(paths.mtu().size()),
                base_datagram_size: u64::from(BASE_DATAGRAM_SIZE),
                initial_window: config.initial_window,
                maximum_window: config.maximum_window,
                ecn: config.ecn,
            },
            config.controller.clone(),
            random.fork(),
        );
        let mut remote_ids =
            crate::ids::RemoteIds::new(start.remote_id, LOCAL_ACTIVE_CONNECTION_ID_LIMIT);
        if side.is_server() {
            remote_ids.set_from_handshake(start.remote_id);
        }
        let received = SpaceStates::new(|space| {
            let at_once = space != SpaceId::Application;
            let policy = AckPolicy::new(config.ack_eliciting_threshold, config.max_ack_delay);
            ReceivedPackets::new(policy, at_once)
        });
        let mut connection = Self {
            side,
            handshake: Handshake::new(side, start.version, session, &start.initial_id)?,
            versions: Versions::new(start.version, start.negotiated, start.attempt),
            marks: Marks::new(&random),
            received,
            recovery: Packable::new(recovery),
            paths,
            streams: Packable::new(Streams::new(side, config.streams())),
            datagrams: Datagrams::new(
                config.datagrams(),
                TransportConfig::packet_room(usize::from(datagram_size)),
            ),
            ack_frequency: AckFrequency::new(config.ack_frequency),
            local_ids,
            remote_ids,
            lifecycle: Lifecycle::Handshaking { deadline: now + config.handshake_timeout },
            identity: Identity {
                original_destination: start.original_destination,
                local: start.local_id,
                retry_source: start.retry_source,
                remote_is_known: side.is_server(),
                tokens: OnDemand::new(Tokens {
                    initial: start.token,
                    for_versions: start.new_tokens,
                    new: None,
                }),
                server_name: start.server_name,
                sessions: start.sessions,
            },
            peer: Peer::default(),
            flags: Flags::default(),
            idle: IdleTimer::new(now, config.max_idle_timeout),
            compaction: CompactionTimer::new(now),
            response_ping: ResponsePingTimer::default(),
            early: super::early::Early::default(),
            blocked: BlockedTimer::default(),
            held: OnDemand::default(),
            outgoing: Outgoing { datagram_size, ..Outgoing::default() },
            unsent: None,
            events: std::collections::VecDeque::new(),
            counters: super::statistics::Counters::default(),
            close_reason: None,
            watch: Watch {
                observer: start.observer,
                phase: None,
                lost: Vec::new(),
                timers: None,
                in_flight: 0,
                ecn: None,
            },
            config,
            random,
        };
        connection.begin(now, start.remote_id);
        Ok(connection)
    }

    fn begin(&mut self, now: Timestamp, remote_id: ConnectionId) {
        let started = Observation::Started {
            side: self.side,
            remote: self.remote_address(),
            local_id: self.identity.local,
            remote_id,
            original_destination_id: self.identity.original_destination,
        };
        self.observe(now, &started);
        self.observe_first_version(now);
        self.observe(now, &Observation::StateUpdated(ConnectionState::HandshakeStarted));
        if self.watch.observer.is_some() {
            let parameters = local_parameters(&self.config, self.identity.local, self.version());
            let parameters =
                Observation::ParametersSet { owner: self.side, parameters: &parameters };
            self.observe(now, &parameters);
        }
        self.streams.get_mut().on_congestion_window(self.recovery.get().window());
        self.start_handshake(now);
    }

    pub(super) fn start_handshake(&mut self, now: Timestamp) {
        self.handshake.protection_mut().set_update_after(self.config.key_update_after);
        match self.handshake.start() {
            Ok(_) => self.offer_early_data(now),
            Err(error) => self.fail(now, error),
        }
    }

    pub(super) fn receive_crypto(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        crypto: &frame::Crypto<'_>,
    ) -> Result<(), TransportError> {
        let progress = self.handshake.receive_crypto(space, crypto)?;
        self.settle_version(now);
        self.settle_early_data(now)?;
        self.learn_peer_parameters(now)?;
        if progress.complete {
            self.complete_handshake(now)?;
        }
        Ok(())
    }

    fn learn_peer_parameters(&mut self, now: Timestamp) -> Result<(), TransportError> {
        if self.peer.parameters_are_known {
            return Ok(());
        }
        let Some(bytes) = self.handshake.session().peer_transport_parameters() else {
            return Ok(());
        };
        let parameters =
            TransportParameters::decode(bytes, self.side.peer().initiator()).map_err(|error| {
                TransportError::from(error).with_code(TransportErrorCode::TRANSPORT_PARAMETER_ERROR)
            })?;
        self.check_versions(&parameters)?;
        self.check_connection_ids(&parameters)?;
        self.observe(
            now,
            &Observation::ParametersSet { owner: self.side.peer(), parameters: &parameters },
        );
        self.take_peer_limits(&parameters)?;
        self.ack_frequency.set_peer_parameters(&parameters);
        self.paths.mtu_mut().set_peer_maximum(parameters.max_udp_payload_size);
        self.follow_path_mtu(now);
        self.local_ids
            .set_peer_limit(parameters.active_connection_id_limit.get(), &mut self.random);
        if let Some(token) = parameters.stateless_reset_token {
            self.remote_ids.set_reset_token(token);
        }
        if let Some(preferred) = &parameters.preferred_address {
            self.remote_ids.on_preferred_address(preferred);
        }
        self.idle.negotiate(parameters.max_idle_timeout);
        self.peer = Peer { parameters: Box::new(parameters), parameters_are_known: true };
        Ok(())
    }

    /// Compares the connection IDs in the peer's parameters with those of the handshake (RFC 9000 §7.3).
    fn check_connection_ids(&self, peer: &TransportParameters) -> Result<(), TransportError> {
        let code = TransportErrorCode::TRANSPORT_PARAMETER_ERROR;
        let mismatch = |violation| TransportError::rule(code, violation, "RFC 9000 §7.3");
        if peer.initial_source_connection_id != Some(self.remote_ids.handshake_id()) {
            return Err(mismatch("initial_source_connection_id does not match the packets"));
        }
        if self.side.is_client() {
            let original = Some(self.identity.original_destination);
            if peer.original_destination_connection_id != original {
                return Err(mismatch("original_destination_connection_id does not match"));
            }
            if peer.retry_source_connection_id != self.identity.retry_source {
                return Err(mismatch("retry_source_connection_id does not match the Retry"));
            }
        }
        Ok(())
    }

    fn complete_handshake(&mut self, now: Timestamp) -> Result<(), TransportError> {
        if !self.peer.parameters_are_known {
            let missing = TransportErrorCode::crypto(109);
            let violation = "the peer sent no transport parameters";
            return Err(TransportError::rule(missing, violation, "RFC 9001 §8.2"));
        }
        self.end_early_data();
        self.lifecycle = Lifecycle::Complete;
        self.counters.handshake_drops = None;
        self.observe(now, &Observation::StateUpdated(ConnectionState::HandshakeComplete));
        if let Some(protocol) = self.handshake.session().application_protocol()
            && let Some(observer) = &mut self.watch.observer
        {
            observer.observe(now, &Observation::ApplicationProtocol(protocol));
        }
        self.events.push_back(Event::Connected);
        if self.side.is_server() {
            // A server's handshake is confirmed once it is complete (RFC 9001 §4.1.2).
            self.flags.handshake_done_pending = true;
            self.flags.handshake_done_repeats = MAX_HANDSHAKE_DONE_REPEATS;
            self.identity.choose_new_token(self.handshake.version());
            self.flags.new_token_pending = self.identity.tokens.new.is_some();
            self.confirm_handshake(now);
        }
        Ok(())
    }

    /// Confirms the handshake: HANDSHAKE_DONE was received, or a 1-RTT packet was acknowledged (RFC
    /// 9001 §4.1.2).
    pub(super) fn confirm_handshake(&mut self, now: Timestamp) {
        if !matches!(self.lifecycle, Lifecycle::Complete) {
            return;
        }
        self.lifecycle = Lifecycle::Confirmed;
        self.discard_space(now, SpaceId::Initial);
        self.discard_space(now, SpaceId::Handshake);
        self.observe(now, &Observation::StateUpdated(ConnectionState::HandshakeConfirmed));
        self.events.push_back(Event::HandshakeConfirmed);
        // Not done earlier: handshake packets may have to be retransmitted to the handshake's
        // connection ID.
        self.replace_connection_ids();
        self.follow_preferred_address(now);
    }

    /// Discards the keys of a space and everything outstanding in it (RFC 9001 §4.9).
    pub(super) fn discard_space(&mut self, now: Timestamp, space: SpaceId) {
        if self.handshake.protection().can_seal(space) {
            self.handshake.discard(space);
            if let Err(error) = self.recovery.get_mut().discard_space(space, now) {
                self.fail(now, error);
                return;
            }
            *self.outgoing.probes.get_mut(space) = 0;
            self.observe(now, &Observation::KeyDiscarded(space));
        }
    }

    /// Processes a Retry packet. A client accepts at most one, only before any other packet (RFC
    /// 9000 §17.2.5.2), and only in the version of its own packets (RFC 9369 §4.1). Returns whether
    /// this one was accepted.
    pub(super) fn receive_retry(&mut self, now: Timestamp, packet: &Retry<'_>) -> bool {
        let acceptable = self.side.is_client()
            && !self.flags.initial_from_server_seen
            && self.identity.retry_source.is_none()
            && packet.version == self.versions.chosen()
            && packet.destination == self.identity.local
            && packet.source != self.identity.original_destination;
        let original = self.identity.original_destination;
        if !acceptable || !retry::is_authentic(packet, original, self.config.grease_quic_bit) {
            return false;
        }
        self.identity.retry_source = Some(packet.source);
        self.identity.tokens.initial = packet.token.to_vec();
        self.remote_ids.set_from_handshake(packet.source);
        // Earlier packets will never be acknowledged. Packet numbers continue (RFC 9002 §6.3), and
        // early data is retransmitted with the same keys (RFC 9000 §17.2.5.3).
        let restarted = self
            .recovery
            .get_mut()
            .abandon_outstanding(SpaceId::Initial, now)
            .and_then(|()| self.recovery.get_mut().abandon_outstanding(SpaceId::Application, now))
            .and_then(|()| self.handshake.restart(&packet.source));
        match restarted {
            Ok(()) => self.dispatch_tokens(),
            Err(error) => self.fail(now, error),
        }
        true
    }

    /// Performs actions that a received datagram may have made possible.
    pub(super) fn after_receiving(&mut self, now: Timestamp) {
        if self.lifecycle.is_closed() {
            return;
        }
        self.release_held(now);
    }
}
