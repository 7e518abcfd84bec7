//! Ending a connection: closing, draining, and CONNECTION_CLOSE (RFC 9000 §10.2).

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::frame::{self, CloseKind};
use clearway_wire::{Frame, TransportErrorCode, VarInt, Writer};

use super::state::{Close, CloseDatagram, Lifecycle, answers_next};
use super::transmit::ack_delay_exponent;
use super::{Connection, Transmit};
use crate::TransportError;
use crate::contents::PacketContents;
use crate::ecn::EcnCodepoint;
use crate::event::ConnectionError;
use crate::observer::{ConnectionState, Observation};
use crate::path::MINIMUM_INITIAL_SIZE;
use crate::recovery::Recovery;
use crate::space_id::SpaceId;

/// The remaining state of a connection on which only CONNECTION_CLOSE can still be sent (RFC 9000
/// §10.2).
#[derive(Debug)]
pub(crate) struct Ended {
    /// The end of the period in which late packets from the peer may arrive.
    pub(crate) until: Timestamp,
    /// The response to late packets in the closing state.
    close: Option<Box<CloseDatagram>>,
    received: u64,
}

impl Ended {
    /// Stops sending (RFC 9000 §10.2.2).
    pub(crate) fn drain(&mut self) {
        self.close = None;
    }

    /// Counts another packet from the peer, and returns the response if one is due.
    pub(crate) fn answer(&mut self) -> Option<(Transmit, Vec<u8>)> {
        let CloseDatagram { transmit, datagram } = self.close.as_deref()?;
        answers_next(&mut self.received).then(|| (*transmit, datagram.to_vec()))
    }
}

/// The maximum length of a reason; longer ones are truncated, since the frame has to fit into one
/// packet.
const MAX_REASON_LEN: usize = 512;
/// The time within which a driver sends a CONNECTION_CLOSE.
const TIME_TO_SEND: Duration = Duration::from_millis(1);
/// The length of the closing and draining periods, in probe timeouts (RFC 9000 §10.2).
const CLOSE_TIMEOUTS: u32 = 3;
/// The number of times that a client whose handshake is not confirmed sends CONNECTION_CLOSE in
/// 1-RTT packets only, after its last handshake messages. Later, when the server sends more
/// packets, CONNECTION_CLOSE is also sent in Handshake packets (RFC 9000 §10.2.3).
const COMPLETING_ROUNDS: u8 = 2;

impl Connection {
    /// Returns whether a packet from the peer has been received and authenticated.
    pub fn is_answered(&self) -> bool {
        self.counters.packets_received > 0
    }

    /// Returns whether the connection is still open and has not received any authenticated packet
    /// from the peer.
    pub fn is_unanswered(&self) -> bool {
        !self.is_answered() && !self.lifecycle.is_closed()
    }

    /// Closes the connection with INTERNAL_ERROR (RFC 9000 §20.1), for an application that cannot
    /// continue.
    pub fn close_with_internal_error(&mut self, now: Timestamp, reason: &'static str) {
        let error = TransportError::internal(reason);
        self.close_by_transport(now, error);
    }

    /// Closes the connection with INTERNAL_ERROR (RFC 9000 §20.1) after application code called by
    /// the connection panicked: its congestion controller, its TLS session or any other configured
    /// component. The controller is not called again.
    ///
    /// The connection's state may be inconsistent. It therefore only sends CONNECTION_CLOSE and
    /// waits for the end of the closing period. If this panics too,
    /// [`abandon_after_panic`](Self::abandon_after_panic) ends it.
    pub fn close_after_panic(&mut self, now: Timestamp, reason: &'static str) {
        // Dropped last, because dropping it may panic as well.
        let _controller = self.recovery.unpacked_mut().map(Recovery::replace_controller);
        self.close_by_transport(now, TransportError::internal(reason));
    }

    /// Ends the connection immediately and without a CONNECTION_CLOSE, after
    /// [`close_after_panic`](Self::close_after_panic) or a later step has panicked too.
    pub fn abandon_after_panic(&mut self, now: Timestamp, reason: &'static str) {
        self.abandon(now, ConnectionError::TransportError(TransportError::internal(reason)));
    }

    /// Reports an ICMP message that the peer's address is unreachable. ICMP is not authenticated,
    /// so it ends only an attempt to connect that no packet has answered yet.
    pub fn on_unreachable(&mut self, now: Timestamp) {
        if self.is_unanswered() {
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
            reason: error.reason().as_bytes().to_vec(),
        };
        self.enter_closing(now, close, ConnectionError::TransportError(error));
    }

