//! The headers of QUIC packets (RFC 9000 §17, RFC 9369 §3.2), before header protection is removed.

use super::bytes::Bytes;

/// QUIC version numbers: version 1 and version 2.
pub(crate) const V1: u32 = 1;
pub(crate) const V2: u32 = 0x6b33_43cf;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    OneRtt,
    /// A long header packet of an unknown version, or a malformed packet.
    Unknown,
}

/// One packet in a datagram, possibly followed by other packets.
#[derive(Clone, Debug)]
pub(crate) struct Header<'a> {
    pub(crate) kind: Kind,
    pub(crate) version: u32,
    pub(crate) destination_id: &'a [u8],
    pub(crate) source_id: &'a [u8],
    pub(crate) token: &'a [u8],
    /// The whole packet, up to the end of its payload.
    pub(crate) packet: &'a [u8],
    /// Offset of the packet number in the packet.
    pub(crate) number_offset: usize,
}

/// Parses the packets in a datagram.
pub(crate) fn packets(datagram: &[u8]) -> Vec<Header<'_>> {
    let mut packets = Vec::new();
    let mut rest = datagram;
    while let Some(first) = rest.first() {
        // Zeros after the last packet are padding. Checking the fixed bit does not help, because it
        // may be greased (RFC 9287).
        if rest.iter().all(|byte| *byte == 0) {
            break;
        }
        let header = match first & 0x80 {
            0 => Some(short(rest)),
            _ => long(rest),
        };
        let header = header.unwrap_or(Header { kind: Kind::Unknown, ..short(rest) });
        rest = &rest[header.packet.len()..];
        packets.push(header);
    }
    packets
}

/// Parses a short header. Only the receiver knows the length of the Destination Connection ID, and
/// thus the offset of the packet number.
fn short(packet: &[u8]) -> Header<'_> {
    Header {
        kind: Kind::OneRtt,
        version: 0,
        destination_id: &[],
        source_id: &[],
        token: &[],
        packet,
        number_offset: 1,
    }
}

fn long(bytes: &[u8]) -> Option<Header<'_>> {
    let mut reader = Bytes::new(bytes);
    let first = reader.number(1)?;
    let version = u32::try_from(reader.number(4)?).ok()?;
    let destination_id = reader.vector(1)?;
    let source_id = reader.vector(1)?;
    let kind = kind(version, first >> 4 & 0b11);
    let token = match kind {
        Kind::Initial => reader.counted()?,
        // The last 16 bytes are the Retry integrity tag.
        Kind::Retry => reader.rest().get(..reader.rest().len().checked_sub(16)?)?,
        _ => &[],
    };
    let (packet, number_offset) = match kind {
        Kind::Initial | Kind::ZeroRtt | Kind::Handshake => {
            let length = usize::try_from(reader.variable()?).ok()?;
            let offset = bytes.len() - reader.rest().len();
            (bytes.get(..offset.checked_add(length)?)?, offset)
        }
        _ => (bytes, bytes.len()),
    };
    Some(Header { kind, version, destination_id, source_id, token, packet, number_offset })
}

fn kind(version: u32, bits: u64) -> Kind {
    const V1_KINDS: [Kind; 4] = [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry];
    let bits = bits as usize;
    match version {
        0 => Kind::VersionNegotiation,
        V1 => V1_KINDS[bits],
        // Each packet type's code point is one higher than in version 1.
        V2 => V1_KINDS[(bits + 3) % 4],
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: [u8; 13] = [0xc0, 0, 0, 0, 1, 1, 7, 1, 8, 0, 2, 0xaa, 0xbb];

    fn kinds(datagram: &[u8]) -> Vec<Kind> {
        packets(datagram).iter().map(|header| header.kind).collect()
    }

    #[test]
    fn packets_of_a_datagram_are_told_apart() {
        let with = |rest: &[u8]| kinds(&[&INITIAL[..], rest].concat());
        assert_eq!(with(&[]), [Kind::Initial]);
        assert_eq!(with(&[0; 40]), [Kind::Initial]);
        assert_eq!(with(&[0x41, 7, 0, 0]), [Kind::Initial, Kind::OneRtt]);
    }

    #[test]
    fn a_cleared_fixed_bit_is_no_padding() {
        assert_eq!(kinds(&[0x01, 7, 0, 0]), [Kind::OneRtt]);
        assert_eq!(
            kinds(&[&INITIAL[..], &[0x01, 7, 0, 0]].concat()),
            [Kind::Initial, Kind::OneRtt]
        );
    }
}
