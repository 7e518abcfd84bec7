//! IPv4 and IPv6 headers (RFC 791, RFC 8200).

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use clearway_wire::Reader;

use super::checksum;

/// The Internet Protocol Number of ICMP for IPv4.
pub const ICMPV4: u8 = 1;
/// The Internet Protocol Number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// Length of the IPv6 header in bytes.
pub(super) const IPV6_HEADER: usize = 40;

/// Maximum number of IPv6 extension headers.
const MAX_EXTENSIONS: usize = 8;

/// The fields of an IP header that are needed for forwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The Internet Protocol Number after all IPv6 extension headers (RFC 9484 §4.8).
    pub protocol: u8,
    /// The TTL or Hop Limit.
    pub hop_limit: u8,
    /// The offset of the upper-layer header in bytes.
    pub payload_offset: usize,
    /// Whether this is a fragment other than the first, which has no upper-layer header.
    pub is_later_fragment: bool,
}

/// The reason why a packet is not forwarded: it is malformed, or has an obsolete and dangerous
/// option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PacketError {
    /// The packet ends inside a header.
    Truncated,
    /// The IP version is neither 4 nor 6.
    Version(u8),
    /// The length in the header does not match the packet.
    Length,
    /// The header is shorter than the minimum, or an option's length is invalid.
    HeaderLength,
    /// The checksum of the IPv4 header is wrong.
    Checksum,
    /// An IPv4 source route (RFC 7126 §4.3, §4.4) or an IPv6 routing header of type 0 (RFC 5095).
    SourceRoute,
    /// More than eight IPv6 extension headers.
    TooManyExtensions,
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the IP packet ends inside a header",
            Self::Version(version) => return write!(f, "unknown IP version {version}"),
            Self::Length => "the length in the IP header does not match the packet",
            Self::HeaderLength => "the length of the IP header or an option is invalid",
            Self::Checksum => "the checksum of the IPv4 header is wrong",
            Self::SourceRoute => "the IP packet has a source route",
            Self::TooManyExtensions => "the IPv6 packet has too many extension headers",
        })
    }
}

impl core::error::Error for PacketError {}

impl IpHeader {
    /// Reads and checks the headers of a packet.
    ///
    /// # Errors
    /// The reason why the packet must not be forwarded.
    pub fn parse(packet: &[u8]) -> Result<Self, PacketError> {
        let first = packet.first().ok_or(PacketError::Truncated)?;
        match first >> 4 {
            4 => parse_v4(packet),
            6 => parse_v6(packet),
            version => Err(PacketError::Version(version)),
        }
    }

    /// Returns whether the upper-layer protocol is ICMP.
    pub const fn is_icmp(&self) -> bool {
        match self.source {
            IpAddr::V4(_) => self.protocol == ICMPV4,
            IpAddr::V6(_) => self.protocol == ICMPV6,
        }
    }

    /// Returns whether the source or the destination is a link-local address (RFC 9484 §7.1).
    pub fn is_link_local(&self) -> bool {
        is_link_local(self.source) || is_link_local(self.destination)
    }
}

/// Returns whether an address is a link-local unicast or multicast address.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_link_local() || matches!(address.octets(), [224, 0, 0, _])
        }
        IpAddr::V6(address) => {
            let [first, ..] = address.segments();
            // Multicast with interface-local or link-local scope.
            address.is_unicast_link_local() || matches!(first & 0xff0f, 0xff01 | 0xff02)
        }
    }
}

fn parse_v4(packet: &[u8]) -> Result<IpHeader, PacketError> {
    let mut reader = Reader::new(packet);
    let fixed = reader.array::<20>("IPv4 header").map_err(|_| PacketError::Truncated)?;
    let [first, _, length @ ..] = fixed;
    let [l0, l1, _, _, flags, offset, hop_limit, protocol, _, _, addresses @ ..] = length;
    let [s0, s1, s2, s3, d0, d1, d2, d3] = addresses;
    let header_length = usize::from(first & 0x0f).saturating_mul(4);
    let options = header_length.checked_sub(20).ok_or(PacketError::HeaderLength)?;
    let options = reader.bytes(options, "options").map_err(|_| PacketError::Truncated)?;
    if usize::from(u16::from_be_bytes([l0, l1])) != packet.len() {
        return Err(PacketError::Length);
    }
    let header = packet.get(..header_length).ok_or(PacketError::Truncated)?;
    if checksum::finish(checksum::sum(header)) != 0 {
        return Err(PacketError::Checksum);
    }
    check_options(options)?;
    Ok(IpHeader {
        source: [s0, s1, s2, s3].into(),
        destination: [d0, d1, d2, d3].into(),
        protocol,
        hop_limit,
        payload_offset: header_length,
        is_later_fragment: u16::from_be_bytes([flags & 0x1f, offset]) != 0,
    })
}

