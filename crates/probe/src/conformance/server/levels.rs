//! Frames in packet types that do not allow them (RFC 9000 §12.4, table 3, and §12.5).

use super::super::allowed::transport;
use super::super::{Check, Need::Quic};
use super::packets::at;
use crate::Data;
use crate::quic::{CloseLayer, Frame, Level, Progress, Way};
use crate::script::Script;

pub(super) const CHECKS: &[Check] = &[
    Check::new("stream-in-initial", "RFC 9000 §12.4", Quic, "STREAM in an Initial packet", || {
        wrong(Level::Initial, Frame::stream(0, 0, "x", false))
    }),
    Check::new(
        "stream-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "STREAM in a Handshake packet",
        || wrong(Level::Handshake, Frame::stream(0, 0, "x", false)),
    ),
    Check::new(
        "reset-stream-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "RESET_STREAM in a Handshake packet",
        || {
            wrong(
                Level::Handshake,
                Frame::ResetStream { stream: 0.into(), code: 0.into(), final_size: 0.into() },
            )
        },
    ),
    Check::new(
        "stop-sending-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "STOP_SENDING in a Handshake packet",
        || wrong(Level::Handshake, Frame::StopSending { stream: 0.into(), code: 0.into() }),
    ),
    Check::new(
        "max-data-in-initial",
        "RFC 9000 §12.4",
        Quic,
        "MAX_DATA in an Initial packet",
        || wrong(Level::Initial, Frame::MaxData { maximum: 100.into() }),
    ),
    Check::new(
        "max-data-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "MAX_DATA in a Handshake packet",
        || wrong(Level::Handshake, Frame::MaxData { maximum: 100.into() }),
    ),
    Check::new(
        "max-streams-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "MAX_STREAMS in a Handshake packet",
        || wrong(Level::Handshake, Frame::MaxStreams { way: Way::Bidi, maximum: 100.into() }),
    ),
    Check::new(
        "path-challenge-in-initial",
        "RFC 9000 §12.4",
        Quic,
        "PATH_CHALLENGE in an Initial packet",
        || wrong(Level::Initial, Frame::PathChallenge { data: Data::zeros(8) }),
    ),
    Check::new(
        "path-challenge-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "PATH_CHALLENGE in a Handshake packet",
        || wrong(Level::Handshake, Frame::PathChallenge { data: Data::zeros(8) }),
    )
    .h3spec(),
    Check::new(
        "new-connection-id-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "NEW_CONNECTION_ID in a Handshake packet",
        || {
            wrong(
                Level::Handshake,
                Frame::NewConnectionId {
                    sequence: 1.into(),
                    retire_prior_to: 0.into(),
                    id: Data::new([9; 8]),
                    token: Data::zeros(16),
                },
            )
        },
    ),
    Check::new(
        "new-token-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "NEW_TOKEN in a Handshake packet",
        || wrong(Level::Handshake, Frame::NewToken { token: "token".into() }),
    ),
    Check::new(
        "handshake-done-in-handshake",
        "RFC 9000 §12.4",
        Quic,
        "HANDSHAKE_DONE in a Handshake packet",
        || wrong(Level::Handshake, Frame::HandshakeDone {}),
    ),
    Check::new(
        "datagram-in-handshake",
        "RFC 9221 §4",
        Quic,
        "DATAGRAM in a Handshake packet",
        || {
            at(Level::Handshake)
                .frames_at(Level::Handshake, vec![Frame::Datagram { data: "x".into() }])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new(
        "application-close-in-initial",
        "RFC 9000 §12.5",
        Quic,
        "CONNECTION_CLOSE of type 0x1d in an Initial packet",
        || wrong(Level::Initial, application_close()),
    ),
    Check::new(
        "application-close-in-handshake",
        "RFC 9000 §12.5",
        Quic,
        "CONNECTION_CLOSE of type 0x1d in a Handshake packet",
        || wrong(Level::Handshake, application_close()),
    ),
    Check::new("handshake-done-from-client", "RFC 9000 §19.20", Quic, "HANDSHAKE_DONE", || {
        wrong(Level::OneRtt, Frame::HandshakeDone {})
    })
    .h3spec(),
    Check::new("new-token-from-client", "RFC 9000 §19.7", Quic, "NEW_TOKEN", || {
        wrong(Level::OneRtt, Frame::NewToken { token: "token".into() })
    })
    .h3spec(),
    Check::new("crypto-in-zero-rtt", "RFC 9001 §8.3", Quic, "CRYPTO in a 0-RTT packet", || {
        early(Frame::Crypto { offset: 0.into(), data: "x".into() })
    })
    .h3spec(),
    Check::new("ack-in-zero-rtt", "RFC 9000 §12.5", Quic, "ACK in a 0-RTT packet", || {
        early(Frame::Ack {
            largest: 0.into(),
            delay: 0.into(),
            first_range: 0.into(),
            ranges: Vec::new(),
            ecn: None,
        })
    }),
    Check::new(
        "handshake-done-in-zero-rtt",
        "RFC 9000 §12.5",
        Quic,
        "HANDSHAKE_DONE in a 0-RTT packet",
        || early(Frame::HandshakeDone {}),
    ),
    Check::new(
        "new-token-in-zero-rtt",
        "RFC 9000 §12.5",
        Quic,
        "NEW_TOKEN in a 0-RTT packet",
        || early(Frame::NewToken { token: "token".into() }),
    ),
    Check::new(
        "path-response-in-zero-rtt",
        "RFC 9000 §12.5",
        Quic,
        "PATH_RESPONSE in a 0-RTT packet",
        || early(Frame::PathResponse { data: Data::zeros(8) }),
    ),
    Check::new(
        "retire-connection-id-in-zero-rtt",
        "RFC 9000 §12.5",
        Quic,
        "RETIRE_CONNECTION_ID in a 0-RTT packet",
        || early(Frame::RetireConnectionId { sequence: 0.into() }),
    ),
    Check::new("early-data", "RFC 9001 §4.6", Quic, "a 0-RTT packet with PING", || {
        Script::during(Progress::Start)
            .connect(|it| it.early_data = true)
            .frames_at(Level::ZeroRtt, vec![Frame::Ping {}])
            .expect(vec![crate::script::Condition::Handshake { progress: Progress::Confirmed }])
    }),
];

fn wrong(level: Level, frame: Frame) -> Script {
    at(level).frames_at(level, vec![frame]).expect(transport(&[]))
}

fn early(frame: Frame) -> Script {
    Script::during(Progress::Start)
        .connect(|it| it.early_data = true)
        .frames_at(Level::ZeroRtt, vec![frame])
        .expect(transport(&[]))
}

fn application_close() -> Frame {
    Frame::ConnectionClose {
        layer: CloseLayer::Application,
        code: 0.into(),
        frame_type: 0.into(),
        reason: Data::default(),
    }
}
