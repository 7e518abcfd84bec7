//! Building of datagrams and packets to send.

use clearway_units::Timestamp;
use clearway_wire::Version;

use super::{CloseOrigin, Endpoint, EndpointError, Frame, Level, Progress, Role, Transmit};
use crate::Data;
use crate::quic::frame::AckRange;
use crate::quic::packet::{Header, Packet, Sealing, build};
use crate::quic::record::{PacketKind, Side};
use crate::quic::space::Outgoing;

/// Maximum number of packets in flight in each packet number space.
const WINDOW: usize = 64;

/// Maximum number of ranges in an ACK frame that the endpoint builds.
const ACK_RANGES: usize = 32;

impl Endpoint {
    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.now = now;
        let is_over = self.close.as_ref().is_some_and(|close| close.origin != CloseOrigin::Local);
        if self.out.is_empty() && !is_over {
            self.fill();
        }
        self.out.pop_front()
    }

    /// Builds the packets that the endpoint sends on its own: acknowledgments, TLS messages, stream
    /// data, and lost frames.
    fn fill(&mut self) {
        for level in [Level::Initial, Level::Handshake, Level::OneRtt] {
            while self.fill_one(level) {}
        }
    }

    /// Builds one packet. Returns whether there may be more to build.
    fn fill_one(&mut self, level: Level) -> bool {
        let can_acknowledge = self.config.acknowledges && self.keys.can_send(level);
        let has_application_keys = self.keys.application.is_some();
        let space = self.space(level);
        let has_room = space.in_flight() < WINDOW;
        let mut next = if has_room { space.queue.pop_front() } else { None };
        // Early data that was lost, or could not be sent early, is sent in a 1-RTT packet.
        if let Some(next) = &mut next
            && next.packet.level == Level::ZeroRtt
            && has_application_keys
        {
            next.packet.level = Level::OneRtt;
        }
        if let Some(unsendable) = next.take_if(|next| !self.keys.can_send(next.packet.level)) {
            self.space(level).queue.push_front(unsendable);
        }
        let is_early = next.as_ref().is_some_and(|next| next.packet.level == Level::ZeroRtt);
        let acknowledges = can_acknowledge && !is_early && self.space(level).ack_due;
        if next.is_none() && !acknowledges {
            return false;
        }
        let mut outgoing = next.unwrap_or_else(|| Outgoing {
            packet: Packet::at(level, Vec::new()),
            payload: Vec::new(),
            attempts: 0,
        });
        let acknowledgment = acknowledges.then(|| self.acknowledgment(level)).flatten();
        outgoing.attempts = outgoing.attempts.saturating_add(1);
        if level == Level::Initial {
            outgoing.packet.pad_to = Some(self.config.initial_size);
        }
        if let Ok(packet) = self.seal(&outgoing, acknowledgment) {
            let path = self.path;
            self.out.push_back(Transmit { path, bytes: packet });
        }
        if level == Level::Handshake && self.role == Role::Client {
            self.space(Level::Initial).discard();
        }
        true
    }

    fn acknowledgment(&mut self, level: Level) -> Option<Frame> {
        let space = self.space(level);
        space.ack_due = false;
        let mut ranges = space.ranges().take(ACK_RANGES);
        let (first, largest) = ranges.next()?;
        let mut smallest = first;
        let mut more = Vec::new();
        for (first, last) in ranges {
            let gap = smallest.saturating_sub(last).saturating_sub(2);
            more.push(AckRange { gap: gap.into(), length: last.saturating_sub(first).into() });
            smallest = first;
        }
        Some(Frame::Ack {
            largest: largest.into(),
            delay: 0.into(),
            first_range: largest.saturating_sub(first).into(),
            ranges: more,
            ecn: None,
        })
    }

    /// Encodes the frames of a packet. CRYPTO frames without a given offset continue the TLS
    /// messages.
    fn encode(&mut self, packet: &Packet) -> (Vec<u8>, Vec<Frame>) {
        let mut payload = Vec::new();
        let mut resolved = Vec::new();
        for frame in &packet.frames {
            let offset = self.space(packet.level).crypto_sent;
            frame.encode(&mut payload, &|base| self.value(base, packet.level));
            let mut frame = frame.clone();
            if let Frame::Crypto { offset: at, data } = &mut frame
                && at.constant().is_none()
            {
                *at = offset.into();
                let end = offset.saturating_add(data.bytes().len() as u64);
                self.space(packet.level).crypto_sent = end;
            }
            if let Frame::NewConnectionId { .. } = &frame {
                self.next_sequence = self.next_sequence.saturating_add(1);
            }
            resolved.push(frame);
        }
        (payload, resolved)
    }

    /// Queues a packet to be sent as soon as possible, and retransmitted if it is lost.
    pub(super) fn queue(&mut self, packet: Packet) {
        let (payload, frames) = self.encode(&packet);
        let level = packet.level;
        let packet = Packet { frames, ..packet };
        self.space(level).queue.push_back(Outgoing { packet, payload, attempts: 0 });
    }

    /// Protects a packet and records it as sent.
    fn seal(
        &mut self,
        outgoing: &Outgoing,
        acknowledgment: Option<Frame>,
    ) -> Result<Vec<u8>, EndpointError> {
        let packet = &outgoing.packet;
        let level = packet.level;
        let mut payload = Vec::new();
        let mut frames = Vec::new();
        if let Some(frame) = acknowledgment {
            frame.encode(&mut payload, &|_| 0);
            frames.push(frame);
        }
        payload.extend_from_slice(&outgoing.payload);
        frames.extend(packet.frames.iter().cloned());
        let next = self.space(level).next;
        let number =
            packet.number.map_or(next, |number| number.resolve(&|base| self.value(base, level)));
        let phase = self.keys.application.as_ref().is_some_and(|keys| keys.phase);
        let is_other_phase = matches!(packet.sealing, Sealing::NextPhase | Sealing::PreviousPhase);
        let key_phase = packet.key_phase.unwrap_or(phase != is_other_phase);
        let version = packet.version.map_or(self.version, Version);
        let header = Header {
            level,
            version,
            destination: packet.destination.as_ref().map_or(&self.destination, |id| id.bytes()),
            source: packet.source.as_ref().map_or(&self.source, |id| id.bytes()),
            token: packet.token.as_ref().map_or(&self.token, |token| token.bytes()),
            number,
            key_phase,
        };
        let keys = self.keys.local(level, packet.sealing).ok_or(EndpointError::NoKeys { level })?;
        let bytes = build(packet, &header, &payload, keys).ok_or(EndpointError::Unencodable)?;
        let mut record = self.packet_record(level.kind(), self.path, bytes.len());
        record.side = Side::Sent;
        record.number = Some(number);
        record.destination = Data::clipped(header.destination, 256);
        if level == Level::OneRtt {
            record.key_phase = Some(key_phase);
        } else {
            record.versions = vec![version.0];
            record.source = Some(Data::clipped(header.source, 256));
            record.token =
                Data::clipped(if level == Level::Initial { header.token } else { &[] }, 256);
        }
        let is_ack_eliciting = packet.frames.iter().any(Frame::is_ack_eliciting);
        record.frames = frames;
        self.record.push(record);
        let now = self.now;
        let space = self.space(level);
        space.next = space.next.max(number.saturating_add(1));
        if is_ack_eliciting && !packet.once && packet.sealing == Sealing::Current {
            space.on_sent(number, now, outgoing.clone());
        }
        Ok(bytes)
    }

    /// Sends one packet in its own datagram, ahead of everything that is queued.
    ///
    /// # Errors
    /// If there are no keys for its level, or it has no encoding.
    pub fn send_packet(&mut self, now: Timestamp, packet: &Packet) -> Result<(), EndpointError> {
        self.send_datagram(now, core::slice::from_ref(packet))
    }

    /// Sends several packets in one datagram. A datagram that begins with an Initial packet is
    /// padded to the configured size, unless a size is set for one of its packets.
    ///
    /// # Errors
    /// If there are no keys for a packet, or it has no encoding.
    pub fn send_datagram(
        &mut self,
        now: Timestamp,
        packets: &[Packet],
    ) -> Result<(), EndpointError> {
        self.now = now;
        let mut bytes = Vec::new();
        let has_initial = packets.iter().any(|packet| packet.level == Level::Initial);
        let pads = has_initial && packets.iter().all(|packet| packet.pad_to.is_none());
        let last = packets.len().saturating_sub(1);
        for (index, packet) in packets.iter().enumerate() {
            let (payload, frames) = self.encode(packet);
            let mut packet = Packet { frames, ..packet.clone() };
            if pads && index == last {
                packet.pad_to = Some(self.config.initial_size.saturating_sub(bytes.len()));
            }
            let outgoing = Outgoing { packet, payload, attempts: 1 };
            bytes.extend_from_slice(&self.seal(&outgoing, None)?);
        }
        let path = self.path;
        self.out.push_back(Transmit { path, bytes });
        Ok(())
    }

    /// Sends arbitrary bytes as a datagram.
    pub fn send_raw(&mut self, now: Timestamp, bytes: &[u8]) {
        self.now = now;
        self.send_special(PacketKind::Raw, bytes.to_vec());
    }

    pub(super) fn send_special(&mut self, kind: PacketKind, bytes: Vec<u8>) {
        let mut record = self.packet_record(kind, self.path, bytes.len());
        record.side = Side::Sent;
        self.record.push(record);
        let path = self.path;
        self.out.push_back(Transmit { path, bytes });
    }

    /// Writes `data` to a stream after previously written data, ignoring the peer's limits. If
    /// early data cannot be sent, the data waits for 1-RTT keys.
    pub fn write_stream(&mut self, id: u64, data: &[u8], fin: bool) {
        let size = self.config.datagram_size.saturating_sub(100).clamp(200, 60_000);
        let level = match self.progress < Progress::Complete
            && self.keys.early.is_some()
            && self.role == Role::Client
        {
            true => Level::ZeroRtt,
            false => Level::OneRtt,
        };
        let mut rest = data;
        loop {
            let (piece, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            let offset = self.streams.reserve(id, piece.len());
            let is_last = after.is_empty();
            self.queue_frames(level, vec![Frame::stream(id, offset, piece, fin && is_last)]);
            if is_last {
                break;
            }
            rest = after;
        }
    }

    /// Responds to a PATH_CHALLENGE frame on the path on which it arrived.
    pub(super) fn respond(&mut self, path: usize, data: [u8; 8]) {
        let packet = Packet {
            pad_to: Some(1200),
            once: true,
            ..Packet::new(vec![Frame::PathResponse { data: Data::from(&data) }])
        };
        let (payload, frames) = self.encode(&packet);
        let outgoing = Outgoing { packet: Packet { frames, ..packet }, payload, attempts: 1 };
        if let Ok(bytes) = self.seal(&outgoing, None) {
            self.out.push_back(Transmit { path, bytes });
        }
    }
}
