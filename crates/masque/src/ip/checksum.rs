//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

/// Returns the sum of 16-bit words.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|chunk| match chunk {
        [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
        [high] => u64::from(u16::from_be_bytes([*high, 0])),
        _ => 0,
    });
    words.fold(0, u64::saturating_add)
}

/// Returns the checksum of words with this sum: 0 if the words contain their own valid checksum.
pub(super) fn finish(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff).saturating_add(sum >> 16);
    }
    !(sum as u16)
}

/// Returns the sum of the pseudo-header for an upper-layer protocol over IPv6 (RFC 8200 §8.1).
pub(super) fn pseudo_header(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    length: usize,
) -> u64 {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    let addresses = address(source).saturating_add(address(destination));
    addresses.saturating_add(length as u64).saturating_add(protocol.into())
}

/// Returns a header's checksum after one of its words has changed from `old` to `new` (RFC 1624
/// §3, equation 3).
pub(super) fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u64::from(!checksum).saturating_add(u64::from(!old));
    finish(sum.saturating_add(u64::from(new)))
}
