use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// The RESET_STREAM_AT frame (draft-ietf-quic-reliable-stream-reset §4), with which the sender of a
/// stream abandons it, except for the data up to an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetStreamAt {
    /// The stream's ID.
    pub stream_id: StreamId,
    /// The application error code for the reset.
    pub error_code: VarInt,
    /// The final size of the stream in bytes.
    pub final_size: VarInt,
    /// The number of bytes that are delivered despite the reset; at most the final size.
    pub reliable_size: VarInt,
}

impl ResetStreamAt {
    pub(super) const TYPE: u8 = 0x24;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let frame = Self {
            stream_id: StreamId::from_varint(VarInt::decode(reader, "Stream ID")?),
            error_code: VarInt::decode(reader, "Application Protocol Error Code")?,
            final_size: VarInt::decode(reader, "Final Size")?,
            reliable_size: VarInt::decode(reader, "Reliable Size")?,
        };
        if frame.reliable_size > frame.final_size {
            return Err(DecodeError::invalid("Reliable Size", "exceeds the Final Size"));
        }
        Ok(frame)
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 4] {
        [self.stream_id.varint(), self.error_code, self.final_size, self.reliable_size]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
    use crate::strategies::{hex, stream_id, varint};

    #[test]
    fn on_the_wire() {
        let frame = ResetStreamAt {
            stream_id: StreamId::from_varint(number(4)),
            error_code: number(0x123),
            final_size: number(0x1_0000),
            reliable_size: number(12),
        };
        check_bytes(Frame::ResetStreamAt(frame), &hex("24 04 4123 80010000 0c"));
    }

    #[test]
    fn no_more_is_reliable_than_there_is() {
        let above = DecodeError::invalid("Reliable Size", "exceeds the Final Size");
        assert_eq!(decode(&hex("24 04 00 05 06")), Err(above));
        assert!(decode(&hex("24 04 00 05 05")).is_ok());
    }

    proptest! {
        #[test]
        fn round_trip(id in stream_id(), error_code in varint(), one in varint(), other in varint()) {
            check_round_trip(Frame::ResetStreamAt(ResetStreamAt {
                stream_id: id,
                error_code,
                final_size: one.max(other),
                reliable_size: one.min(other),
            }));
        }
    }
}
