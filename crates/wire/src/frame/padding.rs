use crate::{EncodeError, Reader, Writer};

/// A run of PADDING frames (RFC 9000 §19.1): `length` zero bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Padding {
    /// How many.
    pub length: usize,
}

impl Padding {
    pub(super) const TYPE: u8 = 0x00;

    /// Takes all the zero bytes that follow the first, which has been read.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Self {
        let following = reader.rest().iter().take_while(|byte| **byte == 0).count();
        reader.skip(following);
        Self { length: following.saturating_add(1) }
    }

    /// Writes that many PADDING frames, or nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.zeros(self.length)
    }

    /// Bytes that [`Self::encode`] writes.
    pub const fn encoded_len(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests;
