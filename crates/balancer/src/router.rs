//! Finds the server of each datagram.

mod memory;
mod offshoots;
mod saved;
mod shared;
mod statistics;
mod table;

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_units::{Random, Timestamp};
use clearway_wire::Version;
use clearway_wire::header::Invariant;

use crate::{Pool, Server, ServerKey};
use memory::Memory;

pub use shared::SharedIds;
pub use statistics::{RouterStatistics, TableStatistics};

/// How much a router remembers of what it cannot route by server IDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Flows at a time: first flights, connection IDs that servers have just issued, and addresses of clients of which
    /// nothing else is known. With more than that, those are forgotten first that were not used for the longest time.
    pub flows: usize,
    /// Connections at a time whose IDs were learned since their servers do not issue IDs of QUIC-LB, with their
    /// [offshoots](Router#servers-that-do-not-issue-ids-of-quic-lb), which are a quarter of them at most. More remain flows.
    pub learned: usize,
    /// How long a flow or a connection is remembered after it was last used. With servers that do not issue IDs of
    /// QUIC-LB it has to be longer than their idle timeout; otherwise it only has to last for some round trips.
    pub lifetime: Duration,
}

impl Limits {
    /// The most memory that a flow takes, in bytes. A router takes all of it when it is made.
    pub const BYTES_PER_FLOW: usize = Memory::BYTES_PER_FLOW;
    /// The most memory that a connection takes whose IDs are learned, in bytes. A router takes all of it when it is made.
    pub const BYTES_PER_LEARNED: usize = Memory::BYTES_PER_LEARNED;
}

impl Default for Limits {
    /// 131,072 flows and as many learned connections (26 MiB), for a minute.
    fn default() -> Self {
        Self { flows: 1 << 17, learned: 1 << 17, lifetime: Duration::from_secs(60) }
    }
}

/// By what the server of a datagram was found, in the order in which they are tried (§4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Means {
    /// The server ID in the connection ID.
    ServerId,
    /// A long header from a client and with a connection ID of its own for which the server was chosen before, unless its
    /// destination connection ID is known as that of another server.
    Flow,
    /// A connection ID that the server was seen to use, or that came from the address of one of its clients.
    Learned,
    /// The client's address, of which datagrams have gone to the server before.
    Address,
    /// The hash of the addresses.
    Hash,
}

impl Means {
    /// All, in their order.
    pub const ALL: [Self; 5] =
        [Self::ServerId, Self::Flow, Self::Learned, Self::Address, Self::Hash];
}

/// Why a datagram goes nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// It has less than two octets, or its long header is cut off.
    NotQuic,
    /// No server takes new clients, and it is of no existing connection that is known.
    NoServer,
}

impl DropReason {
    /// All, in their order.
    pub const ALL: [Self; 2] = [Self::NotQuic, Self::NoServer];
}

/// What becomes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It goes to a server of the pool.
    Forward {
        /// Which one.
        server: ServerKey,
        /// By what it was found.
        means: Means,
    },
    /// It is dropped.
    Drop(DropReason),
}

