//! An endpoint's counters.

use clearway_io::{ShardHandle, ShardStatistics};

use super::Endpoint;

impl Endpoint {
    /// Returns the number of connections that exist now, in both roles. Connections that have been
    /// closed are counted until their closing period is over (RFC 9000 §10.2), as by
    /// [`wait_idle`](Self::wait_idle).
    pub fn open_connections(&self) -> usize {
        usize::try_from(self.statistics().connections).unwrap_or(usize::MAX)
    }

    /// Returns the sum of the counters of all shards of the endpoint.
    pub fn statistics(&self) -> ShardStatistics {
        self.owner.shards().iter().map(ShardHandle::statistics).sum()
    }

    /// Returns the counters of each shard of the endpoint, always in the same order.
    pub fn shard_statistics(&self) -> Vec<ShardStatistics> {
        self.owner.shards().iter().map(ShardHandle::statistics).collect()
    }
}
