//! Processing of received datagrams, packets and frames.

use clearway_units::Timestamp;
use clearway_wire::header::{HeaderKind, ProtectedHeader};
use clearway_wire::{LongPacketType, PacketType, Reader};

use super::{
    CONNECTION_WINDOW, CloseLayer, CloseOrigin, Endpoint, Frame, Level, MAX_KEPT, PeerId, Progress,
    Role, STREAM_WINDOW,
};
use crate::Data;
use crate::quic::opening::{Opened, open};
use crate::quic::record::{MAX_FRAMES, PacketKind, PacketRecord, Side};

/// Maximum number of bytes to keep of a DATAGRAM frame or a token.
const MAX_BYTES: usize = 4096;
/// Maximum number of coalesced packets in a datagram.
const MAX_COALESCED: usize = 64;
/// Maximum number of packets that wait for their keys.
const MAX_EARLY: usize = 16;

impl Endpoint {
    /// Processes a UDP datagram that arrived on `path`.
    pub fn receive(&mut self, now: Timestamp, path: usize, datagram: &[u8]) {
        self.now = now;
        if self.role == Role::Server && self.tls.is_none() {
            return self.on_first_datagram(path, datagram);
        }
        self.process_datagram(path, datagram);
        let has_keys = self.keys.handshake.is_some();
        if has_keys && !self.early.is_empty() {
            for (path, packet) in core::mem::take(&mut self.early) {
                self.process_datagram(path, &packet);
            }
        }
    }

    pub(super) fn process_datagram(&mut self, path: usize, datagram: &[u8]) {
        let mut rest = datagram;
        for _ in 0..MAX_COALESCED {
            if rest.is_empty() {
                break;
            }
            let Ok(header) = ProtectedHeader::decode(rest, self.source.len()) else {
                self.undecipherable(path, rest, "the header is malformed");
                break;
            };
            let Some((packet, after)) = rest.split_at_checked(header.packet_len) else { break };
            self.process_packet(path, &header, packet);
            rest = after;
        }
    }

    fn process_packet(&mut self, path: usize, header: &ProtectedHeader<'_>, packet: &[u8]) {
        let level = match header.packet_type() {
            Some((PacketType::Initial, _)) => Level::Initial,
            Some((PacketType::ZeroRtt, _)) => Level::ZeroRtt,
            Some((PacketType::Handshake, _)) => Level::Handshake,
            Some((PacketType::OneRtt, _)) => Level::OneRtt,
            None => return self.process_special(path, header, packet),
        };
        let mut record = self.packet_record(level.kind(), path, packet.len());
        record.destination = Data::clipped(header.destination(), 20);
        if let HeaderKind::Long { version, source, token, .. } = header.kind {
            record.versions = vec![version.0];
            record.source = Some(Data::clipped(source.as_bytes(), 20));
            record.token = Data::clipped(token, 256);
        }
        let Some((_, number_offset)) = header.packet_type() else { return };
        let largest = self.space(level).largest_received();
        let mut bytes = packet.to_vec();
        let Some(opened) = open(&self.keys, level, &mut bytes, number_offset, largest) else {
            return self.on_unopened(path, level, packet);
        };
        if let HeaderKind::Long { packet_type: LongPacketType::Initial, source, .. } = header.kind
            && self.role == Role::Client
            && self.progress == Progress::Start
        {
            self.destination = source.as_bytes().to_vec();
        }
        if opened.is_next_phase {
            self.update_keys();
        }
        self.process_opened(path, level, record, &opened);
    }

    /// Handles a packet that cannot be decrypted: keeps it until its keys are available, recognizes
    /// it as a stateless reset, or records it.
    fn on_unopened(&mut self, path: usize, level: Level, packet: &[u8]) {
        let waits = match level {
            Level::Initial => false,
            Level::Handshake => self.keys.handshake.is_none(),
            Level::ZeroRtt => self.keys.early.is_none(),
            Level::OneRtt => self.keys.application.is_none(),
        };
        if waits && self.early.len() < MAX_EARLY {
            self.early.push((path, packet.to_vec()));
        } else {
            self.undecipherable(path, packet, "no key decrypts the packet");
        }
    }

