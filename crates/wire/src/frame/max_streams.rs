use super::{decode_stream_count, encode_varints, varints_len};
use crate::{DecodeError, Direction, EncodeError, Reader, VarInt, Writer};

/// MAX_STREAMS (RFC 9000 §19.11); the count is at most 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStreams {
    /// Of which kind.
    pub direction: Direction,
    /// How many may be opened over the connection's life.
    pub maximum: VarInt,
}

impl MaxStreams {
    pub(super) const TYPE_BIDIRECTIONAL: u8 = 0x12;
    pub(super) const TYPE_UNIDIRECTIONAL: u8 = 0x13;

    pub(super) fn decode(
        reader: &mut Reader<'_>,
        direction: Direction,
    ) -> Result<Self, DecodeError> {
        Ok(Self { direction, maximum: decode_stream_count(reader)? })
    }

    /// Writes the frame, its type included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, self.wire_type(), &[self.maximum])
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&[self.maximum])
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
