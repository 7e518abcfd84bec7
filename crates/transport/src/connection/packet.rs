//! Building a packet: written as a draft, padded where necessary, then protected in place.

use clearway_wire::{
    ConnectionId, EncodeError, LongPacketType, PacketNumber, PacketType, Version, Writer, header,
};

use crate::contents::PacketContents;
use crate::recovery::NumberRoom;
use crate::space_id::SpaceId;
use crate::token::Token;

/// The number of bytes that AES-GCM and ChaCha20-Poly1305 append (RFC 9001 §5.3).
pub(super) const TAG_LEN: usize = 16;
/// The offset of the header protection sample from the packet number's first byte (RFC 9001
/// §5.4.2).
const SAMPLE_OFFSET: usize = 4;

/// A packet that has been filled but not protected yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    pub(super) space: SpaceId,
    pub(super) packet_type: PacketType,
    pub(super) number: PacketNumber,
    pub(super) key_phase: bool,
    pub(super) is_ack_eliciting: bool,
    pub(super) counts_in_flight: bool,
    pub(super) is_probe: bool,
    pub(super) is_path_probe: bool,
    pub(super) is_mtu_probe: bool,
    /// Offset of the packet in the datagram.
    pub(super) start: usize,
    /// Offset of the Length field; `None` in a short header.
    length_offset: Option<usize>,
    /// Offset of the packet number.
    pub(super) number_offset: usize,
    /// Offset of the frames.
    pub(super) payload_offset: usize,
    /// End of the frames. The tag follows.
    pub(super) payload_end: usize,
}

/// The fields of a header.
pub(super) struct HeaderPlan<'a> {
    pub(super) space: SpaceId,
    pub(super) version: Version,
    pub(super) number: PacketNumber,
    pub(super) number_room: NumberRoom,
    pub(super) source: ConnectionId,
    pub(super) destination: ConnectionId,
    pub(super) token: &'a [u8],
    pub(super) spin: bool,
    pub(super) key_phase: bool,
    /// Whether a packet in the Application space is a 0-RTT packet.
    pub(super) is_early: bool,
}

impl Draft {
    /// Writes a header, lets `fill` write the frames, and leaves room for the tag. Returns
    /// `Ok(None)`, with nothing written, if the packet did not fit or `fill` wrote no frame.
    pub(super) fn write(
        writer: &mut Writer<'_>,
        plan: &HeaderPlan<'_>,
        tokens: &mut Vec<Token>,
        fill: impl FnOnce(&mut PacketContents<'_, '_>),
    ) -> Option<Self> {
        let start = writer.written();
        tokens.clear();
        let draft = Self::begin(writer, plan).ok().and_then(|mut draft| {
            let room = writer.remaining().checked_sub(TAG_LEN).filter(|room| *room > 0)?;
            let mut payload = Writer::new(writer.reserve(room).ok()?);
            let mut contents = PacketContents::new(&mut payload, tokens);
            fill(&mut contents);
            draft.is_ack_eliciting = contents.is_ack_eliciting();
            draft.counts_in_flight = contents.counts_in_flight();
            draft.payload_end = draft.payload_offset.checked_add(payload.written())?;
            Some(draft)
        });
        let Some(mut draft) = draft.filter(|draft| draft.payload_end > draft.payload_offset) else {
            writer.truncate(start);
            return None;
        };
        writer.truncate(draft.payload_end);
        draft.pad_to_sample(writer).ok()?;
        writer.zeros(TAG_LEN).ok()?;
        Some(draft)
    }

    fn begin(writer: &mut Writer<'_>, plan: &HeaderPlan<'_>) -> Result<Self, EncodeError> {
        let start = writer.written();
        let number_len = plan.number_room.encoded_len(plan.number);
        let long_type = match plan.space {
            SpaceId::Initial => Some(LongPacketType::Initial),
            SpaceId::Handshake => Some(LongPacketType::Handshake),
            SpaceId::Application => plan.is_early.then_some(LongPacketType::ZeroRtt),
        };
        let (length_offset, number_offset) = match long_type {
            None => {
                let header = header::ShortHeader {
                    destination: plan.destination,
                    spin: plan.spin,
                    key_phase: plan.key_phase,
                };
                (None, header.encode(writer, plan.number, number_len)?)
            }
            Some(packet_type) => {
                let header = header::LongHeader {
                    packet_type,
                    version: plan.version,
                    destination: plan.destination,
                    source: plan.source,
                    token: plan.token,
                };
                let offsets = header.encode(writer, plan.number, number_len)?;
                (Some(start.saturating_add(offsets.length)), offsets.packet_number)
            }
        };
        let number_offset = start.saturating_add(number_offset);
        let payload_offset = writer.written();
        Ok(Self {
            space: plan.space,
            packet_type: long_type.map_or(PacketType::OneRtt, PacketType::from),
            number: plan.number,
            key_phase: plan.key_phase,
            is_ack_eliciting: false,
            counts_in_flight: false,
            is_probe: false,
            is_path_probe: false,
            is_mtu_probe: false,
            start,
            length_offset,
            number_offset,
            payload_offset,
            payload_end: payload_offset,
        })
    }

    /// Adds PADDING so that the packet is long enough for a header protection sample (RFC 9001
    /// §5.4.2).
    fn pad_to_sample(&mut self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        let shortest = self.number_offset.saturating_add(SAMPLE_OFFSET);
        let missing = shortest.saturating_sub(self.payload_end);
        writer.zeros(missing)?;
        self.payload_end = self.payload_end.saturating_add(missing);
        Ok(())
    }

    /// Adds PADDING so that the datagram has `size` bytes. This must be the datagram's last packet.
    pub(super) fn pad_datagram(&mut self, writer: &mut Writer<'_>, size: usize) {
        let missing = size.saturating_sub(writer.written()).min(writer.remaining());
        if missing > 0 && writer.zeros(missing).is_ok() {
            // The padding replaces the tag, which moves to the end.
            self.payload_end = self.payload_end.saturating_add(missing);
            self.counts_in_flight = true;
        }
    }

    /// Returns the end of the packet, including the tag.
    pub(super) fn end(&self) -> usize {
        self.payload_end.saturating_add(TAG_LEN)
    }

    /// Returns the packet's size in the datagram, in bytes.
    pub(super) fn size(&self) -> usize {
        self.end().saturating_sub(self.start)
    }

    /// Fills in the Length field of a long header.
    pub(super) fn set_length(&self, datagram: &mut [u8]) -> Result<(), EncodeError> {
        let Some(length_offset) = self.length_offset else { return Ok(()) };
        let length = self.end().saturating_sub(self.number_offset);
        header::set_length(datagram, length_offset, length)
    }
}