/// Checks the options of an IPv4 header (RFC 791 §3.1).
fn check_options(mut options: &[u8]) -> Result<(), PacketError> {
    while let Some((&kind, rest)) = options.split_first() {
        options = match kind {
            0 => return Ok(()),
            1 => rest,
            // Loose and strict source route.
            131 | 137 => return Err(PacketError::SourceRoute),
            _ => {
                let length = rest.first().filter(|length| **length >= 2);
                let length = length.ok_or(PacketError::HeaderLength)?;
                options.get(usize::from(*length)..).ok_or(PacketError::HeaderLength)?
            }
        };
    }
    Ok(())
}

fn parse_v6(packet: &[u8]) -> Result<IpHeader, PacketError> {
    let mut reader = Reader::new(packet);
    let truncated = |_| PacketError::Truncated;
    let [_, _, _, _, l0, l1, next, hop_limit] = reader.array("IPv6 header").map_err(truncated)?;
    let source = Ipv6Addr::from(reader.array::<16>("source").map_err(truncated)?);
    let destination = Ipv6Addr::from(reader.array::<16>("destination").map_err(truncated)?);
    if usize::from(u16::from_be_bytes([l0, l1])) != reader.remaining() {
        return Err(PacketError::Length);
    }
    let (protocol, is_later_fragment) = walk(&mut reader, next)?;
    Ok(IpHeader {
        source: source.into(),
        destination: destination.into(),
        protocol,
        hop_limit,
        payload_offset: packet.len().saturating_sub(reader.remaining()),
        is_later_fragment,
    })
}

/// Walks the chain of extension headers (RFC 8200 §4). Returns the upper-layer protocol, and whether
/// the packet is a fragment other than the first.
fn walk(reader: &mut Reader<'_>, mut next: u8) -> Result<(u8, bool), PacketError> {
    let truncated = |_| PacketError::Truncated;
    for _ in 0..=MAX_EXTENSIONS {
        // Units of four bytes for the Authentication Header, of eight for all others.
        let (unit, first) = match next {
            // Hop-by-Hop Options, Routing, Destination Options, Mobility, HIP, Shim6.
            0 | 43 | 60 | 135 | 139 | 140 => (8, 8),
            44 => {
                let [following, _, high, low, ..] =
                    reader.array::<8>("Fragment header").map_err(truncated)?;
                if u16::from_be_bytes([high, low]) >> 3 != 0 {
                    return Ok((following, true));
                }
                next = following;
                continue;
            }
            51 => (4, 8),
            _ => return Ok((next, false)),
        };
        let mut header = reader.clone();
        let [following, length, kind, _] = header.array("extension header").map_err(truncated)?;
        if next == 43 && kind == 0 {
            return Err(PacketError::SourceRoute);
        }
        let length = usize::from(length).saturating_mul(unit).saturating_add(first);
        reader.bytes(length, "extension header").map_err(truncated)?;
        next = following;
    }
    Err(PacketError::TooManyExtensions)
}

/// The packet's TTL or Hop Limit does not permit another hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HopLimitExceeded;

impl fmt::Display for HopLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packet's hop limit is exceeded; there may be a routing loop")
    }
}

impl core::error::Error for HopLimitExceeded {}

/// Decrements the TTL or Hop Limit, before a packet is sent into a tunnel (RFC 9484 §7.2). The
/// checksum of the IPv4 header is updated.
///
/// # Errors
/// If the packet must not be forwarded. It is not changed then.
pub fn decrement_hop_limit(packet: &mut [u8]) -> Result<(), HopLimitExceeded> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let position = if is_v4 { 8 } else { 7 };
    let limit = packet.get_mut(position).ok_or(HopLimitExceeded)?;
    let old = *limit;
    let new = old.checked_sub(1).filter(|limit| *limit > 0).ok_or(HopLimitExceeded)?;
    *limit = new;
    if is_v4 && let Some([_, protocol, high, low]) = packet.get_mut(8..12) {
        let word = |limit| u16::from_be_bytes([limit, *protocol]);
        let updated = checksum::update(u16::from_be_bytes([*high, *low]), word(old), word(new));
        [*high, *low] = updated.to_be_bytes();
    }
    Ok(())
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
