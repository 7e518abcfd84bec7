use crate::{DecodeError, EncodeError, Reader, Writer};

/// The PATH_CHALLENGE frame (RFC 9000 §19.17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathChallenge {
    /// Unpredictable bytes that the peer echoes.
    pub data: [u8; 8],
}

impl PathChallenge {
    pub(super) const TYPE: u8 = 0x1a;

    /// The number of bytes that [`Self::encode`] writes.
    pub const ENCODED_LEN: usize = 9;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { data: reader.array("Data")? })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(Self::ENCODED_LEN)?;
        writer.u8(Self::TYPE)?;
        writer.bytes(&self.data)
    }

    /// Returns how many bytes [`Self::encode`] writes: always [`Self::ENCODED_LEN`].
    pub const fn encoded_len(&self) -> usize {
        Self::ENCODED_LEN
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip};
    use crate::strategies::hex;

    #[test]
    fn on_the_wire() {
        let frame = PathChallenge { data: *b"01234567" };
        check_bytes(Frame::PathChallenge(frame), &hex("1a 3031323334353637"));
    }

    proptest! {
        #[test]
        fn round_trip(data: [u8; 8]) {
            check_round_trip(Frame::PathChallenge(PathChallenge { data }));
        }
    }
}
