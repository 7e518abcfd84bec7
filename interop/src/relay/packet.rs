//! IP packets in the relay: header lengths and address rewriting.

use std::net::{IpAddr, SocketAddr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;

/// The kind of content in an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Udp,
    /// A TCP segment or an ICMP error message.
    Other,
}

/// The properties of an IP packet that the relay needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) content: Content,
    /// Offset of the end of the IP header.
    transport: usize,
    /// Number of bytes that count as headers. The bytes after the headers may be corrupted.
    pub(super) headers: usize,
    /// The two ECN bits of the IP header.
    pub(super) ecn: u8,
}

impl Layout {
    /// Parses the layout of a packet. Returns `None` if the relay does not forward such packets.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let (protocol, transport, ecn) = match packet.first()? >> 4 {
            4 => (*packet.get(9)?, usize::from(packet[0] & 0xf) * 4, packet.get(1)? & 0b11),
            6 => (*packet.get(6)?, IPV6_HEADER, packet.get(1)? >> 4 & 0b11),
            _ => return None,
        };
        let content = match (protocol, packet.get(transport)?) {
            (UDP, _) => Content::Udp,
            // ICMPv6 error messages, but not neighbor discovery.
            (TCP, _) | (ICMP, 3) | (ICMP_V6, 1..=4) => Content::Other,
            _ => return None,
        };
        let headers = transport + UDP_HEADER;
        (packet.len() >= headers).then_some(Self { content, transport, headers, ecn })
    }

    /// Returns whether the packet is a QUIC Version Negotiation packet, i.e. has a long header with
    /// version 0.
    pub(super) fn is_version_negotiation(self, packet: &[u8]) -> bool {
        self.content == Content::Udp
            && matches!(packet.get(self.headers..), Some([0x80..=0xff, 0, 0, 0, 0, ..]))
    }

    pub(super) fn source(self, packet: &[u8]) -> Option<SocketAddr> {
        let at = if self.is_v4(packet) { 12 } else { 8 };
        self.address(packet, at, 0)
    }

    pub(super) fn destination(self, packet: &[u8]) -> Option<SocketAddr> {
        let at = if self.is_v4(packet) { 16 } else { 24 };
        self.address(packet, at, 2)
    }

    pub(super) fn set_source(self, packet: &mut [u8], address: SocketAddr) {
        let at = if self.is_v4(packet) { 12 } else { 8 };
        self.set_address(packet, at, 0, address);
    }

    pub(super) fn set_destination(self, packet: &mut [u8], address: SocketAddr) {
        let at = if self.is_v4(packet) { 16 } else { 24 };
        self.set_address(packet, at, 2, address);
    }

    pub(super) fn set_ecn(self, packet: &mut [u8], ecn: u8) {
        match self.is_v4(packet) {
            true => packet[1] = packet[1] & !0b11 | ecn,
            false => packet[1] = packet[1] & !0b11_0000 | ecn << 4,
        }
    }

    fn is_v4(self, packet: &[u8]) -> bool {
        packet[0] >> 4 == 4
    }

    fn address(self, packet: &[u8], at: usize, port: usize) -> Option<SocketAddr> {
        let ip: IpAddr = match self.is_v4(packet) {
            true => <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into(),
            false => <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?.into(),
        };
        let port = self.transport + port;
        let port = u16::from_be_bytes(packet.get(port..port + 2)?.try_into().ok()?);
        Some(SocketAddr::new(ip, port))
    }

    fn set_address(self, packet: &mut [u8], at: usize, port: usize, address: SocketAddr) {
        match address.ip() {
            IpAddr::V4(ip) => packet[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => packet[at..at + 16].copy_from_slice(&ip.octets()),
        }
        let port = self.transport + port;
        packet[port..port + 2].copy_from_slice(&address.port().to_be_bytes());
    }

    /// Recomputes the IPv4 header checksum and the UDP checksum.
    pub(super) fn correct_checksums(self, packet: &mut [u8]) {
        let addresses = if self.is_v4(packet) { 12..IPV4_HEADER } else { 8..IPV6_HEADER };
        if self.is_v4(packet) {
            packet[10..12].fill(0);
            let sum = checksum(&[&packet[..self.transport]]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        if self.content == Content::Udp {
            let place = self.transport + 6;
            packet[place..place + 2].fill(0);
            let datagram = &packet[self.transport..];
            let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX).to_be_bytes();
            let pseudo_header = [0, UDP, length[0], length[1]];
            // Zero would mean that the datagram has no checksum.
            let sum = match checksum(&[&packet[addresses], &pseudo_header, datagram]) {
                0 => u16::MAX,
                sum => sum,
            };
            packet[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Returns the Internet checksum (RFC 1071). All parts except the last one must have an even
/// length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns an IP packet that contains a UDP datagram, for the loopback relay, which sees only UDP
/// payloads.
pub(super) fn udp(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let datagram = u16::try_from(UDP_HEADER + payload.len()).unwrap_or(u16::MAX);
    let mut packet = match source {
        SocketAddr::V4(_) => {
            let mut header = vec![0; IPV4_HEADER];
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(datagram + IPV4_HEADER as u16).to_be_bytes());
            (header[8], header[9]) = (64, UDP);
            header
        }
        SocketAddr::V6(_) => {
            let mut header = vec![0; IPV6_HEADER];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&datagram.to_be_bytes());
            (header[6], header[7]) = (UDP, 64);
            header
        }
    };
    let transport = packet.len();
    packet.extend_from_slice(&[0; UDP_HEADER]);
    packet[transport + 4..transport + 6].copy_from_slice(&datagram.to_be_bytes());
    packet.extend_from_slice(payload);
    let headers = transport + UDP_HEADER;
    let layout = Layout { content: Content::Udp, transport, headers, ecn: 0 };
    layout.set_source(&mut packet, source);
    layout.set_destination(&mut packet, destination);
    layout.correct_checksums(&mut packet);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_rewritten_with_correct_checksums() {
        for (from, to, moved) in [
            ("10.0.0.1:1000", "10.0.0.2:443", "10.0.0.9:77"),
            ("[fd00::1]:1000", "[fd00::2]:443", "[fd00::9]:77"),
        ] {
            let [from, to, moved] = [from, to, moved].map(|it| it.parse().unwrap());
            let mut packet = udp(from, to, b"hello");
            let layout = Layout::of(&packet).unwrap();
            assert_eq!(layout.source(&packet), Some(from));
            assert_eq!(layout.destination(&packet), Some(to));
            layout.set_source(&mut packet, moved);
            layout.set_ecn(&mut packet, 0b10);
            layout.correct_checksums(&mut packet);
            let layout = Layout::of(&packet).unwrap();
            assert_eq!((layout.source(&packet), layout.ecn), (Some(moved), 0b10));
            assert_eq!(&packet[layout.headers..], b"hello");
            let mut expected = udp(moved, to, b"hello");
            layout.set_ecn(&mut expected, 0b10);
            layout.correct_checksums(&mut expected);
            assert_eq!(packet, expected);
            // The checksum over a datagram that includes its checksum is zero.
            let addresses = if from.is_ipv4() { 12..20 } else { 8..40 };
            let datagram = &packet[layout.transport..];
            let pseudo_header = [0, UDP, 0, u8::try_from(datagram.len()).unwrap()];
            assert_eq!(checksum(&[&packet[addresses], &pseudo_header, datagram]), 0);
        }
    }

    #[test]
    fn version_negotiation_is_recognized() {
        let [from, to] = ["10.0.0.1:443", "10.0.0.2:1000"].map(|it| it.parse().unwrap());
        for (payload, expected) in [
            (&[0x80, 0, 0, 0, 0, 1][..], true),
            (&[0xc0, 0, 0, 0, 1, 1], false),
            (&[0x40, 0, 0, 0, 0, 1], false),
            (&[0x80, 0, 0, 0], false),
        ] {
            let packet = udp(from, to, payload);
            let layout = Layout::of(&packet).unwrap();
            assert_eq!(layout.is_version_negotiation(&packet), expected, "{payload:?}");
        }
    }

    #[test]
    fn the_chatter_of_the_kernel_is_not_forwarded() {
        // An ICMPv6 router solicitation.
        let mut packet = vec![0; 56];
        (packet[0], packet[6], packet[40]) = (0x60, ICMP_V6, 133);
        assert_eq!(Layout::of(&packet), None);
        packet[40] = 1;
        assert_eq!(Layout::of(&packet).map(|it| it.content), Some(Content::Other));
        assert_eq!(Layout::of(&[0x45]), None);
    }
}
