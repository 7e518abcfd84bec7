//! Runs [`clearway_transport`] on real sockets: UDP batches, timers, and shards.
//!
//! A [shard](ShardHandle) is one thread with its own socket, connections and timers (laws 1, 12 and 13
//! in ARCHITECTURE.md). Everything that belongs to a connection happens there: packets are opened and
//! built, and the connection's [`Application`] is called, once per batch, without a lock or a task hop.
//! Other threads reach a shard through its handle, with at most one lock per batch.
//!
//! Linux only: a shard sleeps in `ppoll`, is woken through an `eventfd`, and reads ICMP errors from the error queue of its
//! socket.

#[cfg(not(target_os = "linux"))]
compile_error!("clearway-io needs Linux; clearway-transport and clearway-http3 need no sockets");

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
pub use mailbox::{ConnectionWaker, ShardHandle};
pub use random::seed;
pub use running::halt;
pub use shard::spawn;
pub use statistics::ShardStatistics;
