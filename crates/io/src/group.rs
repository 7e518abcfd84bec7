//! Several shards at one port.

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
use crate::mailbox::{Mailbox, ShardHandle};
use crate::memory_budget::MemoryBudget;
#[cfg(feature = "quic-lb")]
use crate::quic_lb::{BalancedIds, QuicLb, RotateQuicLbError, SharedQuicLb};
use crate::shard::{
    GroupStart, ShardSetup, Siblings, Sockets, listen, long_headers, spawn_within, start,
};
use crate::shard_ids::{IdFormat, Layout, MAX_SHARDS, MAX_SHARDS_WITH_HOT_RESTART, ShardIds};
use crate::system::restart::{
    HotRestart, HotRestartError, Inheritance, Keeper, Prepared, Replaceable,
};
use crate::system::{self, steering::Steering};

/// What the shards of a group need to be servers.
pub struct GroupServerSetup<'a> {
    /// The configuration of accepted connections, which all shards share. Its TLS sessions and its
    /// [`shared_tokens`](ServerConfig::shared_tokens) are what makes the tickets and tokens of one shard valid at the
    /// others: without those, a NEW_TOKEN token is valid at the shard that issued it. A Retry token always returns to
    /// the shard that issued it.
    pub config: Arc<ServerConfig>,
    /// Makes the acceptor of each shard; the shards are counted from 0.
    pub acceptor: &'a mut dyn FnMut(usize) -> Box<dyn Acceptor>,
    /// As [`ServerSetup::admission`], for each shard.
    pub admission: Admission,
}

/// How a group of shards gets its sockets. The default is to open them.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GroupOptions {
    /// Sockets that were bound by somebody else, such as a service manager, all at one address: one for each shard, in the
    /// order in which they were bound, since the kernel numbers them so. More than one need the option SO_REUSEPORT. Without
    /// any, and for [preferred addresses](ServerConfig::preferred_addresses), they are opened.
    pub sockets: Vec<UdpSocket>,
    /// Lets the group replace that of a process that runs, and be replaced. If there is such a process, the sockets are its own.
    pub hot_restart: Option<HotRestart>,
    /// Has connection IDs follow this configuration, so that balancers can route them. The process that is replaced by a hot
    /// restart has to have IDs of the same length, or neither has QUIC-LB.
    #[cfg(feature = "quic-lb")]
    pub quic_lb: Option<QuicLb>,
    /// Bounds the memory that peers make all shards keep in connections. By default nothing does.
    pub memory_budget: Option<MemoryBudget>,
}

/// Shards that share a port; see [`spawn_group`].
#[derive(Clone, Debug)]
pub struct ShardGroup {
    shards: Vec<ShardHandle>,
    steering: Option<Steering>,
    #[cfg(feature = "quic-lb")]
    quic_lb: Option<Arc<SharedQuicLb>>,
    /// Waits for the process that replaces this one.
    _keeper: Option<Arc<Keeper>>,
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

    /// The number of connections. Each counts from the request to begin it until it has ended and
    /// its closing or draining period is over (RFC 9000 §10.2), in which CONNECTION_CLOSE is
    /// repeated if it was lost. An attempt that the peer has never answered counts until it has
    /// ended.
    pub fn connection_count(&self) -> usize {
        self.census().count()
    }

    /// Sets a callback that is called whenever [`connection_count`](Self::connection_count) falls
    /// to 0, on any thread; it must not block. The first callback of a group stays.
    /// [`ShardHandle::statistics`] agree with the count by then.
    pub fn on_idle(&self, callback: impl Fn() + Send + Sync + 'static) {
        self.census().on_empty(Box::new(callback));
    }

    fn census(&self) -> &Census {
        // All shards have one.
        self.shards[0].census()
    }

    /// Has new connection IDs follow another configuration of QUIC-LB from now on, and replaces those of all connections (§3.1),
    /// a bounded number in each turn of a shard. The IDs before remain valid until the peers have retired them, which takes a
    /// round trip, and with a peer that does not respond for the time, until it does. So balancers have to know both
    /// configurations for a while, and the new one first. The configuration that the group has already changes nothing.
    ///
    /// A number that another configuration had can be used again when no connection has IDs of that any more.
    ///
    /// # Errors
    /// If the group was started without QUIC-LB, IDs would have another length, or the system provides no random seed.
    #[cfg(feature = "quic-lb")]
    pub fn rotate_quic_lb(&self, config: QuicLb) -> Result<(), RotateQuicLbError> {
        let shared = self.quic_lb.as_ref().ok_or(RotateQuicLbError::NotConfigured)?;
        if shared.rotate(config)? {
            self.shards.iter().for_each(ShardHandle::replace_ids);
        }
        Ok(())
    }
}

