use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// The STREAM_DATA_BLOCKED frame (RFC 9000 §19.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamDataBlocked {
    /// The stream's ID.
    pub stream_id: StreamId,
    /// The stream's flow control limit at which the sender is blocked, in bytes.
    pub limit: VarInt,
}

impl StreamDataBlocked {
    pub(super) const TYPE: u8 = 0x15;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream_id: StreamId::from_varint(VarInt::decode(reader, "Stream ID")?),
            limit: VarInt::decode(reader, "Maximum Stream Data")?,
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

    fn fields(&self) -> [VarInt; 2] {
        [self.stream_id.varint(), self.limit]
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
        let frame =
            StreamDataBlocked { stream_id: StreamId::from_varint(number(64)), limit: number(0x0) };
        check_bytes(Frame::StreamDataBlocked(frame), &hex("15 4040 00"));
    }

    proptest! {
        #[test]
        fn round_trip(stream_id in stream_id(), limit in varint()) {
            check_round_trip(Frame::StreamDataBlocked(StreamDataBlocked { stream_id, limit }));
        }
    }
}
