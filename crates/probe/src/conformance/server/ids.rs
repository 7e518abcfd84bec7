//! Connection IDs (RFC 9000 §5.1, §19.15, §19.16).

use super::super::allowed::{alive, or_alive, transport};
use super::super::{Check, Need::Quic};
use crate::quic::Frame;
use crate::script::Script;
use crate::{Base, Data, Quantity};

/// A number of connection IDs that exceeds what any server stores.
const TOO_MANY: u64 = 64;

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "retire-prior-to-above-sequence",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID whose Retire Prior To exceeds its sequence number",
        || closed(vec![issue(1, 2, &[1; 8])], &["FRAME_ENCODING_ERROR"]),
    )
    .h3spec(),
    Check::new(
        "new-connection-id-empty",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID with an empty connection ID",
        || closed(vec![issue(1, 0, &[])], &["FRAME_ENCODING_ERROR"]),
    )
    .h3spec(),
    Check::new(
        "new-connection-id-long",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID with a connection ID of 21 bytes",
        || closed(vec![issue(1, 0, &[1; 21])], &["FRAME_ENCODING_ERROR"]),
    ),
    Check::new(
        "new-connection-id-truncated",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID without a token",
        || {
            closed(
                vec![Frame::raw(b"\x18\x01\x00\x08\x01\x01\x01\x01\x01\x01\x01\x01")],
                &["FRAME_ENCODING_ERROR"],
            )
        },
    ),
    Check::new(
        "too-many-connection-ids",
        "RFC 9000 §5.1.1",
        Quic,
        "NEW_CONNECTION_ID for 64 connection IDs",
        || {
            let all: Vec<Frame> =
                (1..=TOO_MANY).map(|sequence| issue(sequence, 0, &[sequence as u8; 8])).collect();
            let packets = all
                .chunks(32)
                .fold(Script::quic(), |script, frames| script.frames(frames.to_vec()));
            packets.expect(transport(&["CONNECTION_ID_LIMIT_ERROR"]))
        },
    ),
    Check::new(
        "new-connection-id-reissued",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID for two connection IDs with one sequence number, which may be an error",
        || {
            Script::quic()
                .frames(vec![issue(1, 0, &[1; 8]), issue(1, 0, &[2; 8])])
                .expect(or_alive(transport(&[])))
        },
    ),
    Check::new(
        "connection-id-with-two-sequences",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID for one connection ID with two sequence numbers, which may be an error",
        || {
            Script::quic()
                .frames(vec![issue(1, 0, &[1; 8]), issue(2, 0, &[1; 8])])
                .expect(or_alive(transport(&["CONNECTION_ID_LIMIT_ERROR"])))
        },
    ),
    Check::new(
        "new-connection-id-repeated",
        "RFC 9000 §19.15",
        Quic,
        "the same NEW_CONNECTION_ID frame twice, which is allowed",
        || Script::quic().frames(vec![issue(1, 0, &[1; 8]), issue(1, 0, &[1; 8])]).expect(alive()),
    ),
    Check::new(
        "new-connection-id-retires",
        "RFC 9000 §5.1.2",
        Quic,
        "NEW_CONNECTION_ID that retires the connection ID in use",
        || {
            Script::quic().frames(vec![issue(1, 1, &[1; 8])]).expect(vec![
                crate::script::Condition::Frame { name: "retire_connection_id".to_owned() },
            ])
        },
    ),
    Check::new(
        "new-connection-id-to-empty",
        "RFC 9000 §19.15",
        Quic,
        "NEW_CONNECTION_ID from a client whose connection ID is empty",
        || {
            Script::quic()
                .connect(|it| it.source = Some(Data::default()))
                .frames(vec![issue(1, 0, &[1; 8])])
                .expect(transport(&[]))
        },
    ),
    Check::new(
        "empty-connection-id",
        "RFC 9000 §5.1",
        Quic,
        "a connection of a client whose connection ID is empty",
        || Script::quic().connect(|it| it.source = Some(Data::default())).expect(alive()),
    ),
    Check::new(
        "long-connection-ids",
        "RFC 9000 §17.2",
        Quic,
        "a connection with connection IDs of 20 bytes",
        || {
            Script::quic()
                .connect(|it| {
                    it.source = Some(Data::new([7; 20]));
                    it.destination = Some(Data::new([8; 20]));
                })
                .expect(alive())
        },
    ),
    Check::new(
        "retire-unissued-connection-id",
        "RFC 9000 §19.16",
        Quic,
        "RETIRE_CONNECTION_ID of a connection ID that the server has not issued",
        || {
            let sequence = Quantity::beyond(Base::LargestPeerSequence, 1000);
            closed(vec![Frame::RetireConnectionId { sequence }], &["PROTOCOL_VIOLATION"])
        },
    ),
];

fn closed(frames: Vec<Frame>, codes: &[&str]) -> Script {
    Script::quic().frames(frames).expect(transport(codes))
}

fn issue(sequence: u64, retire_prior_to: u64, id: &[u8]) -> Frame {
    Frame::NewConnectionId {
        sequence: sequence.into(),
        retire_prior_to: retire_prior_to.into(),
        id: id.into(),
        token: Data::new([sequence as u8; 16]),
    }
}
