//! Receiving: a datagram is split into packets, which are decrypted in place, and their frames are
//! processed.

use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{
    ConnectionId, Frame, PacketNumber, PacketType, Reader, ResetToken, TransportErrorCode, Version,
};

use super::Connection;
use super::versions::OpenWith;
use crate::address::Arrival;
use crate::drops::DropReason;
use crate::handshake::{OpenError, Opened};
use crate::ids::MINIMUM_RESET_SIZE;
use crate::observer::{Observation, PacketObservation};
use crate::path::{MINIMUM_INITIAL_SIZE, SpinBit};
use crate::space_id::SpaceId;
use crate::{Side, TransportError};
use clearway_units::memory::Unused;

/// Packets that arrived before their keys were available: few, and only during the handshake.
#[derive(Debug, Default)]
pub(super) struct HeldPackets {
    packets: Vec<(Arrival, SpaceId, Vec<u8>)>,
    /// 0-RTT packets, of which a client may send many before its ClientHello arrives.
    early: Vec<(Arrival, Vec<u8>)>,
}

impl HeldPackets {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of packets.
    pub(super) fn len(&self) -> usize {
        self.packets.len().saturating_add(self.early.len())
    }
}

impl Unused for HeldPackets {
    fn unused() -> &'static Self {
        static UNUSED: HeldPackets = HeldPackets { packets: Vec::new(), early: Vec::new() };
        &UNUSED
    }
}

/// The maximum number of packets that are held until their keys are available.
const MAX_HELD_PACKETS: usize = 10;
/// The maximum number of 0-RTT packets that a server holds until the ClientHello is complete (RFC
/// 9001 §5.7): an initial window's worth.
const MAX_HELD_EARLY_PACKETS: usize = 10;

/// The context for processing a packet's frames.
#[derive(Clone, Copy)]
pub(super) struct PacketContext {
    pub(super) arrival: Arrival,
    pub(super) space: SpaceId,
    pub(super) packet_type: PacketType,
    pub(super) number: PacketNumber,
    /// The version of a long header.
    pub(super) version: Option<Version>,
    /// The latency spin bit of a short header.
    pub(super) spin: bool,
    /// The Destination Connection ID that the packet used.
    pub(super) destination: ConnectionId,
    /// The Source Connection ID of a long header.
    pub(super) source: Option<ConnectionId>,
    /// The packet's size in the datagram, in bytes.
    pub(super) size: usize,
    /// Whether the packet was the first one protected with the peer's next keys.
    pub(super) key_updated: bool,
    /// Whether the packet was protected with the previous keys.
    pub(super) with_previous_keys: bool,
}

/// The outcome for a packet, or the highest outcome among a datagram's packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum PacketOutcome {
    /// The packet's protection was not removed: the packet was dropped, or is held until keys are
    /// available.
    Sealed,
    /// The packet was authentic, but dropped: a duplicate, or part of another connection attempt.
    Opened,
    /// The packet's frames were processed.
    Received,
}

/// The combined effect of a packet's frames.
#[derive(Clone, Copy, Default)]
pub(super) struct PacketEffect {
    pub(super) is_ack_eliciting: bool,
    pub(super) is_probing_only: bool,
    /// Whether the packet contained an ACK frame.
    pub(super) acknowledges: bool,
}

