//! The table of connection IDs.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use clearway_wire::ConnectionId;

/// A client's first Destination Connection ID, and where it came from.
pub(super) type InitialKey = (ConnectionId, SocketAddr);

/// Connection ID to connection. Ordered, not hashed: what a peer chooses cannot make it slow, and it
/// is the same in every run (law 11).
#[derive(Debug, Default)]
pub(super) struct Routes {
    ids: BTreeMap<ConnectionId, usize>,
    /// The client's first Destination Connection ID, until it learns ours. Chosen by the client, so
    /// its address belongs to the key.
    initial: BTreeMap<InitialKey, usize>,
    last: Option<(ConnectionId, usize)>,
}

impl Routes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The connection that `id` belongs to.
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

    pub(super) fn remove_initial(&mut self, key: &InitialKey, index: usize) {
        if self.initial.get(key) == Some(&index) {
            self.initial.remove(key);
        }
    }
}
