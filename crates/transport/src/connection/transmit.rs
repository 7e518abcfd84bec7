//! Sending: collects the frames of each part in a fixed order and fills datagrams in place.

use clearway_congestion::SendLimit;
use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, Frame, PacketType, Writer, frame, header};

use super::packet::{Draft, HeaderPlan};
use super::shares::Shares;
use super::{Connection, Transmit};
use crate::TransportError;
use crate::contents::PacketContents;
use crate::ecn::EcnCodepoint;
use crate::observer::{Observation, PacketObservation};
use crate::path::{MINIMUM_INITIAL_SIZE, SpinBit};
use crate::recovery::StagedPacket;
use crate::space_id::SpaceId;
use crate::token::Token;

/// The minimum anti-amplification credit for building anything: the size of a 1-RTT packet with the
/// longest header, a PATH_CHALLENGE and a small ACK.
const SMALLEST_DATAGRAM: usize = 64;

/// The result of an attempt to build a datagram.
enum Built {
    /// A datagram of this many bytes was built.
    Datagram(usize),
    /// No datagram was built, because of this limit.
    Stopped(SendLimit),
}

impl Connection {
    /// Fills `buffer` with up to `max_datagrams` datagrams of equal size for one destination; the
    /// last may be shorter. Returns `None` if there is nothing to send now. The buffer must hold at
    /// least one datagram of the configured initial size. No datagram is larger than the buffer, so
    /// 65,527 bytes suffice for any.
    ///
    /// The datagrams count as sent only after [`transmitted`](Self::transmitted),
    /// [`transmit_refused`](Self::transmit_refused) or [`transmit_failed`](Self::transmit_failed).
    /// Until then no more are built (law 2).
    pub fn transmit(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
        max_datagrams: usize,
    ) -> Option<Transmit> {
        if self.outgoing.awaits_kernel || self.lifecycle.is_drained() {
            return None;
        }
        #[cfg(any(test, debug_assertions))]
        self.check_caches();
        let transmit = if self.lifecycle.is_closed() {
            self.outgoing.is_off_path = false;
            self.transmit_close(now, buffer)
        } else {
            self.start_key_update_if_due(now);
            self.follow_path_mtu(now);
            let probe = self.transmit_path_probe(now, buffer);
            self.outgoing.is_off_path = probe.is_some();
            probe.or_else(|| self.transmit_on_path(now, buffer, max_datagrams))
        };
        self.outgoing.awaits_kernel = transmit.is_some();
        match &transmit {
            Some(transmit) => {
                self.count_last(transmit);
                self.compaction.on_activity(now);
            }
            None => {
                #[cfg(any(test, debug_assertions))]
                self.check_caches();
                self.observe_after_transmitting(now);
                self.pack_if_compacted();
            }
        }
        transmit
    }

    /// Builds datagrams for the current path.
    fn transmit_on_path(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
        max_datagrams: usize,
    ) -> Option<Transmit> {
        if self.holds_sending() {
            self.note_stop(now, SendLimit::Path);
            return None;
        }
        self.transmit_mtu_probe(now, buffer)
            .or_else(|| self.transmit_batch(now, buffer, max_datagrams))
    }

    /// Reports that the last batch was passed to the kernel at `now`. From here on it counts as in
    /// flight.
    pub fn transmitted(&mut self, now: Timestamp) {
        if !core::mem::take(&mut self.outgoing.awaits_kernel) {
            return;
        }
        if let Err(error) = self.recovery.get_mut().transmitted(now) {
            self.fail(now, error);
            return;
        }
        self.outgoing.mtu_probe = None;
        if !self.outgoing.is_off_path {
            self.on_sendable(now);
        }
        if core::mem::take(&mut self.outgoing.batch_elicits_ack) {
            self.idle.on_ack_eliciting_sent(now);
        }
    }

