//! Counters of everything except forwarded datagrams. Each forwarding thread writes its own
//! counters; the metrics read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_balancer::{
    Decision, DropReason, GateStatistics, Means, RouterStatistics, Server, ServerKey,
    TableStatistics,
};

/// The counters of one thread.
#[derive(Debug, Default)]
pub(super) struct ShardCounts {
    means: [AtomicU64; Means::ALL.len()],
    dropped: [AtomicU64; DropReason::ALL.len()],
    flows: TableCounts,
    learned: TableCounts,
    learned_ids: AtomicU64,
    unpublished: AtomicU64,
    contradicting: AtomicU64,
    pub(super) gate: GateCounts,
    /// The number of datagrams per server. The thread takes the lock only when it switches to a new
    /// pool.
    servers: Mutex<BTreeMap<ServerKey, Arc<AtomicU64>>>,
}

/// The counters of a flow table: `TableStatistics` in a form that one thread writes and others
/// read.
#[derive(Debug, Default)]
struct TableCounts {
    entries: AtomicU64,
    evicted: AtomicU64,
    expired: AtomicU64,
    refused: AtomicU64,
}

/// The counters of a Retry gate: `GateStatistics` in a form that one thread writes and others read.
#[derive(Debug, Default)]
pub(super) struct GateCounts {
    retries: AtomicU64,
    valid_tokens: AtomicU64,
    invalid_tokens: AtomicU64,
    dropped: AtomicU64,
    is_closed: AtomicBool,
}

/// The values of one thread's counters.
#[derive(Clone, Debug)]
pub(super) struct ShardCounted {
    /// Datagrams that went to a server, by how it was selected, in the order of [`Means::ALL`].
    pub(super) means: [u64; Means::ALL.len()],
    /// Dropped datagrams, in the order of [`DropReason::ALL`].
    pub(super) dropped: [u64; DropReason::ALL.len()],
    pub(super) flows: TableStatistics,
    pub(super) learned: TableStatistics,
    /// Number of connection IDs that the thread has learned.
    pub(super) learned_ids: u64,
    /// Number of connection IDs that were not added to the table shared by all threads, because it
    /// was full.
    pub(super) unpublished: u64,
    /// Number of long-header packets from servers whose connection ID identifies another server.
    pub(super) contradicting: u64,
    pub(super) gate: GateStatistics,
}

impl ShardCounts {
    /// Returns the datagram counters of these servers. Existing counters are kept, and counters of
    /// other servers are removed.
    pub(super) fn counters_of(
        &self,
        servers: impl Iterator<Item = ServerKey>,
    ) -> BTreeMap<ServerKey, Arc<AtomicU64>> {
        let mut counters = self.lock();
        let of = |key| (key, counters.get(&key).cloned().unwrap_or_default());
        let kept: BTreeMap<_, _> = servers.map(of).collect();
        *counters = kept.clone();
        kept
    }

    /// Counts a routed datagram; `statistics` are the router's statistics after routing it.
    pub(super) fn count(&self, decision: Decision, statistics: &RouterStatistics) {
        match decision {
            // No other counter has changed.
            Decision::Forward { means: Means::ServerId, .. } => {
                increment(&self.means[Means::ServerId as usize]);
            }
            Decision::Forward { means, .. } => {
                increment(&self.means[means as usize]);
                self.publish(statistics);
            }
            Decision::Drop(reason) => {
                if let Some(counter) = self.dropped.get(reason as usize) {
                    increment(counter);
                }
                self.publish(statistics);
            }
        }
    }

    /// Publishes the router's counters.
    pub(super) fn publish(&self, statistics: &RouterStatistics) {
        self.flows.publish(&statistics.flows);
        self.learned.publish(&statistics.learned);
        self.learned_ids.store(statistics.learned_ids, Ordering::Relaxed);
        self.unpublished.store(statistics.unpublished, Ordering::Relaxed);
        self.contradicting.store(statistics.contradicting, Ordering::Relaxed);
    }

