use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// MAX_STREAM_DATA (RFC 9000 §19.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxStreamData {
    /// The stream.
    pub stream_id: StreamId,
    /// Bytes that may be sent on it.
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

    /// Writes the frame, its type included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 2] {
        [self.stream_id.varint(), self.maximum]
    }
}

#[cfg(test)]
mod tests;
