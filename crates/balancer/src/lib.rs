//! Selects the server for each QUIC datagram (draft-ietf-quic-load-balancers §4.2). The crate uses
//! neither sockets nor a clock, so that `clearway balance` and the lab run the same code.
//!
//! * [`Pool`]: the servers at one point in time, the format of their connection IDs, and the
//!   selection of servers for new clients.
//! * [`Router`]: selects the server of each datagram, with bounded memory.
//! * [`Gate`]: decides whether a new client must validate its address first, with a Retry.
//! * [`Health`]: a server's reachability, as determined by health checks, and its slow start.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod address;
mod gate;
mod health;
mod maglev;
mod pool;
mod router;
mod server_key;
mod siphash;

pub use address::AddressFault;
pub use gate::{Admission, Gate, GateStatistics, Initial, Token, is_first_flight};
pub use health::{Health, HealthSettings};
pub use pool::{Pool, PoolError, Server, ServerState};
pub use router::{
    Decision, DropReason, Limits, Means, Router, RouterStatistics, SharedIds, TableStatistics,
};
pub use server_key::ServerKey;
