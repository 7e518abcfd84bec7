//! QUIC version 1 (RFC 8999, 9000, 9001, 9002) without I/O.
//!
//! Nothing here reads a clock, a socket or a random source of its own: `now` is an argument of every
//! verb, and randomness comes from the one seeded source that the endpoint was given.
//!
//! An [`Endpoint`] finds the connection that a datagram belongs to; a [`Connection`] is driven by five
//! verbs (`receive`, `transmit` with `transmitted`, `deadline`, `on_deadline`, `next_event`) and by
//! what an application does (`open`, `read`, `write`, `close` …).
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod config;
mod connection;
mod contents;
mod datagram;
mod endpoint;
mod error;
mod event;
#[cfg(fuzzing)]
pub mod fuzzing {
    //! What has to hold of bytes that only this crate decodes, for the fuzz targets alone.

    pub use crate::endpoint::check_token;
}
mod handshake;
mod ids;
mod observer;
mod path;
mod recovery;
mod side;
mod space;
mod space_id;
mod streams;
mod token;

pub use clearway_congestion::SendLimit;
pub use config::{InvalidSetting, TransportConfig, TransportConfigBuilder};
pub use connection::{Connection, Statistics, Transmit};
pub use datagram::{DatagramError, DatagramStatistics};
pub use endpoint::{
    AcceptError, ClientConfig, ConnectError, ConnectionHandle, Endpoint, EndpointConfig, Incoming,
    Received, ServerConfig,
};
pub use error::{TransportError, TransportErrorCause};
pub use event::{ConnectionError, Event};
pub use handshake::{
    ClientSessions, ExportError, KeySchedule, NewKeys, ServerSessions, Session, SessionError,
    TlsClientConfig, TlsServerConfig, initial_keys, prepare_randomness,
};
pub use ids::{ConnectionIdGenerator, RandomIds, ResetKey};
pub use observer::{
    ConnectionState, DropReason, LossThresholds, LossTrigger, LostPacket, Metrics, Observation,
    Observer, PacketObservation, TimerChange, TimerKind,
};
pub use path::Arrival;
pub use recovery::{PacketCounts, RecoveryStats};
pub use side::Side;
pub use space_id::SpaceId;
pub use streams::{
    ReadError, ReadOutcome, StreamEvent, StreamProgress, StreamsStatistics, UnknownStream,
    WriteError,
};