impl Connection {
    /// Processes one UDP payload. It is decrypted in place, so its bytes are meaningless
    /// afterwards. Returns whether the peer sent the payload and it had not been received before:
    /// it contained an authentic packet, or was a stateless reset.
    pub fn receive(&mut self, now: Timestamp, arrival: Arrival, datagram: &mut [u8]) -> bool {
        self.counters.on_datagram_received(datagram.len());
        if self.lifecycle.is_closed() {
            self.paths.on_datagram_received(arrival, datagram.len());
            self.lifecycle.on_packet_while_closing();
            self.notice_close_while_closing(now, datagram);
            return false;
        }
        self.compaction.on_activity(now);
        if self.side.is_client() && !self.paths.is_address_of_peer(arrival) {
            // A server changes its address only if it has announced that (RFC 9000 §9).
            self.observe_dropped(now, datagram.len(), DropReason::Unexpected);
            return false;
        }
        self.paths.on_datagram_received(arrival, datagram.len());
        // Decryption changes the bytes even if it fails, and a stateless reset is recognized by its
        // last bytes.
        let tail = datagram.last_chunk().copied();
        let tail = tail.filter(|_| datagram.len() >= MINIMUM_RESET_SIZE);
        let outcome = self.receive_packets(now, arrival, datagram);
        // A datagram without any packet that could be decrypted may be a stateless reset (RFC 9000
        // §10.3.1).
        let is_reset = outcome == PacketOutcome::Sealed
            && tail.is_some_and(|tail| self.remote_ids.is_reset_token(&ResetToken::new(tail)));
        if is_reset {
            self.receive_reset(now);
        }
        self.after_receiving(now);
        is_reset || outcome == PacketOutcome::Received
    }

    fn receive_packets(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        datagram: &mut [u8],
    ) -> PacketOutcome {
        let is_small = datagram.len() < MINIMUM_INITIAL_SIZE;
        let mut rest = datagram;
        let mut first_destination = None;
        let mut outcome = PacketOutcome::Sealed;
        while !rest.is_empty() && !self.lifecycle.is_closed() {
            let size = rest.len();
            let Ok(header) = ProtectedHeader::decode(rest, self.local_ids.id_len()) else {
                self.observe_dropped(now, size, DropReason::Invalid);
                return outcome;
            };
            let Some(head) = self.head_of(now, &header, size) else { return outcome };
            // All packets of a datagram belong to one connection (RFC 9000 §12.2).
            if first_destination.is_some_and(|first| first != head.destination) {
                self.observe_dropped(now, size, DropReason::ConnectionUnknown);
                return outcome;
            }
            let Some((packet, next)) = rest.split_at_mut_checked(header.packet_len) else {
                return outcome;
            };
            if !next.is_empty() {
                first_destination = Some(head.destination);
            }
            if head.packet_type == PacketType::Initial && self.discards_initial(&head, is_small) {
                self.observe_dropped(now, packet.len(), DropReason::Invalid);
            } else {
                outcome = outcome.max(self.receive_packet(now, arrival, &head, packet));
            }
            rest = next;
        }
        outcome
    }

    /// Extracts the part of a header that is needed while its packet is borrowed. Version
    /// Negotiation and Retry packets, which contain no frames and are not coalesced, are processed
    /// here. `size` is the size of the datagram's remaining bytes.
    fn head_of(
        &mut self,
        now: Timestamp,
        header: &ProtectedHeader<'_>,
        size: usize,
    ) -> Option<Head> {
        let (packet_type, packet_number_offset) = match &header.kind {
            HeaderKind::VersionNegotiation(packet) => {
                if !self.receive_version_negotiation(now, packet) {
                    self.observe_dropped(now, size, DropReason::VersionNegotiation);
                }
                return None;
            }
            HeaderKind::Retry(packet) => {
                if !self.receive_retry(now, packet) {
                    self.observe_dropped(now, size, DropReason::Retry);
                }
                return None;
            }
            HeaderKind::UnknownVersion { .. } => {
                self.observe_dropped(now, size, DropReason::UnsupportedVersion);
                return None;
            }
            _ => header.packet_type()?,
        };
        let head = Head {
            packet_type,
            packet_number_offset,
            version: None,
            destination: ConnectionId::default(),
            source: None,
            has_token: false,
            has_fixed_bit: header.fixed_bit,
            spin: false,
        };
        match header.kind {
            HeaderKind::Long { version, destination, source, token, .. } => Some(Head {
                version: Some(version),
                destination,
                source: Some(source),
                has_token: !token.is_empty(),
                ..head
            }),
            HeaderKind::Short { destination, spin, .. } => Some(Head { destination, spin, ..head }),
            _ => None,
        }
    }

