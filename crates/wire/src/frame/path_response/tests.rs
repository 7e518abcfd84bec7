use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip};
use crate::strategies::hex;

#[test]
fn on_the_wire() {
    let frame = PathResponse { data: *b"01234567" };
    check_bytes(Frame::PathResponse(frame), &hex("1b 3031323334353637"));
}

proptest! {
    #[test]
    fn round_trip(data: [u8; 8]) {
        check_round_trip(Frame::PathResponse(PathResponse { data }));
    }
}
