//! How a connection begins and ends: parameters, the stages of the handshake, closing and draining.

use clearway_units::Timestamp;
use clearway_wire::frame::{self, CloseKind};
use clearway_wire::header::Retry;
use clearway_wire::{ConnectionId, Frame, TransportErrorCode, TransportParameters, VarInt, Writer};

use super::packet::{Draft, HeaderPlan};
use super::receive::HeldPackets;
use super::timers::IdleTimer;
use super::{Connection, Flags, Identity, Outgoing, Peer, Start, Transmit, Watch};
use crate::config::TransportConfig;
use crate::contents::PacketContents;
use crate::datagram::Datagrams;
use crate::event::{ConnectionError, Event};
use crate::handshake::Handshake;
use crate::observer::{ConnectionState, Observation};
use crate::path::Paths;
use crate::recovery::{Recovery, RecoveryConfig};
use crate::space::ReceivedPackets;
use crate::space_id::{PerSpace, SpaceId};
use crate::streams::Streams;
use crate::{TransportError, endpoint};

/// Where a connection is in its life.
#[derive(Debug)]
pub(super) enum Lifecycle {
    /// The handshake is not complete.
    Handshaking {
        /// When patience ends.
        deadline: Timestamp,
    },
    /// TLS is done.
    Complete,
    /// The peer is known to be done too.
    Confirmed,
    /// This end closed (RFC 9000 §10.2.1).
    Closing {
        /// When all state may go.
        until: Timestamp,
        /// What to say.
        close: Close,
        /// A CONNECTION_CLOSE is owed.
        owed: bool,
        /// One was sent.
        told: bool,
        /// Packets received since; answers become rarer with them.
        received: u64,
    },
    /// The peer closed (RFC 9000 §10.2.2).
    Draining {
        /// When all state may go.
        until: Timestamp,
    },
    /// All state may go.
    Drained,
}

/// The content of a CONNECTION_CLOSE.
#[derive(Clone, Debug)]
pub(super) struct Close {
    kind: CloseKind,
    error_code: VarInt,
    reason: Vec<u8>,
}

/// Longer reasons are cut: the frame must fit into one packet.
const MAX_REASON_LEN: usize = 512;
/// Closing and draining last this many probe timeouts (RFC 9000 §10.2).
const CLOSE_TIMEOUTS: u32 = 3;

impl Lifecycle {
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Handshaking { .. })
    }

    pub(super) fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed)
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Self::Closing { .. } | Self::Draining { .. } | Self::Drained)
    }

    pub(super) fn is_drained(&self) -> bool {
        matches!(self, Self::Drained)
    }

    /// A CONNECTION_CLOSE was built; another is owed at once if `again`.
    fn on_close_told(&mut self, again: bool) {
        if let Self::Closing { owed, told, .. } = self {
            *owed = again;
            *told = true;
        }
    }

    /// RFC 9000 §10.2.1: the answer to packets is rate-limited by making it rarer and rarer.
    pub(super) fn on_packet_while_closing(&mut self) {
        if let Self::Closing { owed, received, .. } = self {
            *received = received.saturating_add(1);
            *owed |= received.is_power_of_two();
        }
    }
}

/// The transport parameters that an endpoint announces (RFC 9000 §18.2).
pub(crate) fn local_parameters(
    config: &TransportConfig,
    local_id: ConnectionId,
) -> TransportParameters {
    let milliseconds = u64::try_from(config.max_ack_delay.as_millis()).unwrap_or(u64::MAX);
    let streams = |count: u64| VarInt::saturating(count.min(1 << 60));
    let window = VarInt::saturating(config.initial_stream_receive_window);
    TransportParameters {
        max_idle_timeout: config.idle_timeout_parameter(),
        max_udp_payload_size: VarInt::from_u32(65_527),
        initial_max_data: VarInt::saturating(config.initial_connection_receive_window),
        initial_max_stream_data_bidi_local: window,
        initial_max_stream_data_bidi_remote: window,
        initial_max_stream_data_uni: window,
        initial_max_streams_bidi: streams(config.max_concurrent_bidirectional_streams),
        initial_max_streams_uni: streams(config.max_concurrent_unidirectional_streams),
        max_ack_delay: VarInt::saturating(milliseconds.min((1 << 14) - 1)),
        // Moving to another local address on purpose is not supported yet; a rebinding NAT is.
        active_connection_id_limit: VarInt::saturating(LOCAL_ACTIVE_CONNECTION_ID_LIMIT),
        initial_source_connection_id: Some(local_id),
        max_datagram_frame_size: VarInt::saturating(config.max_datagram_frame_size.unwrap_or(0)),
        ..TransportParameters::default()
    }
}

