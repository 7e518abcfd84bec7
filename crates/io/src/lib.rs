//! What carries [`clearway_transport`] on real sockets: UDP batches, timers, and shards.
//!
//! A [shard](ShardHandle) is one thread with its own socket, connections and timers (laws 1, 12 and 13
//! in ARCHITECTURE.md). Everything that belongs to a connection happens there: packets are opened and
//! built, and the connection's [`Application`] is called, once per batch, without a lock or a task hop.
//! Other threads reach a shard through its handle, with at most one lock per batch.
//!
//! Unix only: shards sleep in `ppoll`.

mod application;
mod clock;
mod mailbox;
mod random;
mod running;
mod shard;
mod socket;
mod statistics;
mod timers;

pub use application::{
    Accept, Acceptor, Application, ApplicationFactory, ConnectFailure, ConnectRequest, Decision,
    ServerSetup,
};
pub use clock::Clock;
pub use mailbox::{ConnectionWaker, ShardHandle};
pub use random::seed;
pub use running::halt;
pub use shard::spawn;
pub use socket::{Meta, SendOutcome, Socket};
pub use statistics::ShardStatistics;
pub use timers::Timers;
