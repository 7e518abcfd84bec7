use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
use crate::strategies::{direction, hex};

#[test]
fn on_the_wire() {
    let frame = MaxStreams { direction: Direction::Bidirectional, maximum: number(5) };
    check_bytes(Frame::MaxStreams(frame), &hex("12 05"));
    let frame = MaxStreams { direction: Direction::Unidirectional, maximum: number(0x40) };
    check_bytes(Frame::MaxStreams(frame), &hex("13 4040"));
}

#[test]
fn more_streams_than_stream_ids() {
    let most = MaxStreams { direction: Direction::Unidirectional, maximum: number(1 << 60) };
    check_bytes(Frame::MaxStreams(most), &hex("13 d000000000000000"));
    let too_many = DecodeError::invalid("Maximum Streams", "is above 2^60");
    assert_eq!(decode(&hex("13 d000000000000001")), Err(too_many));
    assert_eq!(decode(&hex("12 ffffffffffffffff")), Err(too_many));
}

proptest! {
    #[test]
    fn round_trip(direction in direction(), count in 0..=1_u64 << 60, shift in 0_u32..60) {
        let frame = MaxStreams { direction, maximum: number(count >> shift) };
        check_round_trip(Frame::MaxStreams(frame));
    }
}
