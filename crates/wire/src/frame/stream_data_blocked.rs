use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// STREAM_DATA_BLOCKED (RFC 9000 §19.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamDataBlocked {
    /// The stream.
    pub stream_id: StreamId,
    /// The limit that blocks, in bytes.
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

    /// Writes the frame, its type included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 2] {
        [self.stream_id.varint(), self.limit]
    }
}

#[cfg(test)]
mod tests;