    /// Returns whether an Initial packet has to be discarded: by a server, if its datagram is too
    /// small (RFC 9000 §14.1); by a client, if it contains a token (§17.2.2).
    fn discards_initial(&self, head: &Head, is_small: bool) -> bool {
        if self.side.is_server() { is_small } else { head.has_token }
    }

    fn receive_packet(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        head: &Head,
        packet: &mut [u8],
    ) -> PacketOutcome {
        let size = packet.len();
        // RFC 9000 §17.2; RFC 9287 §3.
        if !head.has_fixed_bit && !self.config.grease_quic_bit {
            self.observe_dropped(now, size, DropReason::Invalid);
            return PacketOutcome::Sealed;
        }
        let Some(space) = space_of(head.packet_type) else {
            return self.receive_early_packet(now, arrival, head, packet);
        };
        let open_with = match head.version.map(|version| self.keys_for(version, space)) {
            None => OpenWith::Current,
            Some(Ok(open_with)) => open_with,
            Some(Err(error)) => {
                self.fail(now, error);
                return PacketOutcome::Sealed;
            }
        };
        if open_with == OpenWith::Nothing {
            self.observe_dropped(now, size, DropReason::UnsupportedVersion);
            return PacketOutcome::Sealed;
        }
        if open_with == OpenWith::Current && !self.handshake.protection().can_open(space) {
            self.hold_or_drop(now, arrival, space, packet);
            return PacketOutcome::Sealed;
        }
        let largest = self.received.get(space).largest();
        let protection = self.handshake.protection_mut();
        let number_offset = head.packet_number_offset;
        let opened = if open_with == OpenWith::OtherInitial {
            protection.open_other_initial(now, largest, number_offset, packet)
        } else {
            protection.open(space, now, largest, number_offset, packet)
        };
        self.receive_opened(now, arrival, head, space, size, opened)
    }

    /// Processes a 0-RTT packet. A server decrypts those in the client's first version. Clients
    /// never receive any (RFC 9001 §5.6).
    fn receive_early_packet(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        head: &Head,
        packet: &mut [u8],
    ) -> PacketOutcome {
        let size = packet.len();
        if self.side.is_client() {
            self.observe_dropped(now, size, DropReason::Unexpected);
            return PacketOutcome::Sealed;
        }
        if head.version != Some(self.versions.chosen()) {
            self.observe_dropped(now, size, DropReason::UnsupportedVersion);
            return PacketOutcome::Sealed;
        }
        if !self.handshake.protection().has_early() {
            self.hold_or_drop_early(now, arrival, packet);
            return PacketOutcome::Sealed;
        }
        let space = SpaceId::Application;
        let largest = self.received.get(space).largest();
        let protection = self.handshake.protection_mut();
        let opened = protection.open_early(largest, head.packet_number_offset, packet);
        self.receive_opened(now, arrival, head, space, size, opened)
    }

