//! Transport frames (RFC 9000 §12.4, §19).

use super::super::allowed::{or_alive, transport};
use super::super::{Check, Need};
use super::accepted;
use super::setup::handshake;
use crate::quic::{CloseLayer, Frame, Level, Progress, Way};
use crate::script::{Condition, Script};
use crate::{Base, Data, Quantity};
use Need::{NoDatagrams, Quic};

/// The ID of a stream that no client has opened.
const NOT_CREATED: u64 = 40_000;
/// The ID of a server's unidirectional stream for data that HTTP/3 ignores.
const IGNORED: u64 = 15;

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "unknown-frame-initial",
        "RFC 9000 §12.4",
        Quic,
        "a frame of an unknown type in an Initial packet",
        || {
            // Before the server's first flight, after which the client discards its Initial keys.
            Script::during(Progress::HandshakeKeys)
                .frames_at(Level::Initial, vec![Frame::raw(b"\x41\x23")])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new(
        "unknown-frame-handshake",
        "RFC 9000 §12.4",
        Quic,
        "a frame of an unknown type in a Handshake packet",
        || {
            handshake()
                .frames_at(Level::Handshake, vec![Frame::raw(b"\x41\x23")])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new(
        "unknown-frame-one-rtt",
        "RFC 9000 §12.4",
        Quic,
        "a frame of an unknown type in a 1-RTT packet",
        || closed(Frame::raw(b"\x41\x23"), &["FRAME_ENCODING_ERROR"]),
    ),
    Check::new(
        "truncated-frame",
        "RFC 9000 §12.4",
        Quic,
        "a MAX_DATA frame that ends in the middle of its number",
        || closed(Frame::raw(b"\x10\x9d"), &["FRAME_ENCODING_ERROR"]),
    ),
    Check::new(
        "stream-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "STREAM in a Handshake packet",
        || in_handshake(Frame::stream(3, 0, "x", false)),
    ),
    Check::new(
        "path-challenge-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "PATH_CHALLENGE in a Handshake packet",
        || in_handshake(Frame::PathChallenge { data: Data::zeros(8) }),
    ),
    Check::new(
        "handshake-done-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "HANDSHAKE_DONE in a Handshake packet",
        || in_handshake(Frame::HandshakeDone {}),
    ),
    Check::new(
        "new-token-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "NEW_TOKEN in a Handshake packet",
        || in_handshake(Frame::NewToken { token: "token".into() }),
    ),
    Check::new(
        "application-close-in-handshake",
        "RFC 9000 §12.5",
        Quic,
        "CONNECTION_CLOSE of type 0x1d in a Handshake packet",
        || {
            in_handshake(Frame::ConnectionClose {
                layer: CloseLayer::Application,
                code: 0.into(),
                frame_type: 0.into(),
                reason: Data::default(),
            })
        },
    ),
    Check::new(
        "handshake-done-twice",
        "RFC 9000 §19.20",
        Quic,
        "HANDSHAKE_DONE twice, which is allowed",
        || {
            Script::quic()
                .frames(vec![Frame::HandshakeDone {}, Frame::HandshakeDone {}])
                .expect(accepted())
        },
    ),
    Check::new("new-token-empty", "RFC 9000 §19.7", Quic, "NEW_TOKEN with an empty token", || {
        closed(Frame::NewToken { token: Data::default() }, &["FRAME_ENCODING_ERROR"])
    }),
    Check::new("new-token", "RFC 9000 §19.7", Quic, "NEW_TOKEN", || {
        Script::quic().frames(vec![Frame::NewToken { token: "token".into() }]).expect(accepted())
    }),
    Check::new(
        "stream-on-client-uni",
        "RFC 9000 §19.8",
        Quic,
        "STREAM on a unidirectional stream of the client",
        || state(Frame::stream(2, 0, "x", false)),
    ),
    Check::new(
        "reset-on-client-uni",
        "RFC 9000 §19.4",
        Quic,
        "RESET_STREAM for a unidirectional stream of the client",
        || state(Frame::ResetStream { stream: 2.into(), code: 0.into(), final_size: 0.into() }),
    ),
    Check::new(
        "stream-data-blocked-on-client-uni",
        "RFC 9000 §19.13",
        Quic,
        "STREAM_DATA_BLOCKED for a unidirectional stream of the client",
        || state(Frame::StreamDataBlocked { stream: 2.into(), limit: 0.into() }),
    ),
    Check::new(
        "stream-not-created",
        "RFC 9000 §19.8",
        Quic,
        "STREAM on a stream that the client has not created",
        || state(Frame::stream(NOT_CREATED, 0, "x", false)),
    ),
    Check::new(
        "stop-sending-not-created",
        "RFC 9000 §19.5",
        Quic,
        "STOP_SENDING for a stream that the client has not created",
        || state(Frame::StopSending { stream: NOT_CREATED.into(), code: 0.into() }),
    ),
    Check::new(
        "max-stream-data-not-created",
        "RFC 9000 §19.10",
        Quic,
        "MAX_STREAM_DATA for a stream that the client has not created",
        || state(Frame::MaxStreamData { stream: NOT_CREATED.into(), maximum: 9.into() }),
    ),
    Check::new(
        "stop-sending-receive-only",
        "RFC 9000 §19.5",
        Quic,
        "STOP_SENDING for a unidirectional stream of the server",
        || state(Frame::StopSending { stream: 3.into(), code: 0.into() }),
    ),
    Check::new(
        "max-stream-data-receive-only",
        "RFC 9000 §19.10",
        Quic,
        "MAX_STREAM_DATA for a unidirectional stream of the server",
        || state(Frame::MaxStreamData { stream: 3.into(), maximum: 9.into() }),
    ),
    Check::new(
        "uni-stream-beyond-window",
        "RFC 9000 §4.1",
        Quic,
        "STREAM one byte beyond the limit of a unidirectional stream",
        || {
            closed(
                Frame::stream(3, Quantity::beyond(Base::StreamDataUni, 0), "x", false),
                &["FLOW_CONTROL_ERROR"],
            )
        },
    ),
    Check::new(
        "reset-beyond-window",
        "RFC 9000 §4.5",
        Quic,
        "RESET_STREAM with a final size beyond the connection's limit",
        || {
            let final_size = Quantity::beyond(Base::MaxData, 1);
            closed(
                Frame::ResetStream { stream: 3.into(), code: 0.into(), final_size },
                &["FLOW_CONTROL_ERROR"],
            )
        },
    ),
    Check::new(
        "stream-offset-overflow",
        "RFC 9000 §19.8",
        Quic,
        "STREAM whose data ends beyond 2^62 - 1",
        || {
            closed(
                Frame::stream(3, Quantity::MAX, "xy", false),
                &["FRAME_ENCODING_ERROR", "FLOW_CONTROL_ERROR"],
            )
        },
    ),
    Check::new(
        "uni-stream-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "STREAM on the first unidirectional stream beyond the limit",
        || {
            closed(
                Frame::stream(Quantity::beyond(Base::BeyondUni, 0), 0, "x", false),
                &["STREAM_LIMIT_ERROR"],
            )
        },
    ),
    Check::new(
        "bidi-stream-beyond-limit",
        "RFC 9000 §4.6",
        Quic,
        "STREAM on the first bidirectional stream beyond the limit",
        || {
            closed(
                Frame::stream(Quantity::beyond(Base::BeyondBidi, 0), 0, "x", false),
                &["STREAM_LIMIT_ERROR"],
            )
        },
    ),
    Check::new(
        "max-streams-too-large",
        "RFC 9000 §19.11",
        Quic,
        "MAX_STREAMS for 2^60 + 1 streams",
        || {
            let frame = Frame::MaxStreams { way: Way::Bidi, maximum: ((1 << 60) + 1).into() };
            closed(frame, &["FRAME_ENCODING_ERROR", "STREAM_LIMIT_ERROR"])
        },
    ),
    Check::new(
        "streams-blocked-too-large",
        "RFC 9000 §19.14",
        Quic,
        "STREAMS_BLOCKED at 2^60 + 1 streams",
        || {
            let frame = Frame::StreamsBlocked { way: Way::Uni, limit: ((1 << 60) + 1).into() };
            closed(frame, &["FRAME_ENCODING_ERROR", "STREAM_LIMIT_ERROR"])
        },
    ),
    Check::new(
        "data-beyond-final-size",
        "RFC 9000 §4.5",
        Quic,
        "STREAM with FIN, and data beyond it",
        || {
            let first = Frame::stream(IGNORED, 0, b"\x21ignored", true);
            Script::quic()
                .frames(vec![first, Frame::stream(IGNORED, 20, "x", false)])
                .expect(transport(&["FINAL_SIZE_ERROR"]))
        },
    ),
    Check::new(
        "reset-changes-final-size",
        "RFC 9000 §4.5",
        Quic,
        "RESET_STREAM whose final size differs from that of the FIN",
        || {
            let first = Frame::stream(IGNORED, 0, b"\x21ignored", true);
            let reset = Frame::ResetStream {
                stream: IGNORED.into(),
                code: 0.into(),
                final_size: 30.into(),
            };
            Script::quic().frames(vec![first, reset]).expect(transport(&["FINAL_SIZE_ERROR"]))
        },
    ),
    Check::new(
        "ack-of-unsent-packet",
        "RFC 9000 §13.1",
        Quic,
        "ACK of a packet that the client has not sent",
        || {
            let largest = 1_000_000.into();
            closed(
                Frame::Ack {
                    largest,
                    delay: 0.into(),
                    first_range: 0.into(),
                    ranges: Vec::new(),
                    ecn: None,
                },
                &["PROTOCOL_VIOLATION"],
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
                Frame::Crypto { offset: Quantity::MAX, data: "xy".into() },
                &["FRAME_ENCODING_ERROR", "CRYPTO_BUFFER_EXCEEDED"],
            )
        },
    ),
    Check::new(
        "crypto-buffer-one-rtt",
        "RFC 9000 §7.5",
        Quic,
        "CRYPTO at the offset 2^40, which may be discarded",
        || {
            Script::quic()
                .frames(vec![Frame::Crypto { offset: (1 << 40).into(), data: "x".into() }])
                .expect(or_alive(transport(&["CRYPTO_BUFFER_EXCEEDED"])))
        },
    ),
    Check::new(
        "retire-prior-to-above-sequence",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID whose Retire Prior To exceeds its sequence number",
        || closed(issue(1, 2, &[1; 8]), &["FRAME_ENCODING_ERROR"]),
    ),
    Check::new(
        "new-connection-id-empty",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID with an empty connection ID",
        || closed(issue(1, 0, &[]), &["FRAME_ENCODING_ERROR"]),
    ),
    Check::new(
        "new-connection-id-long",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID with a connection ID of 21 bytes",
        || closed(issue(1, 0, &[1; 21]), &["FRAME_ENCODING_ERROR"]),
    ),
    Check::new(
        "too-many-connection-ids",
        "RFC 9000 §5.1.1",
        Quic,
        "NEW_CONNECTION_ID for 64 connection IDs",
        || {
            let all: Vec<Frame> =
                (1..=64).map(|sequence| issue(sequence, 0, &[sequence as u8; 8])).collect();
            all.chunks(32)
                .fold(Script::quic(), |script, frames| script.frames(frames.to_vec()))
                .expect(transport(&["CONNECTION_ID_LIMIT_ERROR"]))
        },
    ),
    Check::new(
        "new-connection-id-retires",
        "RFC 9000 §5.1.2",
        Quic,
        "NEW_CONNECTION_ID that retires the connection ID in use",
        || {
            Script::quic()
                .frames(vec![issue(1, 1, &[1; 8])])
                .expect(vec![Condition::Frame { name: "retire_connection_id".to_owned() }])
        },
    ),
    Check::new(
        "retire-unissued-connection-id",
        "RFC 9000 §19.16",
        Quic,
        "RETIRE_CONNECTION_ID of a connection ID that the client has not issued",
        || {
            let sequence = Quantity::beyond(Base::LargestPeerSequence, 1000);
            closed(Frame::RetireConnectionId { sequence }, &["PROTOCOL_VIOLATION"])
        },
    ),
    Check::new(
        "path-challenge",
        "RFC 9000 §8.2.2",
        Quic,
        "PATH_CHALLENGE, to be answered",
        || {
            Script::quic()
                .frames(vec![
                    Frame::PathChallenge { data: "12345678".into() },
                    Frame::Padding { length: 1100 },
                ])
                .expect(vec![Condition::Frame { name: "path_response".to_owned() }])
        },
    ),
    Check::new(
        "datagram-not-negotiated",
        "RFC 9221 §3",
        NoDatagrams,
        "DATAGRAM, which a client that sent max_datagram_frame_size accepts",
        || {
            Script::quic()
                .frames(vec![Frame::Datagram { data: "x".into() }])
                .expect(or_alive(transport(&["FRAME_ENCODING_ERROR"])))
        },
    ),
];

fn closed(frame: Frame, codes: &[&str]) -> Script {
    Script::quic().frames(vec![frame]).expect(transport(codes))
}

fn state(frame: Frame) -> Script {
    closed(frame, &["STREAM_STATE_ERROR"])
}

fn in_handshake(frame: Frame) -> Script {
    handshake().frames_at(Level::Handshake, vec![frame]).expect(transport(&[]))
}

fn issue(sequence: u64, retire_prior_to: u64, id: &[u8]) -> Frame {
    Frame::NewConnectionId {
        sequence: sequence.into(),
        retire_prior_to: retire_prior_to.into(),
        id: id.into(),
        token: Data::new([sequence as u8; 16]),
    }
}
