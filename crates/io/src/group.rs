//! Several shards at one port.

use core::net::SocketAddr;
use core::num::NonZeroUsize;
use std::io;
use std::sync::Arc;

use clearway_transport::{EndpointConfig, ServerConfig};

use crate::application::{Acceptor, ServerSetup};
use crate::mailbox::{Mailbox, ShardHandle};
use crate::shard::{Siblings, Sockets, Start, listen, spawn, start};
use crate::shard_ids::{IdFormat, MAX_SHARDS, ShardIds};
use crate::socket::Socket;
use crate::steering::{self, Steering};

/// What the shards of a group need to be servers.
pub struct GroupServerSetup<'a> {
    /// The configuration of accepted connections, which all shards share. Its TLS sessions and its
    /// [`shared_tokens`](ServerConfig::shared_tokens) are what makes the tickets and tokens of one shard valid at the
    /// others: without those, a NEW_TOKEN token is valid at the shard that issued it. A Retry token always returns to
    /// the shard that issued it.
    pub config: Arc<ServerConfig>,
    /// Makes the acceptor of each shard; the shards are counted from 0.
    pub acceptor: &'a mut dyn FnMut(usize) -> Box<dyn Acceptor>,
}

/// Shards that share a port; see [`spawn_group`].
#[derive(Clone, Debug)]
pub struct ShardGroup {
    shards: Vec<ShardHandle>,
    steering: Option<Steering>,
}

impl ShardGroup {
    /// The shards, at least one.
    pub fn shards(&self) -> &[ShardHandle] {
        &self.shards
    }

    /// How the kernel finds the shard of a datagram; `None` if there is one shard only.
    pub fn steering(&self) -> Option<Steering> {
        self.steering
    }
}

/// Starts `count` shards that listen at `address`, and accept connections if they get a `server` configuration. Then they
/// also listen at the preferred addresses of that. Port 0 means any free port, which is the same for all shards.
///
/// Each shard has sockets of its own, and its own endpoint, with at most [`max_connections`](EndpointConfig::max_connections)
/// connections. A connection belongs to the shard that accepted or began it for as long as it exists: its connection IDs
/// name the shard (so [`id_generator`](EndpointConfig::id_generator) has an effect only if there is one shard), and the
/// kernel brings what is sent to them to the shard's socket; see [`Steering`]. Clients that begin a connection are
/// distributed by a hash of addresses and ports. Until a client has the first answer it uses a connection ID of its own, and
/// if its address changes until then, its packets may reach another shard, which takes them for another client.
///
/// An ICMP message that a server cannot be reached may come to another shard than that which tries to connect to it, and then
/// that ends by its timeout.
///
/// If a shard ends before the others, its sockets go to another shard: datagrams for its connections are answered with
/// stateless resets, new clients are accepted, and the connections of the other shards are not affected.
///
/// With one shard this is [`spawn`]. With several, their sockets have the option SO_REUSEPORT. Linux then lets other sockets
/// join that have the option as well and belong to a process of the same effective user ID, and gives them a part of the
/// datagrams. Nothing joins without asking for it: without the option, the port is in use. Shards do not join sockets that
/// exist: they fail with [`AddrInUse`](io::ErrorKind::AddrInUse), also if those are of another group.
///
/// # Errors
/// If there are more than [`MAX_SHARDS`], an address cannot be bound, or the system provides no random seed, event
/// descriptor or thread.
pub fn spawn_group(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
) -> io::Result<ShardGroup> {
    spawn_steered(address, count, config, server, Steering::BEST)
}

/// As [`spawn_group`], with `steering` at best.
pub(crate) fn spawn_steered(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
    steering: Steering,
) -> io::Result<ShardGroup> {
    let count = count.get();
    if count > MAX_SHARDS {
        let error = format!("a port cannot have more than {MAX_SHARDS} shards");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    let (mut server, mut acceptor) = server.map(|it| (it.config, it.acceptor)).unzip();
    let mut acceptor = |shard| acceptor.as_mut().map(|acceptor| acceptor(shard));
    if count == 1 {
        let server = server.zip(acceptor(0));
        let server = server.map(|(config, acceptor)| ServerSetup { config, acceptor });
        return Ok(ShardGroup { shards: vec![spawn(address, config, server)?], steering: None });
    }
    let sockets = listen_together(count, listen(address, server.as_mut())?)?;
    let format = IdFormat::new(count);
    let steering = steering::steer(&by_address(&sockets), format, steering);
    let mailboxes = (0..count).map(|_| Mailbox::new().map(Arc::new));
    let mailboxes = mailboxes.collect::<io::Result<Vec<_>>>()?;
    let places = Siblings::all(format, &mailboxes);
    let all = sockets.into_iter().zip(mailboxes).zip(places).enumerate();
    let shards = all.map(|(shard, ((sockets, mailbox), siblings))| {
        let id_generator = Arc::new(ShardIds::new(format, shard));
        let config = EndpointConfig { id_generator, ..config.clone() };
        let (server, acceptor) = (server.clone(), acceptor(shard));
        let siblings = Some(siblings);
        start(Start { sockets, config, server, acceptor, mailbox, siblings })
    });
    Ok(ShardGroup { shards: shards.collect::<io::Result<_>>()?, steering: Some(steering) })
}

/// The sockets of `count` shards at the addresses of `first`, which are those of the first shard.
fn listen_together(count: usize, first: Sockets) -> io::Result<Vec<Sockets>> {
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

/// The listening sockets of all shards, together for each address, in the order of the shards.
fn by_address(shards: &[Sockets]) -> Vec<Vec<&Socket>> {
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

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