impl Connection {
    pub(crate) fn new(now: Timestamp, start: Start) -> Result<Self, TransportError> {
        let Start { side, config, session, arrival, mut random, local_ids, .. } = start;
        let recovery = Recovery::new(
            now,
            RecoveryConfig {
                initial_rtt: config.initial_rtt,
                packet_threshold: config.packet_threshold,
                skip_packet_numbers: config.skip_packet_numbers,
                max_datagram_size: u64::from(config.max_datagram_size),
                initial_window: config.initial_window,
                maximum_window: config.maximum_window,
            },
            config.controller.clone(),
            random.fork(),
        );
        let mut remote_ids =
            crate::ids::RemoteIds::new(start.remote_id, LOCAL_ACTIVE_CONNECTION_ID_LIMIT);
        if side.is_server() {
            remote_ids.set_from_handshake(start.remote_id);
        }
        let received = PerSpace::new(|space| {
            let at_once = space != SpaceId::Application;
            ReceivedPackets::new(config.max_ack_delay, config.ack_eliciting_threshold, at_once)
        });
        let mut connection = Self {
            side,
            handshake: Handshake::new(side, session, &start.initial_id)?,
            received,
            recovery,
            paths: Paths::new(arrival.remote, arrival.local_ip, start.address_is_validated),
            streams: Streams::new(side, config.streams()),
            datagrams: Datagrams::new(config.datagrams(), config.packet_room()),
            local_ids,
            remote_ids,
            lifecycle: Lifecycle::Handshaking { deadline: now + config.handshake_timeout },
            identity: Identity {
                original_destination: start.original_destination,
                local: start.local_id,
                retry_source: start.retry_source,
                remote_is_known: side.is_server(),
                token: start.token,
                new_token: start.new_token,
                server_name: start.server_name,
            },
            peer: Peer { parameters: TransportParameters::default(), parameters_are_known: false },
            flags: Flags::default(),
            idle: IdleTimer::new(now, config.max_idle_timeout),
            held: HeldPackets::default(),
            outgoing: Outgoing::default(),
            events: std::collections::VecDeque::new(),
            counters: super::statistics::Counters::default(),
            watch: Watch {
                observer: start.observer,
                phase: None,
                lost: Vec::new(),
                timers: [None; 7],
                in_flight: 0,
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
        self.observe(now, &Observation::StateUpdated(ConnectionState::HandshakeStarted));
        let parameters = local_parameters(&self.config, self.identity.local);
        let parameters = Observation::ParametersSet { owner: self.side, parameters: &parameters };
        self.observe(now, &parameters);
        self.handshake.protection_mut().set_update_after(self.config.key_update_after);
        if let Err(error) = self.handshake.start() {
            self.fail(now, error);
        }
    }

    pub(super) fn receive_crypto(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        crypto: &frame::Crypto<'_>,
    ) -> Result<(), TransportError> {
        let progress = self.handshake.receive_crypto(space, crypto)?;
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
                TransportError {
                    code: TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
                    ..TransportError::from(error)
                }
            })?;
        self.check_connection_ids(&parameters)?;
        self.observe(
            now,
            &Observation::ParametersSet { owner: self.side.peer(), parameters: &parameters },
        );
        self.streams.set_peer_parameters(&parameters);
        self.datagrams.set_peer_parameters(&parameters);
        self.local_ids
            .set_peer_limit(parameters.active_connection_id_limit.get(), &mut self.random);
        if let Some(token) = parameters.stateless_reset_token {
            self.remote_ids.set_reset_token(token);
        }
        self.idle.negotiate(parameters.max_idle_timeout);
        self.peer = Peer { parameters, parameters_are_known: true };
        Ok(())
    }

