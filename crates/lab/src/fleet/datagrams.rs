//! Datagrams in which only the header matters.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clearway_units::Random;

/// The address to which clients send.
pub(super) const LOCAL: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 443);

/// The length of the random bytes after the header, which look like encrypted data.
const PAYLOAD_LEN: usize = 24;

/// Returns a datagram that begins with a long header of `version`.
pub(super) fn long(
    random: &mut Random,
    version: u32,
    destination: &[u8],
    source: &[u8],
) -> Vec<u8> {
    let mut datagram = vec![0xc3];
    datagram.extend(version.to_be_bytes());
    for id in [destination, source] {
        datagram.push(id.len() as u8);
        datagram.extend(id);
    }
    datagram.extend(octets(random, PAYLOAD_LEN));
    datagram
}

/// Returns a datagram that begins with a short header.
pub(super) fn short(random: &mut Random, destination: &[u8]) -> Vec<u8> {
    [&[0x41], destination, &octets(random, PAYLOAD_LEN)].concat()
}

/// Returns `length` random octets.
pub(super) fn octets(random: &mut Random, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    random.fill(&mut octets);
    octets
}
