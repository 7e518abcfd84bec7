//! The QUIC wire format: encodes and decodes packets, frames, transport parameters and connection
//! IDs.
//!
//! The crate has no state and no clock. Decoding any byte string returns a value or a precise
//! [`DecodeError`]; it never panics, never allocates memory based on a length that the peer sent,
//! and borrows from its input.
//!
//! ```
//! use clearway_wire::{Frame, Reader};
//!
//! // PING, then MAX_DATA with the maximum 494,878,333 (RFC 9000 §19.2, §19.9, §A.1).
//! let mut reader = Reader::new(&[0x01, 0x10, 0x9d, 0x7f, 0x3e, 0x7d]);
//! assert_eq!(Frame::decode(&mut reader)?, Frame::Ping);
//! let Frame::MaxData(frame) = Frame::decode(&mut reader)? else { unreachable!() };
//! assert_eq!(frame.maximum.get(), 494_878_333);
//! // The maximum is cut off.
//! assert!(Frame::decode(&mut Reader::new(&[0x10, 0x9d])).is_err());
//! # Ok::<(), clearway_wire::DecodeError>(())
//! ```
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod codec;
mod connection_id;
mod error;
mod error_code;
pub mod frame;
pub mod header;
mod packet_number;
mod packet_type;
pub mod preface;
#[cfg(feature = "quic-lb")]
pub mod quic_lb;
#[cfg(test)]
mod strategies;
mod stream_id;
mod transport_parameters;
mod varint;
mod version;

pub use codec::{Reader, Writer};
pub use connection_id::{ConnectionId, ResetToken};
pub use error::{DecodeError, EncodeError};
pub use error_code::TransportErrorCode;
pub use frame::Frame;
pub use packet_number::PacketNumber;
pub use packet_type::{LongPacketType, PacketType};
pub use stream_id::{Direction, Initiator, StreamId};
pub use transport_parameters::{PreferredAddress, TransportParameters, VersionInformation};
pub use varint::{VarInt, VarIntTooLarge};
pub use version::Version;
