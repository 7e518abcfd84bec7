//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O, over any transport that implements the
//! [`Transport`] trait; with priorities (RFC 9218), extended CONNECT (RFC 9220) and datagrams (RFC
//! 9297).
//!
//! A [`Connection`] is one side of an HTTP/3 connection. It owns no socket, clock or task: its
//! owner passes on the transport's events (`on_streams_available`, `on_streams_arrived`,
//! `on_readable`, `on_writable`, `on_stopped`), takes the resulting events from
//! [`Connection::next_event`], and sends and receives messages with the `send_*` methods and
//! [`Connection::read_body`]. Each method borrows the [`Transport`] for the duration of the call.
//!
//! Bodies are never copied: the [`bytes::Bytes`] that the transport returns are passed to the
//! application as slices of the same allocation. An application slows down the sender of a body by
//! not reading the body.
//!
//! The cargo feature `transport` adds `QuicStreams`, which implements the trait for a connection of
//! `clearway-transport`; `conformance` adds tests of the trait's contract for any other
//! implementation; `field-sections` adds `field_section`, which encodes and decodes field sections
//! without a connection.
//!
//! ```
//! use bytes::Bytes;
//! use clearway_http3::{Config, Connection, ReadEnd, Role, Transport, WriteError};
//! use clearway_units::Random;
//!
//! /// A transport that keeps what is written to each stream.
//! #[derive(Default)]
//! struct Kept(Vec<Vec<u8>>);
//!
//! impl Transport for Kept {
//!     fn open_unidirectional(&mut self) -> Option<u64> {
//!         self.0.push(Vec::new());
//!         // The IDs of a client's unidirectional streams: 2, 6, 10 (RFC 9000 §2.1).
//!         Some(self.0.len() as u64 * 4 - 2)
//!     }
//!     fn write(&mut self, stream: u64, data: Bytes) -> Result<usize, WriteError> {
//!         self.0[stream as usize / 4].extend_from_slice(&data);
//!         Ok(data.len())
//!     }
//! #   fn open_bidirectional(&mut self) -> Option<u64> { None }
//! #   fn accept_bidirectional(&mut self) -> Option<u64> { None }
//! #   fn accept_unidirectional(&mut self) -> Option<u64> { None }
//! #   fn finish(&mut self, _: u64) -> Result<(), WriteError> { Ok(()) }
//! #   fn reset(&mut self, _: u64, _: u64) {}
//! #   fn stop_sending(&mut self, _: u64, _: u64) {}
//! #   fn read(&mut self, _: u64, _: usize) -> Result<Option<Bytes>, ReadEnd> { Ok(None) }
//! #   fn close(&mut self, _: u64, _: &str) {}
//! }
//!
//! let mut transport = Kept::default();
//! let mut random = Random::from_number(1);
//! let mut connection = Connection::new(Role::Client, Config::default(), &mut random);
//! connection.on_streams_available(&mut transport);
//! // The control stream (type 0) begins with a SETTINGS frame (type 4): RFC 9114 §6.2.1, §7.2.4.
//! assert!(transport.0.iter().any(|stream| stream.starts_with(&[0, 4])));
//! ```
//!
//! The memory that a peer can make this crate use is bounded: by [`Config`] for field sections, the
//! dynamic table, and priorities and datagrams that arrive before their request, and by the
//! transport's limit on open streams for all per-stream state.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod capsule;
mod code;
mod config;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod connection;
mod datagram;
mod error;
mod event;
#[cfg(any(test, feature = "field-sections"))]
pub mod field_section;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod message;
#[cfg(feature = "transport")]
mod over_transport;
mod priority;
mod protocol;
mod qpack;
mod role;
mod settings;
mod structured;
mod transport;

pub use capsule::{Capsule, CapsuleDecoder, CapsuleError, DATAGRAM_CAPSULE};
pub use code::Code;
pub use config::Config;
pub use connection::Connection;
pub use datagram::DatagramError;
pub use error::{ConnectionError, SendError, StreamError};
pub use event::Event;
#[cfg(feature = "transport")]
pub use over_transport::{EarlySettings, QuicStreams};
pub use priority::Priority;
pub use protocol::Protocol;
pub use qpack::QpackError;
pub use role::Role;
pub use settings::Settings;
pub use transport::{ReadEnd, Transport, WriteError};