    /// RFC 9000 §7.3: the connection IDs of the handshake are authenticated.
    fn check_connection_ids(&self, peer: &TransportParameters) -> Result<(), TransportError> {
        let mismatch =
            |reason| TransportError::new(TransportErrorCode::TRANSPORT_PARAMETER_ERROR, reason);
        if peer.initial_source_connection_id != Some(self.remote_ids.handshake_id()) {
            return Err(mismatch("initial_source_connection_id is not the one of the packets"));
        }
        if self.side.is_client() {
            let original = Some(self.identity.original_destination);
            if peer.original_destination_connection_id != original {
                return Err(mismatch("original_destination_connection_id is not the one sent"));
            }
            if peer.retry_source_connection_id != self.identity.retry_source {
                return Err(mismatch("retry_source_connection_id is not the one of the Retry"));
            }
        }
        Ok(())
    }

    fn complete_handshake(&mut self, now: Timestamp) -> Result<(), TransportError> {
        if !self.peer.parameters_are_known {
            // RFC 9001 §8.2: the extension must be there.
            let missing = TransportErrorCode::crypto(109);
            return Err(TransportError::new(missing, "the peer sent no transport parameters"));
        }
        self.lifecycle = Lifecycle::Complete;
        self.observe(now, &Observation::StateUpdated(ConnectionState::HandshakeComplete));
        if let Some(protocol) = self.handshake.session().application_protocol()
            && let Some(observer) = &mut self.watch.observer
        {
            observer.observe(now, &Observation::ApplicationProtocol(protocol));
        }
        self.events.push_back(Event::Connected);
        if self.side.is_server() {
            // RFC 9001 §4.1.2: for a server, complete is confirmed.
            self.flags.handshake_done_owed = true;
            self.flags.new_token_owed = self.identity.new_token.is_some();
            self.confirm_handshake(now);
        }
        Ok(())
    }

    /// HANDSHAKE_DONE came, or a 1-RTT packet was acknowledged (RFC 9001 §4.1.2).
    pub(super) fn confirm_handshake(&mut self, now: Timestamp) {
        if !matches!(self.lifecycle, Lifecycle::Complete) {
            return;
        }
        self.lifecycle = Lifecycle::Confirmed;
        self.discard_space(now, SpaceId::Initial);
        self.discard_space(now, SpaceId::Handshake);
        self.observe(now, &Observation::StateUpdated(ConnectionState::HandshakeConfirmed));
        self.events.push_back(Event::HandshakeConfirmed);
    }

    /// RFC 9001 §4.9: the keys of a space go, and with them all that was outstanding in it.
    pub(super) fn discard_space(&mut self, now: Timestamp, space: SpaceId) {
        if self.handshake.protection().can_seal(space) {
            self.handshake.discard(space);
            if let Err(error) = self.recovery.discard_space(space, now) {
                self.fail(now, error);
                return;
            }
            *self.outgoing.probes.get_mut(space) = 0;
            self.observe(now, &Observation::KeyDiscarded(space));
        }
    }

    /// RFC 9000 §17.2.5.2: a client follows the first valid Retry, and only before anything else.
    pub(super) fn receive_retry(&mut self, now: Timestamp, packet: &Retry<'_>) {
        let acceptable = self.side.is_client()
            && !self.flags.initial_from_server_seen
            && self.identity.retry_source.is_none()
            && packet.destination == self.identity.local
            && packet.source != self.identity.original_destination;
        if !acceptable || !endpoint::retry::is_authentic(packet, self.identity.original_destination)
        {
            return;
        }
        self.identity.retry_source = Some(packet.source);
        self.identity.token = packet.token.to_vec();
        self.remote_ids.set_from_handshake(packet.source);
        // RFC 9002 §6.3: what went before will never be acknowledged; packet numbers go on.
        let restarted = self
            .recovery
            .abandon_outstanding(SpaceId::Initial, now)
            .and_then(|()| self.handshake.restart(&packet.source));
        match restarted {
            Ok(()) => self.dispatch_tokens(),
            Err(error) => self.fail(now, error),
        }
    }

