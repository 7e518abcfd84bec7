//! The initial sockets of a group's shards.

use core::net::SocketAddr;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use clearway_transport::{PreferredAddresses, ServerConfig, SocketIndex};
use clearway_udp::Socket;
use rustix::fd::{AsFd, OwnedFd};

use crate::shard::{Sockets, listen_at_preferred};
use crate::system::restart::{HotRestartError, InheritedShard, Pipe, is_same};

/// Opens the sockets of `count` shards at the addresses of `first`, the addresses of the first
/// shard.
pub(super) fn twins(count: usize, first: Sockets) -> io::Result<Vec<Sockets>> {
    // The option is set on all sockets before the first one is bound: a wildcard socket overlaps
    // with a socket that is bound to a preferred address with the same port.
    if count > 1 {
        first.listening().try_for_each(|(_, socket)| socket.allow_shared_address())?;
    }
    let mut all = vec![first];
    for _ in 1..count {
        let mut twins = all[0].listening().map(|(_, socket)| socket.bind_shared());
        let main = twins.next().ok_or(io::ErrorKind::NotConnected)??;
        let mut sockets = Sockets::new(main);
        for twin in twins {
            sockets.add_permanent(twin?);
        }
        all.push(sockets);
    }
    Ok(all)
}

/// Uses sockets that were bound elsewhere, one per shard, and opens additional sockets at the
/// preferred addresses.
pub(super) fn given(
    given: Vec<UdpSocket>,
    count: usize,
    server: Option<&mut Arc<ServerConfig>>,
) -> io::Result<Vec<Sockets>> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if given.len() != count {
        let there = given.len();
        return Err(wrong(format!(
            "expected one socket per shard: got {there} sockets for {count} shards"
        )));
    }
    let given = given.into_iter().map(Socket::bound).collect::<io::Result<Vec<_>>>()?;
    let addresses: Vec<_> = given.iter().map(Socket::local_address).collect();
    if let [first, others @ ..] = &addresses[..]
        && let Some(other) = others.iter().find(|other| *other != first)
    {
        return Err(wrong(format!(
            "the sockets are bound to different addresses: {first} and {other}"
        )));
    }
    let mut all: Vec<_> = given.into_iter().map(Sockets::new).collect();
    let Some((server, (first, others))) = server.zip(all.split_first_mut()) else {
        return Ok(all);
    };
    listen_at_preferred(first, server)?;
    for sockets in others {
        for (_, socket) in first.listening().skip(1) {
            sockets.add_permanent(socket.bind_shared()?);
        }
    }
    Ok(all)
}

/// Uses the sockets of the process that this one replaces, which must have the same number of
/// shards at the same addresses. Also returns the pipes to its shards.
pub(super) fn inherit(
    inherited: Vec<InheritedShard>,
    address: SocketAddr,
    count: usize,
    server: Option<&mut Arc<ServerConfig>>,
) -> io::Result<(Vec<Sockets>, Vec<Arc<Pipe>>)> {
    if inherited.len() != count {
        let (running, asked) = (inherited.len(), count);
        return Err(HotRestartError::ShardCount { running, asked }.into());
    }
    let preferred = server.as_ref().map(|it| it.preferred_addresses).unwrap_or_default();
    let v4 = preferred.v4.map(SocketAddr::from);
    let v6 = preferred.v6.map(SocketAddr::from);
    let asked: Vec<_> = [Some(address), v4, v6].into_iter().flatten().collect();
    let (mut all, mut pipes, mut running) = (Vec::new(), Vec::new(), Vec::new());
    for InheritedShard { sockets, pipe } in inherited {
        pipes.push(Arc::new(Pipe::new(pipe)));
        let sockets = sockets.into_iter().map(Socket::bound).collect::<io::Result<Vec<_>>>()?;
        let addresses: Vec<_> = sockets.iter().map(Socket::local_address).collect();
        // Sockets for long headers follow the other sockets.
        let (own, beside) = addresses.split_at(asked.len().min(addresses.len()));
        let is_so = |(running, asked): (&SocketAddr, &SocketAddr)| is_same(*running, *asked);
        if own.len() != asked.len()
            || !own.iter().zip(&asked).all(is_so)
            || !(beside.is_empty() || beside == own)
        {
            return Err(HotRestartError::Addresses { running: addresses, asked }.into());
        }
        running = own.to_vec();
        all.push(of_shard(sockets, own.len())?);
    }
    if let Some(server) = server {
        set_preferred(server, preferred, running.get(1..).unwrap_or_default());
    }
    Ok((all, pipes))
}

/// Builds the sockets of one shard: the first `own` sockets are the primary ones, one per address,
/// and the others are secondary sockets at these addresses.
fn of_shard(sockets: Vec<Socket>, own: usize) -> io::Result<Sockets> {
    let mut sockets = sockets.into_iter();
    let mut of_shard = Sockets::new(sockets.next().ok_or(io::ErrorKind::NotConnected)?);
    for socket in sockets.by_ref().take(own.saturating_sub(1)) {
        of_shard.add_permanent(socket);
    }
    for (index, socket) in (0..).map(SocketIndex).zip(sockets) {
        of_shard.adopt(index, socket);
    }
    Ok(of_shard)
}

/// Replaces port 0 in the configuration by the actual port.
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

/// Duplicates the listening sockets of all shards: for each shard, first the primary sockets, then
/// the secondary ones.
pub(super) fn duplicates(shards: &[Sockets]) -> io::Result<Vec<Vec<OwnedFd>>> {
    let duplicate = |(_, socket): (SocketIndex, &Socket)| socket.as_fd().try_clone_to_owned();
    let of_shard = |it: &Sockets| it.listening().chain(it.beside()).map(duplicate).collect();
    shards.iter().map(of_shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::{listen, long_headers};

    /// Returns the addresses of each shard's primary sockets, and the indices of its secondary
    /// sockets.
    fn of(shards: &[Sockets]) -> Vec<(Vec<SocketAddr>, Vec<SocketIndex>)> {
        let own = |it: &Sockets| it.listening().map(|(_, socket)| socket.local_address()).collect();
        let beside = |it: &Sockets| it.beside().map(|(index, _)| index).collect();
        shards.iter().map(|it| (own(it), beside(it))).collect()
    }

    fn inherited(descriptors: Vec<Vec<OwnedFd>>) -> Vec<InheritedShard> {
        let of_shard = |sockets: Vec<OwnedFd>| {
            let sockets = sockets.into_iter().map(UdpSocket::from).collect();
            InheritedShard { sockets, pipe: Pipe::pair().unwrap().0 }
        };
        descriptors.into_iter().map(of_shard).collect()
    }

    #[test]
    fn a_process_inherits_the_sockets_for_long_headers_if_there_are_any() {
        let first = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let mut shards = twins(2, first).unwrap();
        for opens in [false, true] {
            if opens {
                long_headers::open(&mut shards);
            }
            let address = shards[0].main().unwrap().local_address();
            let all = inherited(duplicates(&shards).unwrap());
            let (got, pipes) = inherit(all, address, 2, None).unwrap();
            assert_eq!(of(&got), of(&shards));
            assert_eq!(of(&got)[1].1.len(), usize::from(opens));
            assert_eq!(pipes.len(), 2);
        }
        // One socket too many is an error, and so is one with another address.
        let mut all = duplicates(&shards).unwrap();
        all[1].push(UdpSocket::bind("127.0.0.1:0").unwrap().into());
        let address = shards[0].main().unwrap().local_address();
        assert!(inherit(inherited(all), address, 2, None).is_err());
    }
}