/// Finds the servers of datagrams. Each thread has its own.
///
/// It reads of a datagram only what packets of all versions of QUIC have, in the first packet (RFC 8999). Datagrams of other
/// protocols that look like that go to a server, too.
///
/// ```
/// use clearway_balancer::{Decision, Limits, Means, Pool, Router, Server, ServerKey, ServerState};
/// use clearway_units::{Random, Timestamp};
/// use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
/// use std::sync::Arc;
///
/// let config = ConfigId::new(0).unwrap();
/// let codec = IdCodec::new(config, 4, 12, Some([7; 16]))?;
/// let server = |name: &str, host, id: [u8; 4]| Server {
///     name: name.to_owned(),
///     address: ([192, 0, 2, host], 443).into(),
///     ids: vec![(config, ServerId::new(&id).unwrap())],
///     id_len: None,
///     weight: 1,
///     state: ServerState::Active,
///     has_preface: false,
/// };
/// let servers = vec![server("paris", 1, [0x5e, 3, 0x91, 1]), server("lyon", 2, [0x0c, 0x77, 8, 2])];
/// let pool = Pool::new(vec![codec.clone()], servers)?;
/// let mut router = Router::new(Arc::new(pool), Limits::default(), Random::from_seed([1; 32]));
///
/// // A short header with a connection ID that was issued in Lyon.
/// let id = codec.encode(&ServerId::new(&[0x0c, 0x77, 8, 2]).unwrap(), &[9; 12], &[], 0).unwrap();
/// let datagram = [&[0x41], id.as_bytes(), &[0; 30]].concat();
/// let (client, local) = (([203, 0, 113, 9], 61_000).into(), ([198, 51, 100, 1], 443).into());
/// let decision = router.route(Timestamp::ORIGIN, client, local, &datagram);
/// let expected = Decision::Forward { server: ServerKey::of("lyon"), means: Means::ServerId };
/// assert_eq!(decision, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Servers that cannot be reached
///
/// A connection ID that names a server which is down, or not in the pool, is not routable (§4.1), and no table leads to
/// such a server. The datagram goes where the other means lead. With a long header that is a new connection on another
/// server. With a short header a server that has the same key for stateless resets answers with one, so that the client
/// does not wait until its idle timeout. When the server can be reached again, its connection IDs and what is remembered
/// of it lead to it as before.
///
/// # Draining servers
///
/// They get what belongs to existing connections: by server ID, by flow, by a learned ID, and short headers by the
/// client's address. A long header that is known by its address alone may be of a new connection, so it goes to a server
/// that takes new clients. A client that opens connection after connection at one address with an empty connection ID of
/// its own is known as one flow: until that flow's lifetime has passed, or its server is down, it stays with its server.
///
/// # Servers that do not issue IDs of QUIC-LB
///
/// Their connection IDs are learned from the long headers that they send. So a client may change its address. If a client
/// goes on to another ID, which was issued in an encrypted packet, that one is learned, as it comes from a known address:
/// the one that the client last sent from, or the one before. The one before may be another client's by now, so an ID that
/// comes from there pushes out none that is known: it is that of an offshoot of the connection, which learns for itself. If a
/// client changes both at once, to an address that is not known, nothing leads to its server: the datagram goes by the hash
/// of the new address. IDs
/// of less than 4 or more than 20 octets are not learned: their connections are known by the address alone. Of several
/// connections at one address, a short header with an unknown ID is taken to be of the one that sent last.
///
/// A router knows what has passed it: the answers of such servers must be given to the [`observe`](Self::observe) of the
/// router that has sent them their clients. A client that changes its address may come to another router, such as that of
/// another thread, if both are [among](Self::among) those with the same [`SharedIds`]. Otherwise, as with several balancers, it
/// must come to the same one. IDs of QUIC-LB lead to their server in every router.
///
/// # Floods
///
/// What is remembered has a fixed size ([`Limits`]), and a datagram costs the same however much there is. It is found by
/// a hash with a secret key. First packets and invented connection IDs push out other flows, those first that were not
/// used for the longest time. What is pushed out is missed only if the pool has changed in between, since the hash leads
/// to the same server otherwise. A flow becomes a learned connection when its client uses a connection ID that a server
/// has sent to it. Those are not pushed out. While there are as many as there may be, others remain flows, which is
/// [counted](TableStatistics::refused). To fill that table takes three quarters as many connections that servers have answered, at true
/// addresses: offshoots are a quarter of it at most, and four of each connection. An empty connection ID shows nothing: the clients of a server that issues those remain flows. What routers share
/// is bounded in the same way: nothing is pushed out, and what finds no room is [counted](RouterStatistics::untold).
#[derive(Debug)]
pub struct Router {
    pool: Arc<Pool>,
    memory: Memory,
    statistics: RouterStatistics,
}

impl Router {
    /// A router that remembers nothing yet. `random` gives the key of its tables.
    pub fn new(pool: Arc<Pool>, limits: Limits, mut random: Random) -> Self {
        let key = [random.number(), random.number()];
        let memory = Memory::new(limits, key, None);
        Self { pool, memory, statistics: RouterStatistics::default() }
    }

