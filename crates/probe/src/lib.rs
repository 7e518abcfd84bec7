//! A QUIC and HTTP/3 endpoint that sends whatever a script or a caller requests, whether the RFCs allow it or
//! not, and records everything that is sent and received.
//!
//! - [`quic::Endpoint`] is one side of one connection, without I/O. It performs the handshake, acknowledges
//!   packets and retransmits lost ones by itself; everything else is up to the caller: any frame in any packet,
//!   altered transport parameters, altered TLS messages, wrong keys.
//! - [`script::Script`] is a list of steps, built in Rust or read from TOML; [`run::connect`] and [`run::Listener`]
//!   execute it over UDP sockets and return a [`report::Report`].
//! - [`conformance`] contains checks: scripts that violate one rule each (or use one right each), and the results
//!   that the RFCs allow.
//!
//! ```
//! use clearway_probe::quic::Frame;
//! use clearway_probe::script::{Condition, Script};
//!
//! // A STREAM frame on a stream that only the server may send on (RFC 9000 §19.8).
//! let script = Script::http3()
//!     .frames(vec![Frame::stream(3, 0, "surprise", false)])
//!     .expect(vec![Condition::transport_close(&["STREAM_STATE_ERROR"])]);
//! let toml = script.to_toml()?;
//! assert_eq!(Script::from_toml(&toml)?, script);
//! # Ok::<(), clearway_probe::script::ScriptError>(())
//! ```
//!
//! # Bounds
//!
//! | what a peer can make grow | bound | beyond it |
//! |---|---|---|
//! | recorded packets | 20,000 | counted, not recorded |
//! | recorded bytes of one field | 256 | the number of omitted bytes is recorded |
//! | recorded frames of one packet | 1,000 | the others are processed, not recorded |
//! | data kept for one stream | 1 MiB | counted, not kept |
//! | streams | 1,000 | frames on other streams are recorded only |
//! | data that arrives out of order | 256 KiB for each stream and level | dropped |
//! | ranges of received packet numbers | 64 for each space | the oldest are forgotten |
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

pub mod conformance;
mod data;
pub mod error_codes;
pub mod http3;
mod impair;
pub mod qlog;
mod quantity;
pub mod quic;
pub mod report;
pub mod run;
pub mod script;

pub use data::Data;
pub use impair::{Direction, Impairment, ImpairmentRule};
pub use quantity::{Base, Quantity};
