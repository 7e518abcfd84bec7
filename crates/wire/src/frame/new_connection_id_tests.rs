use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, decode, number};
use crate::strategies::{connection_id, hex, reset_token, varint};

const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";

#[test]
fn on_the_wire() {
    let frame = NewConnectionId {
        sequence: number(0x40),
        retire_prior_to: number(2),
        id: ConnectionId::new(&[0xaa, 0xbb]).unwrap(),
        reset_token: ResetToken::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
    };
    let encoded = hex(&format!("18 4040 02 02 aabb {TOKEN}"));
    check_bytes(Frame::NewConnectionId(frame), &encoded);
}

#[test]
fn retire_prior_to_above_the_sequence_number_is_an_error() {
    assert!(decode(&hex(&format!("18 02 02 01 aa {TOKEN}"))).is_ok());
    let invalid = DecodeError::invalid("Retire Prior To", "exceeds the Sequence Number");
    assert_eq!(decode(&hex(&format!("18 02 03 01 aa {TOKEN}"))), Err(invalid));
}

#[test]
fn connection_ids_of_invalid_length_are_errors() {
    let empty = DecodeError::invalid("Connection ID Length", "is zero");
    assert_eq!(decode(&hex(&format!("18 02 01 00 {TOKEN}"))), Err(empty));
    let id = "aa".repeat(21);
    let long = DecodeError::invalid("Connection ID", "is longer than 20 bytes");
    assert_eq!(decode(&hex(&format!("18 02 01 15 {id} {TOKEN}"))), Err(long));
}

proptest! {
    #[test]
    fn round_trip(
        a in varint(),
        b in varint(),
        id in connection_id(),
        reset_token in reset_token(),
    ) {
        prop_assume!(!id.is_empty());
        let (sequence, retire_prior_to) = (a.max(b), a.min(b));
        let frame = NewConnectionId { sequence, retire_prior_to, id, reset_token };
        check_round_trip(Frame::NewConnectionId(frame));
    }
}
