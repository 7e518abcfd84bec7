use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// The RESET_STREAM frame (RFC 9000 §19.4), with which the sender of a stream abandons it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetStream {
    /// The stream's ID.
    pub stream_id: StreamId,
    /// The application error code for the reset.
    pub error_code: VarInt,
    /// The final size of the stream in bytes.
    pub final_size: VarInt,
}

impl ResetStream {
    pub(super) const TYPE: u8 = 0x04;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream_id: StreamId::from_varint(VarInt::decode(reader, "Stream ID")?),
            error_code: VarInt::decode(reader, "Application Protocol Error Code")?,
            final_size: VarInt::decode(reader, "Final Size")?,
        })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 3] {
        [self.stream_id.varint(), self.error_code, self.final_size]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, number};
    use crate::strategies::{hex, stream_id, varint};

    #[test]
    fn on_the_wire() {
        let frame = ResetStream {
            stream_id: StreamId::from_varint(number(4)),
            error_code: number(0x123),
            final_size: number(0x1_0000),
        };
        check_bytes(Frame::ResetStream(frame), &hex("04 04 4123 80010000"));
    }

    proptest! {
        #[test]
        fn round_trip(stream_id in stream_id(), error_code in varint(), final_size in varint()) {
            check_round_trip(Frame::ResetStream(ResetStream { stream_id, error_code, final_size }));
        }
    }
}
