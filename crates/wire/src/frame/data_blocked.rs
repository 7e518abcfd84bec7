use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, VarInt, Writer};

/// The DATA_BLOCKED frame (RFC 9000 §19.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataBlocked {
    /// The connection flow control limit at which the sender is blocked, in bytes.
    pub limit: VarInt,
}

impl DataBlocked {
    pub(super) const TYPE: u8 = 0x14;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { limit: VarInt::decode(reader, "Maximum Data")? })
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
        [self.limit]
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
        let frame = DataBlocked { limit: number(0x3fffffffffffffff) };
        check_bytes(Frame::DataBlocked(frame), &hex("14 ffffffffffffffff"));
    }

    proptest! {
        #[test]
        fn round_trip(limit in varint()) {
            check_round_trip(Frame::DataBlocked(DataBlocked { limit }));
        }
    }
}
