//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O, over any transport that offers the stream
//! trait defined here.
//!
//! A [`Connection`] is one side of an HTTP/3 connection. It owns no socket, no clock and no task:
//! its owner tells it what the transport noticed (`on_streams_available`, `on_streams_arrived`,
//! `on_readable`, `on_writable`, `on_stopped`), asks [`Connection::next_event`] what that meant, and
//! moves messages with the `send_*` verbs and [`Connection::read_body`]. Each verb borrows the
//! [`Transport`] for the time of the call.
//!
//! Bodies are never copied: what the transport hands out as [`bytes::Bytes`] goes to the
//! application in slices of the same allocation, and not reading a body is what slows its sender.
//!
//! With the cargo feature `transport` there is `QuicStreams`, the trait for a connection of
//! `clearway-transport`; with `conformance`, tests of what the trait promises for any other.
//!
//! What a peer can make this crate keep is bounded: by [`Config`] for field sections, by the
//! transport's limit on open streams for everything that exists once per stream.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod config;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod connection;
mod error;
mod event;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod message;
#[cfg(feature = "transport")]
mod over_transport;
mod qpack;
mod settings;
mod transport;

pub use config::Config;
pub use connection::{Connection, Role};
pub use error::{Code, ConnectionError, SendError, StreamError};
pub use event::Event;
#[cfg(feature = "transport")]
pub use over_transport::QuicStreams;
pub use settings::Settings;
pub use transport::{ReadEnd, Transport, WriteError};
