//! Several shards that share one port.

mod sockets;

use core::net::SocketAddr;
use core::num::NonZeroUsize;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use clearway_transport::{ConnectionIdGenerator, EndpointConfig, ServerConfig};

use crate::acceptor::{Acceptor, Admission, ServerSetup};
use crate::balancers::Balancers;
use crate::census::Census;
use crate::datagram_socket::DatagramSocket;
use crate::mailbox::{Mailbox, ShardHandle};
use crate::memory_budget::MemoryBudget;
#[cfg(feature = "quic-lb")]
use crate::quic_lb::{BalancedIds, QuicLb, RotateQuicLbError, SharedQuicLb};
use crate::shard::{
    GroupStart, PeerShards, ShardSetup, Sockets, listen, long_headers, spawn_over, spawn_within,
    start,
};
use crate::shard_ids::{IdFormat, Layout, MAX_SHARDS, MAX_SHARDS_WITH_HOT_RESTART, ShardIds};
use crate::system::restart::{
    HotRestart, HotRestartError, InheritedGroup, Keeper, Prepared, Replaceable,
};
use crate::system::{self, steering::Steering};

/// The configuration that the shards of a group need to act as servers.
pub struct GroupServerSetup<'a> {
    /// The configuration of accepted connections, shared by all shards. Its TLS sessions and
    /// [`shared_tokens`](ServerConfig::shared_tokens) make the tickets and tokens of one shard
    /// valid at the others: without `shared_tokens`, a NEW_TOKEN token is valid only at the shard
    /// that issued it. A Retry token always returns to the shard that issued it.
    pub config: Arc<ServerConfig>,
    /// Creates the acceptor of each shard; the shards are numbered from 0.
    pub acceptor: &'a mut dyn FnMut(usize) -> Box<dyn Acceptor>,
    /// Admission control, as in [`ServerSetup::admission`]; applies to each shard.
    pub admission: Admission,
}

/// Options for a group of shards, such as where its sockets come from. By default, the group opens
/// its sockets.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GroupOptions {
    /// Sockets that were bound elsewhere, for example by a service manager, all to the same
    /// address: one per shard, in the order in which they were bound, since the kernel numbers them
    /// in this order. If there are several, they need the option SO_REUSEPORT. If this is empty,
    /// and for [preferred addresses](ServerConfig::preferred_addresses), the group opens its own
    /// sockets.
    pub sockets: Vec<UdpSocket>,
    /// Allows the group to replace the group of a running process, and to be replaced later. If
    /// there is such a process, its sockets are used.
    pub hot_restart: Option<HotRestart>,
    /// QUIC-LB configuration for connection IDs, so that balancers can route them. In a hot
    /// restart, both processes must have connection IDs of the same length, or neither may use
    /// QUIC-LB.
    #[cfg(feature = "quic-lb")]
    pub quic_lb: Option<QuicLb>,
    /// Limit on the total memory that peers can make the shards use for connections. Unlimited by
    /// default.
    pub memory_budget: Option<MemoryBudget>,
}

/// Shards that share a port; see [`spawn_group`].
#[derive(Clone, Debug)]
pub struct ShardGroup {
    shards: Vec<ShardHandle>,
    steering: Option<Steering>,
    #[cfg(feature = "quic-lb")]
    quic_lb: Option<Arc<SharedQuicLb>>,
    /// Thread that waits for a process that replaces this one.
    _keeper: Option<Arc<Keeper>>,
}

impl ShardGroup {
    fn of_one(shard: ShardHandle) -> Self {
        Self {
            shards: vec![shard],
            steering: None,
            #[cfg(feature = "quic-lb")]
            quic_lb: None,
            _keeper: None,
        }
    }

    /// Returns the shards, of which there is at least one.
    pub fn shards(&self) -> &[ShardHandle] {
        &self.shards
    }

    /// Returns how the kernel selects a datagram's shard; `None` if there is only one shard.
    pub fn steering(&self) -> Option<Steering> {
        self.steering
    }