    fn undecipherable(&mut self, path: usize, packet: &[u8], note: &str) {
        let tag = packet.last_chunk::<16>();
        let is_reset = packet.len() >= 21
            && tag.is_some_and(|tag| self.peer_ids.iter().any(|id| id.token.as_ref() == Some(tag)));
        let kind = if is_reset { PacketKind::StatelessReset } else { PacketKind::Undecipherable };
        let mut record = self.packet_record(kind, path, packet.len());
        record.note = (!is_reset).then(|| note.to_owned());
        self.record.push(record);
        if is_reset {
            self.end(CloseOrigin::StatelessReset, CloseLayer::Transport, 0, 0, Data::default());
        }
    }

    /// Creates the record of a received packet.
    pub(super) fn packet_record(&self, kind: PacketKind, path: usize, size: usize) -> PacketRecord {
        PacketRecord {
            time: self.now.since_origin(),
            side: Side::Received,
            kind,
            number: None,
            versions: Vec::new(),
            destination: Data::default(),
            source: None,
            token: Data::default(),
            key_phase: None,
            size,
            path,
            frames: Vec::new(),
            note: None,
        }
    }

    fn process_special(&mut self, path: usize, header: &ProtectedHeader<'_>, packet: &[u8]) {
        match &header.kind {
            HeaderKind::Retry(retry) => self.on_retry(path, retry, packet.len()),
            HeaderKind::VersionNegotiation(negotiation) => {
                let mut record =
                    self.packet_record(PacketKind::VersionNegotiation, path, packet.len());
                record.versions =
                    negotiation.versions().take(64).map(|version| version.0).collect();
                record.destination = Data::clipped(negotiation.destination, 255);
                record.source = Some(Data::clipped(negotiation.source, 255));
                self.record.push(record);
            }
            _ => self.undecipherable(path, packet, "the version is unknown"),
        }
    }

    fn process_opened(
        &mut self,
        path: usize,
        level: Level,
        mut record: PacketRecord,
        opened: &Opened,
    ) {
        record.number = Some(opened.number);
        record.key_phase = opened.key_phase;
        if !opened.reserved_bits_are_zero {
            record.note = Some("the reserved bits are not zero".to_owned());
        }
        if !self.space(level).on_received(opened.number) {
            record.note = Some("duplicate".to_owned());
            return self.record.push(record);
        }
        let mut reader = Reader::new(&opened.payload);
        let mut frames = Vec::new();
        let mut is_ack_eliciting = false;
        while !reader.is_empty() {
            match clearway_wire::Frame::decode(&mut reader) {
                Ok(frame) => {
                    is_ack_eliciting |= frame.is_ack_eliciting();
                    if record.frames.len() < MAX_FRAMES {
                        record.frames.push(Frame::received(&frame));
                    }
                    frames.push(frame);
                }
                Err(error) => {
                    record.note = Some(format!("malformed frame: {error}"));
                    break;
                }
            }
        }
        self.record.push(record);
        if is_ack_eliciting {
            self.space(level).ack_due = true;
        }
        for frame in frames {
            self.process_frame(path, level, &frame);
        }
    }

