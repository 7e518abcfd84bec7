use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip};
use crate::strategies::hex;

#[test]
fn on_the_wire() {
    let frame = PathChallenge { data: *b"01234567" };
    check_bytes(Frame::PathChallenge(frame), &hex("1a 3031323334353637"));
}

proptest! {
    #[test]
    fn round_trip(data: [u8; 8]) {
        check_round_trip(Frame::PathChallenge(PathChallenge { data }));
    }
}