    /// Returns the number of connections. A connection counts from the request to start it until
    /// the end of its closing or draining period (RFC 9000 §10.2), during which CONNECTION_CLOSE is
    /// sent again if it was lost. A connection attempt to which the peer never responded counts
    /// until it has failed.
    pub fn connection_count(&self) -> usize {
        self.census().count()
    }

    /// Sets a callback for when [`connection_count`](Self::connection_count) falls to 0. It is
    /// called on any thread and must not block. Only the first callback of a group takes effect. By
    /// then, [`ShardHandle::statistics`] is consistent with the count.
    pub fn on_idle(&self, callback: impl Fn() + Send + Sync + 'static) {
        self.census().on_empty(Box::new(callback));
    }

    fn census(&self) -> &Census {
        // All shards share one census.
        self.shards[0].census()
    }

    /// Switches to a new QUIC-LB configuration, and replaces the connection IDs of all connections
    /// (§3.1), a bounded number per turn of a shard. The previous IDs remain valid until the peers
    /// have retired them, which takes one round trip, or longer if a peer does not respond. So
    /// balancers need both configurations for a while, and must get the new one first. Passing the
    /// current configuration has no effect.
    ///
    /// A configuration ID can be reused once no connection has IDs that use its previous
    /// configuration.
    ///
    /// # Errors
    /// Fails if the group was started without QUIC-LB, the length of IDs would change, or the
    /// operating system cannot provide a random seed.
    #[cfg(feature = "quic-lb")]
    pub fn rotate_quic_lb(&self, config: QuicLb) -> Result<(), RotateQuicLbError> {
        let shared = self.quic_lb.as_ref().ok_or(RotateQuicLbError::NotConfigured)?;
        if shared.rotate(config)? {
            self.shards.iter().for_each(ShardHandle::replace_ids);
        }
        Ok(())
    }
}

/// Starts `count` shards that listen at `address`, and accept connections if there is a `server`
/// configuration. In that case they also listen at its preferred addresses. Port 0 means any free
/// port, which is the same for all shards.
///
/// Each shard has its own sockets and its own endpoint, with at most
/// [`max_connections`](EndpointConfig::max_connections) connections. A connection stays on the
/// shard that accepted or started it: its connection IDs encode the shard (so
/// [`id_generator`](EndpointConfig::id_generator) has an effect only with a single shard), and the
/// kernel delivers datagrams with these IDs to the shard's socket; see [`Steering`]. Until a client
/// receives the first response, it uses a connection ID that it has chosen, which determines its
/// shard, regardless of the client's address. Without a steering program, with sockets that were
/// passed in, or with balancers, a hash of addresses and ports selects the shard instead. If the
/// client's address then changes before the first response, its packets may reach another shard,
/// which treats them as those of another client.
///
/// A server has two sockets per address and shard, except with sockets that were passed in or with
/// balancers: one for packets with long headers, and one for all others. So a flood of Initial
/// packets hardly delays connections.
///
/// An ICMP message that a server is unreachable may arrive at a shard other than the one that is
/// connecting to it; the connection attempt then times out.
///
/// If a shard ends before the others, its sockets move to another shard, which sends stateless
/// resets in response to datagrams for the ended shard's connections, and accepts new clients. The
/// connections of the other shards are not affected.
///
/// Only Linux supports several shards at one port. On other systems, a group has one shard, and
/// logs a warning if more were requested.
///
/// With one shard, this is the same as [`spawn`](crate::spawn). The sockets of several shards have
/// the option SO_REUSEPORT, and so does the socket of a single-shard server. Linux then allows
/// sockets with the same option in processes with the same effective user ID to share the port, and
/// delivers some of the datagrams to them. No socket joins unintentionally: without the option, the
/// port is in use. Shards do not join existing sockets: they fail with
/// [`AddrInUse`](io::ErrorKind::AddrInUse), even if the existing sockets belong to another group.
///
/// # Errors
/// Fails if there are more than [`MAX_SHARDS`] or [`MAX_BALANCERS`](crate::MAX_BALANCERS), an
/// address cannot be bound, or the operating system cannot provide a random seed, an event
/// descriptor or a thread.
pub fn spawn_group(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
) -> io::Result<ShardGroup> {
    spawn_group_with(address, count, config, server, GroupOptions::default())
}

