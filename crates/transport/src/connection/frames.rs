//! Dispatch of received frames: each goes to the part of the connection that owns its state.

use core::time::Duration;

use bytes::Bytes;
use clearway_units::Timestamp;
use clearway_wire::frame::{Ack, CloseKind, ConnectionClose, ResetStreamAt};
use clearway_wire::{Frame, TransportErrorCode};

use super::Connection;
use super::receive::PacketContext;
use crate::TransportError;
use crate::ecn::EcnState;
use crate::event::{ConnectionError, Event};
use crate::handshake::version;
use crate::observer::{Metrics, Observation};
use crate::space_id::SpaceId;
use crate::token::Token;

impl Connection {
    pub(super) fn receive_frame(
        &mut self,
        now: Timestamp,
        context: &PacketContext,
        frame: Frame<'_>,
    ) -> Result<(), TransportError> {
        match frame {
            Frame::Padding(_) | Frame::Ping => Ok(()),
            Frame::Ack(ack) => self.receive_ack(now, context, &ack),
            Frame::Crypto(crypto) => self.receive_crypto(now, context.space, &crypto),
            Frame::Stream(stream) => {
                self.response_ping.on_stream_data();
                self.streams.get_mut().on_stream(now, &stream)
            }
            Frame::ResetStream(frame) => self.streams.get_mut().on_reset_stream(now, &frame),
            Frame::StopSending(frame) => self.streams.get_mut().on_stop_sending(&frame),
            Frame::MaxData(frame) => {
                self.blocked.on_limit();
                self.streams.get_mut().on_max_data(&frame);
                Ok(())
            }
            Frame::MaxStreamData(frame) => {
                self.blocked.on_limit();
                self.streams.get_mut().on_max_stream_data(&frame)
            }
            Frame::MaxStreams(frame) => {
                self.streams.get_mut().on_max_streams(&frame);
                Ok(())
            }
            Frame::DataBlocked(frame) => {
                self.streams.get_mut().on_data_blocked(&frame);
                Ok(())
            }
            Frame::StreamDataBlocked(frame) => {
                self.streams.get_mut().on_stream_data_blocked(&frame)
            }
            Frame::StreamsBlocked(frame) => {
                self.streams.get_mut().on_streams_blocked(&frame);
                Ok(())
            }
            Frame::NewConnectionId(frame) => self.remote_ids.on_new_connection_id(&frame),
            Frame::RetireConnectionId(frame) => {
                self.local_ids.on_retire(&frame, context.destination, &mut self.random)
            }
            Frame::PathChallenge(frame) => {
                self.paths.on_challenge(context.arrival, context.destination, frame.data);
                self.paths.on_probed(now, context.arrival.remote, context.number);
                Ok(())
            }
            Frame::PathResponse(frame) => {
                self.receive_path_response(now, frame.data);
                Ok(())
            }
            Frame::ConnectionClose(close) => {
                self.receive_close(now, &close);
                Ok(())
            }
            Frame::HandshakeDone => self.receive_handshake_done(now),
            Frame::NewToken(frame) => self.receive_new_token(frame.token),
            Frame::Datagram(frame) => self.datagrams.on_datagram(&frame),
            Frame::AckFrequency(frame) => self.receive_ack_frequency(context.space, &frame),
            Frame::ImmediateAck => self.receive_immediate_ack(context.space),
            Frame::ResetStreamAt(frame) => self.receive_reset_stream_at(now, &frame),
        }
    }

    fn receive_ack(
        &mut self,
        now: Timestamp,
        packet: &PacketContext,
        ack: &Ack<'_>,
    ) -> Result<(), TransportError> {
        let space = packet.space;
        let delay =
            if space == SpaceId::Application { self.ack_delay(ack) } else { Duration::ZERO };
        let context = self.pto_context();
        let outcome = self.recovery.get_mut().on_ack(space, now, ack, delay, &context)?;
        if outcome.newly_acked_any {
            let protection = self.handshake.protection_mut();
            protection.on_acknowledged(now, space, ack.largest, packet.with_previous_keys)?;
            // The acknowledgment of a 0-RTT packet does not confirm the handshake (RFC 9001
            // §4.1.2).
            let is_application = space == SpaceId::Application
                && self.handshake.protection().is_application_packet(ack.largest);
            if is_application && self.side.is_client() {
                self.confirm_handshake(now);
            }
        }
        if outcome.has_rtt_sample {
            self.on_round_trip();
            self.consider_ack_frequency();
        }
        // Done before acknowledged bytes leave the send buffer, so that writers see both changes
        // together.
        self.streams.get_mut().on_congestion_window(self.recovery.get().window());
        self.dispatch_tokens();
        self.observe_recovery(now);
        Ok(())
    }

