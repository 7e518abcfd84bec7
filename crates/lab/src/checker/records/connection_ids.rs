//! Tracks the paths on which an endpoint has used the peer's connection IDs (S27).

use std::collections::VecDeque;
use std::net::SocketAddr;

/// The length of all connection IDs in the lab, in bytes.
const LENGTH: usize = 8;
/// The number of uses that are remembered. A NAT that constantly rebinds causes many uses.
const REMEMBERED: usize = 64;

type Id = [u8; LENGTH];

/// The connection IDs of packets with short headers, and the paths on which they were sent and
/// received.
#[derive(Debug, Default)]
pub(in crate::checker) struct ConnectionIds {
    sent: VecDeque<(Id, u32, SocketAddr)>,
    received: VecDeque<(Id, SocketAddr)>,
}

impl ConnectionIds {
    /// Records a datagram received from `from`.
    pub(in crate::checker) fn on_received(&mut self, from: SocketAddr, datagram: &[u8]) {
        if let Some(id) = id_of(datagram).or_else(|| id_of_long(datagram)) {
            remember(&mut self.received, (id, from));
        }
    }

    /// Records a datagram sent to `to` from this socket.
    ///
    /// # Errors
    /// Returns an error if the ID was used on another path. That is permitted only if the peer,
    /// too, used one of its IDs on both paths: in that case a NAT changed its address and the
    /// migration was unintentional (RFC 9000 §9.5).
    pub(in crate::checker) fn on_sent(
        &mut self,
        socket: u32,
        to: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), String> {
        let Some(id) = id_of(datagram) else { return Ok(()) };
        let other = self
            .sent
            .iter()
            .find(|(of, from, address)| *of == id && (*from, *address) != (socket, to));
        let verdict = match other {
            Some((_, from, address)) if *from != socket || !self.peer_kept_id(*address, to) => {
                Err(format!(
                    "a connection ID that was used from socket {from} to {address} is also used \
                     from socket {socket} to {to}"
                ))
            }
            _ => Ok(()),
        };
        remember(&mut self.sent, (id, socket, to));
        verdict
    }

    /// Returns whether the peer used the same connection ID from the addresses `one` and `other`.
    fn peer_kept_id(&self, one: SocketAddr, other: SocketAddr) -> bool {
        let came_from = |address| self.received.iter().filter(move |(_, from)| *from == address);
        came_from(one).any(|(id, _)| came_from(other).any(|(same, _)| same == id))
    }
}

fn remember<T: PartialEq>(uses: &mut VecDeque<T>, new: T) {
    if uses.contains(&new) {
        return;
    }
    if uses.len() >= REMEMBERED {
        uses.pop_front();
    }
    uses.push_back(new);
}

/// Returns the connection ID of a packet with a long header, which all packets in its datagram
/// share (RFC 9000 §12.2).
fn id_of_long(datagram: &[u8]) -> Option<Id> {
    let (length, rest) = datagram.get(5..)?.split_first()?;
    rest.first_chunk().copied().filter(|_| usize::from(*length) == LENGTH)
}

/// Returns the connection ID of a packet with a short header.
fn id_of(datagram: &[u8]) -> Option<Id> {
    let (first, rest) = datagram.split_first()?;
    if *first & 0x80 != 0 {
        return None;
    }
    rest.first_chunk().copied()
}