    /// After a datagram: what it may have set free.
    pub(super) fn after_receiving(&mut self, now: Timestamp) {
        if self.lifecycle.is_closed() {
            return;
        }
        self.release_held(now);
    }

    /// The network says that nobody receives at the peer's address. Such a report is not authenticated,
    /// so it ends only an attempt to which nothing has answered yet.
    pub fn on_unreachable(&mut self, now: Timestamp) {
        if self.counters.packets_received == 0 && !self.lifecycle.is_closed() {
            self.abandon(now, ConnectionError::Unreachable);
        }
    }

    pub(super) fn close_by_application(
        &mut self,
        now: Timestamp,
        error_code: VarInt,
        reason: &[u8],
    ) {
        let kind = CloseKind::Application;
        let reason = reason.get(..reason.len().min(MAX_REASON_LEN)).unwrap_or_default().to_vec();
        self.enter_closing(now, Close { kind, error_code, reason }, ConnectionError::LocallyClosed);
    }

    pub(super) fn close_by_transport(&mut self, now: Timestamp, error: TransportError) {
        let close = Close {
            kind: CloseKind::Transport {
                frame_type: VarInt::saturating(error.frame_type.unwrap_or(0)),
            },
            error_code: error.code.0,
            reason: error.reason.as_bytes().to_vec(),
        };
        self.enter_closing(now, close, ConnectionError::TransportError(error));
    }

    fn enter_closing(&mut self, now: Timestamp, close: Close, error: ConnectionError) {
        if self.lifecycle.is_closed() {
            return;
        }
        let until = now + self.probe_timeout().saturating_mul(CLOSE_TIMEOUTS);
        self.lifecycle = Lifecycle::Closing { until, close, owed: true, told: false, received: 0 };
        self.observe(now, &Observation::StateUpdated(ConnectionState::Closing));
        self.report_closed(now, error);
    }

    /// The peer closed or has lost the connection: RFC 9000 §10.2.2, §10.3.1.
    pub(super) fn drain(&mut self, now: Timestamp, error: ConnectionError) {
        let was_closed = self.lifecycle.is_closed();
        let until = match self.lifecycle {
            Lifecycle::Drained => return,
            Lifecycle::Closing { until, .. } | Lifecycle::Draining { until } => until,
            _ => now + self.probe_timeout().saturating_mul(CLOSE_TIMEOUTS),
        };
        self.lifecycle = Lifecycle::Draining { until };
        self.observe(now, &Observation::StateUpdated(ConnectionState::Draining));
        if !was_closed {
            self.report_closed(now, error);
        }
    }

    /// Ends at once and without a word (RFC 9000 §10.1, §6.2).
    pub(super) fn abandon(&mut self, now: Timestamp, error: ConnectionError) {
        let was_closed = self.lifecycle.is_closed();
        self.lifecycle = Lifecycle::Drained;
        self.observe(now, &Observation::StateUpdated(ConnectionState::Closed));
        if !was_closed {
            self.report_closed(now, error);
        }
    }

    /// A peer's CONNECTION_CLOSE ends our closing state as well (RFC 9000 §10.2.2).
    pub(super) fn notice_close_while_closing(&mut self, now: Timestamp, datagram: &mut [u8]) {
        if matches!(self.lifecycle, Lifecycle::Closing { .. }) && self.contains_close(now, datagram)
        {
            self.drain(now, ConnectionError::LocallyClosed);
        }
    }