    fn transmit_batch(
        &mut self,
        now: Timestamp,
        buffer: &mut [u8],
        max_datagrams: usize,
    ) -> Option<Transmit> {
        let mut segment = self.max_datagram_size().min(buffer.len());
        let mut filled = 0_usize;
        let mut count = 0_usize;
        let mut first = segment;
        while count < max_datagrams {
            let ecn = self.next_codepoint(now);
            if count > 0 && ecn != self.outgoing.ecn {
                break;
            }
            self.outgoing.ecn = ecn;
            let Some(rest) = buffer.get_mut(filled..) else { break };
            if count > 0 {
                let bulk = self.build_bulk(now, rest, segment, max_datagrams.saturating_sub(count));
                match bulk {
                    Ok(0) => {}
                    Ok(built) => {
                        count = count.saturating_add(built);
                        filled = filled.saturating_add(built.saturating_mul(segment));
                        continue;
                    }
                    Err(error) => {
                        self.fail(now, error);
                        break;
                    }
                }
            }
            let size = self.size_of_next().min(segment);
            let room = rest.get_mut(..segment).and_then(|rest| rest.get_mut(..size));
            let Some(room) = room else { break };
            let waiting = self.datagrams.next_len();
            let size = match self.build_datagram(now, room, count == 0) {
                Ok(Built::Datagram(size)) => size,
                Ok(Built::Stopped(limit)) => {
                    // Once the staged packets are sent, `transmit` is called again.
                    if filled == 0 {
                        self.note_stop(now, limit);
                    }
                    break;
                }
                Err(error) => {
                    self.fail(now, error);
                    break;
                }
            };
            filled = filled.saturating_add(size);
            if count == 0 {
                first = size;
            }
            count = count.saturating_add(1);
            if size < segment {
                // DATAGRAM frames are not split, so packets with them are rarely full. Packets of
                // the same size can follow if the next DATAGRAM frame is not longer.
                let next = self.datagrams.next_len();
                if count > 1 || next.is_none() || next > waiting {
                    break;
                }
                segment = size;
            }
        }
        if filled == 0 {
            return None;
        }
        let path = self.paths.current();
        Some(Transmit {
            destination: path.remote(),
            socket: path.socket(),
            source_ip: path.local_ip(),
            size: filled,
            segment_size: (filled > first).then_some(first),
            ecn: self.outgoing.ecn,
        })
    }

    /// Builds one datagram, or returns what prevents it (law 4).
    fn build_datagram(
        &mut self,
        now: Timestamp,
        room: &mut [u8],
        is_first: bool,
    ) -> Result<Built, TransportError> {
        let credit = self.paths.current().amplification_credit();
        if credit < self.smallest_datagram() {
            return Ok(Built::Stopped(SendLimit::Amplification));
        }
        let room_len = usize::try_from(credit).unwrap_or(usize::MAX).min(room.len());
        let room = room.get_mut(..room_len).unwrap_or_default();
        let permission = self.recovery.get_mut().may_send(now);

        let mut writer = Writer::new(room);
        self.outgoing.clear_drafts();
        for space in SpaceId::ALL {
            self.draft_packet(now, space, permission.is_ok(), &mut writer);
        }
        if self.outgoing.buffers.drafts.is_empty() {
            let limit = self.why_nothing(permission.err());
            let is_short = limit == SendLimit::Application && self.has_something();
            return Ok(Built::Stopped(if is_short { SendLimit::Amplification } else { limit }));
        }
        self.on_datagram_filled(room_len, writer.remaining());
        self.pad_datagram(&mut writer);
        // The loss of an ACK frame is not detected, so a datagram with nothing else is not marked:
        // ACK frames must reach the peer even on a path that drops marked packets. All datagrams of
        // a batch have the same mark.
        if is_first && !self.outgoing.buffers.drafts.iter().any(|draft| draft.counts_in_flight) {
            self.outgoing.ecn = EcnCodepoint::NotEct;
        }
        let size = writer.written();
        self.protect_and_stage(now, writer.filled_mut())?;
        self.paths.on_datagram_built(size);
        Ok(Built::Datagram(size))
    }