/// Like [`spawn_group`], with sockets from elsewhere: from a service manager, or from a process
/// that this one replaces.
///
/// When this returns, the replaced process receives only the datagrams that are forwarded to it. A
/// replaceable group can have [`MAX_SHARDS_WITH_HOT_RESTART`] shards, and remains replaceable until
/// its last handle is dropped.
///
/// # Errors
/// Fails in the same cases as [`spawn_group`]; with [`InvalidInput`](io::ErrorKind::InvalidInput)
/// if the sockets passed in have different addresses or their number differs from the number of
/// shards; and if the handover fails, with a [`HotRestartError`] as the cause. The running process
/// is then not replaced, and continues.
pub fn spawn_group_with(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
    options: GroupOptions,
) -> io::Result<ShardGroup> {
    spawn_steered(address, count, config, server, options, Steering::BEST)
}

/// Starts one shard for clients, which sends and receives through `socket`. Its connections cannot
/// migrate to another local address.
///
/// # Errors
/// Fails if the system provides no random seed, event descriptor or thread.
pub fn spawn_group_over(
    socket: Box<dyn DatagramSocket>,
    config: EndpointConfig,
) -> io::Result<ShardGroup> {
    Ok(ShardGroup::of_one(spawn_over(socket, config)?))
}

/// Like [`spawn_group_with`], but uses `steering` as the best steering method.
pub(crate) fn spawn_steered(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
    options: GroupOptions,
    steering: Steering,
) -> io::Result<ShardGroup> {
    let count = system::shards(count.get());
    #[cfg(feature = "quic-lb")]
    let id_len = options.quic_lb.as_ref().map(QuicLb::id_len);
    #[cfg(not(feature = "quic-lb"))]
    let id_len: Option<usize> = None;
    let GroupOptions { sockets: given, hot_restart, memory_budget, .. } = options;
    check_count(count, hot_restart.is_some())?;
    let admission = server.as_ref().map(|it| it.admission.clone()).unwrap_or_default();
    let (mut server, mut acceptor) = server.map(|it| (it.config, it.acceptor)).unzip();
    let mut acceptor = |shard| acceptor.as_mut().map(|acceptor| acceptor(shard));
    // A single shard of this kind does not share its address.
    let is_alone = count == 1 && given.is_empty() && hot_restart.is_none();
    if is_alone && id_len.is_none() {
        let server = server.zip(acceptor(0));
        let setup = |(config, acceptor)| ServerSetup { config, acceptor, admission };
        let server = server.map(setup);
        return Ok(ShardGroup::of_one(spawn_within(address, config, server, memory_budget)?));
    }
    // Reports too many balancers before anything is opened or taken over.
    let balancers = Balancers::new(&admission.balancers)?;
    let mut hot_restart = hot_restart;
    let inherited = hot_restart.as_mut().and_then(HotRestart::take_inherited);
    let is_replacing = inherited.is_some();
    // The length is at most 20.
    let layout = Layout::from_quic_lb_len(id_len.map(|length| length as u8));
    let format = match &hot_restart {
        Some(_) => IdFormat::with_generations(layout, count),
        None => IdFormat::new(layout, count),
    };
    let (sockets, predecessors, steering) = match inherited {
        Some(InheritedGroup { shards, steering, layout: running }) => {
            check_layout(running, layout)?;
            let (sockets, pipes) = sockets::inherit(shards, address, count, server.as_mut())?;
            (sockets, pipes, steering)
        }
        None => {
            let sockets = match given.is_empty() {
                true => open(address, count, server.as_mut(), &balancers)?,
                // No additional sockets need to be allowed at the address of these.
                false => sockets::given(given, count, server.as_mut())?,
            };
            let steering = long_headers::steer(&sockets, format, steering);
            (sockets, Vec::new(), steering)
        }
    };
    let census = Arc::<Census>::default();
    let mailboxes: Vec<_> =
        (0..count).map(|_| Arc::new(Mailbox::of_group(census.clone()))).collect();
    let generation = hot_restart.as_ref().map(HotRestart::generation).unwrap_or_default();
    #[cfg(feature = "quic-lb")]
    let quic_lb = options
        .quic_lb
        .map(|config| SharedQuicLb::new(config, format, generation))
        .transpose()?
        .map(Arc::new);
    let prepare = |hot_restart: HotRestart| {
        let shards = mailboxes.iter().map(|it| it.clone() as Arc<dyn Replaceable>);
        hot_restart.prepare(sockets::duplicates(&sockets)?, shards.collect(), steering, layout)
    };
    let prepared = hot_restart.map(prepare).transpose()?;
    let places = PeerShards::all(GroupStart {
        format,
        generation,
        mailboxes: &mailboxes,
        predecessors: &predecessors,
    });
    let all = sockets.into_iter().zip(mailboxes).zip(places).enumerate();
    let shards = all.map(|(shard, ((mut sockets, mailbox), peer_shards))| {
        let id_generator: Arc<dyn ConnectionIdGenerator> =
            Arc::new(ShardIds::new(format, shard, generation));
        #[cfg(feature = "quic-lb")]
        let id_generator = match &quic_lb {
            Some(shared) => Arc::new(BalancedIds::new(shared.clone(), shard)),
            None => id_generator,
        };
        let config = EndpointConfig { id_generator, ..config.clone() };
        let (server, acceptor) = (server.clone(), acceptor(shard));
        let peer_shards = (!is_alone).then_some(peer_shards);
        let predecessor = predecessors.get(shard).cloned();
        // The running process receives datagrams until it has been replaced.
        sockets.listen(!is_replacing);
        start(ShardSetup {
            sockets,
            config,
            server,
            acceptor,
            admission: admission.clone(),
            mailbox,
            peer_shards,
            predecessor,
            memory_budget: memory_budget.clone(),
        })
    });
    let shards = shards.collect::<io::Result<_>>()?;
    let keeper = prepared.map(Prepared::take_over).transpose()?.map(Arc::new);
    Ok(ShardGroup {
        shards,
        steering,
        #[cfg(feature = "quic-lb")]
        quic_lb,
        _keeper: keeper,
    })
}

