use super::{check_end, length_varint};
use crate::{DecodeError, EncodeError, Reader, VarInt, Writer};

/// The CRYPTO frame (RFC 9000 §19.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crypto<'a> {
    /// The offset of the data in the crypto stream. `offset + data.len()` fits in 62 bits.
    pub offset: VarInt,
    /// The data: a part of the TLS messages.
    pub data: &'a [u8],
}

impl<'a> Crypto<'a> {
    pub(super) const TYPE: u8 = 0x06;

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let offset = VarInt::decode(reader, "Offset")?;
        let data = reader.length_prefixed("Crypto Data")?;
        if !check_end(offset, data.len()) {
            return Err(DecodeError::invalid("Offset", "plus the length exceeds 2^62-1"));
        }
        Ok(Self { offset, data })
    }

    /// Returns how many bytes precede the data in a frame with `length` bytes of data.
    pub fn header_len(offset: VarInt, length: usize) -> usize {
        1_usize
            .saturating_add(offset.encoded_len())
            .saturating_add(length_varint(length).encoded_len())
    }

    /// Writes a frame except for its data, and returns the buffer of `length` bytes for the data.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the frame does not fit, or the data would end
    /// beyond 2^62 - 1.
    pub fn encode_in_place<'w>(
        writer: &'w mut Writer<'_>,
        offset: VarInt,
        length: usize,
    ) -> Result<&'w mut [u8], EncodeError> {
        if !check_end(offset, length) {
            return Err(EncodeError);
        }
        writer.require(Self::header_len(offset, length).saturating_add(length))?;
        writer.u8(Self::TYPE)?;
        offset.encode(writer)?;
        length_varint(length).encode(writer)?;
        writer.reserve(length)
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        Self::encode_in_place(writer, self.offset, self.data.len())?.copy_from_slice(self.data);
        Ok(())
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        Self::header_len(self.offset, self.data.len()).saturating_add(self.data.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
    use crate::strategies::{bytes, hex, varint};

    #[test]
    fn on_the_wire() {
        let frame = Crypto { offset: number(0x40), data: b"abc" };
        check_bytes(Frame::Crypto(frame), &hex("06 4040 03 616263"));
        check_bytes(Frame::Crypto(Crypto { offset: VarInt::ZERO, data: b"" }), &hex("06 00 00"));
    }

    #[test]
    fn data_beyond_the_last_offset() {
        let last = Crypto { offset: number(VarInt::MAX.get() - 1), data: b"a" };
        check_round_trip(Frame::Crypto(last));
        let beyond = DecodeError::invalid("Offset", "plus the length exceeds 2^62-1");
        assert_eq!(decode(&hex("06 ffffffffffffffff 01 61")), Err(beyond));
        let mut buffer = [0; 20];
        let mut writer = Writer::new(&mut buffer);
        let result = Crypto::encode_in_place(&mut writer, VarInt::MAX, 1);
        assert_eq!(result, Err(EncodeError));
        assert_eq!(writer.written(), 0);
    }

    #[test]
    fn a_length_beyond_the_packet() {
        let cut = DecodeError::Truncated { field: "Crypto Data" };
        assert_eq!(decode(&hex("06 00 04 616263")), Err(cut));
        assert_eq!(decode(&hex("06 00 ffffffffffffffff 616263")), Err(cut));
    }

    proptest! {
        #[test]
        fn round_trip(offset in varint(), data in bytes(100)) {
            prop_assume!(check_end(offset, data.len()));
            check_round_trip(Frame::Crypto(Crypto { offset, data: &data }));
        }

        #[test]
        fn in_place(offset in varint(), data in bytes(100)) {
            prop_assume!(check_end(offset, data.len()));
            let mut buffer = [0; 200];
            let mut writer = Writer::new(&mut buffer);
            let space = Crypto::encode_in_place(&mut writer, offset, data.len()).unwrap();
            space.copy_from_slice(&data);
            prop_assert_eq!(writer.written(), Crypto::header_len(offset, data.len()) + data.len());
            prop_assert_eq!(decode(writer.filled()), Ok(Frame::Crypto(Crypto { offset, data: &data })));
        }
    }
}
