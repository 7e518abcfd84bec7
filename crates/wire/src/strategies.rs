//! Value strategies for the property tests.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{ConnectionId, Direction, PacketNumber, ResetToken, StreamId, VarInt};

/// Generates integers of every encoded length, each with about the same probability.
pub(crate) fn varint() -> impl Strategy<Value = VarInt> {
    (any::<u64>(), 2_u32..64).prop_map(|(value, shift)| VarInt::new(value >> shift).unwrap())
}

pub(crate) fn packet_number() -> impl Strategy<Value = PacketNumber> {
    varint().prop_map(|value| PacketNumber::new(value.get()).unwrap())
}

pub(crate) fn stream_id() -> impl Strategy<Value = StreamId> {
    varint().prop_map(StreamId::from_varint)
}

pub(crate) fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Bidirectional), Just(Direction::Unidirectional)]
}

/// Generates a connection ID of 0 to 20 bytes.
pub(crate) fn connection_id() -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 0..=ConnectionId::MAX_LEN).prop_map(|id| ConnectionId::new(&id).unwrap())
}

pub(crate) fn reset_token() -> impl Strategy<Value = ResetToken> {
    any::<[u8; 16]>().prop_map(ResetToken::new)
}

pub(crate) fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..length)
}

/// Decodes hexadecimal `text`; other characters are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
