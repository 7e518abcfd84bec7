use crate::{DecodeError, EncodeError, Reader, Writer};

/// The PATH_RESPONSE frame (RFC 9000 §19.18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathResponse {
    /// The bytes of the PATH_CHALLENGE frame to which this frame responds.
    pub data: [u8; 8],
}

impl PathResponse {
    pub(super) const TYPE: u8 = 0x1b;

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
        let frame = PathResponse { data: *b"01234567" };
        check_bytes(Frame::PathResponse(frame), &hex("1b 3031323334353637"));
    }

    proptest! {
        #[test]
        fn round_trip(data: [u8; 8]) {
            check_round_trip(Frame::PathResponse(PathResponse { data }));
        }
    }
}
