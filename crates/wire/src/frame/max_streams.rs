use super::{decode_stream_count, encode_varints, varints_len};
use crate::{DecodeError, Direction, EncodeError, Reader, VarInt, Writer};

/// The MAX_STREAMS frame (RFC 9000 §19.11); the count is at most 2^60.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStreams {
    /// Whether the limit applies to bidirectional or unidirectional streams.
    pub direction: Direction,
    /// The total number of streams of that type that may be opened over the lifetime of the
    /// connection.
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

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, self.wire_type(), &[self.maximum])
    }

    /// Returns how many bytes [`Self::encode`] writes.
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
    use crate::strategies::{direction, hex};

    #[test]
    fn on_the_wire() {
        let frame = MaxStreams { direction: Direction::Bidirectional, maximum: number(5) };
        check_bytes(Frame::MaxStreams(frame), &hex("12 05"));
        let frame = MaxStreams { direction: Direction::Unidirectional, maximum: number(0x40) };
        check_bytes(Frame::MaxStreams(frame), &hex("13 4040"));
    }

    #[test]
    fn more_streams_than_stream_ids() {
        let most = MaxStreams { direction: Direction::Unidirectional, maximum: number(1 << 60) };
        check_bytes(Frame::MaxStreams(most), &hex("13 d000000000000000"));
        let too_many = DecodeError::invalid("Maximum Streams", "exceeds 2^60");
        assert_eq!(decode(&hex("13 d000000000000001")), Err(too_many));
        assert_eq!(decode(&hex("12 ffffffffffffffff")), Err(too_many));
    }

    proptest! {
        #[test]
        fn round_trip(direction in direction(), count in 0..=1_u64 << 60, shift in 0_u32..60) {
            let frame = MaxStreams { direction, maximum: number(count >> shift) };
            check_round_trip(Frame::MaxStreams(frame));
        }
    }
}