    /// Abandons a handshake that did not complete in time. The idle timeout may be longer, so a
    /// CONNECTION_CLOSE is sent (RFC 9000 §10.1) in all packet number spaces for which the peer may
    /// have keys (§10.2.3). The connection then ends without a closing state if no server has
    /// answered, or the client's address is not validated: such attempts must not cost memory
    /// longer than necessary.
    pub(super) fn give_up_handshake(&mut self, now: Timestamp) {
        let is_unproven = match self.side.is_client() {
            true => self.is_unanswered(),
            false => !self.paths.current().is_validated(),
        };
        let close = Close {
            kind: CloseKind::Transport { frame_type: VarInt::ZERO },
            error_code: TransportErrorCode::NO_ERROR.0,
            reason: b"the handshake did not complete in time".to_vec(),
        };
        let error = self.cause_of_silence();
        self.enter_closing(now, close, error);
        if is_unproven && let Lifecycle::Closing { until, .. } = &mut self.lifecycle {
            *until = now + TIME_TO_SEND;
        }
    }

    fn enter_closing(&mut self, now: Timestamp, close: Close, error: ConnectionError) {
        if self.lifecycle.is_closed() {
            return;
        }
        let until = now + self.probe_timeout().saturating_mul(CLOSE_TIMEOUTS);
        let close = Box::new(close);
        self.lifecycle =
            Lifecycle::Closing { until, close, pending: true, rounds: 0, last: None, received: 0 };
        if self.completes_handshake() {
            self.handshake.stream_mut(SpaceId::Handshake).retransmit_all_unacked();
        }
        // A host that could not send retries once immediately: the closing period may be short.
        self.end_hold(Timestamp::FAR_FUTURE);
        self.observe(now, &Observation::StateUpdated(ConnectionState::Closing));
        self.report_closed(now, error);
    }

    /// Retries a CONNECTION_CLOSE that this host failed to send, or ends the closing or draining
    /// period.
    pub(super) fn on_closing_deadline(&mut self, now: Timestamp) {
        self.end_hold(now);
        let (Lifecycle::Closing { until, .. } | Lifecycle::Draining { until }) = self.lifecycle
        else {
            return;
        };
        if until <= now {
            self.abandon(now, ConnectionError::LocallyClosed);
        }
    }

    /// Enters the draining state: the peer has closed the connection (RFC 9000 §10.2.2), or has no
    /// state for it (§10.3.1).
    pub(super) fn drain(&mut self, now: Timestamp, error: ConnectionError) {
        let was_closed = self.lifecycle.is_closed();
        let until = match self.lifecycle {
            Lifecycle::Drained => return,
            Lifecycle::Closing { until, .. } | Lifecycle::Draining { until } => until,
            _ => now + self.probe_timeout().saturating_mul(CLOSE_TIMEOUTS),
        };
        self.lifecycle = Lifecycle::Draining { until };
        self.handshake.end();
        self.observe(now, &Observation::StateUpdated(ConnectionState::Draining));
        if !was_closed {
            self.report_closed(now, error);
        }
    }

    /// Ends the connection immediately, without a CONNECTION_CLOSE (RFC 9000 §10.1, §6.2).
    pub(super) fn abandon(&mut self, now: Timestamp, error: ConnectionError) {
        let was_closed = self.lifecycle.is_closed();
        self.lifecycle = Lifecycle::Drained;
        self.observe(now, &Observation::StateUpdated(ConnectionState::Closed));
        if !was_closed {
            self.report_closed(now, error);
        }
    }

    /// Returns the remaining state of the connection, if at most a repeated CONNECTION_CLOSE can
    /// still be sent on it.
    pub(crate) fn ended(&self, now: Timestamp) -> Option<Ended> {
        match &self.lifecycle {
            Lifecycle::Closing { until, pending: false, last: Some(last), received, .. } => {
                let close = Some(last.clone());
                Some(Ended { until: (*until).max(now), close, received: *received })
            }
            Lifecycle::Draining { until } => {
                Some(Ended { until: (*until).max(now), close: None, received: 0 })
            }
            Lifecycle::Drained => Some(Ended { until: now, close: None, received: 0 }),
            _ => None,
        }
    }

    /// Discards the state after the connection [has ended](Self::ended).
    pub(crate) fn discard(&mut self, now: Timestamp) {
        if !self.lifecycle.is_drained() {
            self.lifecycle = Lifecycle::Drained;
            self.observe(now, &Observation::StateUpdated(ConnectionState::Closed));
        }
    }

    /// Looks for the peer's CONNECTION_CLOSE, which also ends our closing state (RFC 9000 §10.2.2).
    pub(super) fn notice_close_while_closing(&mut self, now: Timestamp, datagram: &mut [u8]) {
        if matches!(self.lifecycle, Lifecycle::Closing { .. }) && self.contains_close(now, datagram)
        {
            self.drain(now, ConnectionError::LocallyClosed);
        }
    }

