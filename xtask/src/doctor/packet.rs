//! Damaged packets that no UDP socket would send. They are encoded here.

use std::net::{Ipv4Addr, SocketAddrV4};

const IP_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// The Don't Fragment flag of IPv4.
const DONT_FRAGMENT: u16 = 0x4000;
/// The More Fragments flag of IPv4.
const MORE_FRAGMENTS: u16 = 0x2000;
const TTL: u8 = 64;
const UDP: u8 = 17;

/// How a packet is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    None,
    /// The UDP checksum is wrong.
    Checksum,
    /// The UDP length field exceeds the packet.
    Length,
    /// The packet is the first of several fragments; the others are never sent.
    Fragment,
}

/// Returns an IPv4 packet with a UDP datagram. The kernel fills in the IP checksum.
pub(super) fn packet(
    from: SocketAddrV4,
    to: SocketAddrV4,
    payload: &[u8],
    damage: Damage,
    identification: u16,
) -> Vec<u8> {
    let udp_length = UDP_LEN.saturating_add(payload.len());
    let flags = if damage == Damage::Fragment { MORE_FRAGMENTS } else { DONT_FRAGMENT };
    let mut all = Vec::with_capacity(IP_LEN.saturating_add(udp_length));
    all.extend([0x45, 0]);
    all.extend(short(IP_LEN.saturating_add(udp_length)));
    all.extend(identification.to_be_bytes());
    all.extend(flags.to_be_bytes());
    all.extend([TTL, UDP, 0, 0]);
    all.extend(from.ip().octets());
    all.extend(to.ip().octets());
    let said = if damage == Damage::Length { udp_length.saturating_add(100) } else { udp_length };
    all.extend(from.port().to_be_bytes());
    all.extend(to.port().to_be_bytes());
    all.extend(short(said));
    let right = checksum(*from.ip(), *to.ip(), &[&all[IP_LEN..], &[0, 0], payload].concat());
    let sum = if damage == Damage::Checksum { right ^ 0x5555 } else { right };
    // Zero would mean that the packet has no checksum.
    all.extend((if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    all.extend(payload);
    all
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// Returns the checksum of a datagram whose checksum field is still zero (RFC 768).
fn checksum(from: Ipv4Addr, to: Ipv4Addr, datagram: &[u8]) -> u16 {
    let length = short(datagram.len());
    let pseudo = [&from.octets()[..], &to.octets(), &[0, UDP], &length].concat();
    let words = pseudo.chunks(2).chain(datagram.chunks(2));
    let mut sum: u32 = words
        .map(|pair| {
            let low = pair.get(1).copied().unwrap_or(0);
            u32::from(u16::from_be_bytes([pair[0], low]))
        })
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 1000);
    const TO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4433);

    #[test]
    fn a_right_checksum_adds_up_to_zero() {
        for payload in [&b""[..], b"odd", b"even"] {
            let sound = packet(FROM, TO, payload, Damage::None, 1);
            assert_eq!(sound.len(), 28 + payload.len());
            let over = checksum(*FROM.ip(), *TO.ip(), &sound[IP_LEN..]);
            assert_eq!(over, 0, "{payload:?}");
            let wrong = packet(FROM, TO, payload, Damage::Checksum, 1);
            assert_ne!(checksum(*FROM.ip(), *TO.ip(), &wrong[IP_LEN..]), 0);
        }
    }

    #[test]
    fn only_what_is_asked_for_is_wrong() {
        let sound = packet(FROM, TO, b"payload", Damage::None, 1);
        assert_eq!(sound[..4], [0x45, 0, 0, 35]);
        assert_eq!(sound[24..26], [0, 15]);
        let long = packet(FROM, TO, b"payload", Damage::Length, 1);
        assert_eq!(long[24..26], [0, 115]);
        assert_eq!(long.len(), sound.len());
        let fragment = packet(FROM, TO, b"payload", Damage::Fragment, 7);
        assert_eq!(fragment[4..8], [0, 7, 0x20, 0]);
    }
}