    fn process_frame(&mut self, path: usize, level: Level, frame: &clearway_wire::Frame<'_>) {
        use clearway_wire::Frame as Wire;
        match frame {
            Wire::Ack(ack) => self.on_ack(level, ack),
            Wire::Crypto(frame) => self.on_crypto(level, frame.offset.get(), frame.data),
            Wire::Stream(frame) => {
                let id = frame.stream_id.get();
                let highest = self.streams.on_data(id, frame.offset.get(), frame.data, frame.fin);
                self.grant(id, highest);
            }
            Wire::ResetStream(frame) => {
                let (code, size) = (frame.error_code.get(), frame.final_size.get());
                self.streams.on_reset(frame.stream_id.get(), code, size);
            }
            Wire::ResetStreamAt(frame) => {
                let (code, size) = (frame.error_code.get(), frame.final_size.get());
                self.streams.on_reset(frame.stream_id.get(), code, size);
            }
            Wire::StopSending(frame) => {
                self.streams.on_stop(frame.stream_id.get(), frame.error_code.get());
            }
            Wire::MaxData(frame) => {
                self.limits.max_data = self.limits.max_data.max(frame.maximum.get());
            }
            Wire::MaxStreams(frame) => {
                let limit = match frame.direction {
                    clearway_wire::Direction::Bidirectional => &mut self.limits.max_streams_bidi,
                    clearway_wire::Direction::Unidirectional => &mut self.limits.max_streams_uni,
                };
                *limit = (*limit).max(frame.maximum.get());
            }
            Wire::NewConnectionId(frame) => self.on_new_connection_id(frame),
            Wire::NewToken(frame) if self.tokens.len() < MAX_KEPT => {
                let token = frame.token.get(..MAX_BYTES).unwrap_or(frame.token);
                self.tokens.push(token.to_vec());
            }
            Wire::Datagram(frame) if self.datagrams.len() < MAX_KEPT => {
                self.datagrams.push(Data::clipped(frame.data, MAX_BYTES));
            }
            Wire::PathChallenge(frame) => self.respond(path, frame.data),
            Wire::HandshakeDone
                if self.role == Role::Client && self.progress == Progress::Complete =>
            {
                self.confirm();
            }
            Wire::ConnectionClose(frame) => {
                let (layer, frame_type) = match frame.kind {
                    clearway_wire::frame::CloseKind::Transport { frame_type } => {
                        (CloseLayer::Transport, frame_type.get())
                    }
                    clearway_wire::frame::CloseKind::Application => (CloseLayer::Application, 0),
                };
                let reason = Data::clipped(frame.reason, 256);
                self.end(CloseOrigin::Peer, layer, frame.error_code.get(), frame_type, reason);
            }
            _ => {}
        }
    }

    fn on_ack(&mut self, level: Level, ack: &clearway_wire::frame::Ack<'_>) {
        let (now, largest) = (self.now, ack.largest.get());
        let space = self.space(level);
        let mut sample = None;
        for range in ack.ranges() {
            let (first, last) = (range.start().get(), range.end().get());
            let sent_at = space.on_acked(first, last);
            if last == largest {
                sample = sent_at.map(|at| now.saturating_since(at));
            }
        }
        space.detect_losses();
        if let Some(sample) = sample {
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
    }

    fn on_new_connection_id(&mut self, frame: &clearway_wire::frame::NewConnectionId) {
        let sequence = frame.sequence.get();
        if self.peer_ids.len() < MAX_KEPT && self.peer_ids.iter().all(|id| id.sequence != sequence)
        {
            let token = Some(*frame.reset_token.as_bytes());
            self.peer_ids.push(PeerId { sequence, id: frame.id.as_bytes().to_vec(), token });
        }
        let retire = frame.retire_prior_to.get();
        let retired: Vec<_> =
            self.peer_ids.iter().map(|id| id.sequence).filter(|it| *it < retire).collect();
        let current = self.destination.clone();
        self.peer_ids.retain(|id| id.sequence >= retire);
        if self.peer_ids.iter().all(|id| id.id != current)
            && let Some(first) = self.peer_ids.first()
        {
            self.destination = first.id.clone();
        }
        for sequence in retired {
            self.queue_frames(
                Level::OneRtt,
                vec![Frame::RetireConnectionId { sequence: sequence.into() }],
            );
        }
    }

    /// Raises the flow control limits when half of a window has been used.
    fn grant(&mut self, id: u64, highest: u64) {
        let mut frames = Vec::new();
        if self.streams.received() > self.granted.saturating_sub(CONNECTION_WINDOW / 2) {
            self.granted = self.streams.received().saturating_add(CONNECTION_WINDOW);
            frames.push(Frame::MaxData { maximum: self.granted.into() });
        }
        // The stream's limit is its last multiple of half a window plus a window.
        let half = STREAM_WINDOW / 2;
        let step = highest.checked_div(half).unwrap_or(0);
        if let Some(stream) = self.streams.entry(id)
            && stream.granted_steps < step
        {
            stream.granted_steps = step;
            let maximum = step.saturating_mul(half).saturating_add(STREAM_WINDOW);
            frames.push(Frame::MaxStreamData { stream: id.into(), maximum: maximum.into() });
        }
        if !frames.is_empty() {
            self.queue_frames(Level::OneRtt, frames);
        }
    }
}
