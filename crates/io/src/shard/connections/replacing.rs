//! Replacement of the connection IDs of all connections after a change to their configuration.

use clearway_transport::Connection;
use clearway_units::Timestamp;

use super::Connections;

/// Number of connections to check per turn. Each connection that has IDs of an earlier
/// configuration sends a packet, which takes about as long as receiving a datagram, so other
/// connections wait no longer than they do for a batch.
const IN_A_TURN: usize = 32;

impl Connections {
    /// Starts to replace the connection IDs of all connections, over this turn and the following
    /// ones.
    pub(in crate::shard) fn begin_replacing_ids(&mut self) {
        self.replacing = Some(0);
    }

    pub(in crate::shard) fn has_ids_to_replace(&self) -> bool {
        self.replacing.is_some()
    }

    /// Replaces the IDs of a bounded number of connections. Connections that begin in the meantime
    /// have IDs of the new configuration, regardless of their index.
    pub(in crate::shard) fn replace_ids(&mut self, now: Timestamp) {
        let Some(first) = self.replacing else { return };
        let end = self.slots.len().min(first + IN_A_TURN);
        self.replacing = (end < self.slots.len()).then_some(end);
        for place in first..end {
            let Some(handle) = self.slots[place].as_ref().map(|slot| slot.handle) else { continue };
            if self.guard(now, handle, Connection::replace_connection_ids) == Some(true) {
                self.mark_sending(handle);
            }
        }
    }
}
