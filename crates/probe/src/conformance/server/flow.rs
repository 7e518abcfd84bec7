//! Flow control, limits and final sizes (RFC 9000 §4).

use super::super::allowed::{alive, or_alive, transport};
use super::super::{Check, Need};
use super::packets::at;
use crate::quic::{Frame, Level, Way};
use crate::script::Script;
use crate::{Base, Data, Quantity};
use Need::{NoDatagrams, Quic};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "bidi-stream-beyond-window",
        "RFC 9000 §4.1",
        Quic,
        "STREAM one byte beyond the limit of a bidirectional stream",
        || {
            let limit = Quantity::beyond(Base::StreamDataBidiRemote, 0);
            closed(vec![Frame::stream(0, limit, "x", false)], &["FLOW_CONTROL_ERROR"])
        },
    )
    .h3spec(),
    Check::new(
        "uni-stream-beyond-window",
        "RFC 9000 §4.1",
        Quic,
        "STREAM one byte beyond the limit of a unidirectional stream",
        || {
            let limit = Quantity::beyond(Base::StreamDataUni, 0);
            closed(vec![Frame::stream(2, limit, "x", false)], &["FLOW_CONTROL_ERROR"])
        },
    ),
    Check::new(
        "reset-beyond-window",
        "RFC 9000 §4.5",
        Quic,
        "RESET_STREAM with a final size beyond the connection's limit",
        || {
            let size = Quantity::beyond(Base::MaxData, 1);
            closed(
                vec![Frame::ResetStream { stream: 0.into(), code: 0.into(), final_size: size }],
                &["FLOW_CONTROL_ERROR"],
            )
        },
    ),
    Check::new(
        "stream-beyond-every-window",
        "RFC 9000 §4.1",
        Quic,
        "STREAM at the offset 2^61",
        || closed(vec![Frame::stream(0, 1 << 61, "x", false)], &["FLOW_CONTROL_ERROR"]),
    ),
    Check::new(
        "stream-offset-overflow",
        "RFC 9000 §19.8",
        Quic,
        "STREAM whose data ends beyond 2^62 - 1",
        || {
            closed(
                vec![Frame::stream(0, Quantity::MAX, "xy", false)],
                &["FRAME_ENCODING_ERROR", "FLOW_CONTROL_ERROR"],
            )
        },
    ),
    Check::new(
        "crypto-offset-overflow",
        "RFC 9000 §19.6",
        Quic,
        "CRYPTO whose data ends beyond 2^62 - 1",
        || {
            closed(
                vec![Frame::Crypto { offset: Quantity::MAX, data: "xy".into() }],
                &["FRAME_ENCODING_ERROR", "CRYPTO_BUFFER_EXCEEDED"],
            )
        },
    ),
    Check::new(
        "crypto-buffer-handshake",
        "RFC 9000 §7.5",
        Quic,
        "CRYPTO at the offset 2^40 in a Handshake packet",
        || {
            let frame = Frame::Crypto { offset: (1 << 40).into(), data: "x".into() };
            at(Level::Handshake)
                .frames_at(Level::Handshake, vec![frame])
                .expect(transport(&["CRYPTO_BUFFER_EXCEEDED"]))
        },
    ),
    Check::new(
        "crypto-buffer-one-rtt",
        "RFC 9000 §7.5",
        Quic,
        "CRYPTO at the offset 2^40 in a 1-RTT packet, which may be discarded",
        || {
            let frame = Frame::Crypto { offset: (1 << 40).into(), data: "x".into() };
            Script::quic()
                .frames(vec![frame])
                .expect(or_alive(transport(&["CRYPTO_BUFFER_EXCEEDED"])))
        },
    ),
    Check::new(
        "bidi-stream-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "STREAM on the first bidirectional stream beyond the limit",
        || {
            closed(
                vec![Frame::stream(Quantity::beyond(Base::BeyondBidi, 0), 0, "x", false)],
                &["STREAM_LIMIT_ERROR"],
            )
        },
    )
    .h3spec(),
    Check::new(
        "uni-stream-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "STREAM on the first unidirectional stream beyond the limit",
        || {
            closed(
                vec![Frame::stream(Quantity::beyond(Base::BeyondUni, 0), 0, "x", false)],
                &["STREAM_LIMIT_ERROR"],
            )
        },
    ),
    Check::new(
        "stream-id-maximum",
        "RFC 9000 §4.6",
        Quic,
        "STREAM on the stream with the largest possible ID",
        || closed(vec![Frame::stream((1 << 62) - 4, 0, "x", false)], &["STREAM_LIMIT_ERROR"]),
    ),
    Check::new(
        "reset-stream-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "RESET_STREAM for a stream beyond the limit",
        || {
            let stream = Quantity::beyond(Base::BeyondBidi, 0);
            closed(
                vec![Frame::ResetStream { stream, code: 0.into(), final_size: 0.into() }],
                &["STREAM_LIMIT_ERROR"],
            )
        },
    ),
    Check::new(
        "stop-sending-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "STOP_SENDING for a stream beyond the limit",
        || {
            let stream = Quantity::beyond(Base::BeyondBidi, 0);
            closed(vec![Frame::StopSending { stream, code: 0.into() }], &["STREAM_LIMIT_ERROR"])
        },
    ),
    Check::new(
        "max-stream-data-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "MAX_STREAM_DATA for a stream beyond the limit",
        || {
            let stream = Quantity::beyond(Base::BeyondBidi, 0);
            closed(
                vec![Frame::MaxStreamData { stream, maximum: 9.into() }],
                &["STREAM_LIMIT_ERROR"],
            )
        },
    ),
    Check::new(
        "stream-data-blocked-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "STREAM_DATA_BLOCKED for a stream beyond the limit",
        || {
            let stream = Quantity::beyond(Base::BeyondBidi, 0);
            closed(
                vec![Frame::StreamDataBlocked { stream, limit: 9.into() }],
                &["STREAM_LIMIT_ERROR"],
            )
        },
    ),
    Check::new(
        "data-beyond-final-size",
        "RFC 9000 §4.5",
        Quic,
        "STREAM with FIN, and data beyond it",
        || closed(vec![ignored(9, true), Frame::stream(2, 20, "x", false)], &["FINAL_SIZE_ERROR"]),
    ),
    Check::new(
        "final-size-changed",
        "RFC 9000 §4.5",
        Quic,
        "two STREAM frames with FIN at different offsets",
        || closed(vec![ignored(9, true), Frame::stream(2, 12, "", true)], &["FINAL_SIZE_ERROR"]),
    ),
    Check::new(
        "final-size-lowered",
        "RFC 9000 §4.5",
        Quic,
        "STREAM with FIN at an offset below data that was sent before",
        || closed(vec![ignored(9, false), Frame::stream(2, 5, "", true)], &["FINAL_SIZE_ERROR"]),
    ),
    Check::new(
        "reset-changes-final-size",
        "RFC 9000 §4.5",
        Quic,
        "RESET_STREAM whose final size differs from that of the FIN",
        || closed(vec![ignored(9, true), reset(2, 30)], &["FINAL_SIZE_ERROR"]),
    ),
    Check::new(
        "reset-below-data",
        "RFC 9000 §4.5",
        Quic,
        "RESET_STREAM whose final size is below data that was sent before",
        || closed(vec![ignored(9, false), reset(2, 3)], &["FINAL_SIZE_ERROR"]),
    ),
    Check::new(
        "two-resets",
        "RFC 9000 §4.5",
        Quic,
        "two RESET_STREAM frames with different final sizes",
        || closed(vec![reset(2, 3), reset(2, 4)], &["FINAL_SIZE_ERROR"]),
    ),
    Check::new(
        "max-streams-bidi-too-large",
        "RFC 9000 §19.11",
        Quic,
        "MAX_STREAMS for 2^60 + 1 bidirectional streams",
        || too_many(Frame::MaxStreams { way: Way::Bidi, maximum: ((1 << 60) + 1).into() }),
    )
    .h3spec(),
    Check::new(
        "max-streams-uni-too-large",
        "RFC 9000 §19.11",
        Quic,
        "MAX_STREAMS for 2^60 + 1 unidirectional streams",
        || too_many(Frame::MaxStreams { way: Way::Uni, maximum: ((1 << 60) + 1).into() }),
    ),
    Check::new(
        "streams-blocked-bidi-too-large",
        "RFC 9000 §19.14",
        Quic,
        "STREAMS_BLOCKED at 2^60 + 1 bidirectional streams",
        || too_many(Frame::StreamsBlocked { way: Way::Bidi, limit: ((1 << 60) + 1).into() }),
    )
    .h3spec(),
    Check::new(
        "streams-blocked-uni-too-large",
        "RFC 9000 §19.14",
        Quic,
        "STREAMS_BLOCKED at 2^60 + 1 unidirectional streams",
        || too_many(Frame::StreamsBlocked { way: Way::Uni, limit: ((1 << 60) + 1).into() }),
    ),
    Check::new(
        "limits-not-raised",
        "RFC 9000 §4.1",
        Quic,
        "MAX_DATA and MAX_STREAMS below the limits in force, to be ignored",
        || {
            accepted(vec![
                Frame::MaxData { maximum: 0.into() },
                Frame::MaxStreams { way: Way::Bidi, maximum: 0.into() },
                Frame::MaxStreams { way: Way::Uni, maximum: 0.into() },
            ])
        },
    ),
    Check::new(
        "max-streams-limit",
        "RFC 9000 §19.11",
        Quic,
        "MAX_STREAMS for 2^60 streams, which is allowed",
        || accepted(vec![Frame::MaxStreams { way: Way::Bidi, maximum: (1 << 60).into() }]),
    ),
    Check::new(
        "blocked-frames",
        "RFC 9000 §19.12",
        Quic,
        "DATA_BLOCKED and STREAMS_BLOCKED",
        || {
            accepted(vec![
                Frame::DataBlocked { limit: 0.into() },
                Frame::StreamsBlocked { way: Way::Bidi, limit: 0.into() },
                Frame::StreamsBlocked { way: Way::Uni, limit: 0.into() },
            ])
        },
    ),
    Check::new(
        "datagram-not-negotiated",
        "RFC 9221 §3",
        NoDatagrams,
        "DATAGRAM to a server without max_datagram_frame_size",
        || closed(vec![Frame::Datagram { data: "x".into() }], &["FRAME_ENCODING_ERROR"]),
    ),
];

fn closed(frames: Vec<Frame>, codes: &[&str]) -> Script {
    Script::quic().frames(frames).expect(transport(codes))
}

fn accepted(frames: Vec<Frame>) -> Script {
    Script::quic().frames(frames).expect(alive())
}

fn too_many(frame: Frame) -> Script {
    closed(vec![frame], &["FRAME_ENCODING_ERROR", "STREAM_LIMIT_ERROR"])
}

/// Returns the start of a unidirectional stream of a reserved type, which HTTP/3 ignores.
fn ignored(length: usize, fin: bool) -> Frame {
    let mut data = vec![0x21];
    data.resize(length, 0);
    Frame::stream(2, 0, Data::new(data), fin)
}

fn reset(stream: u64, final_size: u64) -> Frame {
    Frame::ResetStream { stream: stream.into(), code: 0.into(), final_size: final_size.into() }
}
