use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, decode};
use crate::strategies::hex;

#[test]
fn on_the_wire() {
    check_bytes(Frame::NewToken(NewToken { token: b"abc" }), &hex("07 03 616263"));
}

#[test]
fn an_empty_token() {
    assert_eq!(decode(&[0x07, 0x00]), Err(DecodeError::invalid("Token", "is empty")));
}

proptest! {
    #[test]
    fn round_trip(token in vec(any::<u8>(), 1..200)) {
        check_round_trip(Frame::NewToken(NewToken { token: &token }));
    }
}
