use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, stream_id, varint};

#[test]
fn on_the_wire() {
    let frame =
        StreamDataBlocked { stream_id: StreamId::from_varint(number(64)), limit: number(0x0) };
    check_bytes(Frame::StreamDataBlocked(frame), &hex("15 4040 00"));
}

proptest! {
    #[test]
    fn round_trip(stream_id in stream_id(), limit in varint()) {
        check_round_trip(Frame::StreamDataBlocked(StreamDataBlocked { stream_id, limit }));
    }
}
