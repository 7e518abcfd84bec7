//! Packets for tests.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum;

/// Decodes hexadecimal digits.
pub(super) fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns a packet with this upper-layer protocol.
pub(super) fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (ip(source), ip(destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => v4(source, destination, protocol, payload),
        (IpAddr::V6(source), IpAddr::V6(destination)) => v6(source, destination, protocol, payload),
        _ => panic!("two versions"),
    }
}

pub(super) fn v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x45, 0, l0, l1, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    set_checksum(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

/// Sets the checksum of an IPv4 header.
pub(super) fn set_checksum(packet: &mut [u8]) {
    let length = usize::from(packet[0] & 0x0f) * 4;
    packet[10..12].fill(0);
    let sum = checksum::finish(checksum::sum(&packet[..length]));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

pub(super) fn v6(source: Ipv6Addr, destination: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let [l0, l1] = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, l0, l1, next, 64];
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    packet.extend_from_slice(payload);
    packet
}
