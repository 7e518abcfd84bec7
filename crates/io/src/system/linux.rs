//! Linux: wake-ups through an eventfd(2), BPF programs that select among the sockets of an address,
//! and hot restart.

#[cfg(any(test, feature = "testing"))]
mod either;
mod eventfd;
pub(crate) mod programs;
pub(crate) mod random;
pub(crate) mod restart;

#[cfg(any(test, feature = "testing"))]
pub(crate) use either::Waker;
#[cfg(any(test, feature = "testing"))]
pub(super) use either::{WakeReceiver, wake_pair};
#[cfg(test)]
pub(super) use either::{eventfd_pair, loopback_pair};
#[cfg(not(any(test, feature = "testing")))]
pub(crate) use eventfd::Waker;
#[cfg(not(any(test, feature = "testing")))]
pub(super) use eventfd::{WakeReceiver, wake_pair};

/// Returns the number of shards to start at a port if `count` are configured.
#[inline]
pub(crate) fn shards(count: usize) -> usize {
    count
}
