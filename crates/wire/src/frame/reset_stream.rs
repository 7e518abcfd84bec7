use super::{encode_varints, varints_len};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// RESET_STREAM (RFC 9000 §19.4): the sender of a stream gives it up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetStream {
    /// The stream.
    pub stream_id: StreamId,
    /// Why, in the application's words.
    pub error_code: VarInt,
    /// The stream's size in bytes.
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

    /// Writes the frame, its type included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        encode_varints(writer, Self::TYPE, &self.fields())
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        varints_len(&self.fields())
    }

    fn fields(&self) -> [VarInt; 3] {
        [self.stream_id.varint(), self.error_code, self.final_size]
    }
}

#[cfg(test)]
mod tests;
