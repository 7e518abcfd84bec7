use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{hex, varint};

#[test]
fn on_the_wire() {
    let frame = DataBlocked { limit: number(0x3fffffffffffffff) };
    check_bytes(Frame::DataBlocked(frame), &hex("14 ffffffffffffffff"));
}

proptest! {
    #[test]
    fn round_trip(limit in varint()) {
        check_round_trip(Frame::DataBlocked(DataBlocked { limit }));
    }
}
