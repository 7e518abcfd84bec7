use super::{decode_stream_count, encode_varints, varints_len};
use crate::{DecodeError, Direction, EncodeError, Reader, VarInt, Writer};

/// STREAMS_BLOCKED (RFC 9000 §19.14); the limit is at most 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamsBlocked {
    /// Of which kind.
    pub direction: Direction,
    /// The limit that blocks.
    pub limit: VarInt,
}

impl StreamsBlocked {
    pub(super) const TYPE_BIDIRECTIONAL: u8 = 0x16;
    pub(super) const TYPE_UNIDIRECTIONAL: u8 = 0x17;

    pub(super) fn decode(
        reader: &mut Reader<'_>,
        direction: Direction,
    ) -> Result<Self, DecodeError> {
        Ok(Self { direction, limit: decode_stream_count(reader)? })
    }

    /// Writes the frame, its type included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, self.wire_type(), &[self.limit])
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&[self.limit])
    }

    pub(super) fn wire_type(&self) -> u8 {
        match self.direction {
            Direction::Bidirectional => Self::TYPE_BIDIRECTIONAL,
            Direction::Unidirectional => Self::TYPE_UNIDIRECTIONAL,
        }
    }
}

#[cfg(test)]
mod tests;
