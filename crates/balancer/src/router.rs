//! Selects the server of each datagram.

mod branches;
mod memory;
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

/// Limits on the state that a router keeps for traffic that it cannot route by server IDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of flows: first flights, connection IDs that servers have just issued, and
    /// addresses of clients about which nothing else is known. The least recently used ones are
    /// evicted first.
    pub flows: usize,
    /// Maximum number of connections with learned IDs, for servers that do not issue QUIC-LB IDs,
    /// including their [branches](Router#servers-without-quic-lb-ids), which can be at most a
    /// quarter of this number. Additional connections remain flows.
    pub learned: usize,
    /// Lifetime of a flow or a connection after its last use. For servers that do not issue QUIC-LB
    /// IDs, it must exceed their idle timeout; otherwise, a few round trips suffice.
    pub lifetime: Duration,
}

impl Limits {
    /// Maximum memory per flow, in bytes. A router allocates all of it when it is created.
    pub const BYTES_PER_FLOW: usize = Memory::BYTES_PER_FLOW;
    /// Maximum memory per connection with learned IDs, in bytes. A router allocates all of it when
    /// it is created.
    pub const BYTES_PER_LEARNED: usize = Memory::BYTES_PER_LEARNED;
}

impl Default for Limits {
    /// Returns 131,072 flows and as many learned connections (26 MiB), with a lifetime of a minute.
    fn default() -> Self {
        Self { flows: 1 << 17, learned: 1 << 17, lifetime: Duration::from_secs(60) }
    }
}

/// How the server was selected, in order of precedence (§4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Means {
    /// The server ID in the connection ID.
    ServerId,
    /// The flow: the client's address and its own connection ID in a long header, for which the
    /// server was selected before. Not used if the Destination Connection ID belongs to another
    /// server.
    Flow,
    /// A connection ID that the server was observed to use, or that came from the address of one of
    /// its clients.
    Learned,
    /// The client's address, if earlier datagrams from it were forwarded to the server.
    Address,
    /// The hash of the addresses.
    Hash,
}

impl Means {
    /// All variants, in order.
    pub const ALL: [Self; 5] =
        [Self::ServerId, Self::Flow, Self::Learned, Self::Address, Self::Hash];
}

/// The reason why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// The datagram has fewer than two octets, or its long header is truncated.
    NotQuic,
    /// No server takes new clients, and the datagram does not belong to a known connection.
    NoServer,
}

impl DropReason {
    /// All variants, in order.
    pub const ALL: [Self; 2] = [Self::NotQuic, Self::NoServer];
}

/// The routing decision for a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Forward the datagram to a server of the pool.
    Forward {
        /// The server.
        server: ServerKey,
        /// How the server was selected.
        means: Means,
    },
    /// Drop the datagram.
    Drop(DropReason),
}

