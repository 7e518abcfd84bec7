//! MASQUE without I/O: proxying UDP (RFC 9298), IP (RFC 9484) and TCP
//! (draft-ietf-httpbis-connect-tcp) in HTTP/3.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

pub mod auth;
mod capsule;
pub mod context;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
pub mod ip;
mod kind;
pub mod limits;
pub mod policy;
pub mod pool;
pub mod proxy_status;
mod queue;
pub mod request;
mod scope;
pub mod target;
mod target_error;
pub mod tcp;
pub mod template;
pub mod udp;

pub use kind::TunnelKind;
pub use queue::QueueLimits;
pub use template::UriTemplate;