    /// Updates the round-trip times that pace the growth of flow control windows and key updates.
    fn on_round_trip(&mut self) {
        if let Some(rtt) = self.recovery.get().rtt() {
            self.streams.get_mut().on_round_trip(rtt.smoothed);
        }
        let probe_timeout = self.probe_timeout();
        self.handshake.protection_mut().set_probe_timeout(probe_timeout);
    }

    /// Returns the ACK Delay, scaled by the peer's ack_delay_exponent (RFC 9000 §19.3).
    fn ack_delay(&self, ack: &Ack<'_>) -> Duration {
        let exponent = self.peer.parameters.ack_delay_exponent.get().min(20) as u32;
        let microseconds = ack.delay.get().checked_shl(exponent).unwrap_or(u64::MAX);
        Duration::from_micros(microseconds)
    }

    /// Reports to each part whether its frames were acknowledged or lost (law 10).
    pub(super) fn dispatch_tokens(&mut self) {
        let kept = self.outgoing.buffers.used();
        let mut tokens = kept.map(|kept| core::mem::take(&mut kept.settled)).unwrap_or_default();
        self.recovery.get_mut().take_acked(&mut tokens);
        for (space, token) in tokens.drain(..) {
            self.on_token_acked(space, &token);
        }
        self.recovery.get_mut().take_lost(&mut tokens);
        for (space, token) in tokens.drain(..) {
            self.on_token_lost(space, &token);
        }
        if tokens.capacity() > 0 {
            self.outgoing.buffers.settled = tokens;
        }
    }

    fn on_token_acked(&mut self, space: SpaceId, token: &Token) {
        match *token {
            Token::Ack { largest } => self.received.get_mut(space).on_ack_acknowledged(largest),
            Token::Crypto { offset, length } => {
                self.handshake.stream_mut(space).on_acked(offset, length);
            }
            Token::NewConnectionId { sequence } => self.local_ids.on_acked(sequence),
            Token::RetireConnectionId { sequence } => self.remote_ids.on_acked(sequence),
            Token::NewToken => {
                self.identity.tokens.new = None;
                self.flags.new_token_pending = false;
            }
            Token::HandshakeDone => {
                self.flags.handshake_done_pending = false;
                self.flags.handshake_done_repeats = 0;
            }
            Token::Datagram { id } => self.datagrams.on_acked(id),
            Token::AckFrequency { sequence } => self.ack_frequency.on_acked(sequence),
            Token::MtuProbe(probe) => self.on_mtu_probe_acknowledged(probe),
            Token::Stream { .. }
            | Token::ResetStream { .. }
            | Token::ResetStreamAt { .. }
            | Token::StopSending { .. }
            | Token::MaxData
            | Token::MaxStreamData { .. }
            | Token::MaxStreams { .. }
            | Token::DataBlocked
            | Token::StreamDataBlocked { .. }
            | Token::StreamsBlocked { .. } => self.streams.get_mut().on_acked(token),
        }
    }

    pub(super) fn on_token_lost(&mut self, space: SpaceId, token: &Token) {
        match *token {
            // Later ACK frames contain the same ranges.
            Token::Ack { .. } => {}
            Token::Crypto { offset, length } => {
                self.handshake.stream_mut(space).on_lost(offset, length);
            }
            Token::NewConnectionId { sequence } => self.local_ids.on_lost(sequence),
            Token::RetireConnectionId { sequence } => self.remote_ids.on_lost(sequence),
            Token::NewToken => self.flags.new_token_pending = self.identity.tokens.new.is_some(),
            Token::HandshakeDone => self.flags.handshake_done_pending = true,
            Token::Datagram { id } => self.datagrams.on_lost(id),
            Token::AckFrequency { sequence } => self.ack_frequency.on_lost(sequence),
            Token::MtuProbe(probe) => self.paths.mtu_mut().on_probe_lost(probe),
            Token::Stream { .. }
            | Token::ResetStream { .. }
            | Token::ResetStreamAt { .. }
            | Token::StopSending { .. }
            | Token::MaxData
            | Token::MaxStreamData { .. }
            | Token::MaxStreams { .. }
            | Token::DataBlocked
            | Token::StreamDataBlocked { .. }
            | Token::StreamsBlocked { .. } => self.streams.get_mut().on_lost(token),
        }
    }

