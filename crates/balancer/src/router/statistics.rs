//! What a router counts.

use super::{Decision, DropReason, Means};

/// The entries of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableStatistics {
    /// How many there are, with some whose lifetime has passed.
    pub entries: usize,
    /// How many were removed to make room for others.
    pub evicted: u64,
    /// How many were removed since they had not been used for their lifetime.
    pub expired: u64,
    /// How many others had no room. If this grows, the table is too small.
    pub refused: u64,
}

/// What a router has counted since it began, and what it remembers now.
#[derive(Clone, Debug, Default)]
pub struct RouterStatistics {
    forwarded: [u64; Means::ALL.len()],
    dropped: [u64; DropReason::ALL.len()],
    /// The flows that it remembers. They push each other out; none is refused.
    pub flows: TableStatistics,
    /// The connections with learned IDs that it remembers, with their offshoots. They are not pushed out, but for an offshoot by
    /// a later one of the same connection: if there are as many as [limits](super::Limits) permit, others are refused and
    /// remain flows.
    pub learned: TableStatistics,
    /// How many connection IDs it has learned.
    pub learned_ids: u64,
    /// How often it could not tell other routers of a connection ID, since [`SharedIds`](super::SharedIds) was full: a client
    /// that comes to another router after a change of its address may lose its connection.
    pub untold: u64,
    /// How many long headers of servers had a connection ID that names another server: the server IDs of these servers are
    /// not as the pool states, and their connections are misrouted.
    pub contradicting: u64,
}

impl RouterStatistics {
    /// How many datagrams have gone to a server that was found by `means`.
    pub fn forwarded(&self, means: Means) -> u64 {
        self.forwarded.get(means as usize).copied().unwrap_or(0)
    }

    /// How many datagrams were dropped for `reason`.
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
