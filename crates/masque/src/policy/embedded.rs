//! IPv4 addresses embedded in IPv6 addresses.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Returns the IPv4 addresses that packets to this IPv6 address can reach: those embedded in NAT64
/// (RFC 6052), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214), IPv4-mapped, IPv4-compatible
/// and IPv4-translated addresses.
pub(super) fn addresses(address: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let last = join(g, h);
    let is_last = match (a, b, c, d, e, f) {
        // IPv4-compatible, apart from :: and ::1.
        (0, 0, 0, 0, 0, 0) => last.to_bits() > 1,
        // IPv4-mapped, IPv4-translated.
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) => true,
        // NAT64 with the well-known prefix.
        (0x64, 0xff9b, 0, 0, 0, 0) => true,
        // NAT64 with a prefix for local use (RFC 8215), if it has 96 bits.
        (0x64, 0xff9b, 1, _, _, _) => true,
        // ISATAP: an interface identifier.
        (_, _, _, _, 0 | 0x200, 0x5efe) => true,
        _ => false,
    };
    let is_6to4 = a == 0x2002;
    let is_teredo = (a, b) == (0x2001, 0);
    // A Teredo address has the addresses of a server and, inverted, of a client.
    let client = Ipv4Addr::from_bits(!last.to_bits());
    [
        is_last.then_some(last),
        is_6to4.then_some(join(b, c)),
        is_teredo.then_some(join(c, d)),
        is_teredo.then_some(client),
    ]
    .into_iter()
    .flatten()
}

fn join(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}
