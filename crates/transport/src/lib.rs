//! QUIC version 1 (RFC 8999, 9000, 9001, 9002) without I/O.
//!
//! Nothing here reads a clock, a socket or a random source of its own: `now` is an argument of every
//! verb, and randomness comes from the one seeded source that the endpoint was given.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod contents;
mod datagram;
mod error;
mod handshake;
mod side;
mod space_id;
mod streams;
mod token;

pub use datagram::{DatagramError, DatagramStatistics};
pub use error::TransportError;
pub use handshake::{
    ClientSessions, ExportError, KeySchedule, NewKeys, RETRY_INTEGRITY_TAG_LEN, ServerSessions,
    Session, SessionError, TlsClientConfig, TlsServerConfig, initial_keys, is_retry_authentic,
    retry_integrity_tag,
};
pub use side::Side;
pub use space_id::SpaceId;
pub use streams::{
    ReadError, ReadOutcome, StreamEvent, StreamsStatistics, UnknownStream, WriteError,
};
