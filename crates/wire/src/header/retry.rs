use super::long_type::LongType;
use super::{FIXED_BIT, LONG_FORM};
use crate::{ConnectionId, DecodeError, EncodeError, Version, Writer};

/// A Retry packet (RFC 9000 §17.2.5). This crate does not verify the integrity tag; the caller,
/// which has the keys, must do so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry<'a> {
    /// The version.
    pub version: Version,
    /// The destination connection ID.
    pub destination: ConnectionId,
    /// The source connection ID, which is the destination of the client's next Initial packet.
    pub source: ConnectionId,
    /// The token that the client's next Initial packet must carry; never empty.
    pub token: &'a [u8],
    /// The packet up to its integrity tag, for [`retry_pseudo_packet`].
    pub without_tag: &'a [u8],
    /// The Retry Integrity Tag (RFC 9001 §5.8).
    pub integrity_tag: [u8; Retry::INTEGRITY_TAG_LEN],
}

impl<'a> Retry<'a> {
    /// The length of the Retry Integrity Tag in bytes.
    pub const INTEGRITY_TAG_LEN: usize = 16;

    /// Reads a Retry packet, which extends to the end of the datagram.
    ///
    /// # Errors
    /// Returns an error if the packet is too short for the tag, or the token is empty. A client
    /// must discard such a packet (RFC 9000 §17.2.5.2).
    pub(super) fn decode(
        datagram: &'a [u8],
        version: Version,
        destination: ConnectionId,
        source: ConnectionId,
        version_specific: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let (token, tag) = version_specific
            .split_last_chunk()
            .ok_or(DecodeError::Truncated { field: "Retry Integrity Tag" })?;
        if token.is_empty() {
            return Err(DecodeError::invalid("Retry Token", "is empty"));
        }
        let without_tag_len = datagram.len().saturating_sub(Self::INTEGRITY_TAG_LEN);
        let without_tag = datagram.get(..without_tag_len).unwrap_or_default();
        Ok(Self { version, destination, source, token, without_tag, integrity_tag: *tag })
    }

    /// Writes a Retry packet without its integrity tag. The caller computes the tag over the
    /// [`retry_pseudo_packet`] of what was written, and appends it. `unused` provides the four bits
    /// of the first byte that have no meaning; they can have any value.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the packet does not fit with its tag, `token` is
    /// empty, or the version is unknown.
    pub fn encode_without_tag(
        writer: &mut Writer<'_>,
        unused: u8,
        version: Version,
        destination: ConnectionId,
        source: ConnectionId,
        token: &[u8],
    ) -> Result<(), EncodeError> {
        if token.is_empty() {
            return Err(EncodeError);
        }
        let type_bits = LongType::Retry.bits(version).ok_or(EncodeError)?;
        // This counts the first byte, the version and two length bytes.
        let needed = 7_usize
            .saturating_add(destination.len())
            .saturating_add(source.len())
            .saturating_add(token.len())
            .saturating_add(Self::INTEGRITY_TAG_LEN);
        writer.require(needed)?;
        writer.u8(LONG_FORM | FIXED_BIT | type_bits | unused & 0x0f)?;
        writer.bytes(&version.0.to_be_bytes())?;
        destination.encode(writer)?;
        source.encode(writer)?;
        writer.bytes(token)
    }
}

/// Returns the Retry Pseudo-Packet, over which the integrity tag is computed (RFC 9001 §5.8): the
/// destination connection ID of the client's first Initial packet, and the Retry packet without its
/// tag.
pub fn retry_pseudo_packet(
    original_destination: &ConnectionId,
    retry_without_tag: &[u8],
) -> Vec<u8> {
    let id = original_destination.as_bytes();
    let length = 1_usize.saturating_add(id.len()).saturating_add(retry_without_tag.len());
    let mut pseudo_packet = Vec::with_capacity(length);
    pseudo_packet.push(id.len() as u8);
    pseudo_packet.extend_from_slice(id);
    pseudo_packet.extend_from_slice(retry_without_tag);
    pseudo_packet
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
