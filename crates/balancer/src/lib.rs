//! Decides which server a QUIC datagram goes to (draft-ietf-quic-load-balancers §4.2). No sockets and no clock, so that
//! `clearway balance` and the lab run the same code.
//!
//! * [`Pool`]: the servers at one point in time, what their connection IDs look like, and which of them get new clients.
//! * [`Router`]: finds the server of each datagram. What it has to remember is bounded.
//! * [`Gate`]: whether a new client must show its address first, by answering a Retry.
//! * [`Health`]: whether a server can be reached, from the outcome of checks, and its part of new clients after it came up.
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