    /// Writes the pending CONNECTION_CLOSE into one datagram, in every packet number space for
    /// which the peer may have keys (RFC 9000 §10.2.3). A client that [completes the
    /// handshake](Self::completes_handshake) first may need several datagrams.
    pub(super) fn transmit_close(&mut self, now: Timestamp, buffer: &mut [u8]) -> Option<Transmit> {
        let Lifecycle::Closing { pending: true, close, .. } = &self.lifecycle else {
            return None;
        };
        if self.holds_sending() {
            return None;
        }
        let close = close.clone();
        let completes = self.completes_handshake();
        let credit = self.paths.current().amplification_credit();
        let most = usize::try_from(credit).unwrap_or(usize::MAX);
        let size = self.max_datagram_size().min(most).min(buffer.len());
        let room = buffer.get_mut(..size)?;
        let mut writer = Writer::new(room);
        self.outgoing.clear_drafts();
        self.outgoing.ecn = EcnCodepoint::NotEct;
        for space in SpaceId::ALL {
            let destination = self.remote_ids.current();
            if completes && space == SpaceId::Handshake {
                self.draft(space, destination, &mut writer, |connection, contents| {
                    connection.handshake.stream_mut(space).write_frames(contents);
                });
            } else if self.needs_close_in(space) {
                self.draft(space, destination, &mut writer, |connection, contents| {
                    // The last ACK frame may have been lost, and no other follows. With an ACK
                    // frame here, the peer learns that its data was delivered before it learns that
                    // the connection is closed.
                    let exponent = ack_delay_exponent(space);
                    let received = connection.received.get_mut(space);
                    received.write_last_ack(now, exponent, close.max_len(), contents);
                    close.write(space, contents);
                });
            }
        }
        let has_initial =
            self.outgoing.buffers.drafts.iter().any(|draft| draft.space == SpaceId::Initial);
        // If it does not fit, for example because of the anti-amplification limit, it stays
        // pending.
        let last = self.outgoing.buffers.drafts.last_mut()?;
        if self.side.is_client() && has_initial {
            last.pad_datagram(&mut writer, MINIMUM_INITIAL_SIZE);
        }
        let size = writer.written();
        let mut drafts = self.outgoing.buffers.drafts.iter();
        let can_be_repeated = drafts.all(|draft| draft.space == SpaceId::Application);
        self.on_close_built(completes);
        if self.protect_and_stage(now, writer.filled_mut()).is_err() {
            // Nothing more can be sent. The closing state still ends by its timer.
            return None;
        }
        self.paths.current_mut().on_sent(size as u64);
        let path = self.paths.current();
        let transmit = Transmit {
            destination: path.remote(),
            socket: path.socket(),
            source_ip: path.local_ip(),
            size,
            segment_size: None,
            ecn: EcnCodepoint::NotEct,
        };
        // Until the client's address is validated, each datagram counts toward the limit.
        if can_be_repeated && credit == u64::MAX {
            let datagram = writer.filled_mut().as_ref().into();
            self.lifecycle.keep_close(CloseDatagram { transmit, datagram });
        }
        Some(transmit)
    }

    /// Returns whether the peer may have keys for `space` (RFC 9000 §10.2.3).
    fn needs_close_in(&self, space: SpaceId) -> bool {
        let protection = self.handshake.protection();
        // A server that has sent Handshake packets can decrypt them.
        let is_redundant = space == SpaceId::Initial
            && self.side.is_client()
            && protection.can_seal(SpaceId::Handshake);
        protection.can_seal(space) && !is_redundant
    }

    /// Returns whether the next CONNECTION_CLOSE is sent after those of the client's last handshake
    /// messages that the server has not acknowledged. With these messages, the server can complete
    /// the handshake and decrypt 1-RTT packets, the only ones that carry the application's error
    /// code. CONNECTION_CLOSE in a Handshake packet would end the handshake instead.
    fn completes_handshake(&self) -> bool {
        let Lifecycle::Closing { close, rounds, .. } = &self.lifecycle else { return false };
        *rounds < COMPLETING_ROUNDS
            && self.side.is_client()
            && close.kind == CloseKind::Application
            && self.handshake.is_complete()
            && self.handshake.protection().can_seal(SpaceId::Handshake)
    }

    /// Handles a built CONNECTION_CLOSE datagram. After the last handshake messages, which may need
    /// more than one datagram, it is sent twice: the server may stay silent until the closing state
    /// has ended.
    fn on_close_built(&mut self, completes: bool) {
        let mut drafts = self.outgoing.buffers.drafts.iter();
        let has_close = drafts.any(|draft| draft.space == SpaceId::Application);
        let has_messages = self.handshake.has_pending(SpaceId::Handshake);
        let continues = completes && (has_messages || !has_close);
        self.lifecycle.on_close_built(continues);
        if continues || !self.completes_handshake() {
            return;
        }
        let messages = self.handshake.stream_mut(SpaceId::Handshake);
        messages.retransmit_all_unacked();
        if messages.has_pending() {
            self.lifecycle.repeat_close();
        }
    }
}

impl Close {
    /// Returns the maximum size of the frame: its type, three integers and the reason (RFC 9000
    /// §19.19).
    fn max_len(&self) -> usize {
        self.reason.len().saturating_add(1 + 3 * 8)
    }

    /// Writes the frame. An application's error code and reason are omitted from packets that an
    /// attacker can read (RFC 9000 §10.2.3).
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