    /// One of several routers that share their clients, and remembers nothing yet.
    pub fn among(pool: Arc<Pool>, limits: Limits, shared: &Arc<SharedIds>) -> Self {
        let memory = Memory::new(limits, shared.key(), Some(Arc::clone(shared)));
        Self { pool, memory, statistics: RouterStatistics::default() }
    }

    /// The servers.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// From now on these are the servers. What is remembered of servers that are in both pools remains.
    pub fn replace(&mut self, now: Timestamp, pool: Arc<Pool>) {
        self.pool = pool;
        self.remember(|memory, _| memory.expire(now));
    }

    /// Finds the server of a datagram of `client`, which it sent to `local`.
    pub fn route(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Decision {
        let decision = self.decide(now, (client, local), datagram);
        self.statistics.count(decision);
        decision
    }

    /// A server has sent a datagram to `client`. Short headers are skipped at once, and so are routable connection IDs.
    pub fn observe(
        &mut self,
        now: Timestamp,
        server: ServerKey,
        client: SocketAddr,
        datagram: &[u8],
    ) {
        let Ok(Invariant::Long { version, source_connection_id: id, .. }) =
            Invariant::decode(datagram, 0)
        else {
            return;
        };
        // Version Negotiation repeats an ID that the client has chosen.
        if version == Version::NEGOTIATION || self.pool.server(server).is_none() {
            return;
        }
        match self.pool.by_long_id(id) {
            Some((named, _)) if named == server => {}
            Some(_) => {
                self.statistics.contradicting = self.statistics.contradicting.saturating_add(1)
            }
            None => self.remember(|memory, _| {
                memory.expire(now);
                memory.learn_from_server(now, server, client, id);
            }),
        }
    }

    /// What it remembers, as bytes for the process that takes this one's place. They contain the key of its tables, which
    /// nobody else may know.
    pub fn save(&self, now: Timestamp) -> Vec<u8> {
        self.memory.save(now)
    }

    /// Takes over what a router has saved; what is not understood is left out. This one must not have routed anything yet. If it
    /// may remember less, it has what was used last.
    pub fn restore(&mut self, now: Timestamp, saved: &[u8]) {
        self.remember(|memory, _| {
            // It comes from this user's own process: whatever is wrong with it makes flows that lead nowhere, and are forgotten.
            let _ = memory.restore(now, saved);
        });
    }

    /// What was counted.
    pub fn statistics(&self) -> &RouterStatistics {
        &self.statistics
    }

    fn decide(
        &mut self,
        now: Timestamp,
        addresses: (SocketAddr, SocketAddr),
        datagram: &[u8],
    ) -> Decision {
        let header = match datagram.len() {
            0 | 1 => None,
            _ => Invariant::decode(datagram, 0).ok(),
        };
        let found = match header {
            None => return Decision::Drop(DropReason::NotQuic),
            Some(Invariant::Long {
                destination_connection_id: destination,
                source_connection_id: source,
                ..
            }) => reachable(self.pool.by_long_id(destination)).or_else(|| {
                self.remember(|memory, pool| {
                    memory.expire(now);
                    memory.long(now, pool, addresses, (destination, source))
                })
            }),
            Some(Invariant::Short { version_specific: octets, .. }) => {
                reachable(self.pool.by_short_id(octets)).or_else(|| {
                    self.remember(|memory, pool| {
                        memory.expire(now);
                        memory.short(now, pool, addresses, octets)
                    })
                })
            }
        };
        match found {
            Some((server, means)) => Decision::Forward { server, means },
            None => Decision::Drop(DropReason::NoServer),
        }
    }

    /// Does something with the memory, and takes over what that counts.
    fn remember<T>(&mut self, act: impl FnOnce(&mut Memory, &Pool) -> T) -> T {
        let result = act(&mut self.memory, &self.pool);
        self.statistics.flows = self.memory.flows().statistics();
        self.statistics.learned = self.memory.learned().statistics();
        self.statistics.learned_ids = self.memory.ids();
        self.statistics.untold = self.memory.untold();
        result
    }
}

/// The server that a connection ID names, if it can be reached.
fn reachable(named: Option<(ServerKey, &Server)>) -> Option<(ServerKey, Means)> {
    let (key, _) = named.filter(|(_, server)| server.is_reachable())?;
    Some((key, Means::ServerId))
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
