use super::{decode_stream_count, encode_varints, varints_len};
use crate::{DecodeError, Direction, EncodeError, Reader, VarInt, Writer};

/// The STREAMS_BLOCKED frame (RFC 9000 §19.14); the limit is at most 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamsBlocked {
    /// Whether the limit applies to bidirectional or unidirectional streams.
    pub direction: Direction,
    /// The stream limit at which the sender is blocked.
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

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, self.wire_type(), &[self.limit])
    }

    /// Returns how many bytes [`Self::encode`] writes.
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
    use crate::strategies::{direction, hex};

    #[test]
    fn on_the_wire() {
        let frame = StreamsBlocked { direction: Direction::Bidirectional, limit: number(5) };
        check_bytes(Frame::StreamsBlocked(frame), &hex("16 05"));
        let frame = StreamsBlocked { direction: Direction::Unidirectional, limit: number(0x40) };
        check_bytes(Frame::StreamsBlocked(frame), &hex("17 4040"));
    }

    #[test]
    fn more_streams_than_stream_ids() {
        let most = StreamsBlocked { direction: Direction::Unidirectional, limit: number(1 << 60) };
        check_bytes(Frame::StreamsBlocked(most), &hex("17 d000000000000000"));
        let too_many = DecodeError::invalid("Maximum Streams", "exceeds 2^60");
        assert_eq!(decode(&hex("17 d000000000000001")), Err(too_many));
        assert_eq!(decode(&hex("16 ffffffffffffffff")), Err(too_many));
    }

    proptest! {
        #[test]
        fn round_trip(direction in direction(), count in 0..=1_u64 << 60, shift in 0_u32..60) {
            let frame = StreamsBlocked { direction, limit: number(count >> shift) };
            check_round_trip(Frame::StreamsBlocked(frame));
        }
    }
}
