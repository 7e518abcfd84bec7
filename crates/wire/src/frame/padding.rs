use crate::{EncodeError, Reader, Writer};

/// A run of PADDING frames (RFC 9000 §19.1): `length` zero bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Padding {
    /// The number of PADDING frames, each of one byte.
    pub length: usize,
}

impl Padding {
    pub(super) const TYPE: u8 = 0x00;

    /// Reads all zero bytes that follow the first one, which has already been read.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Self {
        // A client's first datagram contains hundreds of PADDING frames (§14.1), so this reads
        // words of this many bytes.
        const WORD: usize = 16;
        let (words, _) = reader.rest().as_chunks::<WORD>();
        let in_words = words.iter().take_while(|word| **word == [0; WORD]).count();
        reader.skip(in_words.saturating_mul(WORD));
        let last = reader.rest().iter().take_while(|byte| **byte == 0).count();
        reader.skip(last);
        let following = in_words.saturating_mul(WORD).saturating_add(last);
        Self { length: following.saturating_add(1) }
    }

    /// Writes `length` PADDING frames, or writes nothing.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.zeros(self.length)
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub const fn encoded_len(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::tests::check_bytes;
    use crate::{EncodeError, Frame};

    #[test]
    fn a_run_is_one_frame_and_stops_at_the_next() {
        check_bytes(Frame::Padding(Padding { length: 1 }), &[0]);
        check_bytes(Frame::Padding(Padding { length: 3 }), &[0, 0, 0]);
        let mut reader = Reader::new(&[0, 0, 0, 1, 0]);
        assert_eq!(Frame::decode(&mut reader), Ok(Frame::Padding(Padding { length: 3 })));
        assert_eq!(reader.rest(), [1, 0]);
    }

    proptest! {
        #[test]
        fn round_trip(length in 1_usize..1500) {
            let frame = Padding { length };
            let mut buffer = vec![0xff; length];
            let mut writer = Writer::new(&mut buffer);
            frame.encode(&mut writer).unwrap();
            prop_assert_eq!(writer.remaining(), 0);
            prop_assert_eq!(frame.encode(&mut writer), Err(EncodeError));
            let mut reader = Reader::new(&buffer);
            prop_assert_eq!(Frame::decode(&mut reader), Ok(Frame::Padding(frame)));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(frame.encoded_len(), length);
        }
    }
}
