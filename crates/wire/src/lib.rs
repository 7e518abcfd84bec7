//! QUIC on the wire: bytes to packets, frames, transport parameters and connection IDs, and back.
//!
//! No state and no time. Decoding any byte string gives a value or a precise [`DecodeError`]; it
//! never panics, never allocates by a length that the peer states, and borrows from its input.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod codec;
mod connection_id;
mod error;
pub mod frame;
mod packet_number;
mod stream_id;
mod varint;

pub use codec::{Reader, Writer};
pub use connection_id::{ConnectionId, ResetToken};
pub use error::{DecodeError, EncodeError};
pub use frame::Frame;
pub use packet_number::PacketNumber;
pub use stream_id::{Direction, Initiator, StreamId};
pub use varint::VarInt;
