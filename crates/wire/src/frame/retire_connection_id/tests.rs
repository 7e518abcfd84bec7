use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, varint};

#[test]
fn on_the_wire() {
    let frame = RetireConnectionId { sequence: number(0x7) };
    check_bytes(Frame::RetireConnectionId(frame), &hex("19 07"));
}

proptest! {
    #[test]
    fn round_trip(sequence in varint()) {
        check_round_trip(Frame::RetireConnectionId(RetireConnectionId { sequence }));
    }
}
