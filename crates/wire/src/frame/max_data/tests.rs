use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, varint};

#[test]
fn on_the_wire() {
    let frame = MaxData { maximum: number(0x40) };
    check_bytes(Frame::MaxData(frame), &hex("10 4040"));
}

proptest! {
    #[test]
    fn round_trip(maximum in varint()) {
        check_round_trip(Frame::MaxData(MaxData { maximum }));
    }
}