    /// Writes the CONNECTION_CLOSE that is owed into one datagram, in every space that the peer may
    /// have keys for (RFC 9000 §10.2.3).
    pub(super) fn transmit_close(&mut self, now: Timestamp, buffer: &mut [u8]) -> Option<Transmit> {
        let Lifecycle::Closing { owed: true, close, told, .. } = &self.lifecycle else {
            return None;
        };
        let (close, told) = (close.clone(), *told);
        let is_code_first = !told && self.hides_code_from_server(&close);
        let credit = usize::try_from(self.paths.current().amplification_credit());
        let size = usize::from(self.config.max_datagram_size).min(credit.unwrap_or(usize::MAX));
        let room = buffer.get_mut(..size)?;
        let mut writer = Writer::new(room);
        self.outgoing.drafts.clear();
        for space in SpaceId::ALL {
            if self.is_close_wanted_in(space) && !(is_code_first && space == SpaceId::Handshake) {
                self.draft_close(space, &close, &mut writer);
            }
        }
        let has_initial = self.outgoing.drafts.iter().any(|draft| draft.space == SpaceId::Initial);
        // Without room, as before an unvalidated address is heard again, it stays owed.
        let last = self.outgoing.drafts.last_mut()?;
        if self.side.is_client() && has_initial {
            last.pad_datagram(&mut writer, super::transmit::MINIMUM_INITIAL_SIZE);
        }
        let size = writer.written();
        self.lifecycle.on_close_told(is_code_first);
        if self.protect_and_stage(now, writer.filled_mut()).is_err() {
            // Nothing can be told any more; the closing state still ends by its timer.
            return None;
        }
        self.paths.current_mut().on_sent(size as u64);
        let path = self.paths.current();
        Some(Transmit {
            destination: path.remote(),
            source_ip: path.local_ip(),
            size,
            segment_size: None,
        })
    }

    /// RFC 9000 §10.2.3: in every space for which the peer may have keys.
    fn is_close_wanted_in(&self, space: SpaceId) -> bool {
        let protection = self.handshake.protection();
        // A server that sent Handshake packets can open them.
        let is_redundant = space == SpaceId::Initial
            && self.side.is_client()
            && protection.can_seal(SpaceId::Handshake);
        protection.can_seal(space) && !is_redundant
    }

    /// Whether a server that can open 1-RTT packets would learn less from a Handshake packet before
    /// them. It gets a datagram without one first; a server that cannot open it gets the next.
    fn hides_code_from_server(&self, close: &Close) -> bool {
        self.side.is_client()
            && close.kind == CloseKind::Application
            && self.handshake.is_complete()
            && self.handshake.protection().can_seal(SpaceId::Handshake)
    }

    fn draft_close(&mut self, space: SpaceId, close: &Close, writer: &mut Writer<'_>) {
        let Ok(number) = self.recovery.next_packet_number(space) else { return };
        let plan = HeaderPlan {
            space,
            number,
            largest_acknowledged: self.recovery.largest_acknowledged(space),
            source: self.identity.local,
            destination: self.remote_ids.current(),
            token: if space == SpaceId::Initial { &self.identity.token } else { &[] },
            key_phase: self.handshake.protection().key_phase(),
        };
        let mut tokens = core::mem::take(self.outgoing.tokens.get_mut(space));
        let draft =
            Draft::write(writer, &plan, &mut tokens, |contents| close.write(space, contents));
        *self.outgoing.tokens.get_mut(space) = tokens;
        self.outgoing.drafts.extend(draft);
    }
}

impl Close {
    /// RFC 9000 §10.2.3: what an application says is not shown in packets that an attacker can read.
    fn write(&self, space: SpaceId, contents: &mut PacketContents<'_, '_>) {
        let hidden = space != SpaceId::Application && self.kind == CloseKind::Application;
        let frame = if hidden {
            frame::ConnectionClose {
                error_code: TransportErrorCode::APPLICATION_ERROR.0,
                kind: CloseKind::Transport { frame_type: VarInt::ZERO },
                reason: &[],
            }
        } else {
            frame::ConnectionClose {
                error_code: self.error_code,
                kind: self.kind,
                reason: &self.reason,
            }
        };
        let _ = contents.push(&Frame::ConnectionClose(frame), None);
    }
}

/// How many of the peer's connection IDs are kept: what `local_parameters` announces.
const LOCAL_ACTIVE_CONNECTION_ID_LIMIT: u64 = 4;
