use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// The STOP_SENDING frame (RFC 9000 §19.5), with which the receiver of a stream asks its sender to
/// stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopSending {
    /// The stream's ID.
    pub stream_id: StreamId,
    /// The application error code for the request to stop.
    pub error_code: VarInt,
}

impl StopSending {
    pub(super) const TYPE: u8 = 0x05;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream_id: StreamId::from_varint(VarInt::decode(reader, "Stream ID")?),
            error_code: VarInt::decode(reader, "Application Protocol Error Code")?,
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
        [self.stream_id.varint(), self.error_code]
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
            StopSending { stream_id: StreamId::from_varint(number(1)), error_code: number(0x3f) };
        check_bytes(Frame::StopSending(frame), &hex("05 01 3f"));
    }

    proptest! {
        #[test]
        fn round_trip(stream_id in stream_id(), error_code in varint()) {
            check_round_trip(Frame::StopSending(StopSending { stream_id, error_code }));
        }
    }
}
