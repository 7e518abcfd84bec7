//! Paths and migration (RFC 9000 §8.2, §9), Retry and tokens (§8.1).

use super::super::allowed::{alive, or_alive, transport};
use super::super::{Check, Need};
use crate::Data;
use crate::quic::{Frame, Progress};
use crate::script::{Condition, Script, Step, Token};
use Need::{Migration, Quic};

pub(super) const CHECKS: &[Check] = &[
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
                .expect(vec![frame("path_response")])
        },
    ),
    Check::new(
        "path-response-unsolicited",
        "RFC 9000 §19.18",
        Quic,
        "PATH_RESPONSE without a challenge, which may be an error",
        || {
            Script::quic()
                .frames(vec![Frame::PathResponse { data: "12345678".into() }])
                .expect(or_alive(transport(&[])))
        },
    ),
    Check::new(
        "path-challenge-truncated",
        "RFC 9000 §19.17",
        Quic,
        "PATH_CHALLENGE with seven bytes",
        || {
            Script::quic()
                .frames(vec![Frame::PathChallenge { data: "1234567".into() }])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new(
        "migration",
        "RFC 9000 §9",
        Migration,
        "packets from another port with another connection ID",
        || {
            Script::quic()
                .frames(vec![issue()])
                .wait(frame("new_connection_id"))
                .step(Step::Migrate { keep_id: false })
                .expect(alive())
        },
    ),
    Check::new(
        "migration-is-validated",
        "RFC 9000 §9.1",
        Migration,
        "packets from another port, to be answered with PATH_CHALLENGE",
        || {
            Script::quic()
                .frames(vec![issue()])
                .wait(frame("new_connection_id"))
                .step(Step::Migrate { keep_id: false })
                .frames(vec![Frame::Ping {}])
                .expect(vec![frame("path_challenge")])
        },
    ),
    Check::new(
        "rebinding",
        "RFC 9000 §9.3",
        Quic,
        "packets from another port with the same connection ID, as after a NAT rebinding",
        || Script::quic().step(Step::Migrate { keep_id: true }).expect(alive()),
    ),
    Check::new(
        "two-migrations",
        "RFC 9000 §9",
        Migration,
        "packets from a third port after a migration",
        || {
            Script::quic()
                .frames(vec![issue()])
                .wait(frame("new_connection_id"))
                .step(Step::Migrate { keep_id: false })
                .expect(alive())
                .step(Step::Migrate { keep_id: true })
                .expect(alive())
        },
    ),
    Check::new(
        "token-of-server",
        "RFC 9000 §8.1.3",
        Quic,
        "a token of an earlier connection",
        || Script::quic().connect(|it| it.token = Some(Token::Previous)).expect(alive()),
    ),
    Check::new(
        "token-unknown",
        "RFC 9000 §8.1.3",
        Quic,
        "a token that the server has not issued, to be ignored or rejected",
        || {
            let connected = Condition::Handshake { progress: Progress::Complete };
            let mut allowed = vec![connected];
            allowed.extend(transport(&["INVALID_TOKEN"]));
            Script::during(Progress::Start)
                .connect(|it| it.token = Some(Token::Bytes("not a token".into())))
                .expect(allowed)
        },
    ),
    Check::new("resumption", "RFC 9001 §4.5", Quic, "a resumed session", || {
        Script::quic().connect(|it| it.resume = true).expect(alive())
    }),
    Check::new(
        "no-acknowledgments",
        "RFC 9002 §6.2",
        Quic,
        "no acknowledgments, to be answered with probes",
        || {
            Script::quic()
                .connect(|it| it.acknowledge = false)
                .frames(vec![Frame::Ping {}])
                .expect(alive())
        },
    ),
];

fn frame(name: &str) -> Condition {
    Condition::Frame { name: name.to_owned() }
}

/// Returns a NEW_CONNECTION_ID frame with an ID that the server can use on the second path.
fn issue() -> Frame {
    Frame::NewConnectionId {
        sequence: 1.into(),
        retire_prior_to: 0.into(),
        id: Data::new([0xa1; 8]),
        token: Data::new([0xa2; 16]),
    }
}
