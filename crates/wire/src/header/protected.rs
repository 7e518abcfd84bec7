use super::long_type::LongType;
use super::{Invariant, Retry, VersionNegotiation, has_fixed_bit, spin_bit};
use crate::{ConnectionId, DecodeError, LongPacketType, PacketType, Reader, VarInt, Version};

/// The header fields that can be read before header protection is removed (RFC 9000 §17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtectedHeader<'a> {
    /// The first byte; its low bits are protected.
    pub first_byte: u8,
    /// Whether the fixed bit is set. If it is not, the packet must be discarded, unless the
    /// receiver has sent grease_quic_bit (RFC 9287).
    pub fixed_bit: bool,
    /// The length of the packet in bytes. The next packet in the datagram begins after this packet;
    /// only Initial, 0-RTT and Handshake packets can be followed by another packet.
    pub packet_len: usize,
    /// The fields that depend on the packet type.
    pub kind: HeaderKind<'a>,
}

/// The header fields that depend on the packet type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderKind<'a> {
    /// An Initial, 0-RTT or Handshake packet (§17.2.2 to §17.2.4).
    Long {
        /// The packet type.
        packet_type: LongPacketType,
        /// The version, one that this crate supports.
        version: Version,
        /// The destination connection ID.
        destination: ConnectionId,
        /// The source connection ID.
        source: ConnectionId,
        /// The token of an Initial packet; empty if the packet has no token, and for other packet
        /// types.
        token: &'a [u8],
        /// The position of the packet number, in bytes from the start of the packet.
        packet_number_offset: usize,
    },
    /// A 1-RTT packet (§17.3.1).
    Short {
        /// The destination connection ID.
        destination: ConnectionId,
        /// The latency spin bit.
        spin: bool,
        /// The position of the packet number, in bytes from the start of the packet.
        packet_number_offset: usize,
    },
    /// A Retry packet (§17.2.5).
    Retry(Retry<'a>),
    /// A Version Negotiation packet (§17.2.1).
    VersionNegotiation(VersionNegotiation<'a>),
    /// A long header with a version unknown to this crate. A server may respond with Version
    /// Negotiation (§6.1).
    UnknownVersion {
        /// The version.
        version: Version,
        /// The destination connection ID, up to 255 bytes.
        destination: &'a [u8],
        /// The source connection ID, up to 255 bytes.
        source: &'a [u8],
    },
}

impl<'a> ProtectedHeader<'a> {
    /// Reads the header of the first packet in `datagram`. A short header does not contain the
    /// length of its connection ID, so the receiver passes the length of the connection IDs that it
    /// issues.
    ///
    /// # Errors
    /// Returns an error if the packet is truncated (its Length field is checked against the
    /// available bytes), has a connection ID longer than 20 bytes in a known version, or is a
    /// malformed Retry or Version Negotiation packet. Discard such a packet, together with the rest
    /// of the datagram.
    pub fn decode(datagram: &'a [u8], short_connection_id_len: usize) -> Result<Self, DecodeError> {
        let first_byte = Reader::new(datagram).u8("Header Form")?;
        let (packet_len, kind) = match Invariant::decode(datagram, short_connection_id_len)? {
            Invariant::Short { destination_connection_id, version_specific } => {
                let kind = HeaderKind::Short {
                    destination: ConnectionId::new(destination_connection_id)?,
                    spin: spin_bit(first_byte),
                    packet_number_offset: datagram.len().saturating_sub(version_specific.len()),
                };
                (datagram.len(), kind)
            }
            Invariant::Long {
                version,
                destination_connection_id: destination,
                source_connection_id: source,
                version_specific,
            } => match version {
                Version::NEGOTIATION => {
                    let packet = VersionNegotiation::decode(destination, source, version_specific)?;
                    (datagram.len(), HeaderKind::VersionNegotiation(packet))
                }
                _ => match LongType::of(first_byte, version) {
                    Some(long_type) => decode_long(
                        datagram,
                        long_type,
                        version,
                        ConnectionId::new(destination)?,
                        ConnectionId::new(source)?,
                        version_specific,
                    )?,
                    None => {
                        let kind = HeaderKind::UnknownVersion { version, destination, source };
                        (datagram.len(), kind)
                    }
                },
            },
        };
        Ok(Self { first_byte, fixed_bit: has_fixed_bit(first_byte), packet_len, kind })
    }

    /// Returns the destination connection ID, which identifies the packet's connection.
    pub fn destination(&self) -> &[u8] {
        match &self.kind {
            HeaderKind::Long { destination, .. } | HeaderKind::Short { destination, .. } => {
                destination.as_bytes()
            }
            HeaderKind::Retry(retry) => retry.destination.as_bytes(),
            HeaderKind::VersionNegotiation(packet) => packet.destination,
            HeaderKind::UnknownVersion { destination, .. } => destination,
        }
    }

    /// Returns the type of a packet that carries frames, and the position of its packet number.
    pub fn packet_type(&self) -> Option<(PacketType, usize)> {
        match self.kind {
            HeaderKind::Long { packet_type, packet_number_offset, .. } => {
                Some((packet_type.into(), packet_number_offset))
            }
            HeaderKind::Short { packet_number_offset, .. } => {
                Some((PacketType::OneRtt, packet_number_offset))
            }
            _ => None,
        }
    }
}

fn decode_long<'a>(
    datagram: &'a [u8],
    long_type: LongType,
    version: Version,
    destination: ConnectionId,
    source: ConnectionId,
    version_specific: &'a [u8],
) -> Result<(usize, HeaderKind<'a>), DecodeError> {
    let mut reader = Reader::new(version_specific);
    let packet_type = match long_type {
        LongType::Frames(packet_type) => packet_type,
        LongType::Retry => {
            let retry = Retry::decode(datagram, version, destination, source, version_specific)?;
            return Ok((datagram.len(), HeaderKind::Retry(retry)));
        }
    };
    let token = match packet_type {
        LongPacketType::Initial => reader.length_prefixed("Token")?,
        LongPacketType::ZeroRtt | LongPacketType::Handshake => Default::default(),
    };
    let length = VarInt::decode(&mut reader, "Length")?;
    let packet_number_offset = datagram.len().saturating_sub(reader.remaining());
    let packet_len = usize::try_from(length.get())
        .ok()
        .and_then(|length| packet_number_offset.checked_add(length))
        .filter(|packet_len| *packet_len <= datagram.len())
        .ok_or(DecodeError::Truncated { field: "Packet Payload" })?;
    let kind =
        HeaderKind::Long { packet_type, version, destination, source, token, packet_number_offset };
    Ok((packet_len, kind))
}

#[cfg(test)]
#[path = "protected_tests.rs"]
mod tests;
