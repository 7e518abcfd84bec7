use clearway_wire::frame::*;
use clearway_wire::{ConnectionId, Direction, PacketNumber, ResetToken, StreamId, VarInt, Writer};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::testing::payload;
use super::{MAX_RECEIVED, write};
use crate::write::json::Object;
use clearway_wire::Frame;

fn written(payload: &[u8], ack_delay_exponent: u64) -> Value {
    let mut output = Vec::new();
    Object::write(&mut output, |json| {
        json.array("frames", |json| write(json, payload, ack_delay_exponent, MAX_RECEIVED));
    });
    let mut value: Value = serde_json::from_slice(&output).unwrap();
    value["frames"].take()
}

fn one(frame: Frame<'_>) -> Value {
    let mut frames = written(&payload(&[frame]), 3);
    assert_eq!(frames.as_array().unwrap().len(), 1);
    frames[0].take()
}

fn number(value: u64) -> VarInt {
    VarInt::new(value).unwrap()
}

fn stream_id(value: u64) -> StreamId {
    StreamId::from_varint(number(value))
}

#[test]
fn data() {
    let stream = Stream { stream_id: stream_id(4), offset: number(100), fin: true, data: b"hello" };
    let raw = json!({"length": 5, "payload_length": 5});
    assert_eq!(
        one(Frame::Stream(stream)),
        json!({"frame_type": "stream", "stream_id": 4, "offset": 100, "fin": true, "raw": raw})
    );
    assert_eq!(
        one(Frame::Stream(Stream { offset: VarInt::ZERO, fin: false, ..stream })),
        json!({"frame_type": "stream", "stream_id": 4, "offset": 0, "raw": raw})
    );
    assert_eq!(
        one(Frame::Crypto(Crypto { offset: number(9), data: b"hello" })),
        json!({"frame_type": "crypto", "offset": 9, "raw": raw})
    );
    assert_eq!(
        one(Frame::Datagram(Datagram { data: b"hello" })),
        json!({"frame_type": "datagram", "raw": raw})
    );
    assert_eq!(
        written(&[0; 1000], 3),
        json!([{"frame_type": "padding", "raw": {"length": 1000, "payload_length": 1000}}])
    );
}

#[test]
fn acknowledgements() {
    let ranges = [(20, 22), (10, 10), (0, 5)]
        .map(|(first, last)| PacketNumber::new(first).unwrap()..=PacketNumber::new(last).unwrap());
    let counts = EcnCounts { ect0: number(7), ect1: number(8), ce: number(9) };
    let mut buffer = [0; 64];
    let mut writer = Writer::new(&mut buffer);
    Ack::encode_ranges(&mut writer, number(125), ranges.clone().into_iter(), None).unwrap();
    let plain = written(writer.filled(), 3);
    assert_eq!(
        plain,
        json!([{"frame_type": "ack", "ack_delay": 1, "acked_ranges": [[20, 22], [10], [0, 5]]}])
    );
    assert_eq!(written(writer.filled(), 0)[0]["ack_delay"], json!(0.125));
    let mut writer = Writer::new(&mut buffer);
    Ack::encode_ranges(&mut writer, number(0), ranges.into_iter(), Some(counts)).unwrap();
    let frame = &written(writer.filled(), 3)[0];
    assert_eq!([&frame["ect0"], &frame["ect1"], &frame["ce"]], [7, 8, 9]);
}

#[test]
fn requests_for_acknowledgements() {
    let request = AckFrequency {
        sequence: number(3),
        ack_eliciting_threshold: number(9),
        max_ack_delay: number(7500),
        reordering_threshold: number(0),
    };
    assert_eq!(
        one(Frame::AckFrequency(request)),
        json!({"frame_type": "ack_frequency", "sequence_number": 3, "ack_eliciting_threshold": 9,
               "request_max_ack_delay": 7.5, "reordering_threshold": 0})
    );
    assert_eq!(one(Frame::ImmediateAck), json!({"frame_type": "immediate_ack"}));
}

