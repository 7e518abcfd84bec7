//! Counters of a router.

use super::{Decision, DropReason, Means};

/// Counters of a router's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableStatistics {
    /// Number of entries, some of which may have expired.
    pub entries: usize,
    /// Number of entries evicted to make room for other entries.
    pub evicted: u64,
    /// Number of entries removed because their lifetime had passed.
    pub expired: u64,
    /// Number of entries that were rejected for lack of room. If this grows, the table is too
    /// small.
    pub refused: u64,
}

/// Cumulative counters of a router, and the current size of its tables.
#[derive(Clone, Debug, Default)]
pub struct RouterStatistics {
    forwarded: [u64; Means::ALL.len()],
    dropped: [u64; DropReason::ALL.len()],
    /// The table of flows. Flows evict each other; none is rejected.
    pub flows: TableStatistics,
    /// The table of connections with learned IDs, including their branches. They are not evicted,
    /// except that a branch may be evicted by a later branch of the same connection. When the
    /// [limit](super::Limits) is reached, additional connections are rejected and remain flows.
    pub learned: TableStatistics,
    /// Number of learned connection IDs.
    pub learned_ids: u64,
    /// Number of times that a connection ID could not be shared with other routers because
    /// [`SharedIds`](super::SharedIds) was full: a client whose packets arrive at another router
    /// after an address change may lose its connection.
    pub unpublished: u64,
    /// Number of long-header packets from servers whose connection ID identifies another server.
    /// The server IDs of these servers differ from those in the pool, and their connections are
    /// misrouted.
    pub contradicting: u64,
}

impl RouterStatistics {
    /// Returns the number of datagrams whose server was selected by `means`.
    pub fn forwarded(&self, means: Means) -> u64 {
        self.forwarded.get(means as usize).copied().unwrap_or(0)
    }

    /// Returns the number of datagrams dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or(0)
    }

    pub(super) fn count(&mut self, decision: Decision) {
        let counter = match decision {
            Decision::Forward { means, .. } => self.forwarded.get_mut(means as usize),
            Decision::Drop(reason) => self.dropped.get_mut(reason as usize),
        };
        if let Some(counter) = counter {
            *counter = counter.saturating_add(1);
        }
    }
}
