//! Selects the servers for datagrams on the forwarding threads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::{ArcSwap, Cache};
use clearway_balancer::{
    Decision, Limits, Means, Pool, Router, ServerKey, SharedIds, is_first_flight,
};
use clearway_forward::{Routed, Routing, Target};
use clearway_units::Timestamp;
use clearway_wire::header::is_long;

use super::counts::{ShardCounts, increment};
use super::retries::{Answer, Retries};

/// The current pool, shared by all threads.
pub(super) type SharedPool = Arc<ArcSwap<Pool>>;

/// The routing state of one thread.
pub(super) struct ShardRouting {
    router: Router,
    /// The current pool, which the router adopts in the next turn.
    pool: Cache<SharedPool, Arc<Pool>>,
    /// The servers, sorted by their keys.
    servers: Vec<KnownServer>,
    counts: Arc<ShardCounts>,
    /// The Retry handling; `None` without token keys.
    retries: Option<Retries>,
}

/// A server of the router's pool.
struct KnownServer {
    key: ServerKey,
    address: SocketAddr,
    has_preface: bool,
    /// Number of datagrams sent to the server.
    datagrams: Arc<AtomicU64>,
}

impl ShardRouting {
    /// Creates the routing state of one of the threads that share learned connection IDs.
    pub(super) fn new(
        pool: &SharedPool,
        limits: Limits,
        shared: &Arc<SharedIds>,
        counts: Arc<ShardCounts>,
    ) -> Self {
        let mut pool = Cache::new(pool.clone());
        let current = pool.load().clone();
        let servers = known(&current, &counts);
        let router = Router::among(current, limits, shared);
        Self { router, pool, servers, counts, retries: None }
    }

    /// Makes the thread send Retry packets.
    pub(super) fn with_retries(self, retries: Retries) -> Self {
        Self { retries: Some(retries), ..self }
    }

    /// Selects the server for a datagram.
    fn target(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Option<Target> {
        let decision = self.router.route(now, client, local, datagram);
        self.counts.count(decision, self.router.statistics());
        let Decision::Forward { server, means } = decision else { return None };
        let found = self.servers.binary_search_by_key(&server, |known| known.key);
        let known = self.servers.get(found.ok()?)?;
        increment(&known.datagrams);
        // Only in these two cases does the datagram carry a connection ID that the server has
        // issued.
        let is_issued = matches!(means, Means::ServerId | Means::Learned);
        let begins = known.has_preface || is_issued || is_first_flight(datagram);
        Some(Target { server: known.address, has_preface: known.has_preface, begins })
    }

    /// Decides whether the balancer itself responds to a long-header datagram before it is routed.
    fn answer(&mut self, now: Timestamp, client: SocketAddr, datagram: &[u8]) -> Answer {
        let has_long_header = datagram.first().is_some_and(|first| is_long(*first));
        let Some(retries) = self.retries.as_mut().filter(|_| has_long_header) else {
            return Answer::Pass;
        };
        let answer = retries.answer(now, self.router.pool(), client, datagram);
        self.counts.gate.publish(retries.statistics());
        answer
    }
}

/// Returns the servers of a pool, keeping the counters of those that were in the previous pool.
fn known(pool: &Pool, counts: &ShardCounts) -> Vec<KnownServer> {
    let counters = counts.counters_of(pool.servers().map(|(key, _)| key));
    let of = |key: ServerKey| counters.get(&key).cloned().unwrap_or_default();
    let servers: BTreeMap<_, _> = pool.servers().collect();
    let known = servers.into_iter().map(|(key, server)| KnownServer {
        key,
        address: server.address,
        has_preface: server.has_preface,
        datagrams: of(key),
    });
    known.collect()
}

impl Routing for ShardRouting {
    fn turn(&mut self, now: Timestamp) {
        let pool = self.pool.load();
        if !Arc::ptr_eq(pool, self.router.pool()) {
            let pool = pool.clone();
            self.servers = known(&pool, &self.counts);
            self.router.replace(now, pool);
        }
        if let Some(retries) = &mut self.retries {
            retries.turn(now);
            self.counts.gate.publish(retries.statistics());
        }
    }

    fn route(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Routed {
        let reply = match self.answer(now, client, datagram) {
            Answer::Pass => None,
            Answer::RetryAndPass(reply) => Some(reply),
            Answer::Retry(reply) => return Routed::Reply(reply),
            Answer::Drop => return Routed::Dropped,
        };
        match (self.target(now, client, local, datagram), reply) {
            (Some(target), None) => Routed::To(target),
            (Some(target), Some(reply)) => Routed::ToWithReply(target, reply),
            (None, Some(reply)) => Routed::Reply(reply),
            (None, None) => Routed::Dropped,
        }
    }

    fn observe(&mut self, now: Timestamp, server: SocketAddr, client: SocketAddr, datagram: &[u8]) {
        let has_long_header = datagram.first().is_some_and(|first| is_long(*first));
        // Only long headers contain connection IDs to learn.
        if has_long_header && let Some((key, _)) = self.router.pool().by_address(server) {
            self.router.observe(now, key, client, datagram);
            self.counts.publish(self.router.statistics());
        }
    }

    fn save(&mut self, now: Timestamp) -> Vec<u8> {
        self.router.save(now)
    }

    fn restore(&mut self, now: Timestamp, saved: &[u8]) {
        self.router.restore(now, saved);
        self.counts.publish(self.router.statistics());
    }

    fn is_server(&self, address: SocketAddr) -> bool {
        let found = self.router.pool().by_address(address);
        found.is_some_and(|(_, server)| server.has_preface)
    }
}

#[cfg(test)]
#[path = "routing_tests.rs"]
mod tests;
