use super::long::packet_number_len_bits;
use super::{FIXED_BIT, KEY_PHASE, SPIN_BIT};
use crate::{ConnectionId, EncodeError, PacketNumber, Writer};

/// The header of a 1-RTT packet to be written (RFC 9000 §17.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortHeader {
    /// The destination connection ID.
    pub destination: ConnectionId,
    /// The latency spin bit (RFC 9000 §17.4).
    pub spin: bool,
    /// The key phase of the keys that protect the packet.
    pub key_phase: bool,
}

impl ShortHeader {
    /// Returns how many bytes [`Self::encode`] writes with a packet number of `packet_number_len`
    /// bytes.
    pub fn encoded_len(&self, packet_number_len: usize) -> usize {
        1_usize.saturating_add(self.destination.len()).saturating_add(packet_number_len)
    }

    /// Writes the header with the last `packet_number_len` bytes (1 to 4) of the packet number.
    /// Returns the position of the packet number, in bytes from the start of the packet. The packet
    /// begins at the writer's current position.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the header does not fit or `packet_number_len` is
    /// not 1 to 4.
    pub fn encode(
        &self,
        writer: &mut Writer<'_>,
        packet_number: PacketNumber,
        packet_number_len: usize,
    ) -> Result<usize, EncodeError> {
        let length_bits = packet_number_len_bits(packet_number_len)?;
        writer.require(self.encoded_len(packet_number_len))?;
        let spin = if self.spin { SPIN_BIT } else { 0 };
        let key_phase = if self.key_phase { KEY_PHASE } else { 0 };
        writer.u8(FIXED_BIT | spin | key_phase | length_bits)?;
        writer.bytes(self.destination.as_bytes())?;
        packet_number.encode_truncated(writer.reserve(packet_number_len)?);
        Ok(self.destination.len().saturating_add(1))
    }
}

#[cfg(test)]
#[path = "short_tests.rs"]
mod tests;
