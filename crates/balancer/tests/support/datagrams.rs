//! Creates datagrams in which only the header matters.

use clearway_units::Random;

/// Length of the payload, which is random like ciphertext.
const PAYLOAD_LEN: usize = 24;

/// Returns a datagram with a long header of `version`.
pub fn long(random: &mut Random, version: u32, destination: &[u8], source: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xc3];
    datagram.extend(version.to_be_bytes());
    for id in [destination, source] {
        datagram.push(id.len() as u8);
        datagram.extend(id);
    }
    datagram.extend(octets(random, PAYLOAD_LEN));
    datagram
}

/// Returns a datagram with a short header.
pub fn short(random: &mut Random, destination: &[u8]) -> Vec<u8> {
    [&[0x41], destination, &octets(random, PAYLOAD_LEN)].concat()
}

/// Returns `length` random octets.
pub fn octets(random: &mut Random, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    random.fill(&mut octets);
    octets
}
