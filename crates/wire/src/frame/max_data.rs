use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, VarInt, Writer};

/// MAX_DATA (RFC 9000 §19.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxData {
    /// Bytes that may be sent on the connection.
    pub maximum: VarInt,
}

impl MaxData {
    pub(super) const TYPE: u8 = 0x10;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { maximum: VarInt::decode(reader, "Maximum Data")? })
    }

    /// Writes the frame, its type included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 1] {
        [self.maximum]
    }
}

#[cfg(test)]
mod tests;
