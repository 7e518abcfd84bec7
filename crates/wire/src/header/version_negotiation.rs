use super::{FIXED_BIT, LONG_FORM};
use crate::{DecodeError, EncodeError, Version, Writer};

/// A Version Negotiation packet (RFC 9000 §17.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionNegotiation<'a> {
    /// The destination connection ID (up to 255 bytes): the source connection ID of the client's
    /// packet.
    pub destination: &'a [u8],
    /// The source connection ID (up to 255 bytes): the destination connection ID of the client's
    /// packet.
    pub source: &'a [u8],
    versions: &'a [u8],
}

impl<'a> VersionNegotiation<'a> {
    /// Reads the list of versions, which is everything after the connection IDs.
    ///
    /// # Errors
    /// Returns an error if the list is empty or ends in the middle of a version.
    pub(super) fn decode(
        destination: &'a [u8],
        source: &'a [u8],
        versions: &'a [u8],
    ) -> Result<Self, DecodeError> {
        let (_, rest) = versions.as_chunks::<4>();
        if versions.is_empty() || !rest.is_empty() {
            return Err(DecodeError::Truncated { field: "Supported Version" });
        }
        Ok(Self { destination, source, versions })
    }

    /// Returns the versions that the server supports; there is at least one.
    pub fn versions(&self) -> SupportedVersions<'a> {
        SupportedVersions(self.versions.as_chunks().0.iter())
    }

    /// Writes a Version Negotiation packet. `destination` and `source` are the swapped connection
    /// IDs of the client's packet. `unused` provides the six bits of the first byte that have no
    /// meaning; they can have any value.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the packet does not fit, an ID has more than 255
    /// bytes, or there is no version.
    pub fn encode(
        writer: &mut Writer<'_>,
        unused: u8,
        destination: &[u8],
        source: &[u8],
        versions: &[Version],
    ) -> Result<(), EncodeError> {
        let destination_len = u8::try_from(destination.len()).map_err(|_| EncodeError)?;
        let source_len = u8::try_from(source.len()).map_err(|_| EncodeError)?;
        if versions.is_empty() {
            return Err(EncodeError);
        }
        // This counts the first byte, the version and two length bytes.
        let needed = 7_usize
            .saturating_add(destination.len())
            .saturating_add(source.len())
            .saturating_add(versions.len().saturating_mul(4));
        writer.require(needed)?;
        // Set the bit that is fixed in version 1, so that the packet can share a port with other
        // protocols (RFC 9000 §17.2.1).
        writer.u8(LONG_FORM | FIXED_BIT | unused & 0x3f)?;
        writer.bytes(&Version::NEGOTIATION.0.to_be_bytes())?;
        writer.u8(destination_len)?;
        writer.bytes(destination)?;
        writer.u8(source_len)?;
        writer.bytes(source)?;
        versions.iter().try_for_each(|version| writer.bytes(&version.0.to_be_bytes()))
    }
}

/// The versions of a [`VersionNegotiation`].
#[derive(Clone, Debug)]
pub struct SupportedVersions<'a>(core::slice::Iter<'a, [u8; 4]>);

impl Iterator for SupportedVersions<'_> {
    type Item = Version;

    fn next(&mut self) -> Option<Version> {
        self.0.next().map(|bytes| Version(u32::from_be_bytes(*bytes)))
    }
}

#[cfg(test)]
#[path = "version_negotiation_tests.rs"]
mod tests;
