use super::length_varint;
use crate::{DecodeError, EncodeError, Reader, Writer};

/// DATAGRAM (RFC 9221 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// The application's data; may be empty.
    pub data: &'a [u8],
}

impl<'a> Datagram<'a> {
    pub(super) const TYPE: u8 = 0x30;
    pub(super) const TYPE_WITH_LENGTH: u8 = 0x31;

    pub(super) fn decode(reader: &mut Reader<'a>) -> Self {
        Self { data: reader.take_rest() }
    }

    pub(super) fn decode_with_length(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { data: reader.length_prefixed("Datagram Data")? })
    }

    /// Bytes before the data: in a frame with a Length field for `length` bytes of data, or, if
    /// `length` is `None`, in one without that field.
    pub fn header_len(length: Option<usize>) -> usize {
        let length_len = length.map_or(0, |length| length_varint(length).encoded_len());
        1_usize.saturating_add(length_len)
    }

    /// Writes the frame, its type and a Length field included, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        writer.u8(Self::TYPE_WITH_LENGTH)?;
        length_varint(self.data.len()).encode(writer)?;
        writer.bytes(self.data)
    }

    /// Writes the frame without a Length field, or nothing. The data ends where the packet ends, so
    /// this has to be the packet's last frame.
    pub fn encode_without_length(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(Self::header_len(None).saturating_add(self.data.len()))?;
        writer.u8(Self::TYPE)?;
        writer.bytes(self.data)
    }

    /// Bytes that [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        Self::header_len(Some(self.data.len())).saturating_add(self.data.len())
    }
}

#[cfg(test)]
mod tests;
