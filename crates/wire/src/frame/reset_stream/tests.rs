use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, stream_id, varint};

#[test]
fn on_the_wire() {
    let frame = ResetStream {
        stream_id: StreamId::from_varint(number(4)),
        error_code: number(0x123),
        final_size: number(0x1_0000),
    };
    check_bytes(Frame::ResetStream(frame), &hex("04 04 4123 80010000"));
}

proptest! {
    #[test]
    fn round_trip(stream_id in stream_id(), error_code in varint(), final_size in varint()) {
        check_round_trip(Frame::ResetStream(ResetStream { stream_id, error_code, final_size }));
    }
}
