//! Secondary listening sockets for long headers.
//!
//! Anyone can send Initial packets, as many as the network carries. With a single socket,
//! connections' packets would wait behind them, and be dropped with them when the buffer is full.
//! So the kernel delivers long headers to a separate socket (RFC 8999 §5.1), from which a shard
//! receives less per turn. Connections use short headers once the handshake is complete.

use std::io;

use clearway_transport::SocketIndex;
use clearway_udp::Socket;

use super::sockets::Sockets;
use crate::shard_ids::IdFormat;
use crate::system::programs;
use crate::system::steering::{AtAddress, Steering};

/// Opens sockets for long headers for all shards at a port, where possible.
pub(crate) fn open(shards: &mut [Sockets]) {
    if let Err(error) = add(shards) {
        tracing::debug!(%error, "cannot open separate sockets for long headers");
    }
}

/// Makes the kernel select among the sockets of all shards at a port, with `best` as the best
/// method to try. Returns the method used, or `None` if there is only one shard.
pub(crate) fn steer(shards: &[Sockets], format: IdFormat, best: Steering) -> Option<Steering> {
    if shards.len() > 1 {
        return Some(programs::steer(&by_address(shards), format, best));
    }
    divide(shards);
    None
}

/// Makes the kernel select among the sockets of one shard.
pub(crate) fn divide(shards: &[Sockets]) {
    if let Err(error) = programs::divide(&by_address(shards)) {
        tracing::debug!(%error, "cannot make the kernel distinguish long headers from short ones");
    }
}

/// Opens a socket for long headers next to each of the sockets of all shards.
///
/// # Errors
/// Returns errors of the operating system. After an error, no such socket is open.
fn add(shards: &mut [Sockets]) -> io::Result<()> {
    let Some(first) = shards.first() else { return Ok(()) };
    first.listening().try_for_each(|(_, socket)| socket.allow_shared_address())?;
    let twin = |(index, socket): (SocketIndex, &Socket)| Ok((index, socket.bind_shared()?));
    let twins = || first.listening().map(twin).collect::<io::Result<Vec<_>>>();
    let all = shards.iter().map(|_| twins()).collect::<io::Result<Vec<_>>>()?;
    for (sockets, twins) in shards.iter_mut().zip(all) {
        twins.into_iter().for_each(|(index, twin)| sockets.adopt(index, twin));
    }
    Ok(())
}

/// Groups the listening sockets of all shards by address.
fn by_address(shards: &[Sockets]) -> Vec<AtAddress<'_>> {
    let count = shards.first().map_or(0, |first| first.listening().count());
    let at = |address: usize| AtAddress {
        own: shards.iter().filter_map(|it| Some(it.listening().nth(address)?.1)).collect(),
        long: shards.iter().filter_map(|it| Some(it.beside().nth(address)?.1)).collect(),
    };
    (0..count).map(at).collect()
}
