//! Linux: ppoll(2) and eventfd(2), BPF programs that select among the sockets of an address, and
//! hot restart.

#[cfg(any(test, feature = "testing"))]
mod either;
mod ppoll;
pub(crate) mod programs;
pub(crate) mod random;
pub(crate) mod restart;

#[cfg(any(test, feature = "testing"))]
pub(crate) use either::{Poller, Waker};
#[cfg(not(any(test, feature = "testing")))]
pub(crate) use ppoll::{Poller, Waker};

/// Returns the number of shards that a port gets if `count` are configured.
#[inline]
pub(crate) fn shards(count: usize) -> usize {
    count
}
