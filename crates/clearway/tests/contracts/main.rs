//! Tests of the contracts that programs rely on: the promises of the public API.

mod cancellation;
mod closing;
mod delivered;
mod errors;
mod handles;
mod left;
mod programs;
mod promises;
mod quinn;
mod relay;
mod resources;
mod responses;
mod stack;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../quic/support.rs"]
mod support;
mod traits;
mod waiting;
