use super::length_varint;
use crate::{DecodeError, EncodeError, Reader, Writer};

/// The DATAGRAM frame (RFC 9221 §4).
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

    /// Returns how many bytes precede the data in a frame with a Length field for `length` bytes of
    /// data, or in a frame without that field if `length` is `None`.
    pub fn header_len(length: Option<usize>) -> usize {
        let length_len = length.map_or(0, |length| length_varint(length).encoded_len());
        1_usize.saturating_add(length_len)
    }

    /// Writes the entire frame, including its type and a Length field, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        writer.u8(Self::TYPE_WITH_LENGTH)?;
        length_varint(self.data.len()).encode(writer)?;
        writer.bytes(self.data)
    }

    /// Writes the frame without a Length field, or writes nothing. The data extends to the end of
    /// the packet, so this must be the packet's last frame.
    pub fn encode_without_length(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(Self::header_len(None).saturating_add(self.data.len()))?;
        writer.u8(Self::TYPE)?;
        writer.bytes(self.data)
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        Self::header_len(Some(self.data.len())).saturating_add(self.data.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode};
    use crate::strategies::{bytes, hex};

    #[test]
    fn on_the_wire() {
        check_bytes(Frame::Datagram(Datagram { data: b"abc" }), &hex("31 03 616263"));
        check_bytes(Frame::Datagram(Datagram { data: b"" }), &hex("31 00"));
        assert_eq!(decode(&hex("30 616263")), Ok(Frame::Datagram(Datagram { data: b"abc" })));
        assert_eq!(decode(&hex("30")), Ok(Frame::Datagram(Datagram { data: b"" })));
    }

    proptest! {
        #[test]
        fn round_trip(data in bytes(100)) {
            check_round_trip(Frame::Datagram(Datagram { data: &data }));
        }

        #[test]
        fn without_length(data in bytes(100)) {
            let frame = Datagram { data: &data };
            let mut buffer = vec![0; Datagram::header_len(None) + data.len()];
            let short = buffer.len() - 1;
            let mut writer = Writer::new(&mut buffer[..short]);
            prop_assert_eq!(frame.encode_without_length(&mut writer), Err(EncodeError));
            prop_assert_eq!(writer.written(), 0);
            let mut writer = Writer::new(&mut buffer);
            frame.encode_without_length(&mut writer).unwrap();
            prop_assert_eq!(writer.remaining(), 0);
            prop_assert_eq!(decode(&buffer), Ok(Frame::Datagram(frame)));
        }
    }
}
