use super::{check_end, length_varint};
use crate::{DecodeError, EncodeError, Reader, StreamId, VarInt, Writer};

/// The STREAM frame (RFC 9000 §19.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream<'a> {
    /// The stream's ID.
    pub stream_id: StreamId,
    /// The offset of the data in the stream. `offset + data.len()` fits in 62 bits.
    pub offset: VarInt,
    /// Whether the stream ends after this data.
    pub fin: bool,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> Stream<'a> {
    pub(super) const TYPE_FIRST: u8 = 0x08;
    pub(super) const TYPE_LAST: u8 = 0x0f;
    const FIN: u8 = 0x01;
    const LEN: u8 = 0x02;
    const OFF: u8 = 0x04;

    pub(super) fn decode(reader: &mut Reader<'a>, wire_type: u8) -> Result<Self, DecodeError> {
        let stream_id = StreamId::from_varint(VarInt::decode(reader, "Stream ID")?);
        let offset = match wire_type & Self::OFF {
            0 => VarInt::ZERO,
            _ => VarInt::decode(reader, "Offset")?,
        };
        let data = match wire_type & Self::LEN {
            0 => reader.take_rest(),
            _ => reader.length_prefixed("Stream Data")?,
        };
        if !check_end(offset, data.len()) {
            return Err(DecodeError::invalid("Offset", "plus the length exceeds 2^62-1"));
        }
        Ok(Self { stream_id, offset, fin: wire_type & Self::FIN != 0, data })
    }

    /// Returns how many bytes precede the data in a frame with a Length field for `length` bytes of
    /// data, or in a frame without that field if `length` is `None`.
    pub fn header_len(stream_id: StreamId, offset: VarInt, length: Option<usize>) -> usize {
        let offset_len = if offset == VarInt::ZERO { 0 } else { offset.encoded_len() };
        let length_len = length.map_or(0, |length| length_varint(length).encoded_len());
        1_usize
            .saturating_add(stream_id.varint().encoded_len())
            .saturating_add(offset_len)
            .saturating_add(length_len)
    }

    /// Writes a frame except for its data, and returns the buffer of `length` bytes for the data.
    ///
    /// Without `explicit_length` the frame has no Length field: its data extends to the end of the
    /// packet, so it must be the packet's last frame.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the frame does not fit, or the data would end
    /// beyond 2^62 - 1.
    pub fn encode_in_place<'w>(
        writer: &'w mut Writer<'_>,
        stream_id: StreamId,
        offset: VarInt,
        length: usize,
        fin: bool,
        explicit_length: bool,
    ) -> Result<&'w mut [u8], EncodeError> {
        if !check_end(offset, length) {
            return Err(EncodeError);
        }
        let header_len = Self::header_len(stream_id, offset, explicit_length.then_some(length));
        writer.require(header_len.saturating_add(length))?;
        writer.u8(Self::wire_type(offset, fin, explicit_length))?;
        stream_id.varint().encode(writer)?;
        if offset != VarInt::ZERO {
            offset.encode(writer)?;
        }
        if explicit_length {
            length_varint(length).encode(writer)?;
        }
        writer.reserve(length)
    }

    /// Writes the entire frame, including its type and a Length field, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        let (offset, length) = (self.offset, self.data.len());
        Self::encode_in_place(writer, self.stream_id, offset, length, self.fin, true)?
            .copy_from_slice(self.data);
        Ok(())
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        Self::header_len(self.stream_id, self.offset, Some(self.data.len()))
            .saturating_add(self.data.len())
    }

    pub(super) fn wire_type(offset: VarInt, fin: bool, explicit_length: bool) -> u8 {
        Self::TYPE_FIRST
            | if fin { Self::FIN } else { 0 }
            | if explicit_length { Self::LEN } else { 0 }
            | if offset == VarInt::ZERO { 0 } else { Self::OFF }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
