use super::is_long;
use crate::{DecodeError, Reader, Version};

/// What can be read of a packet of any version of QUIC (RFC 8999 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant<'a> {
    /// A long header.
    Long {
        /// The version; [`Version::NEGOTIATION`] for a Version Negotiation packet.
        version: Version,
        /// Up to 255 bytes: other versions may have longer IDs than version 1.
        destination_connection_id: &'a [u8],
        /// Up to 255 bytes.
        source_connection_id: &'a [u8],
        /// What the version defines: all that follows.
        version_specific: &'a [u8],
    },
    /// A short header.
    Short {
        /// As long as the receiver's connection IDs are.
        destination_connection_id: &'a [u8],
        /// What the version defines: all that follows.
        version_specific: &'a [u8],
    },
}

impl<'a> Invariant<'a> {
    /// Reads the header of the packet that `datagram` begins with. A short header does not state the
    /// length of its connection ID, so the receiver says how long those are that it issues.
    pub fn decode(datagram: &'a [u8], short_connection_id_len: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(datagram);
        if !is_long(reader.u8("Header Form")?) {
            let field = "Destination Connection ID";
            let destination_connection_id = reader.bytes(short_connection_id_len, field)?;
            return Ok(Self::Short { destination_connection_id, version_specific: reader.rest() });
        }
        let version = Version(u32::from_be_bytes(reader.array("Version")?));
        let destination_connection_id = connection_id(&mut reader, "Destination Connection ID")?;
        let source_connection_id = connection_id(&mut reader, "Source Connection ID")?;
        Ok(Self::Long {
            version,
            destination_connection_id,
            source_connection_id,
            version_specific: reader.rest(),
        })
    }

    /// The destination connection ID, by which a packet finds its connection.
    pub const fn destination_connection_id(&self) -> &'a [u8] {
        match self {
            Self::Long { destination_connection_id, .. }
            | Self::Short { destination_connection_id, .. } => destination_connection_id,
        }
    }
}

fn connection_id<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<&'a [u8], DecodeError> {
    let length = usize::from(reader.u8(field)?);
    reader.bytes(length, field)
}

#[cfg(test)]
mod tests;
