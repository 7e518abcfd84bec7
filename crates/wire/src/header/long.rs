use super::long_type::LongType;
use super::{FIXED_BIT, LONG_FORM};
use crate::{ConnectionId, EncodeError, LongPacketType, PacketNumber, VarInt, Version, Writer};

/// The header of an Initial, 0-RTT or Handshake packet to be written (RFC 9000 §17.2, RFC 9369
/// §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongHeader<'a> {
    /// The packet type.
    pub packet_type: LongPacketType,
    /// The version, one of [`Version::KNOWN`].
    pub version: Version,
    /// The destination connection ID.
    pub destination: ConnectionId,
    /// The source connection ID.
    pub source: ConnectionId,
    /// The token of an Initial packet; empty if there is none. Other packet types have no token,
    /// and ignore this field.
    pub token: &'a [u8],
}

/// The positions of the packet's parts that are not final yet, in bytes from the start of the
/// packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongHeaderOffsets {
    /// The position of the two bytes of the Length field, for [`set_length`].
    pub length: usize,
    /// The position of the packet number.
    pub packet_number: usize,
    /// The position after the packet number.
    pub payload: usize,
}

/// The size of a written Length field in bytes. It is enough for any packet of an Initial or
/// Handshake flight, and fixed, so that the payload can be written before its length is known.
const LENGTH_LEN: usize = 2;
const MAX_LENGTH: usize = 0x3fff;

impl LongHeader<'_> {
    /// Returns how many bytes [`Self::encode`] writes with a packet number of `packet_number_len`
    /// bytes.
    pub fn encoded_len(&self, packet_number_len: usize) -> usize {
        // This counts the first byte, the version and two length bytes.
        7_usize
            .saturating_add(self.destination.len())
            .saturating_add(self.source.len())
            .saturating_add(self.token_field_len())
            .saturating_add(LENGTH_LEN)
            .saturating_add(packet_number_len)
    }

    /// Writes the header with a Length field of zero and the last `packet_number_len` bytes (1 to
    /// 4) of the packet number. The packet begins at the writer's current position.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the header does not fit, `packet_number_len` is not
    /// 1 to 4, or the version is unknown.
    pub fn encode(
        &self,
        writer: &mut Writer<'_>,
        packet_number: PacketNumber,
        packet_number_len: usize,
    ) -> Result<LongHeaderOffsets, EncodeError> {
        let type_bits = LongType::Frames(self.packet_type).bits(self.version).ok_or(EncodeError)?;
        let length_bits = packet_number_len_bits(packet_number_len)?;
        let payload = self.encoded_len(packet_number_len);
        writer.require(payload)?;
        writer.u8(LONG_FORM | FIXED_BIT | type_bits | length_bits)?;
        writer.bytes(&self.version.0.to_be_bytes())?;
        self.destination.encode(writer)?;
        self.source.encode(writer)?;
        if self.packet_type == LongPacketType::Initial {
            VarInt::saturating(self.token.len() as u64).encode(writer)?;
            writer.bytes(self.token)?;
        }
        writer.zeros(LENGTH_LEN)?;
        packet_number.encode_truncated(writer.reserve(packet_number_len)?);
        let packet_number = payload.saturating_sub(packet_number_len);
        let length = packet_number.saturating_sub(LENGTH_LEN);
        Ok(LongHeaderOffsets { length, packet_number, payload })
    }

    fn token_field_len(&self) -> usize {
        match self.packet_type {
            LongPacketType::Initial => VarInt::saturating(self.token.len() as u64)
                .encoded_len()
                .saturating_add(self.token.len()),
            LongPacketType::ZeroRtt | LongPacketType::Handshake => 0,
        }
    }
}

/// Returns the two bits of the first byte that encode the length of the packet number.
pub(super) fn packet_number_len_bits(packet_number_len: usize) -> Result<u8, EncodeError> {
    match packet_number_len {
        1 => Ok(0),
        2 => Ok(1),
        3 => Ok(2),
        4 => Ok(3),
        _ => Err(EncodeError),
    }
}

/// Fills in the Length field of a packet that [`LongHeader::encode`] began. `length` is the size of
/// everything after the field: the packet number, the payload and the authentication tag.
///
/// # Errors
/// Returns an error, and writes nothing, if `length` exceeds 16383 or `length_offset` is outside
/// the packet.
pub fn set_length(
    packet: &mut [u8],
    length_offset: usize,
    length: usize,
) -> Result<(), EncodeError> {
    if length > MAX_LENGTH {
        return Err(EncodeError);
    }
    let end = length_offset.checked_add(LENGTH_LEN).ok_or(EncodeError)?;
    let field = packet.get_mut(length_offset..end).ok_or(EncodeError)?;
    field.copy_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    Ok(())
}

#[cfg(test)]
#[path = "long_tests.rs"]
mod tests;
