//! ICMP messages: errors about packets that are not forwarded (RFC 792, RFC 1812 §4.3.2, RFC 4443
//! §2.4), and echo replies.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum;
use super::packet::{ICMPV4, ICMPV6, IPV6_HEADER, IpHeader};

/// Maximum length of a packet with an ICMP error for IPv4, in bytes (RFC 1812 §4.3.2.3).
pub const MAX_ICMPV4_ERROR: usize = 576;

/// Maximum length of a packet with an ICMPv6 error, in bytes: the minimum MTU (RFC 4443 §2.4).
pub const MAX_ICMPV6_ERROR: usize = 1280;

/// Length of an ICMP header in bytes.
const ICMP_HEADER: usize = 8;
/// Length of an IPv4 header without options in bytes.
const IPV4_HEADER: usize = 20;
/// The TTL or Hop Limit of our own packets.
const HOP_LIMIT: u8 = 64;

/// An ICMP error (RFC 9484 §7.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IcmpError {
    /// The packet is longer than `mtu` bytes: Packet Too Big, or Fragmentation Needed.
    PacketTooBig {
        /// The MTU of the next link in bytes.
        mtu: u32,
    },
    /// The TTL or Hop Limit was exceeded.
    TimeExceeded,
    /// There is no route to the destination.
    NoRoute,
    /// A policy prohibits communication with the destination.
    Prohibited,
    /// The sender may not use this source address.
    SourcePolicy,
}

impl IcmpError {
    /// Returns the type, the code, and the second word of the ICMP message for IPv4.
    fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::PacketTooBig { mtu } => (3, 4, mtu.min(0xffff)),
            Self::TimeExceeded => (11, 0, 0),
            Self::NoRoute => (3, 0, 0),
            // ICMP for IPv4 has no code for source addresses.
            Self::Prohibited | Self::SourcePolicy => (3, 13, 0),
        }
    }

    /// Returns the type, the code, and the second word of the ICMPv6 message.
    fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::PacketTooBig { mtu } => (2, 0, mtu),
            Self::TimeExceeded => (3, 0, 0),
            Self::NoRoute => (1, 0, 0),
            Self::Prohibited => (1, 1, 0),
            Self::SourcePolicy => (1, 5, 0),
        }
    }

    /// Returns the packet that reports this error about `packet` to its source, sent from the
    /// address `own`. Returns `None` if `own` has another IP version, or if no error may be sent:
    /// about ICMP errors and redirects, fragments other than the first, packets to multicast or
    /// broadcast destinations, and packets whose source is not a single host.
    pub fn about(self, packet: &[u8], header: &IpHeader, own: IpAddr) -> Option<Vec<u8>> {
        if !may_answer(packet, header) {
            return None;
        }
        match (own, header.source) {
            (IpAddr::V4(own), IpAddr::V4(source)) => {
                let quoted = MAX_ICMPV4_ERROR.saturating_sub(IPV4_HEADER + ICMP_HEADER);
                let quoted = packet.get(..quoted).unwrap_or(packet);
                Some(v4(own, source, message(self.v4(), quoted)))
            }
            (IpAddr::V6(own), IpAddr::V6(source)) => {
                let quoted = MAX_ICMPV6_ERROR.saturating_sub(IPV6_HEADER + ICMP_HEADER);
                let quoted = packet.get(..quoted).unwrap_or(packet);
                Some(v6(own, source, message(self.v6(), quoted)))
            }
            _ => None,
        }
    }
}