    /// Returns the ECN codepoint of the next datagram, unless it contains only ACK frames.
    fn next_codepoint(&mut self, now: Timestamp) -> EcnCodepoint {
        let is_probe = SpaceId::ALL
            .into_iter()
            .any(|space| *self.outgoing.probes.get(space) > 0 && self.can_send(space));
        // A path that drops marked packets must not fail validation for that: PATH_CHALLENGE and
        // PATH_RESPONSE are sent unmarked, and ECN is not tested before validation, since little
        // may be sent there (RFC 9000 §8.2, §9.3.1).
        let is_unmarked = is_probe || self.paths.has_frames_pending();
        let may_test = !self.lifecycle.is_confirmed() || self.paths.current().is_validated();
        let ecn = self.recovery.get_mut().codepoint(now, is_unmarked, may_test);
        self.observe_ecn(now);
        ecn
    }

    /// Drafts a packet of `space` if there is anything to send in it.
    fn draft_packet(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        is_permitted: bool,
        writer: &mut Writer<'_>,
    ) {
        if !self.can_send(space) {
            return;
        }
        let probe = *self.outgoing.probes.get(space) > 0;
        let may_elicit = is_permitted || probe;
        let ack_due = self.received.get(space).is_due(now) || self.acknowledges_early(space);
        if !(ack_due || may_elicit && self.has_something_for(space)) {
            return;
        }
        let destination = self.remote_ids.current();
        let draft = self.draft(space, destination, writer, |connection, contents| {
            connection.fill(now, space, may_elicit, probe, contents);
        });
        if let Some(draft) = draft {
            draft.is_probe = probe && draft.is_ack_eliciting;
        }
    }

    /// Drafts the next packet of `space` after the bytes in `writer`: a header for `destination`,
    /// the frames that `fill` writes, and room for the tag. Returns `None` if there was no room,
    /// `fill` wrote nothing, or packet numbers are exhausted.
    pub(super) fn draft(
        &mut self,
        space: SpaceId,
        destination: ConnectionId,
        writer: &mut Writer<'_>,
        fill: impl FnOnce(&mut Self, &mut PacketContents<'_, '_>),
    ) -> Option<&mut Draft> {
        let number = self.recovery.get_mut().next_packet_number(space).ok()?;
        let is_initial = space == SpaceId::Initial;
        let is_early = space == SpaceId::Application && self.sends_early();
        let spin = space == SpaceId::Application && self.spin_bit(destination);
        let token = if is_initial {
            core::mem::take(&mut self.identity.tokens.initial)
        } else {
            Vec::new()
        };
        let plan = HeaderPlan {
            space,
            // 0-RTT packets never use the version that the server switches to (RFC 9369 §4.1).
            version: if is_early { self.versions.chosen() } else { self.handshake.version() },
            number,
            number_room: self.recovery.get().number_room(space),
            source: self.identity.local,
            destination,
            token: &token,
            spin,
            key_phase: self.handshake.protection().key_phase(),
            is_early,
        };
        let mut tokens = core::mem::take(self.outgoing.buffers.tokens.get_mut(space));
        let draft = Draft::write(writer, &plan, &mut tokens, |contents| fill(self, contents));
        *self.outgoing.buffers.tokens.get_mut(space) = tokens;
        if is_initial {
            self.identity.tokens.initial = token;
        }
        self.outgoing.buffers.drafts.push(draft?);
        self.outgoing.buffers.drafts.last_mut()
    }

    /// Returns the latency spin bit of a packet to `destination` (RFC 9000 §17.4).
    pub(super) fn spin_bit(&mut self, destination: ConnectionId) -> bool {
        let configured = self.config.spin_bit;
        if destination == self.remote_ids.current() {
            let random = self.marks.random();
            return self.paths.current_mut().spin_bit(configured, destination, random);
        }
        // A probe of another path, where the bit has its initial value.
        configured == SpinBit::Random && self.marks.bit()
    }

    /// Returns whether the next packet's fixed bit is cleared, at random if the peer accepts it
    /// (RFC 9287 §3.1).
    fn clears_fixed_bit(&mut self) -> bool {
        self.config.grease_quic_bit && self.peer.parameters.grease_quic_bit && self.marks.bit()
    }

