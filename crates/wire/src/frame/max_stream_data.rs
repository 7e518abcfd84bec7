use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// The MAX_STREAM_DATA frame (RFC 9000 §19.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStreamData {
    /// The stream's ID.
    pub stream_id: StreamId,
    /// The total number of bytes that may be sent on the stream.
    pub maximum: VarInt,
}

impl MaxStreamData {
    pub(super) const TYPE: u8 = 0x11;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream_id: StreamId::from_varint(VarInt::decode(reader, "Stream ID")?),
            maximum: VarInt::decode(reader, "Maximum Stream Data")?,
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
        [self.stream_id.varint(), self.maximum]
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
        let frame = MaxStreamData {
            stream_id: StreamId::from_varint(number(2)),
            maximum: number(0x3fffffff),
        };
        check_bytes(Frame::MaxStreamData(frame), &hex("11 02 bfffffff"));
    }

    proptest! {
        #[test]
        fn round_trip(stream_id in stream_id(), maximum in varint()) {
            check_round_trip(Frame::MaxStreamData(MaxStreamData { stream_id, maximum }));
        }
    }
}