/// Returns the reply to an ICMP echo request, from the address `own`; `None` if the packet is not a
/// complete echo request, or its source is not a single host.
///
/// An endpoint tests the MTU of a tunnel with echo requests to ff02::1 (RFC 9484 §7.1).
pub fn echo_reply(packet: &[u8], header: &IpHeader, own: IpAddr) -> Option<Vec<u8>> {
    let request = packet.get(header.payload_offset..)?;
    let (&kind, rest) = request.split_first()?;
    if header.is_later_fragment || !header.is_icmp() || !is_host(header.source) {
        return None;
    }
    let [code, _, _, a, b, c, d, data @ ..] = rest else { return None };
    let word = u32::from_be_bytes([*a, *b, *c, *d]);
    match (own, header.source, kind, code) {
        (IpAddr::V4(own), IpAddr::V4(source), 8, 0)
            if checksum::finish(checksum::sum(request)) == 0 =>
        {
            Some(v4(own, source, message((0, 0, word), data)))
        }
        (IpAddr::V6(own), IpAddr::V6(source), 128, 0) => {
            let pseudo =
                checksum::pseudo_header(header.source, header.destination, ICMPV6, request.len());
            let sum = checksum::sum(request).saturating_add(pseudo);
            (checksum::finish(sum) == 0).then(|| v6(own, source, message((129, 0, word), data)))
        }
        _ => None,
    }
}

/// Returns whether an ICMP error about this packet may be sent (RFC 1812 §4.3.2.7, RFC 4443 §2.4).
fn may_answer(packet: &[u8], header: &IpHeader) -> bool {
    if header.is_later_fragment || !is_host(header.source) {
        return false;
    }
    let is_broadcast = matches!(header.destination, IpAddr::V4(it) if it.is_broadcast());
    if header.destination.is_multicast() || is_broadcast {
        return false;
    }
    if !header.is_icmp() {
        return true;
    }
    match (header.source, packet.get(header.payload_offset)) {
        // Echo, router discovery, timestamp, information and address mask messages.
        (IpAddr::V4(_), Some(kind)) => matches!(kind, 0 | 8..=10 | 13..=18),
        // Informational messages, except redirects.
        (IpAddr::V6(_), Some(kind)) => *kind >= 128 && *kind != 137,
        (_, None) => false,
    }
}

/// Returns whether an address identifies a single host.
fn is_host(address: IpAddr) -> bool {
    let is_broadcast =
        matches!(address, IpAddr::V4(it) if it.is_broadcast() || it.octets().starts_with(&[0]));
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback() && !is_broadcast
}

/// Returns an ICMP message with a checksum of zero.
fn message((kind, code, word): (u8, u8, u32), data: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(ICMP_HEADER.saturating_add(data.len()));
    message.extend_from_slice(&[kind, code, 0, 0]);
    message.extend_from_slice(&word.to_be_bytes());
    message.extend_from_slice(data);
    message
}

fn set_checksum(bytes: &mut [u8], position: usize, checksum: u16) {
    let end = position.saturating_add(2);
    if let Some(field) = bytes.get_mut(position..end) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

fn v4(source: Ipv4Addr, destination: Ipv4Addr, mut message: Vec<u8>) -> Vec<u8> {
    let checksum = checksum::finish(checksum::sum(&message));
    set_checksum(&mut message, 2, checksum);
    let length = u16::try_from(message.len().saturating_add(IPV4_HEADER)).unwrap_or(u16::MAX);
    let [l0, l1] = length.to_be_bytes();
    // Without fragmentation, the identification has no meaning (RFC 6864 §4.1).
    let mut packet = vec![0x45, 0, l0, l1, 0, 0, 0x40, 0, HOP_LIMIT, ICMPV4, 0, 0];
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    let checksum = checksum::finish(checksum::sum(&packet));
    set_checksum(&mut packet, 10, checksum);
    packet.append(&mut message);
    packet
}

fn v6(source: Ipv6Addr, destination: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let pseudo = checksum::pseudo_header(source.into(), destination.into(), ICMPV6, message.len());
    let checksum = checksum::finish(checksum::sum(&message).saturating_add(pseudo));
    set_checksum(&mut message, 2, checksum);
    let [l0, l1] = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, l0, l1, ICMPV6, HOP_LIMIT];
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    packet.append(&mut message);
    packet
}

#[cfg(test)]
#[path = "icmp_tests.rs"]
mod tests;
