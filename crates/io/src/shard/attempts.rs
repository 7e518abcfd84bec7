//! Connections to which nothing has answered yet, by the address where the peer should be: only for them
//! a report that nobody receives there means something, and anyone can make such reports up.

use core::net::SocketAddr;
use std::collections::BTreeSet;

/// Attempts, each named by its connection's [index](clearway_transport::ConnectionHandle::index).
#[derive(Debug, Default)]
pub(super) struct Attempts(BTreeSet<(SocketAddr, usize)>);

impl Attempts {
    pub(super) fn insert(&mut self, remote: SocketAddr, index: usize) {
        self.0.insert((remote, index));
    }

    /// Something has answered, or the attempt is over.
    pub(super) fn remove(&mut self, remote: SocketAddr, index: usize) {
        self.0.remove(&(remote, index));
    }

    /// The first attempt to reach `remote`, which is one no longer.
    pub(super) fn take(&mut self, remote: SocketAddr) -> Option<usize> {
        let of_remote = (remote, 0)..=(remote, usize::MAX);
        let first = *self.0.range(of_remote).next()?;
        self.0.remove(&first);
        Some(first.1)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
