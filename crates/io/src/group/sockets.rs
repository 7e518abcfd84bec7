//! The sockets with which the shards of a group begin.

use core::net::SocketAddr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use clearway_transport::{PreferredAddresses, ServerConfig};

use crate::restart::{HotRestartError, Inherited, Pipe, is_same};
use crate::shard::{Sockets, listen_at_preferred};
use crate::socket::Socket;

/// The sockets of `count` shards at the addresses of `first`, which are those of the first shard.
pub(super) fn twins(count: usize, first: Sockets) -> io::Result<Vec<Sockets>> {
    // All of them before the first is bound: one at all addresses is beside one at a preferred address with the same port.
    first.listening().try_for_each(Socket::permit_twins)?;
    let mut all = vec![first];
    for _ in 1..count {
        let mut twins = all[0].listening().map(Socket::bind_twin);
        let main = twins.next().ok_or(io::ErrorKind::NotConnected)??;
        let mut sockets = Sockets::new(main);
        for twin in twins {
            sockets.add_permanent(twin?);
        }
        all.push(sockets);
    }
    Ok(all)
}

/// Those that somebody else has bound, one for each shard, and others at the preferred addresses.
pub(super) fn given(
    given: Vec<UdpSocket>,
    count: usize,
    server: Option<&mut Arc<ServerConfig>>,
) -> io::Result<Vec<Sockets>> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if given.len() != count {
        let there = given.len();
        return Err(wrong(format!("{there} sockets were given, for {count} shards")));
    }
    let given = given.into_iter().map(Socket::bound).collect::<io::Result<Vec<_>>>()?;
    let addresses: Vec<_> = given.iter().map(Socket::local_address).collect();
    if let [first, others @ ..] = &addresses[..]
        && let Some(other) = others.iter().find(|other| *other != first)
    {
        return Err(wrong(format!("the sockets given are of {first} and of {other}")));
    }
    let mut all: Vec<_> = given.into_iter().map(Sockets::new).collect();
    let Some((server, (first, others))) = server.zip(all.split_first_mut()) else {
        return Ok(all);
    };
    listen_at_preferred(first, server)?;
    for sockets in others {
        for socket in first.listening().skip(1) {
            sockets.add_permanent(socket.bind_twin()?);
        }
    }
    Ok(all)
}

/// Those of the process that this one replaces, which has to have as many shards, and at the same addresses; and what leads
/// to its shards.
pub(super) fn inherit(
    inherited: Vec<Inherited>,
    address: SocketAddr,
    count: usize,
    server: Option<&mut Arc<ServerConfig>>,
) -> io::Result<(Vec<Sockets>, Vec<Arc<Pipe>>)> {
    if inherited.len() != count {
        let (running, asked) = (inherited.len(), count);
        return Err(HotRestartError::ShardCount { running, asked }.into());
    }
    let (mut all, mut pipes) = (Vec::new(), Vec::new());
    for Inherited { sockets, pipe } in inherited {
        pipes.push(Arc::new(Pipe::new(pipe)));
        let mut sockets = sockets.into_iter().map(Socket::bound);
        let main = sockets.next().ok_or(io::ErrorKind::NotConnected)??;
        let mut of_shard = Sockets::new(main);
        for socket in sockets {
            of_shard.add_permanent(socket?);
        }
        all.push(of_shard);
    }
    let first = all.first().ok_or(io::ErrorKind::NotConnected)?;
    let running: Vec<_> = first.listening().map(Socket::local_address).collect();
    let preferred = server.as_ref().map(|it| it.preferred_addresses).unwrap_or_default();
    let v4 = preferred.v4.map(SocketAddr::from);
    let v6 = preferred.v6.map(SocketAddr::from);
    let asked: Vec<_> = [Some(address), v4, v6].into_iter().flatten().collect();
    let mut both = running.iter().zip(&asked);
    if running.len() != asked.len() || !both.all(|(running, asked)| is_same(*running, *asked)) {
        return Err(HotRestartError::Addresses { running, asked }.into());
    }
    if let Some(server) = server {
        set_preferred(server, preferred, &running[1..]);
    }
    Ok((all, pipes))
}

/// Replaces ports 0 in the configuration by those of the sockets.
fn set_preferred(
    server: &mut Arc<ServerConfig>,
    mut preferred: PreferredAddresses,
    addresses: &[SocketAddr],
) {
    for address in addresses {
        match address {
            SocketAddr::V4(_) => {
                preferred.v4.iter_mut().for_each(|it| it.set_port(address.port()));
            }
            SocketAddr::V6(_) => {
                preferred.v6.iter_mut().for_each(|it| it.set_port(address.port()));
            }
        }
    }
    if !addresses.is_empty() {
        let server_config = ServerConfig::clone(server);
        *server = Arc::new(ServerConfig { preferred_addresses: preferred, ..server_config });
    }
}

/// The listening sockets of all shards, together for each address, in the order of the shards.
pub(super) fn by_address(shards: &[Sockets]) -> Vec<Vec<&Socket>> {
    let mut addresses = Vec::new();
    for sockets in shards {
        for (address, socket) in sockets.listening().enumerate() {
            if addresses.len() <= address {
                addresses.push(Vec::new());
            }
            addresses[address].push(socket);
        }
    }
    addresses
}

/// Duplicates of the listening sockets of all shards.
pub(super) fn duplicates(shards: &[Sockets]) -> io::Result<Vec<Vec<OwnedFd>>> {
    let duplicate = |socket: &Socket| socket.as_fd().try_clone_to_owned();
    shards.iter().map(|sockets| sockets.listening().map(duplicate).collect()).collect()
}
