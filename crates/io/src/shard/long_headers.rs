//! Sockets for long headers, beside those at which shards listen.
//!
//! Anyone can send first packets of clients, as many as the network carries. In one socket what connections need would wait
//! behind them, and be lost with them when the socket has no room. So the kernel puts long headers into a socket of their
//! own (RFC 8999 §5.1), of which a shard receives less in a turn. Connections use short headers once the handshake is
//! complete.

use std::io;

use clearway_transport::SocketIndex;
use clearway_udp::Socket;

use super::sockets::Sockets;
use crate::shard_ids::IdFormat;
use crate::system::programs;
use crate::system::steering::{AtAddress, Steering};

/// Opens them for all shards of a port, where that is possible.
pub(crate) fn open(shards: &mut [Sockets]) {
    if let Err(error) = add(shards) {
        tracing::debug!(%error, "long headers have no sockets of their own");
    }
}

/// Has the kernel choose among the sockets of all shards of a port: by `best` at best. `None` if there is one shard only.
pub(crate) fn steer(shards: &[Sockets], format: IdFormat, best: Steering) -> Option<Steering> {
    if shards.len() > 1 {
        return Some(programs::steer(&by_address(shards), format, best));
    }
    divide(shards);
    None
}

/// Has the kernel choose among the sockets of one shard.
pub(crate) fn divide(shards: &[Sockets]) {
    if let Err(error) = programs::divide(&by_address(shards)) {
        tracing::debug!(%error, "the kernel does not tell long headers from short ones");
    }
}

/// Opens a socket for long headers beside each, which are those of all shards.
///
/// # Errors
/// Those of the operating system. Then there are none.
fn add(shards: &mut [Sockets]) -> io::Result<()> {
    let Some(first) = shards.first() else { return Ok(()) };
    first.listening().try_for_each(|(_, socket)| socket.permit_twins())?;
    let twin = |(index, socket): (SocketIndex, &Socket)| Ok((index, socket.bind_twin()?));
    let twins = || first.listening().map(twin).collect::<io::Result<Vec<_>>>();
    let all = shards.iter().map(|_| twins()).collect::<io::Result<Vec<_>>>()?;
    for (sockets, twins) in shards.iter_mut().zip(all) {
        twins.into_iter().for_each(|(index, twin)| sockets.adopt(index, twin));
    }
    Ok(())
}

/// The listening sockets of all shards, together for each address.
fn by_address(shards: &[Sockets]) -> Vec<AtAddress<'_>> {
    let count = shards.first().map_or(0, |first| first.listening().count());
    let at = |address: usize| AtAddress {
        own: shards.iter().filter_map(|it| Some(it.listening().nth(address)?.1)).collect(),
        long: shards.iter().filter_map(|it| Some(it.beside().nth(address)?.1)).collect(),
    };
    (0..count).map(at).collect()
}