    /// Returns whether there is anything ack-eliciting to send in `space`.
    fn has_something_for(&self, space: SpaceId) -> bool {
        if *self.outgoing.probes.get(space) > 0 || self.handshake.has_pending(space) {
            return true;
        }
        space == SpaceId::Application
            && (self.has_control_pending()
                || self.streams.has_control_pending()
                || self.streams.has_data_pending()
                || self.datagrams.has_pending())
    }

    /// Returns whether there is anything ack-eliciting to send in any space that has keys.
    pub(super) fn has_something(&self) -> bool {
        SpaceId::ALL.into_iter().any(|space| self.can_send(space) && self.has_something_for(space))
    }

    /// Returns the minimum anti-amplification credit for sending anything, in bytes. Datagrams with
    /// Initial packets are expanded to 1200 bytes. Later, a peer that has migrated may leave only a
    /// little credit, which still suffices for a PATH_CHALLENGE (RFC 9000 §8.2.1).
    pub(super) fn smallest_datagram(&self) -> u64 {
        if self.handshake.protection().can_seal(SpaceId::Initial) {
            MINIMUM_INITIAL_SIZE as u64
        } else {
            SMALLEST_DATAGRAM as u64
        }
    }

    pub(super) fn has_control_pending(&self) -> bool {
        self.flags.handshake_done_pending
            || self.flags.new_token_pending
            || self.flags.ping_pending
            || self.ack_frequency.has_pending()
            || self.paths.has_frames_pending()
            || self.local_ids.has_pending()
            || self.remote_ids.has_pending()
    }

    /// Lets each part of the connection write its frames, in one fixed order.
    fn fill(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        may_elicit: bool,
        probe: bool,
        contents: &mut PacketContents<'_, '_>,
    ) {
        let is_application = space == SpaceId::Application;
        if is_application && self.sends_early() {
            return self.fill_early(may_elicit, probe, contents);
        }
        if is_application && may_elicit {
            self.paths.write_frames(now, contents);
        }
        // A probe or PING repeats the ACK frame: the packet that carried it may be lost, and the
        // peer may be waiting for nothing else.
        let is_sign_of_life = is_application && may_elicit && (probe || self.flags.ping_pending);
        if is_sign_of_life || self.received.get(space).has_unacknowledged() {
            self.received.get_mut(space).write_ack(now, ack_delay_exponent(space), contents);
        }
        if !may_elicit {
            return;
        }
        let is_probe = probe && self.asks_for_immediate_acks();
        if is_application && (is_probe || self.wants_data_acknowledged_at_once()) {
            // A probe is acknowledged without delay (draft-ietf-quic-ack-frequency §7).
            let _ = contents.push(&Frame::ImmediateAck, None);
        }
        self.handshake.stream_mut(space).write_frames(contents);
        if is_application {
            self.write_control(contents);
            self.write_data(contents);
        }
        let ping = probe
            || (is_application && self.flags.ping_pending)
            || self.recovery.get().should_elicit_acknowledgement(space);
        if ping && !contents.is_ack_eliciting() {
            // A probe without other frames still has to be ack-eliciting (RFC 9002 §6.2.4).
            let _ = contents.push(&Frame::Ping, None);
        }
        if is_application && contents.is_ack_eliciting() {
            self.flags.ping_pending = false;
        }
    }

    /// Writes unreliable datagrams and stream data. If both have data, each gets the same number of
    /// bytes.
    fn write_data(&mut self, contents: &mut PacketContents<'_, '_>) {
        if !self.datagrams.has_pending() || !self.streams.has_data_pending() {
            self.outgoing.shares = Shares::default();
            self.datagrams.write_frames(contents);
            self.streams.get_mut().write_stream_frames(contents);
            return;
        }
        let room = contents.remaining();
        let streams_first = self.outgoing.shares.is_datagrams_ahead();
        if streams_first {
            self.streams.get_mut().write_stream_frames(contents);
        } else {
            self.datagrams.write_frames(contents);
        }
        let rest = contents.remaining();
        if streams_first {
            self.datagrams.write_frames(contents);
        } else {
            self.streams.get_mut().write_stream_frames(contents);
        }
        let (first, second) =
            (room.saturating_sub(rest), rest.saturating_sub(contents.remaining()));
        let (datagrams, streams) = if streams_first { (second, first) } else { (first, second) };
        self.outgoing.shares.note(datagrams, streams);
    }

