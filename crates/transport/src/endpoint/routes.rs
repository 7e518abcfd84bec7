//! The table of connection IDs.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use clearway_wire::{ConnectionId, ResetToken};

/// A client's first Destination Connection ID, and the client's address.
pub(super) type InitialKey = (ConnectionId, SocketAddr);

/// A peer's address and its stateless reset token in concealed form.
pub(super) type ResetSign = (SocketAddr, [u8; ResetToken::LEN]);

/// The table from connection ID to connection. It is ordered, not hashed: a peer cannot slow it
/// down through its choice of IDs, and iteration is deterministic (law 11).
#[derive(Debug, Default)]
pub(super) struct Routes {
    ids: BTreeMap<ConnectionId, usize>,
    /// Clients' first Destination Connection IDs, until the client has received ours. The client
    /// chooses this ID, so its address is part of the key.
    initial: BTreeMap<InitialKey, usize>,
    /// The stateless reset tokens that peers may send, by peer address.
    resets: BTreeMap<ResetSign, usize>,
    /// The servers with which this endpoint has handshakes in progress.
    attempts: BTreeSet<(SocketAddr, usize)>,
    last: Option<(ConnectionId, usize)>,
}

/// The maximum number of handshakes for which an unroutable datagram is counted, if its sender has
/// several in progress with this endpoint.
const MAX_ATTEMPTS: usize = 16;

impl Routes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Returns the connection that `id` belongs to.
    pub(super) fn find(&mut self, id: &ConnectionId, remote: SocketAddr) -> Option<usize> {
        if let Some((last, index)) = self.last
            && last == *id
        {
            return Some(index);
        }
        if let Some(index) = self.ids.get(id) {
            self.last = Some((*id, *index));
            return Some(*index);
        }
        self.initial.get(&(*id, remote)).copied()
    }

    pub(super) fn add_attempt(&mut self, remote: SocketAddr, index: usize) {
        self.attempts.insert((remote, index));
    }

    pub(super) fn remove_attempt(&mut self, remote: SocketAddr, index: usize) {
        self.attempts.remove(&(remote, index));
    }

    /// Returns the handshakes in progress with the server at `remote`, up to `MAX_ATTEMPTS`.
    pub(super) fn attempts(&self, remote: SocketAddr) -> impl Iterator<Item = usize> + use<'_> {
        let range = (remote, usize::MIN)..=(remote, usize::MAX);
        self.attempts.range(range).map(|(_, index)| *index).take(MAX_ATTEMPTS)
    }

    pub(super) fn add(&mut self, id: ConnectionId, index: usize) {
        self.ids.insert(id, index);
    }

    pub(super) fn add_initial(&mut self, key: InitialKey, index: usize) {
        self.initial.insert(key, index);
    }

    pub(super) fn remove(&mut self, id: &ConnectionId, index: usize) {
        if self.ids.get(id) == Some(&index) {
            self.ids.remove(id);
        }
        self.last = None;
    }

    /// Returns whether any connection has a stateless reset token of the peer at `remote`.
    pub(super) fn expects_reset_from(&self, remote: SocketAddr) -> bool {
        let (least, greatest) = ([u8::MIN; ResetToken::LEN], [u8::MAX; ResetToken::LEN]);
        self.resets.range((remote, least)..=(remote, greatest)).next().is_some()
    }

    /// Returns the connection that is ended by a stateless reset with `sign`.
    pub(super) fn find_reset(&self, sign: &ResetSign) -> Option<usize> {
        self.resets.get(sign).copied()
    }

    pub(super) fn replace_reset(
        &mut self,
        old: Option<ResetSign>,
        new: Option<ResetSign>,
        index: usize,
    ) {
        if let Some(old) = old.filter(|old| self.resets.get(old) == Some(&index)) {
            self.resets.remove(&old);
        }
        if let Some(new) = new {
            self.resets.insert(new, index);
        }
    }

    /// Checks that the IDs of connection `index` are `ids`, and that the table's other entries for
    /// it are consistent.
    ///
    /// # Panics
    /// If the entries are inconsistent, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(
        &self,
        index: usize,
        ids: &[ConnectionId],
        attempt: Option<SocketAddr>,
    ) {
        let mut wanted: Vec<&ConnectionId> = ids.iter().collect();
        wanted.sort_unstable();
        let own = self.ids.iter().filter(|(_, of)| **of == index).map(|(id, _)| id);
        assert!(own.eq(wanted), "the IDs of connection {index}");
        let last = self.last.filter(|(id, index)| self.ids.get(id) != Some(index));
        assert_eq!(last, None, "the last ID that was looked up");
        let attempts = self.attempts.iter().filter(|(_, of)| *of == index).map(|(to, _)| *to);
        assert!(attempts.eq(attempt), "the handshake of connection {index}");
        let resets = self.resets.values().filter(|of| **of == index).count();
        assert!(resets <= 1, "connection {index} has {resets} stateless reset tokens");
    }

    /// Returns the number of connection IDs in the table.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn remove_initial(&mut self, key: &InitialKey, index: usize) {
        if self.initial.get(key) == Some(&index) {
            self.initial.remove(key);
        }
    }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
