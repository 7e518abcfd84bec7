use super::VarInt;
use crate::{DecodeError, EncodeError, Reader, Writer};

/// The ACK_FREQUENCY frame (draft-ietf-quic-ack-frequency §4): how often its sender wants to
/// receive ACK frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckFrequency {
    /// The sequence number; of two frames, the one with the greater sequence number applies.
    pub sequence: VarInt,
    /// The number of ack-eliciting packets that may be received without sending an ACK frame; 1 is
    /// the default of RFC 9000.
    pub ack_eliciting_threshold: VarInt,
    /// The maximum delay of an ACK frame, in microseconds.
    pub max_ack_delay: VarInt,
    /// The reordering, in packets, that triggers an immediate ACK frame; 0 disables it, and 1 is
    /// the default of RFC 9000.
    pub reordering_threshold: VarInt,
}

impl AckFrequency {
    pub(super) const TYPE: u8 = 0xaf;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sequence: VarInt::decode(reader, "Sequence Number")?,
            ack_eliciting_threshold: VarInt::decode(reader, "Ack-Eliciting Threshold")?,
            max_ack_delay: VarInt::decode(reader, "Requested Max Ack Delay")?,
            reordering_threshold: VarInt::decode(reader, "Reordering Threshold")?,
        })
    }

    /// Writes the entire frame, including its type, or nothing on error.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.require(self.encoded_len())?;
        self.all().iter().try_for_each(|field| field.encode(writer))
    }

    /// Returns how many bytes [`Self::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        self.all().iter().fold(0, |sum: usize, field| sum.saturating_add(field.encoded_len()))
    }

    /// Returns the type, which takes two bytes, and the fields.
    fn all(&self) -> [VarInt; 5] {
        [
            VarInt::from_u32(Self::TYPE as u32),
            self.sequence,
            self.ack_eliciting_threshold,
            self.max_ack_delay,
            self.reordering_threshold,
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;
    use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
    use crate::strategies::{hex, varint};

    #[test]
    fn on_the_wire() {
        let frame = AckFrequency {
            sequence: number(3),
            ack_eliciting_threshold: number(9),
            max_ack_delay: number(25_000),
            reordering_threshold: number(0),
        };
        check_bytes(Frame::AckFrequency(frame), &hex("40af 03 09 800061a8 00"));
    }

    #[test]
    fn the_type_in_one_byte_is_the_beginning_of_another() {
        // The byte 0xaf begins an integer of four bytes.
        assert_eq!(
            decode(&hex("af 03 09 00")),
            Err(DecodeError::UnknownFrame { frame_type: 0x2f03_0900 })
        );
    }

    proptest! {
        #[test]
        fn round_trip(
            sequence in varint(),
            ack_eliciting_threshold in varint(),
            max_ack_delay in varint(),
            reordering_threshold in varint(),
        ) {
            check_round_trip(Frame::AckFrequency(AckFrequency {
                sequence,
                ack_eliciting_threshold,
                max_ack_delay,
                reordering_threshold,
            }));
        }
    }
}
