//! Systems that have only one shard per port, and no hot restart.

pub(crate) mod programs;
pub(crate) mod random;
pub(crate) mod restart;

pub(crate) use super::loopback::Waker;
pub(super) use super::loopback::{WakeReceiver, wake_pair};

/// Returns the number of shards to start at a port if `count` are configured: one, since the kernel
/// does not distribute datagrams among sockets.
pub(crate) fn shards(count: usize) -> usize {
    if count > 1 {
        tracing::warn!(
            requested = count,
            "several shards at one port require Linux; this server has one shard"
        );
    }
    1
}
