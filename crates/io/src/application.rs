//! What runs inside a shard for one connection.

use clearway_transport::{Connection, Statistics};
use clearway_units::Timestamp;

/// One connection's application. It runs inside the shard, on the shard's thread: it must not block.
pub trait Application: Send {
    /// Called when the connection may have events, when it was [woken](crate::ConnectionWaker::wake), and once
    /// when it has just been created; once per batch, a few times
    /// more if tasks on the shard's thread wake it, and again if the call itself, or sending, has events that it has not seen. It should drain
    /// [`Connection::next_event`] and may use the connection; the shard sends what that produces.
    fn process(&mut self, now: Timestamp, connection: &mut Connection);

    /// Returns when [`process`](Self::process) is to be called again at the latest, whatever happens on the connection before.
    /// Called after each call of that.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// About how many bytes the application keeps for the connection because its peer has sent them or does not take them. They
    /// count in the [`MemoryBudget`](crate::MemoryBudget), in addition to what the connection itself holds. Called once per turn
    /// in which something happened on the connection.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// Called with the connection's final metrics after [`Event::Closed`], once nothing but CONNECTION_CLOSE can be sent on it
    /// any more (RFC 9000 §10.2).
    ///
    /// [`Event::Closed`]: clearway_transport::Event::Closed
    fn closed(&mut self, statistics: &Statistics) {
        let _ = statistics;
    }
}