/// Selects the server for each datagram. Each thread has its own router.
///
/// A router reads only the version-independent fields of a datagram's first packet (RFC 8999).
/// Datagrams of other protocols that look like QUIC are forwarded too.
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
/// # Unreachable servers
///
/// A connection ID that identifies a server that is down, or not in the pool, is not routable
/// (§4.1), and no table entry for such a server is used. The datagram is routed by the other means.
/// A long header then starts a new connection on another server. A short header then reaches
/// another server, which responds with a stateless reset if it has the same stateless reset key, so
/// that the client does not wait until its idle timeout. When the server is reachable again, its
/// connection IDs and remembered entries are used again.
///
/// # Draining servers
///
/// A draining server receives the datagrams of existing connections, which are identified by server
/// ID, by flow, by a learned ID or, for short headers, by the client's address. A long header that
/// is known only by its address may begin a new connection, so it is routed to a server that takes
/// new clients. A client that opens one connection after another from the same address, with a
/// zero-length connection ID of its own, looks like one flow: it stays with its server until that
/// flow's lifetime has passed, or the server is down.
///
/// # Servers without QUIC-LB IDs
///
/// The connection IDs of such servers are learned from the long headers that they send, so a client
/// may change its address. If a client switches to another ID, which was issued in an encrypted
/// packet, the new ID is learned because it comes from a known address: the client's latest or its
/// previous one. The previous address may now belong to another client, so an unknown ID from there
/// does not evict a known ID: it starts a branch of the connection, which learns separately. If a
/// client changes its ID and moves to an unknown address at the same time, nothing identifies its
/// server, and the datagram is routed by the hash of the new address. IDs of fewer than 4 or more
/// than 20 octets are not learned: their connections are known only by the address. If several
/// connections share an address, a short header with an unknown ID is attributed to the connection
/// that sent last.
///
/// A router sees only the datagrams that pass through it: the responses of such servers must be
/// passed to [`observe`](Self::observe) of the router that forwarded their clients' datagrams.
/// After a change of address, a client may arrive at another router, such as that of another
/// thread, if both routers were created with the same [`SharedIds`] ([`among`](Self::among)).
/// Otherwise, as with several balancers, it must arrive at the same router. QUIC-LB IDs are
/// routable by every router.
///
/// # Floods
///
/// The tables have a fixed size ([`Limits`]), and the cost of a datagram does not depend on the
/// number of entries. Lookups use a hash with a secret key. First packets and forged connection IDs
/// evict other flows, least recently used first. The eviction of a flow matters only if the pool
/// has changed in the meantime, since otherwise the hash selects the same server. A flow becomes a
/// learned connection when its client uses a connection ID that a server has sent to it. Learned
/// connections are not evicted. When their table is full, additional ones remain flows, which is
/// [counted](TableStatistics::refused). To fill that table, three quarters of its entries must be
/// connections from real addresses to which servers have responded: branches take at most a quarter
/// of the table, and at most four entries per connection. A zero-length connection ID proves
/// nothing, so the clients of a server that issues such IDs remain flows. The state that routers
/// share is bounded in the same way: nothing is evicted, and entries for which there is no room are
/// [counted](RouterStatistics::unpublished).
#[derive(Debug)]
pub struct Router {
    pool: Arc<Pool>,
    memory: Memory,
    statistics: RouterStatistics,
}

impl Router {
    /// Creates an empty router. `random` provides the key of its tables.
    pub fn new(pool: Arc<Pool>, limits: Limits, mut random: Random) -> Self {
        let key = [random.number(), random.number()];
        let memory = Memory::new(limits, key, None);
        Self { pool, memory, statistics: RouterStatistics::default() }
    }

    /// Creates one of several routers that share learned IDs, with empty tables.
    pub fn among(pool: Arc<Pool>, limits: Limits, shared: &Arc<SharedIds>) -> Self {
        let memory = Memory::new(limits, shared.key(), Some(Arc::clone(shared)));
        Self { pool, memory, statistics: RouterStatistics::default() }
    }

    /// Returns the servers.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Replaces the servers. Entries for servers that are in both pools remain.
    pub fn replace(&mut self, now: Timestamp, pool: Arc<Pool>) {
        self.pool = pool;
        self.remember(|memory, _| memory.expire(now));
    }

    /// Selects the server for a datagram that `client` has sent to `local`.
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

    /// Learns from a datagram that a server has sent to `client`. Ignores short headers and
    /// routable connection IDs.
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

    /// Serializes the tables for the process that replaces this one. The result contains their
    /// secret key.
    pub fn save(&self, now: Timestamp) -> Vec<u8> {
        self.memory.save(now)
    }

    /// Restores the state that a router has saved; unknown parts are ignored. This router must not
    /// have routed anything yet. If its limits are lower, it keeps the most recently used entries.
    pub fn restore(&mut self, now: Timestamp, saved: &[u8]) {
        self.remember(|memory, _| {
            // The data comes from the same user's process: at worst, invalid data creates useless
            // flows, which expire.
            let _ = memory.restore(now, saved);
        });
    }

    /// Returns the router's counters.
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

    /// Calls `act` with the router's memory, and then updates the counters.
    fn remember<T>(&mut self, act: impl FnOnce(&mut Memory, &Pool) -> T) -> T {
        let result = act(&mut self.memory, &self.pool);
        self.statistics.flows = self.memory.flows().statistics();
        self.statistics.learned = self.memory.learned().statistics();
        self.statistics.learned_ids = self.memory.ids();
        self.statistics.unpublished = self.memory.unpublished();
        result
    }
}

/// Returns the server that a connection ID identifies, if the server is reachable.
fn reachable(named: Option<(ServerKey, &Server)>) -> Option<(ServerKey, Means)> {
    let (key, _) = named.filter(|(_, server)| server.is_reachable())?;
    Some((key, Means::ServerId))
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
