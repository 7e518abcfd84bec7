use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, VarInt, Writer};

/// The MAX_DATA frame (RFC 9000 §19.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxData {
    /// The total number of bytes that may be sent on the connection.
    pub maximum: VarInt,
}

impl MaxData {
    pub(super) const TYPE: u8 = 0x10;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { maximum: VarInt::decode(reader, "Maximum Data")? })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 1] {
        [self.maximum]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, number};
    use crate::strategies::{hex, varint};

    #[test]
    fn on_the_wire() {
        let frame = MaxData { maximum: number(0x40) };
        check_bytes(Frame::MaxData(frame), &hex("10 4040"));
    }

    proptest! {
        #[test]
        fn round_trip(maximum in varint()) {
            check_round_trip(Frame::MaxData(MaxData { maximum }));
        }
    }
}