    fn receive_reset_stream_at(
        &mut self,
        now: Timestamp,
        frame: &ResetStreamAt,
    ) -> Result<(), TransportError> {
        if !self.config.reset_stream_at {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "RESET_STREAM_AT without the transport parameter reset_stream_at",
                "draft-ietf-quic-reliable-stream-reset §3",
            ));
        }
        self.streams.get_mut().on_reset_stream_at(now, frame)
    }

    /// Handles a CONNECTION_CLOSE.
    fn receive_close(&mut self, now: Timestamp, close: &ConnectionClose<'_>) {
        let reason = Bytes::copy_from_slice(close.reason);
        let error = match close.kind {
            CloseKind::Application => {
                ConnectionError::ApplicationClosed { error_code: close.error_code, reason }
            }
            CloseKind::Transport { frame_type } => ConnectionError::ConnectionClosed {
                error_code: TransportErrorCode(close.error_code),
                frame_type: frame_type.get(),
                reason,
            },
        };
        self.drain(now, error);
    }

    fn receive_handshake_done(&mut self, now: Timestamp) -> Result<(), TransportError> {
        if self.side.is_server() {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "HANDSHAKE_DONE from a client",
                "RFC 9000 §19.20",
            ));
        }
        // HANDSHAKE_DONE arrives in a 1-RTT packet, whose keys result from the handshake. TLS may
        // still be in progress, and a peer that confirms the handshake then violates the protocol.
        if !self.handshake.is_complete() {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "HANDSHAKE_DONE before the handshake is complete",
                "RFC 9000 §19.20",
            ));
        }
        self.confirm_handshake(now);
        Ok(())
    }

    fn receive_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        if self.side.is_server() {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "NEW_TOKEN from a client",
                "RFC 9000 §19.7",
            ));
        }
        // A server has no reason to send more than a few. Additional ones are dropped.
        if self.counters.tokens_received < MAX_TOKENS_RECEIVED {
            self.counters.tokens_received = self.counters.tokens_received.saturating_add(1);
            let token = version::with_version(self.handshake.version(), token);
            if let (Some(sessions), Some(name)) =
                (&self.identity.sessions, &self.identity.server_name)
            {
                sessions.put_token(name, &token);
            }
            self.events.push_back(Event::NewToken(token.into()));
        }
        Ok(())
    }

    /// Reports the ECN state if it has changed.
    pub(super) fn observe_ecn(&mut self, now: Timestamp) {
        let new = self.recovery.get().ecn_state();
        if self.watch.observer.is_some() && new != EcnState::Disabled && self.watch.ecn != Some(new)
        {
            let old = self.watch.ecn.replace(new);
            self.observe(now, &Observation::EcnStateUpdated { old, new });
        }
    }

    pub(super) fn observe_recovery(&mut self, now: Timestamp) {
        let mut lost = core::mem::take(&mut self.watch.lost);
        if let Some(recovery) = self.recovery.unpacked_mut() {
            recovery.take_lost_packets(&mut lost);
        }
        if self.watch.observer.is_none() {
            lost.clear();
            self.watch.lost = lost;
            return;
        }
        let stats = self.recovery.get().stats();
        let phase = stats.congestion.phase;
        let old = self.watch.phase.replace(phase);
        for packet in lost.drain(..) {
            self.observe(now, &Observation::PacketLost(packet));
        }
        self.watch.lost = lost;
        self.observe_ecn(now);
        if let Some(old) = old
            && old != phase
        {
            self.observe(now, &Observation::CongestionStateUpdated { old, new: phase });
        }
        let metrics = Metrics {
            rtt: stats.rtt,
            pto_count: stats.pto_in_a_row,
            probe_timeouts: stats.pto_total,
            bytes_in_flight: stats.bytes_in_flight,
            congestion: stats.congestion,
            pacing_rate: stats.pacing_rate,
            delivery_rate: stats.delivery_rate,
            loss_thresholds: stats.loss_thresholds,
        };
        self.watch.in_flight = stats.bytes_in_flight;
        self.observe(now, &Observation::Metrics(&metrics));
        if let Some(observer) = &mut self.watch.observer {
            observer.observe(now, &Observation::Controller(self.recovery.get().controller()));
        }
    }
}

/// The maximum number of NEW_TOKEN frames of one connection that are passed to the application.
const MAX_TOKENS_RECEIVED: u64 = 8;
