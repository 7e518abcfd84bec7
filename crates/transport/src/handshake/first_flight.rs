//! Reads what a client offers from its first packets, before a server decides on it. Initial
//! packets are encrypted with keys that anyone on the path can compute (RFC 9001 §5.2), so the
//! result is unauthenticated.

use clearway_units::Timestamp;
use clearway_wire::header::ProtectedHeader;
use clearway_wire::{ConnectionId, Frame, PacketType, Reader, Version};

use super::client_hello::{self, ClientHello};
use super::{CryptoStream, Protection, initial};
use crate::{Side, SpaceId};

/// Maximum number of packets that are read: a large ClientHello takes two.
const MAX_PACKETS: usize = 16;

/// Returns what the ClientHello in these datagrams offers, as far as it has arrived. `destination`
/// is the Destination Connection ID of the first datagram.
pub(crate) fn read_client_hello<'a>(
    version: Version,
    destination: &ConnectionId,
    datagrams: impl Iterator<Item = &'a [u8]>,
) -> Option<ClientHello> {
    let mut protection = Protection::new();
    protection.install(SpaceId::Initial, initial::keys(version, Side::Server, destination).ok()?);
    let (mut stream, mut left) = (CryptoStream::default(), MAX_PACKETS);
    for datagram in datagrams {
        read_datagram(&mut protection, &mut stream, &mut left, &mut datagram.to_vec());
    }
    let mut message = Vec::new();
    while let Some(part) = stream.read() {
        message.extend(part);
    }
    client_hello::offer(&message)
}

/// Adds the CRYPTO frames of a datagram's Initial packets to `stream`. Skips what cannot be read.
fn read_datagram(
    protection: &mut Protection,
    stream: &mut CryptoStream,
    left: &mut usize,
    datagram: &mut [u8],
) {
    let mut rest = datagram;
    // The server has not issued a connection ID yet, so no packet has a short header.
    while let Ok(header) = ProtectedHeader::decode(rest, 0) {
        let (packet_type, length) = (header.packet_type(), header.packet_len);
        let Some((packet, next)) = rest.split_at_mut_checked(length) else { return };
        if let Some((PacketType::Initial, offset)) = packet_type {
            let Some(remaining) = left.checked_sub(1) else { return };
            *left = remaining;
            let now = Timestamp::ORIGIN;
            if let Ok(opened) = protection.open(SpaceId::Initial, now, None, offset, packet) {
                read_frames(stream, opened.payload);
            }
        }
        rest = next;
    }
}

fn read_frames(stream: &mut CryptoStream, payload: &[u8]) {
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        match Frame::decode(&mut reader) {
            // The stream has limits on bytes and fragments; beyond them, nothing is added.
            Ok(Frame::Crypto(frame)) => {
                let _ = stream.receive(frame.offset.get(), frame.data);
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
#[path = "first_flight_tests.rs"]
mod tests;