/// Starts `count` shards that listen at `address`, and accept connections if they get a `server` configuration. Then they
/// also listen at the preferred addresses of that. Port 0 means any free port, which is the same for all shards.
///
/// Each shard has sockets of its own, and its own endpoint, with at most [`max_connections`](EndpointConfig::max_connections)
/// connections. A connection belongs to the shard that accepted or began it for as long as it exists: its connection IDs
/// name the shard (so [`id_generator`](EndpointConfig::id_generator) has an effect only if there is one shard), and the
/// kernel brings what is sent to them to the shard's socket; see [`Steering`]. Until a client has the first answer it uses a
/// connection ID of its own, and that decides which shard it gets to, whatever its address; without a program that steers, or
/// where sockets were given or there are balancers, a hash of addresses and ports decides, and if the client's address changes
/// until then, its packets may reach another shard, which takes them for another client.
///
/// A server has two sockets for each address and shard, except where sockets were given or there are balancers: packets with long
/// headers come to one of them, the others to the other. So a flood of first packets delays those of connections little.
///
/// An ICMP message that a server cannot be reached may come to another shard than that which tries to connect to it, and then
/// that ends by its timeout.
///
/// If a shard ends before the others, its sockets go to another shard: datagrams for its connections are answered with
/// stateless resets, new clients are accepted, and the connections of the other shards are not affected.
///
/// Only Linux has several shards at one port. On other systems there is one, and a warning if more were requested.
///
/// With one shard this is [`spawn`](crate::spawn). The sockets of several shards have the option SO_REUSEPORT, and so have those of a server
/// with one. Linux then lets other sockets join that have the option as well and belong to a process of the same effective
/// user ID, and gives them a part of the datagrams. Nothing joins without asking for it: without the option, the port is in
/// use. Shards do not join sockets that exist: they fail with [`AddrInUse`](io::ErrorKind::AddrInUse), also if those are of
/// another group.
///
/// # Errors
/// If there are more than [`MAX_SHARDS`] or [`MAX_BALANCERS`](crate::MAX_BALANCERS), an address cannot be bound, or the system provides no random seed, event
/// descriptor or thread.
pub fn spawn_group(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
) -> io::Result<ShardGroup> {
    spawn_group_with(address, count, config, server, GroupOptions::default())
}

/// As [`spawn_group`], with sockets from elsewhere: those of a service manager, or of a process that this one replaces.
///
/// When this returns, the process that was replaced does not receive any more, except what is forwarded to it. A group that
/// can be replaced can have [`MAX_SHARDS_WITH_HOT_RESTART`] shards. Until its last handle is dropped it can be.
///
/// # Errors
/// As for [`spawn_group`]; [`InvalidInput`](io::ErrorKind::InvalidInput) if the sockets given are of several addresses or not
/// as many as shards; and those of the hand-over, whose cause is a [`HotRestartError`]. The process that runs is then not
/// replaced, and goes on.
pub fn spawn_group_with(
    address: SocketAddr,
    count: NonZeroUsize,
    config: EndpointConfig,
    server: Option<GroupServerSetup<'_>>,
    options: GroupOptions,
) -> io::Result<ShardGroup> {
    spawn_steered(address, count, config, server, options, Steering::BEST)
}

/// As [`spawn_group_with`], with `steering` at best.
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
    // It shares its address with no other.
    let is_alone = count == 1 && given.is_empty() && hot_restart.is_none();
    if is_alone && id_len.is_none() {
        let server = server.zip(acceptor(0));
        let setup = |(config, acceptor)| ServerSetup { config, acceptor, admission };
        let server = server.map(setup);
        let shards = vec![spawn_within(address, config, server, memory_budget)?];
        return Ok(ShardGroup {
            shards,
            steering: None,
            #[cfg(feature = "quic-lb")]
            quic_lb: None,
            _keeper: None,
        });
    }
    // Too many of them are an error before anything is opened or taken over.
    let balancers = Balancers::new(&admission.balancers)?;
    let mut hot_restart = hot_restart;
    let inherited = hot_restart.as_mut().and_then(HotRestart::take_inheritance);
    let is_replacing = inherited.is_some();
    // It is at most 20.
    let layout = Layout::from_quic_lb_len(id_len.map(|length| length as u8));
    let format = match &hot_restart {
        Some(_) => IdFormat::with_generations(layout, count),
        None => IdFormat::new(layout, count),
    };
    let (sockets, predecessors, steering) = match inherited {
        Some(Inheritance { shards, steering, layout: running }) => {
            check_layout(running, layout)?;
            let (sockets, pipes) = sockets::inherit(shards, address, count, server.as_mut())?;
            (sockets, pipes, steering)
        }
        None => {
            let sockets = match given.is_empty() {
                true => open(address, count, server.as_mut(), &balancers)?,
                // Others at their address need not be permitted.
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
    let places = Siblings::all(GroupStart {
        format,
        generation,
        mailboxes: &mailboxes,
        predecessors: &predecessors,
    });
    let all = sockets.into_iter().zip(mailboxes).zip(places).enumerate();
    let shards = all.map(|(shard, ((mut sockets, mailbox), siblings))| {
        let id_generator: Arc<dyn ConnectionIdGenerator> =
            Arc::new(ShardIds::new(format, shard, generation));
        #[cfg(feature = "quic-lb")]
        let id_generator = match &quic_lb {
            Some(shared) => Arc::new(BalancedIds::new(shared.clone(), shard)),
            None => id_generator,
        };
        let config = EndpointConfig { id_generator, ..config.clone() };
        let (server, acceptor) = (server.clone(), acceptor(shard));
        let siblings = (!is_alone).then_some(siblings);
        let predecessor = predecessors.get(shard).cloned();
        // The process that runs receives until it has been replaced.
        sockets.listen(!is_replacing);
        start(ShardSetup {
            sockets,
            config,
            server,
            acceptor,
            admission: admission.clone(),
            mailbox,
            siblings,
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

/// Opens the sockets of all shards: of servers also those for long headers, unless a preface of `balancers` hides the header.
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

/// The process that runs and this one read the shard from each other's IDs, and the kernel from those of both.
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
