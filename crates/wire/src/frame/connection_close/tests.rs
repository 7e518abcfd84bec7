use proptest::prelude::*;

use super::*;
use crate::Frame;
use crate::frame::tests::{check_bytes, check_round_trip, number};
use crate::strategies::{bytes, hex, varint};

#[test]
fn on_the_wire() {
    let frame = ConnectionClose {
        error_code: number(0x0a),
        kind: CloseKind::Transport { frame_type: number(0x18) },
        reason: b"no",
    };
    check_bytes(Frame::ConnectionClose(frame), &hex("1c 0a 18 02 6e6f"));
    let frame =
        ConnectionClose { error_code: number(0x100), kind: CloseKind::Application, reason: b"" };
    check_bytes(Frame::ConnectionClose(frame), &hex("1d 4100 00"));
}

proptest! {
    #[test]
    fn round_trip(error_code in varint(), frame_type in varint(), reason in bytes(100)) {
        for kind in [CloseKind::Transport { frame_type }, CloseKind::Application] {
            let frame = ConnectionClose { error_code, kind, reason: &reason };
            check_round_trip(Frame::ConnectionClose(frame));
        }
    }
}
