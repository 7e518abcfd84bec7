use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, stream_id, varint};

#[test]
fn on_the_wire() {
    let frame =
        MaxStreamData { stream_id: StreamId::from_varint(number(2)), maximum: number(0x3fffffff) };
    check_bytes(Frame::MaxStreamData(frame), &hex("11 02 bfffffff"));
}

proptest! {
    #[test]
    fn round_trip(stream_id in stream_id(), maximum in varint()) {
        check_round_trip(Frame::MaxStreamData(MaxStreamData { stream_id, maximum }));
    }
}
