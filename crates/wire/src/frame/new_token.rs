use super::length_varint;
use crate::{DecodeError, EncodeError, Reader, Writer};

/// The NEW_TOKEN frame (RFC 9000 §19.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewToken<'a> {
    /// The token; never empty.
    pub token: &'a [u8],
}

impl<'a> NewToken<'a> {
    pub(super) const TYPE: u8 = 0x07;

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let token = reader.length_prefixed("Token")?;
        if token.is_empty() {
            return Err(DecodeError::invalid("Token", "is empty"));
        }
        Ok(Self { token })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        writer.u8(Self::TYPE)?;
        length_varint(self.token.len()).encode(writer)?;
        writer.bytes(self.token)
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        1_usize
            .saturating_add(length_varint(self.token.len()).encoded_len())
            .saturating_add(self.token.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode};
    use crate::strategies::hex;

    #[test]
    fn on_the_wire() {
        check_bytes(Frame::NewToken(NewToken { token: b"abc" }), &hex("07 03 616263"));
    }

    #[test]
    fn an_empty_token() {
        assert_eq!(decode(&[0x07, 0x00]), Err(DecodeError::invalid("Token", "is empty")));
    }

    proptest! {
        #[test]
        fn round_trip(token in vec(any::<u8>(), 1..200)) {
            check_round_trip(Frame::NewToken(NewToken { token: &token }));
        }
    }
}