    fn write_control(&mut self, contents: &mut PacketContents<'_, '_>) {
        if self.flags.handshake_done_pending
            && contents.push(&Frame::HandshakeDone, Some(Token::HandshakeDone)).is_ok()
        {
            self.flags.handshake_done_pending = false;
        }
        if self.flags.new_token_pending
            && let Some(token) = &self.identity.tokens.new
            && contents
                .push(&Frame::NewToken(frame::NewToken { token }), Some(Token::NewToken))
                .is_ok()
        {
            self.flags.new_token_pending = false;
        }
        // If it does not fit, it is written with the next packet.
        let _ = self.ack_frequency.write_frame(contents);
        self.local_ids.write_frames(contents);
        self.remote_ids.write_frames(contents);
        self.streams.get_mut().write_control_frames(contents);
    }

    /// Pads the datagram as RFC 9000 §14.1 requires: clients pad all datagrams with Initial
    /// packets, servers those that are ack-eliciting. Clients also pad their handshake probes: a
    /// server that receives them from a new address may send three times their size, and may still
    /// have most of its handshake messages to send.
    fn pad_datagram(&mut self, writer: &mut Writer<'_>) {
        let is_client = self.side.is_client();
        let is_unsure_client = is_client && !self.lifecycle.is_confirmed();
        let is_path_validation = self.paths.take_padding();
        let needs_padding = is_path_validation
            || self.tests_smallest_mtu()
            || self.outgoing.buffers.drafts.iter().any(|draft| {
                draft.space == SpaceId::Initial && (is_client || draft.is_ack_eliciting)
                    || is_unsure_client && draft.is_probe
            });
        if needs_padding && let Some(last) = self.outgoing.buffers.drafts.last_mut() {
            last.pad_datagram(writer, MINIMUM_INITIAL_SIZE);
        }
    }

    /// Encrypts the drafts in place, and stages them in the ledger.
    pub(super) fn protect_and_stage(
        &mut self,
        now: Timestamp,
        datagram: &mut [u8],
    ) -> Result<(), TransportError> {
        for index in 0..self.outgoing.buffers.drafts.len() {
            let Some(draft) = self.outgoing.buffers.drafts.get(index).copied() else { break };
            self.protect(now, &draft, datagram)?;
            self.stage(&draft)?;
            self.after_staging(now, &draft);
        }
        Ok(())
    }

    /// Encrypts a draft in place.
    pub(super) fn protect(
        &mut self,
        now: Timestamp,
        draft: &Draft,
        datagram: &mut [u8],
    ) -> Result<(), TransportError> {
        draft.set_length(datagram).map_err(|_| TOO_LONG)?;
        if self.clears_fixed_bit()
            && let Some(first) = datagram.get_mut(draft.start)
        {
            *first = header::without_fixed_bit(*first);
        }
        self.observe_sent(now, draft, datagram);
        let packet = datagram.get_mut(draft.start..draft.end()).unwrap_or_default();
        let number_offset = draft.number_offset.saturating_sub(draft.start);
        let payload_offset = draft.payload_offset.saturating_sub(draft.start);
        let (number, protection) = (draft.number, self.handshake.protection_mut());
        if draft.packet_type == PacketType::ZeroRtt {
            protection.seal_early(number, number_offset, payload_offset, packet)
        } else {
            protection.seal(draft.space, number, number_offset, payload_offset, packet)
        }
    }

