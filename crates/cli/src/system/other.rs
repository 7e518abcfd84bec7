//! Systems without the features of Linux: one socket per port, and default timers and memory
//! budget.

use std::num::NonZeroUsize;

use clearway::MemoryBudget;

pub(crate) use super::beneath::{is_link, kind_beneath, open_beneath};

/// The default memory budget of a server's connections, in bytes. It is constant, because the
/// available memory is unknown on these systems.
const CONNECTION_MEMORY: u64 = 1 << 30;

/// Does nothing: a thread cannot choose the precision of its timers.
pub(crate) fn be_punctual() {}

/// Does nothing: the program gets no huge pages.
pub(crate) fn avoid_huge_pages() {}

/// Returns the default memory budget of a server's connections.
pub(crate) fn memory_budget() -> Option<MemoryBudget> {
    Some(MemoryBudget::new(CONNECTION_MEMORY))
}

/// Returns how many of `count` shards can share one port: one, since the kernel does not distribute
/// datagrams among sockets.
pub(crate) fn shards_at_port(_: NonZeroUsize) -> NonZeroUsize {
    NonZeroUsize::MIN
}
