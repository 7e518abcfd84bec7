use super::is_long;
use crate::{DecodeError, Reader, Version};

/// The header fields of a packet of any QUIC version (RFC 8999 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invariant<'a> {
    /// A long header.
    Long {
        /// The version; [`Version::NEGOTIATION`] for a Version Negotiation packet.
        version: Version,
        /// The destination connection ID, up to 255 bytes: other versions may use longer IDs than
        /// version 1.
        destination_connection_id: &'a [u8],
        /// The source connection ID, up to 255 bytes.
        source_connection_id: &'a [u8],
        /// The rest of the packet, whose format depends on the version.
        version_specific: &'a [u8],
    },
    /// A short header.
    Short {
        /// The destination connection ID, which has the length of the receiver's connection IDs.
        destination_connection_id: &'a [u8],
        /// The rest of the packet, whose format depends on the version.
        version_specific: &'a [u8],
    },
}

impl<'a> Invariant<'a> {
    /// Reads the header of the first packet in `datagram`. A short header does not contain the
    /// length of its connection ID, so the receiver passes the length of the connection IDs that it
    /// issues.
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

    /// Returns the destination connection ID, which identifies the packet's connection.
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategies::{bytes, hex};

    #[test]
    fn a_long_header_of_an_unknown_version() {
        let id = "ee".repeat(255);
        let datagram = hex(&format!("80 12345678 ff {id} 02 aabb 0102"));
        let header = Invariant::decode(&datagram, 8).unwrap();
        let expected = Invariant::Long {
            version: Version(0x1234_5678),
            destination_connection_id: &[0xee; 255],
            source_connection_id: &[0xaa, 0xbb],
            version_specific: &[1, 2],
        };
        assert_eq!(header, expected);
        assert_eq!(header.destination_connection_id(), [0xee; 255]);
    }

    #[test]
    fn a_short_header() {
        let datagram = hex("00 aabbcc 01");
        let expected = Invariant::Short {
            destination_connection_id: &[0xaa, 0xbb, 0xcc],
            version_specific: &[1],
        };
        assert_eq!(Invariant::decode(&datagram, 3), Ok(expected));
        assert_eq!(expected.destination_connection_id(), [0xaa, 0xbb, 0xcc]);
        let cut = DecodeError::Truncated { field: "Destination Connection ID" };
        assert_eq!(Invariant::decode(&datagram, 5), Err(cut));
    }

    #[test]
    fn a_datagram_cut_anywhere() {
        let datagram = hex("80 12345678 02 eeee 02 aabb");
        assert!(Invariant::decode(&datagram, 0).is_ok());
        for end in 0..datagram.len() {
            let result = Invariant::decode(&datagram[..end], 0);
            assert!(matches!(result, Err(DecodeError::Truncated { .. })), "{end}: {result:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(datagram in bytes(600), short_connection_id_len in 0_usize..40) {
            match Invariant::decode(&datagram, short_connection_id_len) {
                Ok(Invariant::Short { destination_connection_id, .. }) => {
                    prop_assert_eq!(destination_connection_id.len(), short_connection_id_len);
                }
                Ok(Invariant::Long { .. }) => prop_assert!(is_long(datagram[0])),
                Err(_) => {}
            }
        }
    }
}