#[test]
fn streams_that_end_early() {
    let reset =
        ResetStream { stream_id: stream_id(4), error_code: number(268), final_size: number(9) };
    assert_eq!(
        one(Frame::ResetStream(reset)),
        json!({"frame_type": "reset_stream", "stream_id": 4, "error": "unknown", "error_code": 268,
               "final_size": 9})
    );
    let reset = ResetStreamAt {
        stream_id: stream_id(4),
        error_code: number(268),
        final_size: number(9),
        reliable_size: number(5),
    };
    assert_eq!(
        one(Frame::ResetStreamAt(reset)),
        json!({"frame_type": "reset_stream_at", "stream_id": 4, "error": "unknown",
               "error_code": 268, "final_size": 9, "reliable_size": 5})
    );
    let stop = StopSending { stream_id: stream_id(4), error_code: number(268) };
    assert_eq!(
        one(Frame::StopSending(stop)),
        json!({"frame_type": "stop_sending", "stream_id": 4, "error": "unknown", "error_code": 268})
    );
}

#[test]
fn limits() {
    let (id, value) = (stream_id(4), number(77));
    let direction = Direction::Bidirectional;
    for (frame, expected) in [
        (
            Frame::MaxData(MaxData { maximum: value }),
            json!({"frame_type": "max_data", "maximum": 77}),
        ),
        (
            Frame::MaxStreamData(MaxStreamData { stream_id: id, maximum: value }),
            json!({"frame_type": "max_stream_data", "stream_id": 4, "maximum": 77}),
        ),
        (
            Frame::MaxStreams(MaxStreams { direction, maximum: value }),
            json!({"frame_type": "max_streams", "stream_type": "bidirectional", "maximum": 77}),
        ),
        (
            Frame::DataBlocked(DataBlocked { limit: value }),
            json!({"frame_type": "data_blocked", "limit": 77}),
        ),
        (
            Frame::StreamDataBlocked(StreamDataBlocked { stream_id: id, limit: value }),
            json!({"frame_type": "stream_data_blocked", "stream_id": 4, "limit": 77}),
        ),
        (
            Frame::StreamsBlocked(StreamsBlocked {
                direction: Direction::Unidirectional,
                limit: value,
            }),
            json!({"frame_type": "streams_blocked", "stream_type": "unidirectional", "limit": 77}),
        ),
    ] {
        assert_eq!(one(frame), expected);
    }
}

#[test]
fn connection_ids_and_paths() {
    let id = NewConnectionId {
        sequence: number(2),
        retire_prior_to: number(1),
        id: ConnectionId::new(&[0xab, 0x0c]).unwrap(),
        reset_token: ResetToken::new([0x5e; 16]),
    };
    // The stateless reset token is left out: see `new_connection_id`.
    assert_eq!(
        one(Frame::NewConnectionId(id)),
        json!({"frame_type": "new_connection_id", "sequence_number": 2, "retire_prior_to": 1,
               "connection_id": "ab0c"})
    );
    assert_eq!(
        one(Frame::RetireConnectionId(RetireConnectionId { sequence: number(2) })),
        json!({"frame_type": "retire_connection_id", "sequence_number": 2})
    );
    let data = [0, 1, 2, 3, 4, 5, 6, 0xff];
    assert_eq!(
        one(Frame::PathChallenge(PathChallenge { data })),
        json!({"frame_type": "path_challenge", "data": "00010203040506ff"})
    );
    assert_eq!(
        one(Frame::PathResponse(PathResponse { data })),
        json!({"frame_type": "path_response", "data": "00010203040506ff"})
    );
    assert_eq!(
        one(Frame::NewToken(NewToken { token: b"secret" })),
        json!({"frame_type": "new_token", "token": {"raw": {"length": 6}}})
    );
}

