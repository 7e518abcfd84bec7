//! The interface of a connection's application, which runs inside a shard.

use clearway_transport::{Connection, Statistics};
use clearway_units::Timestamp;

/// One connection's application. Runs inside the shard, on the shard's thread, so it must not
/// block.
pub trait Application: Send {
    /// Called when the connection may have events, when it was
    /// [woken](crate::ConnectionWaker::wake), and once after it was created. It is called once per
    /// batch, a few more times if tasks on the shard's thread wake the connection, and again if the
    /// call itself, or sending, produces new events. It should drain [`Connection::next_event`] and
    /// may use the connection; the shard sends the resulting datagrams.
    fn process(&mut self, now: Timestamp, connection: &mut Connection);

    /// Returns the latest time at which to call [`process`](Self::process), even if nothing happens
    /// on the connection. Called after each call of `process`.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Returns approximately how many bytes the application buffers for the connection: data from
    /// the peer that it has not processed, and data that the peer does not accept yet. These bytes
    /// count toward the [`MemoryBudget`](crate::MemoryBudget), in addition to the connection's own
    /// memory. Called once per turn in which something happened on the connection.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// Called with the connection's final statistics after [`Event::Closed`], when only
    /// CONNECTION_CLOSE can still be sent on it (RFC 9000 §10.2).
    ///
    /// [`Event::Closed`]: clearway_transport::Event::Closed
    fn closed(&mut self, statistics: &Statistics) {
        let _ = statistics;
    }
}