    pub(super) fn stage(&mut self, draft: &Draft) -> Result<(), TransportError> {
        if draft.is_probe {
            self.on_probe_staged(draft.space);
        }
        self.outgoing.batch_elicits_ack |= draft.is_ack_eliciting;
        let packet = StagedPacket {
            number: draft.number,
            bytes: draft.size() as u64,
            ack_eliciting: draft.is_ack_eliciting,
            in_flight: draft.counts_in_flight,
            is_probe_of_path: draft.is_path_probe || draft.is_mtu_probe,
            is_off_path: draft.is_path_probe,
            is_marked: self.outgoing.ecn == EcnCodepoint::Ect0,
        };
        self.recovery.get_mut().stage(
            draft.space,
            packet,
            self.outgoing.buffers.tokens.get_mut(draft.space),
        )
    }

    /// Discards a client's Initial keys when it first sends a Handshake packet (RFC 9001 §4.9.1).
    fn after_staging(&mut self, now: Timestamp, draft: &Draft) {
        if self.side.is_client() && draft.space == SpaceId::Handshake {
            self.discard_space(now, SpaceId::Initial);
        }
    }

    /// Returns why no datagram was built: the limit that blocked pending data, or that no data was
    /// pending.
    fn why_nothing(&self, limit: Option<SendLimit>) -> SendLimit {
        match limit {
            Some(limit) if self.has_something() => limit,
            _ if self.streams.blocked_by().is_some() => SendLimit::FlowControl,
            _ if !self.can_send(SpaceId::Application) && self.streams.has_data_pending() => {
                SendLimit::Keys
            }
            _ => SendLimit::Application,
        }
    }

    fn note_stop(&mut self, now: Timestamp, limit: SendLimit) {
        self.recovery.get_mut().sending_stopped(now, limit);
        let old = self.outgoing.limit.replace(limit);
        if old.map(|old| core::mem::discriminant(&old)) != Some(core::mem::discriminant(&limit)) {
            self.observe(now, &Observation::SendLimitUpdated { old, new: limit });
        }
    }

    /// Reports the effects of an attempt to send: timers and bytes in flight.
    fn observe_after_transmitting(&mut self, now: Timestamp) {
        if self.watch.observer.is_none() {
            return;
        }
        self.observe_timers(now);
        if self.recovery.get().bytes_in_flight() != self.watch.in_flight {
            self.observe_recovery(now);
        }
    }

    fn observe_sent(&mut self, now: Timestamp, draft: &Draft, datagram: &[u8]) {
        let Some(observer) = &mut self.watch.observer else { return };
        let packet = PacketObservation {
            packet_type: draft.packet_type,
            number: draft.number,
            key_phase: draft.key_phase,
            size: draft.size(),
            payload: datagram.get(draft.payload_offset..draft.payload_end).unwrap_or_default(),
            is_probe: draft.is_probe,
            is_path_probe: draft.is_path_probe,
            is_mtu_probe: draft.is_mtu_probe,
            ecn: self.outgoing.ecn,
        };
        observer.observe(now, &Observation::PacketSent(packet));
    }

    /// Starts a key update well before the AEAD's limit (RFC 9001 §6.6).
    fn start_key_update_if_due(&mut self, now: Timestamp) {
        if self.lifecycle.is_confirmed() && self.handshake.protection().is_update_due() {
            self.update_keys(now);
        }
    }

    /// Starts a key update (RFC 9001 §6.1). Returns `false` while the previous one is not
    /// acknowledged yet.
    pub fn update_keys(&mut self, now: Timestamp) -> bool {
        let started = self.lifecycle.is_confirmed()
            && self.handshake.protection_mut().initiate_update(now, true);
        if started {
            self.observe(now, &Observation::KeyUpdated { is_local: true });
        }
        started
    }
}

const TOO_LONG: TransportError =
    TransportError::internal("a packet is too long for its Length field");

/// This endpoint's ack_delay_exponent: the default (RFC 9000 §18.2).
const LOCAL_ACK_DELAY_EXPONENT: u8 = 3;

/// Returns the exponent in ACK frames of `space`: only those of 1-RTT packets are scaled by the
/// transport parameter (RFC 9000 §13.2.5).
pub(super) fn ack_delay_exponent(space: SpaceId) -> u8 {
    if space == SpaceId::Application { LOCAL_ACK_DELAY_EXPONENT } else { 0 }
}