/// Opens the sockets of all shards, including a server's sockets for long headers, unless prefaces
/// from `balancers` hide the header.
fn open(
    address: SocketAddr,
    count: usize,
    server: Option<&mut Arc<ServerConfig>>,
    balancers: &Balancers,
) -> io::Result<Vec<Sockets>> {
    let is_server = server.is_some();
    let mut sockets = sockets::twins(count, listen(address, server)?)?;
    if is_server && balancers.is_empty() {
        long_headers::open(&mut sockets);
    }
    Ok(sockets)
}

/// Checks that the running process and this one have the same ID layout: both read the shard from
/// each other's connection IDs, and the kernel reads it from both.
fn check_layout(running: Layout, asked: Layout) -> Result<(), HotRestartError> {
    if running == asked {
        return Ok(());
    }
    let length = |layout: Layout| layout.quic_lb_len().map(usize::from);
    Err(HotRestartError::ConnectionIds { running: length(running), asked: length(asked) })
}

fn check_count(count: usize, can_be_replaced: bool) -> io::Result<()> {
    if can_be_replaced && count > MAX_SHARDS_WITH_HOT_RESTART {
        return Err(HotRestartError::TooManyShards { limit: MAX_SHARDS_WITH_HOT_RESTART }.into());
    }
    if count > MAX_SHARDS {
        let error = format!("a port cannot have more than {MAX_SHARDS} shards");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    Ok(())
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
