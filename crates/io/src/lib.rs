//! Runs [`clearway_transport`] on real [sockets](clearway_udp): shards, groups of shards, and hot
//! restart.
//!
//! A [shard](ShardHandle) is one thread with its own socket, connections and timers (laws 1, 12 and
//! 13 in ARCHITECTURE.md). It has additional sockets for other paths: at a server's preferred
//! addresses (RFC 9000 §9.6), or after a client's connection has
//! [migrated](ConnectionWaker::migrate). All work for a connection happens on this thread: the
//! shard decrypts and builds packets, and calls the connection's [`Application`] once per batch,
//! without a lock or a task hop. Other threads communicate with a shard through its handle, with at
//! most one lock per batch. Several shards that share nothing can listen on one port:
//! [`spawn_group`]. A process can take over the port of a running process: see [`HotRestart`]. This
//! also works for processes whose threads are not shards: see [`hand_over`].
//!
//! ```
//! use clearway_io::{Application, ConnectRequest, spawn};
//! use clearway_transport::{
//!     ClientConfig, Connection, EndpointConfig, Event, RandomIds, ResetKey, TlsClientConfig,
//! };
//! use clearway_units::Timestamp;
//! use std::sync::{Arc, mpsc};
//!
//! /// Reports how the connection ended.
//! struct Reporter(mpsc::Sender<Event>);
//!
//! impl Application for Reporter {
//!     fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
//!         while let Some(event) = connection.next_event() {
//!             if matches!(event, Event::Closed(_)) {
//!                 let _ = self.0.send(event);
//!             }
//!         }
//!     }
//! }
//!
//! let config = EndpointConfig {
//!     id_generator: Arc::new(RandomIds),
//!     reset_key: ResetKey::new(&[1; 32]),
//!     max_connections: 10,
//! };
//! let shard = spawn("127.0.0.1:0".parse()?, config, None)?;
//! let sessions = TlsClientConfig::with_roots(rustls::RootCertStore::empty(), &[b"hq-interop"])?;
//! let (sender, ended) = mpsc::channel();
//! let request = ConnectRequest {
//!     config: Arc::new(ClientConfig {
//!         sessions: Arc::new(sessions),
//!         transport: Arc::default(),
//!         token: Vec::new(),
//!     }),
//!     remote: "127.0.0.1:4433".parse()?,
//!     server_name: "localhost".to_owned(),
//!     application: Box::new(|_waker| Box::new(Reporter(sender))),
//!     observer: None,
//!     on_failure: Box::new(|_failure| {}),
//! };
//! assert!(shard.connect(request).is_ok());
//! shard.shutdown(0_u32.into(), b"");
//! assert!(matches!(ended.recv()?, Event::Closed(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! On Linux, a shard sleeps in `ppoll`, is woken through an `eventfd`, and reads ICMP errors from
//! the error queue of its socket. Several shards at one port and hot restart require Linux: on
//! other systems a group has one shard and warns if more were requested, and [`HotRestart::at`]
//! fails. Other systems are not tested yet.
#![cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        reason = "used by hot restart and by steering with eBPF, which only Linux has"
    )
)]

mod acceptor;
mod application;
mod balancers;
mod census;
mod datagram_socket;
mod datagrams;
mod failures;
mod group;
mod guarded;
mod mailbox;
mod memory_budget;
#[cfg(feature = "quic-lb")]
mod quic_lb;
mod running;
mod shard;
mod shard_ids;
mod shared_counters;
mod statistics;
mod system;
mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod via;

pub use acceptor::{Acceptor, Admission, Decision, ServerSetup};
pub use application::Application;
pub use balancers::MAX_BALANCERS;
pub use clearway_udp::{Batch, EcnCodepoint, Meta, SendOutcome};
pub use datagram_socket::DatagramSocket;
pub use failures::{ConnectFailure, MigrateFailure, ShardFailure};
pub use group::{
    GroupOptions, GroupServerSetup, ShardGroup, spawn_group, spawn_group_over, spawn_group_with,
};
pub use guarded::guard;
pub use mailbox::{
    Accept, ApplicationFactory, ConnectRequest, ConnectionWaker, Migration, MigrationStarted,
    ShardHandle, Undecided,
};
pub use memory_budget::{MemoryBudget, MemoryStatistics};
#[cfg(feature = "quic-lb")]
pub use quic_lb::{QuicLb, RotateQuicLbError};
pub use running::{halt, halt_shards};
pub use shard::{PreferredAddressUnusable, spawn};
pub use shard_ids::{MAX_SHARDS, MAX_SHARDS_WITH_HOT_RESTART};
pub use shared_counters::SharedCounters;
pub use statistics::ShardStatistics;
pub use system::HotRestartError;
pub use system::random::seed;
pub use system::restart::{HotRestart, hand_over};
pub use system::steering::Steering;
