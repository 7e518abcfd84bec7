//! Stream states (RFC 9000 §3, §19).

use super::super::allowed::{alive, transport};
use super::super::{Check, Need::Quic};
use crate::quic::Frame;
use crate::script::Script;
use crate::{Base, Quantity};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "stream-on-server-uni",
        "RFC 9000 §19.8",
        Quic,
        "STREAM on a unidirectional stream of the server",
        || closed(Frame::stream(3, 0, "x", false)),
    )
    .h3spec(),
    Check::new(
        "reset-on-server-uni",
        "RFC 9000 §19.4",
        Quic,
        "RESET_STREAM for a unidirectional stream of the server",
        || closed(Frame::ResetStream { stream: 3.into(), code: 0.into(), final_size: 0.into() }),
    )
    .h3spec(),
    Check::new(
        "stream-data-blocked-on-server-uni",
        "RFC 9000 §19.13",
        Quic,
        "STREAM_DATA_BLOCKED for a unidirectional stream of the server",
        || closed(Frame::StreamDataBlocked { stream: 3.into(), limit: 0.into() }),
    ),
    Check::new(
        "stream-not-created",
        "RFC 9000 §19.8",
        Quic,
        "STREAM on a bidirectional stream that the server has not created",
        || closed(Frame::stream(1, 0, "x", false)),
    )
    .h3spec(),
    Check::new(
        "stop-sending-not-created",
        "RFC 9000 §19.5",
        Quic,
        "STOP_SENDING for a stream that the server has not created",
        || closed(Frame::StopSending { stream: 1.into(), code: 0.into() }),
    )
    .h3spec(),
    Check::new(
        "stop-sending-uni-not-created",
        "RFC 9000 §19.5",
        Quic,
        "STOP_SENDING for a unidirectional stream that the server has not created",
        || closed(Frame::StopSending { stream: 4003.into(), code: 0.into() }),
    ),
    Check::new(
        "max-stream-data-not-created",
        "RFC 9000 §19.10",
        Quic,
        "MAX_STREAM_DATA for a stream that the server has not created",
        || closed(Frame::MaxStreamData { stream: 1.into(), maximum: 9.into() }),
    )
    .h3spec(),
    Check::new(
        "stop-sending-receive-only",
        "RFC 9000 §19.5",
        Quic,
        "STOP_SENDING for a unidirectional stream of the client",
        || closed(Frame::StopSending { stream: 2.into(), code: 0.into() }),
    ),
    Check::new(
        "max-stream-data-receive-only",
        "RFC 9000 §19.10",
        Quic,
        "MAX_STREAM_DATA for a unidirectional stream of the client",
        || closed(Frame::MaxStreamData { stream: 2.into(), maximum: 9.into() }),
    )
    .h3spec(),
    Check::new(
        "ack-of-unsent-packet",
        "RFC 9000 §13.1",
        Quic,
        "ACK of a packet that the server has not sent",
        || Script::quic().frames(vec![ack(1_000_000, 0)]).expect(transport(&[])),
    ),
    Check::new(
        "ack-below-zero",
        "RFC 9000 §19.3.1",
        Quic,
        "ACK with a range that begins below packet number 0",
        || Script::quic().frames(vec![ack(2, 5)]).expect(transport(&["FRAME_ENCODING_ERROR"])),
    ),
    Check::new(
        "ack-truncated",
        "RFC 9000 §19.3",
        Quic,
        "ACK with fewer ranges than its ACK Range Count",
        || {
            Script::quic()
                .frames(vec![Frame::raw(b"\x02\x00\x00\x09\x00")])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new("new-token-empty", "RFC 9000 §19.7", Quic, "NEW_TOKEN with an empty token", || {
        Script::quic()
            .frames(vec![Frame::raw(b"\x07\x00")])
            .expect(transport(&["FRAME_ENCODING_ERROR"]))
    }),
    Check::new("stream-duplicate", "RFC 9000 §2.2", Quic, "the same STREAM frame twice", || {
        let frame = || Frame::stream(2, 0, b"\x21ignored", false);
        Script::quic().frames(vec![frame(), frame()]).frames(vec![frame()]).expect(alive())
    }),
    Check::new("stream-empty", "RFC 9000 §19.8", Quic, "STREAM without data", || {
        Script::quic().frames(vec![Frame::stream(0, 0, "", false)]).expect(alive())
    }),
    Check::new(
        "stream-out-of-order",
        "RFC 9000 §2.2",
        Quic,
        "the second half of a stream before the first",
        || {
            let second = Frame::stream(2, 10, "0123456789", true);
            Script::quic()
                .frames(vec![second])
                .frames(vec![Frame::stream(2, 0, b"\x21123456789", false)])
                .expect(alive())
        },
    ),
    Check::new(
        "reset-after-fin",
        "RFC 9000 §3.2",
        Quic,
        "STREAM with FIN, and RESET_STREAM with the same final size",
        || {
            let reset =
                Frame::ResetStream { stream: 2.into(), code: 0.into(), final_size: 3.into() };
            Script::quic().frames(vec![Frame::stream(2, 0, b"\x21ab", true), reset]).expect(alive())
        },
    ),
    Check::new(
        "highest-stream-first",
        "RFC 9000 §2.1",
        Quic,
        "the highest unidirectional stream within the limit, which opens all below it",
        || {
            let highest = "beyond_uni-4".parse().unwrap_or(Quantity::beyond(Base::BeyondUni, 0));
            Script::quic().frames(vec![Frame::stream(highest, 0, b"\x21", false)]).expect(alive())
        },
    ),
];

fn closed(frame: Frame) -> Script {
    Script::quic().frames(vec![frame]).expect(transport(&["STREAM_STATE_ERROR"]))
}

fn ack(largest: u64, first_range: u64) -> Frame {
    Frame::Ack {
        largest: largest.into(),
        delay: 0.into(),
        first_range: first_range.into(),
        ranges: Vec::new(),
        ecn: None,
    }
}