    /// Processes a packet after the attempt to remove its protection.
    fn receive_opened(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        head: &Head,
        space: SpaceId,
        size: usize,
        opened: Result<Opened<'_>, OpenError>,
    ) -> PacketOutcome {
        let opened = match opened {
            Ok(opened) => opened,
            Err(OpenError::Close(error)) => {
                self.fail(now, error);
                return PacketOutcome::Sealed;
            }
            Err(OpenError::NoKeys | OpenError::TooShort | OpenError::Authentication) => {
                self.observe_dropped(now, size, DropReason::DecryptionFailure);
                return PacketOutcome::Sealed;
            }
        };
        self.counters.packets_opened = self.counters.packets_opened.saturating_add(1);
        let context = PacketContext {
            arrival,
            space,
            packet_type: head.packet_type,
            number: opened.number,
            version: head.version,
            spin: head.spin,
            destination: head.destination,
            source: head.source,
            size,
            key_updated: opened.key_phase_changed,
            with_previous_keys: opened.with_previous_keys,
        };
        let result = if opened.reserved_bits_set {
            Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "reserved bits of a packet header are not zero",
                "RFC 9000 §17",
            ))
        } else {
            self.receive_payload(now, &context, opened.payload)
        };
        result.unwrap_or_else(|error| {
            self.fail(now, error);
            PacketOutcome::Received
        })
    }

    /// Processes the frames of a decrypted packet.
    fn receive_payload(
        &mut self,
        now: Timestamp,
        context: &PacketContext,
        payload: &[u8],
    ) -> Result<PacketOutcome, TransportError> {
        if self.received.get(context.space).is_duplicate(context.number) {
            self.observe_dropped(now, context.size, DropReason::Duplicate);
            return Ok(PacketOutcome::Opened);
        }
        if context.source.is_some_and(|source| !self.is_expected_source(source)) {
            // A packet with another Source Connection ID is discarded (RFC 9000 §7.2).
            self.observe_dropped(now, context.size, DropReason::ConnectionUnknown);
            return Ok(PacketOutcome::Opened);
        }
        if context.key_updated {
            self.observe(now, &Observation::KeyUpdated { is_local: false });
        }
        self.observe_received(now, context, payload);
        self.counters.packets_received = self.counters.packets_received.saturating_add(1);
        self.on_authenticated(now, context)?;
        let largest = self.received.get(context.space).largest();
        let is_largest = largest.is_none_or(|largest| context.number > largest);
        let known = self.handshake.received(context.space);
        let is_early = context.packet_type == PacketType::ZeroRtt;
        self.streams.get_mut().set_receiving_early(is_early);
        let effect = self.receive_frames(now, context, payload)?;
        if self.lifecycle.is_closed() {
            return Ok(PacketOutcome::Received);
        }
        let is_handshake = context.space != SpaceId::Application;
        if is_handshake
            && effect.is_ack_eliciting
            && self.handshake.received(context.space) == known
        {
            // The peer is retransmitting: our response may be lost.
            self.probe_handshake_early();
        }
        let is_sign_of_life = is_largest && effect.is_ack_eliciting && effect.acknowledges;
        if is_sign_of_life && context.space == SpaceId::Application {
            let context = self.pto_context();
            self.recovery.get_mut().on_peer_activity(now, &context);
        }
        let received = self.received.get_mut(context.space);
        received.on_packet(context.number, now, effect.is_ack_eliciting, context.arrival.ecn);
        if is_handshake && effect.is_ack_eliciting {
            self.ask_for_client_hello();
        }
        // Initial packets can be forged by anyone on the path, since their keys are not secret, so
        // they do not change an address. 0-RTT packets can be replayed from any address.
        let proves_address = context.space != SpaceId::Initial && !is_early;
        if proves_address && is_largest && !effect.is_probing_only {
            self.notice_peer_address(now, context);
        } else if self.side.is_server() && context.arrival.socket != self.paths.current().socket() {
            self.on_packet_at_other_socket(now, context, false);
        }
        Ok(PacketOutcome::Received)
    }

    fn receive_frames(
        &mut self,
        now: Timestamp,
        context: &PacketContext,
        payload: &[u8],
    ) -> Result<PacketEffect, TransportError> {
        if payload.is_empty() {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "a packet has no frames",
                "RFC 9000 §12.4",
            ));
        }
        let mut effect = PacketEffect { is_probing_only: true, ..PacketEffect::default() };
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let frame = Frame::decode(&mut reader)?;
            effect.is_ack_eliciting |= frame.is_ack_eliciting();
            effect.is_probing_only &= frame.is_probing();
            effect.acknowledges |= matches!(frame, Frame::Ack(_));
            if !frame.is_allowed_in(context.packet_type) {
                return Err(TransportError::rule(
                    TransportErrorCode::PROTOCOL_VIOLATION,
                    "a frame is not allowed in this packet type",
                    "RFC 9000 §12.4",
                )
                .in_frame(frame.frame_type()));
            }
            let frame_type = frame.frame_type();
            self.receive_frame(now, context, frame).map_err(|error| error.in_frame(frame_type))?;
            if self.lifecycle.is_closed() {
                break;
            }
        }
        Ok(effect)
    }

    /// Handles an authenticated packet: its sender has the keys.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if TLS cannot switch to the server's version.
    fn on_authenticated(
        &mut self,
        now: Timestamp,
        context: &PacketContext,
    ) -> Result<(), TransportError> {
        self.idle.on_received(now);
        if context.arrival.address() == self.paths.current().address() {
            self.notice_local_address(context.arrival.local_ip);
        }
        match (self.side, context.space) {
            // The client has these keys because it received packets sent to its first address (RFC
            // 9000 §8.1). That does not validate an address to which it has changed since.
            (Side::Server, SpaceId::Handshake) => {
                if self.paths.current().is_first() {
                    self.paths.current_mut().set_validated();
                }
                self.discard_space(now, SpaceId::Initial);
            }
            (Side::Client, SpaceId::Initial) => {
                self.flags.initial_from_server_seen = true;
                self.versions.on_answer();
                if let Some(version) = context.version {
                    self.follow_version(now, version)?;
                }
            }
            (side, SpaceId::Application)
                if self.config.spin_bit == SpinBit::Enabled && context.version.is_none() =>
            {
                self.note_spin_bit(side, context);
            }
            _ => {}
        }
        Ok(())
    }

    fn note_spin_bit(&mut self, side: Side, packet: &PacketContext) {
        let random = self.marks.random();
        let path = self.paths.current_mut();
        if path.remote() == packet.arrival.remote {
            let configured = self.config.spin_bit;
            path.on_spin_bit(configured, packet.number, packet.spin, side.is_client(), random);
        }
    }

    /// Returns whether a packet's Source Connection ID is the peer's. The server's first one
    /// replaces the ID that the client chose; after that it must not change (RFC 9000 §7.2).
    fn is_expected_source(&mut self, source: ConnectionId) -> bool {
        if !core::mem::replace(&mut self.identity.remote_is_known, true) {
            self.remote_ids.set_from_handshake(source);
        }
        self.remote_ids.handshake_id() == source
    }

    /// Returns whether keys for `space` may still become available, in which case a packet is early
    /// rather than late.
    fn keys_may_come(&self, space: SpaceId) -> bool {
        self.lifecycle.is_handshaking()
            && space != SpaceId::Initial
            && !self.handshake.protection().can_open(space)
    }

    fn hold_or_drop(&mut self, now: Timestamp, arrival: Arrival, space: SpaceId, packet: &[u8]) {
        if self.keys_may_come(space) && self.held.packets.len() < MAX_HELD_PACKETS {
            self.observe(now, &Observation::PacketBuffered { size: packet.len() });
            self.held.packets.push((arrival, space, packet.to_vec()));
            self.probe_handshake_early();
        } else {
            self.observe_dropped(now, packet.len(), DropReason::KeyUnavailable);
            if space == SpaceId::Handshake {
                self.repeat_handshake_done();
            }
        }
    }

    /// Returns whether early data can still be accepted: the ClientHello may not be complete yet.
    fn early_keys_may_come(&self) -> bool {
        let protection = self.handshake.protection();
        !protection.has_early()
            && !protection.can_seal(SpaceId::Handshake)
            && self.lifecycle.is_handshaking()
    }

    fn hold_or_drop_early(&mut self, now: Timestamp, arrival: Arrival, packet: &[u8]) {
        if self.early_keys_may_come() && self.held.early.len() < MAX_HELD_EARLY_PACKETS {
            self.observe(now, &Observation::PacketBuffered { size: packet.len() });
            self.held.early.push((arrival, packet.to_vec()));
        } else {
            self.observe_dropped(now, packet.len(), DropReason::KeyUnavailable);
        }
    }

    fn release_held_early(&mut self, now: Timestamp) {
        if self.held.early.is_empty() || self.early_keys_may_come() {
            return;
        }
        for (arrival, mut packet) in core::mem::take(&mut self.held.early) {
            if !self.lifecycle.is_closed() {
                self.receive_packets(now, arrival, &mut packet);
            }
        }
    }

    /// Decrypts the held packets whose keys have become available.
    pub(super) fn release_held(&mut self, now: Timestamp) {
        self.release_held_early(now);
        if self.held.packets.is_empty() {
            return;
        }
        for (arrival, space, mut packet) in core::mem::take(&mut self.held.packets) {
            if self.keys_may_come(space) {
                self.held.packets.push((arrival, space, packet));
            } else if !self.lifecycle.is_closed() {
                self.receive_packets(now, arrival, &mut packet);
            }
        }
    }

    /// Returns whether a datagram received in the closing state contains the peer's
    /// CONNECTION_CLOSE.
    pub(super) fn contains_close(&mut self, now: Timestamp, datagram: &mut [u8]) -> bool {
        let Ok(header) = ProtectedHeader::decode(datagram, self.local_ids.id_len()) else {
            return false;
        };
        let Some((packet_type, offset)) = header.packet_type() else { return false };
        let Some(space) = space_of(packet_type) else { return false };
        let largest = self.received.get(space).largest();
        let Some(packet) = datagram.get_mut(..header.packet_len) else { return false };
        let Ok(opened) = self.handshake.protection_mut().open(space, now, largest, offset, packet)
        else {
            return false;
        };
        let mut reader = Reader::new(opened.payload);
        while let Ok(frame) = Frame::decode(&mut reader) {
            if matches!(frame, Frame::ConnectionClose(_)) {
                return true;
            }
        }
        false
    }

    fn observe_received(&mut self, now: Timestamp, context: &PacketContext, payload: &[u8]) {
        let key_phase = self.handshake.protection().key_phase();
        let Some(observer) = &mut self.watch.observer else { return };
        let packet = PacketObservation {
            packet_type: context.packet_type,
            number: context.number,
            key_phase,
            size: context.size,
            payload,
            is_probe: false,
            is_path_probe: false,
            is_mtu_probe: false,
            ecn: context.arrival.ecn,
        };
        observer.observe(now, &Observation::PacketReceived(packet));
    }

    /// Returns whether the handshake is in progress, in which case stray packets from the peer are
    /// counted.
    pub(crate) fn is_attempt(&self) -> bool {
        self.lifecycle.is_handshaking()
    }

    /// Counts a datagram that belongs to no connection, from the address of a server that has not
    /// completed the handshake.
    pub(crate) fn receive_stray(&mut self, now: Timestamp, size: usize, reason: DropReason) {
        if self.lifecycle.is_handshaking() {
            self.observe_dropped(now, size, reason);
        }
    }

    fn observe_dropped(&mut self, now: Timestamp, size: usize, reason: DropReason) {
        self.counters.packets_dropped = self.counters.packets_dropped.saturating_add(1);
        if self.lifecycle.is_handshaking() {
            self.counters.handshake_drops.get_or_insert_default().add(reason, 1);
        }
        self.observe(now, &Observation::PacketDropped { size, reason });
    }
}

/// The part of a protected header that is needed while the packet itself is borrowed for
/// decryption.
#[derive(Clone, Copy)]
struct Head {
    packet_type: PacketType,
    packet_number_offset: usize,
    version: Option<Version>,
    destination: ConnectionId,
    source: Option<ConnectionId>,
    has_token: bool,
    has_fixed_bit: bool,
    spin: bool,
}

/// Returns the packet number space of a packet type whose keys are those of its space. 0-RTT
/// packets have separate keys.
fn space_of(packet_type: PacketType) -> Option<SpaceId> {
    match packet_type {
        PacketType::Initial => Some(SpaceId::Initial),
        PacketType::Handshake => Some(SpaceId::Handshake),
        PacketType::OneRtt => Some(SpaceId::Application),
        PacketType::ZeroRtt => None,
    }
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