    /// Returns the values of all counters, except those per server.
    pub(super) fn read(&self) -> ShardCounted {
        ShardCounted {
            means: self.means.each_ref().map(load),
            dropped: self.dropped.each_ref().map(load),
            flows: self.flows.read(),
            learned: self.learned.read(),
            learned_ids: load(&self.learned_ids),
            unpublished: load(&self.unpublished),
            contradicting: load(&self.contradicting),
            gate: self.gate.read(),
        }
    }

    /// Returns the number of datagrams sent to a server.
    pub(super) fn datagrams(&self, server: ServerKey) -> u64 {
        self.lock().get(&server).map_or(0, |counter| load(counter))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ServerKey, Arc<AtomicU64>>> {
        // No code that panics runs while the lock is held.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateCounts {
    pub(super) fn publish(&self, gate: &GateStatistics) {
        self.retries.store(gate.retries, Ordering::Relaxed);
        self.valid_tokens.store(gate.valid_tokens, Ordering::Relaxed);
        self.invalid_tokens.store(gate.invalid_tokens, Ordering::Relaxed);
        self.dropped.store(gate.dropped, Ordering::Relaxed);
        self.is_closed.store(gate.is_closed, Ordering::Relaxed);
    }

    fn read(&self) -> GateStatistics {
        GateStatistics {
            retries: load(&self.retries),
            valid_tokens: load(&self.valid_tokens),
            invalid_tokens: load(&self.invalid_tokens),
            dropped: load(&self.dropped),
            is_closed: self.is_closed.load(Ordering::Relaxed),
        }
    }
}

impl TableCounts {
    fn publish(&self, table: &TableStatistics) {
        self.entries.store(table.entries as u64, Ordering::Relaxed);
        self.evicted.store(table.evicted, Ordering::Relaxed);
        self.expired.store(table.expired, Ordering::Relaxed);
        self.refused.store(table.refused, Ordering::Relaxed);
    }

    fn read(&self) -> TableStatistics {
        TableStatistics {
            entries: load(&self.entries) as usize,
            evicted: load(&self.evicted),
            expired: load(&self.expired),
            refused: load(&self.refused),
        }
    }
}

/// Counters that are shared by all threads.
#[derive(Debug, Default)]
pub(super) struct FleetCounts {
    reloads: [AtomicU64; 2],
    skipped: AtomicU64,
    /// The numbers of successful and of failed health checks of each server, by its name.
    checks: Mutex<BTreeMap<String, [u64; 2]>>,
}

impl FleetCounts {
    /// Counts a reload of the file as successful or failed.
    pub(super) fn reloaded(&self, is_ok: bool) {
        increment(&self.reloads[usize::from(!is_ok)]);
    }

    /// Records how many source entries are currently skipped.
    pub(super) fn skipped(&self, count: usize) {
        self.skipped.store(count as u64, Ordering::Relaxed);
    }

    /// Returns how many source entries are currently skipped.
    pub(super) fn skipped_now(&self) -> u64 {
        load(&self.skipped)
    }

    /// Returns the numbers of successful and of failed reloads of the file.
    pub(super) fn reloads(&self) -> [u64; 2] {
        self.reloads.each_ref().map(load)
    }

    /// Counts a successful or failed health check of the server `name`.
    pub(super) fn checked(&self, name: &str, is_ok: bool) {
        let mut checks = self.lock();
        let counts = checks.entry(name.to_owned()).or_default();
        counts[usize::from(!is_ok)] += 1;
    }

    /// Returns the numbers of successful and of failed health checks of a server.
    pub(super) fn checks_of(&self, name: &str) -> [u64; 2] {
        self.lock().get(name).copied().unwrap_or_default()
    }

    /// Removes the counters of all servers except these.
    pub(super) fn retain(&self, servers: &[Server]) {
        let names: BTreeSet<_> = servers.iter().map(|server| &server.name).collect();
        self.lock().retain(|name, _| names.contains(name));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, [u64; 2]>> {
        // No code that panics runs while the lock is held.
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Adds 1 to a counter. Each counter has a single writer, so the addition needs no atomic
/// read-modify-write.
pub(super) fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
