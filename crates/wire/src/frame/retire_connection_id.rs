use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, VarInt, Writer};

/// The RETIRE_CONNECTION_ID frame (RFC 9000 §19.16).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetireConnectionId {
    /// The sequence number of the connection ID that is no longer used.
    pub sequence: VarInt,
}

impl RetireConnectionId {
    pub(super) const TYPE: u8 = 0x19;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { sequence: VarInt::decode(reader, "Sequence Number")? })
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
        [self.sequence]
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
        let frame = RetireConnectionId { sequence: number(0x7) };
        check_bytes(Frame::RetireConnectionId(frame), &hex("19 07"));
    }

    proptest! {
        #[test]
        fn round_trip(sequence in varint()) {
            check_round_trip(Frame::RetireConnectionId(RetireConnectionId { sequence }));
        }
    }
}