#[test]
fn connection_close() {
    let transport = |code, frame_type, reason| {
        one(Frame::ConnectionClose(ConnectionClose {
            error_code: number(code),
            kind: CloseKind::Transport { frame_type: number(frame_type) },
            reason,
        }))
    };
    assert_eq!(
        transport(0x0a, 6, &b"no"[..]),
        json!({"frame_type": "connection_close", "error_space": "transport",
               "error": "protocol_violation", "reason": "no", "trigger_frame_type": 6})
    );
    assert_eq!(transport(0x128, 0, &b""[..])["error"], "crypto_error_0x128");
    let unknown = transport(0x4000, 0, &[0xff, 0x00]);
    assert_eq!(unknown["error"], "unknown");
    assert_eq!(unknown["error_code"], 0x4000);
    assert_eq!(unknown["reason_bytes"], "ff00");
    assert_eq!(unknown.get("trigger_frame_type"), None);
    assert_eq!(
        one(Frame::ConnectionClose(ConnectionClose {
            error_code: number(256),
            kind: CloseKind::Application,
            reason: b"done",
        })),
        json!({"frame_type": "connection_close", "error_space": "application",
               "error": "unknown", "error_code": 256, "reason": "done"})
    );
}

#[test]
fn a_frame_that_cannot_be_decoded_ends_the_list() {
    let mut bytes = payload(&[Frame::Ping, Frame::HandshakeDone]);
    bytes.extend([0x40, 0x9f, 1, 2, 3]);
    assert_eq!(
        written(&bytes, 3),
        json!([
            {"frame_type": "ping"},
            {"frame_type": "handshake_done"},
            {"frame_type": "unknown", "frame_type_bytes": 0x9f, "raw": {"length": 5}},
        ])
    );
    // This CRYPTO frame is longer than its packet.
    assert_eq!(
        written(&[0x06, 0x00, 0x3f, 1], 3),
        json!([{"frame_type": "unknown", "frame_type_bytes": 6, "raw": {"length": 4}}])
    );
}

proptest! {
    #[test]
    fn any_payload_is_written_as_json(bytes: Vec<u8>, exponent: u64) {
        prop_assert!(written(&bytes, exponent).is_array());
    }

    /// The size of a log entry is bounded by the size of the peer's packet.
    #[test]
    fn a_payload_grows_by_a_bounded_factor(
        payload in proptest::collection::vec(0_u8..0x20, 1..1500)
    ) {
        let text = written(&payload, 3).to_string();
        prop_assert!(text.len() <= 128 * payload.len() + 128, "{} of {}", text.len(), payload.len());
    }
}

/// A datagram that repeats small frames takes at most a few times its size in the log. In earlier
/// versions, it took 20 to 30 times its size.
#[test]
fn floods_of_small_frames_are_counted() {
    let repeat = |octets: &[u8]| octets.repeat(1150 / octets.len());
    let limits: Vec<u8> = (0..127_u8)
        .flat_map(|value| [0x10, 0x80, 0, 0, value, 0x1a, 0, 0, 0, 0, 0, 0, 0, value])
        .collect();
    for (flood, expected) in [
        (
            repeat(&[0x01]),
            json!([{"frame_type": "ping"}, {"frame_type": "clearway:repeated", "count": 1149}]),
        ),
        (
            repeat(&[0x1f]),
            json!([{"frame_type": "immediate_ack"}, {"frame_type": "clearway:repeated", "count": 1149}]),
        ),
    ] {
        assert_eq!(written(&flood, 3), expected);
    }
    let empty = written(&repeat(&[0x0a, 0x00, 0x00]), 3);
    assert_eq!(empty[1], json!({"frame_type": "clearway:repeated", "count": 382}));
    let frames = written(&limits, 3);
    assert_eq!(frames.as_array().unwrap().len(), MAX_RECEIVED + 1);
    assert_eq!(
        frames[MAX_RECEIVED],
        json!({"frame_type": "clearway:omitted", "count": 254 - MAX_RECEIVED})
    );
    let size = frames.to_string().len();
    assert!(size < 4 * limits.len(), "{size} of {}", limits.len());
    // CONNECTION_CLOSE is always logged.
    let close = [&limits[..], &[0x1d, 0x05, 0x00]].concat();
    let frames = written(&close, 3);
    assert_eq!(frames[MAX_RECEIVED]["frame_type"], "connection_close", "{frames}");
    let mixed = written(&[0x01, 0x01, 0x1e, 0x01], 3);
    let types: Vec<_> =
        mixed.as_array().unwrap().iter().map(|it| it["frame_type"].clone()).collect();
    assert_eq!(types, ["ping", "clearway:repeated", "handshake_done", "ping"]);
}
