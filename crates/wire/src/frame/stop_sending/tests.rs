use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, stream_id, varint};

#[test]
fn on_the_wire() {
    let frame =
        StopSending { stream_id: StreamId::from_varint(number(1)), error_code: number(0x3f) };
    check_bytes(Frame::StopSending(frame), &hex("05 01 3f"));
}

proptest! {
    #[test]
    fn round_trip(stream_id in stream_id(), error_code in varint()) {
        check_round_trip(Frame::StopSending(StopSending { stream_id, error_code }));
    }
}
