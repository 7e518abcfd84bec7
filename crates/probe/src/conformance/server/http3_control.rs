//! The control stream, SETTINGS, and the types of unidirectional streams (RFC 9114 §6.2, §7.2).

use super::super::allowed::{http3, or_alive};
use super::super::{Check, Need::Http3};
use crate::http3::{
    CANCEL_PUSH, CONTROL_STREAM, DATA, DECODER_STREAM, ENCODER_STREAM, GOAWAY, HEADERS,
    MAX_PUSH_ID, PRIORITY_UPDATE, PUSH_PROMISE, PUSH_STREAM, SETTINGS, frame, settings, varints,
};
use crate::script::{Condition, Script, Step};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "missing-settings",
        "RFC 9114 §6.2.1",
        Http3,
        "a control stream that begins with MAX_PUSH_ID",
        || control(&frame(MAX_PUSH_ID, &[8])).expect(http3(&["H3_MISSING_SETTINGS"])),
    )
    .h3spec(),
    Check::new(
        "missing-settings-goaway",
        "RFC 9114 §6.2.1",
        Http3,
        "a control stream that begins with GOAWAY",
        || control(&frame(GOAWAY, &[0])).expect(http3(&["H3_MISSING_SETTINGS"])),
    ),
    Check::new(
        "missing-settings-reserved",
        "RFC 9114 §6.2.1",
        Http3,
        "a control stream that begins with a frame of a reserved type",
        || control(&frame(0x21, b"grease")).expect(http3(&["H3_MISSING_SETTINGS"])),
    ),
    Check::new("data-on-control", "RFC 9114 §7.2.1", Http3, "DATA on the control stream", || {
        unexpected(DATA, b"x")
    })
    .h3spec(),
    Check::new(
        "headers-on-control",
        "RFC 9114 §7.2.2",
        Http3,
        "HEADERS on the control stream",
        || unexpected(HEADERS, b"\0\0\xd1"),
    )
    .h3spec(),
    Check::new("second-settings", "RFC 9114 §7.2.4", Http3, "a second SETTINGS frame", || {
        unexpected(SETTINGS, b"")
    })
    .h3spec(),
    Check::new(
        "push-promise-on-control",
        "RFC 9114 §7.2.5",
        Http3,
        "PUSH_PROMISE on the control stream",
        || unexpected(PUSH_PROMISE, b"\0\0\0\xd1"),
    ),
    Check::new(
        "http2-priority-on-control",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's PRIORITY frame on the control stream",
        || unexpected(0x02, &[0; 5]),
    ),
    Check::new(
        "http2-ping-on-control",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's PING frame on the control stream",
        || unexpected(0x06, &[0; 8]),
    ),
    Check::new(
        "http2-window-update-on-control",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's WINDOW_UPDATE frame on the control stream",
        || unexpected(0x08, &[0; 4]),
    ),
    Check::new(
        "http2-continuation-on-control",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's CONTINUATION frame on the control stream",
        || unexpected(0x09, b""),
    ),
    Check::new(
        "setting-twice",
        "RFC 9114 §7.2.4",
        Http3,
        "a setting twice, which may be an error",
        || {
            control(&settings(&[(6, 1000), (6, 1000)]))
                .expect(or_alive(http3(&["H3_SETTINGS_ERROR"])))
        },
    )
    .h3spec(),
    Check::new(
        "http2-setting-enable-push",
        "RFC 9114 §7.2.4.1",
        Http3,
        "HTTP/2's SETTINGS_ENABLE_PUSH",
        || http2_setting(2),
    )
    .h3spec(),
    Check::new(
        "http2-setting-max-streams",
        "RFC 9114 §7.2.4.1",
        Http3,
        "HTTP/2's SETTINGS_MAX_CONCURRENT_STREAMS",
        || http2_setting(3),
    ),
    Check::new(
        "http2-setting-window",
        "RFC 9114 §7.2.4.1",
        Http3,
        "HTTP/2's SETTINGS_INITIAL_WINDOW_SIZE",
        || http2_setting(4),
    ),
    Check::new(
        "http2-setting-max-frame",
        "RFC 9114 §7.2.4.1",
        Http3,
        "HTTP/2's SETTINGS_MAX_FRAME_SIZE",
        || http2_setting(5),
    ),
    Check::new(
        "settings-truncated",
        "RFC 9114 §7.1",
        Http3,
        "SETTINGS that ends in the middle of a setting",
        || {
            control(&frame(SETTINGS, b"\x06"))
                .expect(http3(&["H3_FRAME_ERROR", "H3_SETTINGS_ERROR"]))
        },
    ),
    Check::new(
        "h3-datagram-setting",
        "RFC 9297 §2.1.1",
        Http3,
        "SETTINGS_H3_DATAGRAM of 2",
        || control(&settings(&[(0x33, 2)])).expect(or_alive(http3(&["H3_SETTINGS_ERROR"]))),
    ),
    Check::new(
        "extended-connect-setting",
        "RFC 9220 §3",
        Http3,
        "SETTINGS_ENABLE_CONNECT_PROTOCOL of 2",
        || control(&settings(&[(0x08, 2)])).expect(or_alive(http3(&["H3_SETTINGS_ERROR"]))),
    ),
    Check::new(
        "unknown-settings",
        "RFC 9114 §7.2.4.1",
        Http3,
        "reserved and unknown settings, to be ignored",
        || control(&settings(&[(0x21, 1), (0x7777, u64::MAX >> 2)])).get(0, "/").expect(answered()),
    ),
    Check::new(
        "control-closed",
        "RFC 9114 §6.2.1",
        Http3,
        "the end of the control stream",
        || critical_end(2),
    )
    .h3spec(),
    Check::new(
        "encoder-stream-closed",
        "RFC 9204 §4.2",
        Http3,
        "the end of the QPACK encoder stream",
        || critical_end(6),
    ),
    Check::new(
        "decoder-stream-closed",
        "RFC 9204 §4.2",
        Http3,
        "the end of the QPACK decoder stream",
        || critical_end(10),
    ),
    Check::new(
        "control-reset",
        "RFC 9114 §6.2.1",
        Http3,
        "RESET_STREAM for the control stream",
        || {
            Script::http3()
                .wait(Condition::Acknowledged {})
                .step(Step::ResetStream { stream: 2, code: 0x100.into() })
                .expect(http3(&["H3_CLOSED_CRITICAL_STREAM"]))
        },
    ),
    Check::new(
        "control-stopped",
        "RFC 9114 §6.2.1",
        Http3,
        "STOP_SENDING for the server's control stream",
        || {
            Script::http3()
                .get(0, "/")
                .wait(Condition::Finished { stream: 0 })
                .step(Step::StopSending { stream: 3, code: 0x100.into() })
                .expect(http3(&["H3_CLOSED_CRITICAL_STREAM"]))
        },
    ),
    Check::new("second-control", "RFC 9114 §6.2.1", Http3, "a second control stream", || {
        second(CONTROL_STREAM)
    }),
    Check::new(
        "second-encoder-stream",
        "RFC 9204 §4.2",
        Http3,
        "a second QPACK encoder stream",
        || second(ENCODER_STREAM),
    ),
    Check::new(
        "second-decoder-stream",
        "RFC 9204 §4.2",
        Http3,
        "a second QPACK decoder stream",
        || second(DECODER_STREAM),
    ),
    Check::new("push-stream-from-client", "RFC 9114 §6.2.2", Http3, "a push stream", || {
        second(PUSH_STREAM)
    }),
    Check::new(
        "unknown-stream-type",
        "RFC 9114 §6.2",
        Http3,
        "unidirectional streams of reserved and unknown types, to be ignored",
        || {
            Script::http3()
                .step(Step::OpenUni { stream: 14, kind: 0x21, data: "grease".into(), fin: true })
                .step(Step::OpenUni {
                    stream: 18,
                    kind: 0x7777,
                    data: "unknown".into(),
                    fin: false,
                })
                .get(0, "/")
                .expect(answered())
        },
    ),
    Check::new(
        "stream-type-cut",
        "RFC 9114 §6.2",
        Http3,
        "a unidirectional stream that ends before its type",
        || Script::http3().stream(14, b"\x40", true).get(0, "/").expect(answered()),
    ),
    Check::new(
        "reserved-frame-on-control",
        "RFC 9114 §7.2.8",
        Http3,
        "a frame of a reserved type on the control stream, to be ignored",
        || Script::http3().frame(2, 0x21, "grease", false).get(0, "/").expect(answered()),
    ),
    Check::new(
        "settings-split",
        "RFC 9114 §6.2.1",
        Http3,
        "SETTINGS in pieces of one byte",
        || {
            let mut bytes = varints(&[CONTROL_STREAM]);
            bytes.extend(settings(&[(6, 100_000), (0x21, 7)]));
            bytes
                .chunks(1)
                .fold(Script::quic(), |script, byte| script.stream(2, byte, false))
                .get(0, "/")
                .expect(answered())
        },
    ),
    Check::new(
        "request-without-control",
        "RFC 9114 §6.2.1",
        Http3,
        "a request without a control stream, which may arrive later",
        || Script::quic().get(0, "/").expect(answered()),
    ),
    Check::new(
        "goaway-increasing",
        "RFC 9114 §5.2",
        Http3,
        "GOAWAY with a larger push ID than before",
        || {
            Script::http3()
                .frame(2, GOAWAY, &[1], false)
                .frame(2, GOAWAY, &[2], false)
                .expect(http3(&["H3_ID_ERROR"]))
        },
    ),
    Check::new(
        "goaway-decreasing",
        "RFC 9114 §5.2",
        Http3,
        "GOAWAY with a smaller push ID than before",
        || {
            Script::http3()
                .frame(2, GOAWAY, &[2], false)
                .frame(2, GOAWAY, &[1], false)
                // A server may then close the connection without an error.
                .expect(or_alive(vec![Condition::application_close(&["H3_NO_ERROR"])]))
        },
    ),
    Check::new(
        "goaway-trailing-bytes",
        "RFC 9114 §7.1",
        Http3,
        "GOAWAY with a byte after its ID",
        || wrong_size(GOAWAY, &[1, 1]),
    ),
    Check::new("goaway-empty", "RFC 9114 §7.1", Http3, "GOAWAY without an ID", || {
        wrong_size(GOAWAY, &[])
    }),
    Check::new(
        "max-push-id-decreasing",
        "RFC 9114 §7.2.7",
        Http3,
        "MAX_PUSH_ID with a smaller push ID than before",
        || {
            Script::http3()
                .frame(2, MAX_PUSH_ID, &[9], false)
                .frame(2, MAX_PUSH_ID, &[8], false)
                .expect(http3(&["H3_ID_ERROR"]))
        },
    ),
    Check::new("max-push-id", "RFC 9114 §7.2.7", Http3, "MAX_PUSH_ID twice, increasing", || {
        Script::http3()
            .frame(2, MAX_PUSH_ID, &[8], false)
            .frame(2, MAX_PUSH_ID, &[9], false)
            .get(0, "/")
            .expect(answered())
    }),
    Check::new("max-push-id-empty", "RFC 9114 §7.1", Http3, "MAX_PUSH_ID without an ID", || {
        wrong_size(MAX_PUSH_ID, &[])
    }),
    Check::new(
        "max-push-id-trailing-bytes",
        "RFC 9114 §7.1",
        Http3,
        "MAX_PUSH_ID with a byte after its ID",
        || wrong_size(MAX_PUSH_ID, &[1, 1]),
    ),
    Check::new(
        "cancel-push-unknown",
        "RFC 9114 §7.2.3",
        Http3,
        "CANCEL_PUSH for a push that was not promised",
        || {
            Script::http3()
                .frame(2, MAX_PUSH_ID, &[9], false)
                .frame(2, CANCEL_PUSH, &[5], false)
                .expect(http3(&["H3_ID_ERROR"]))
        },
    ),
    Check::new(
        "cancel-push-beyond-maximum",
        "RFC 9114 §7.2.3",
        Http3,
        "CANCEL_PUSH for a push ID above the maximum",
        || Script::http3().frame(2, CANCEL_PUSH, &[5], false).expect(http3(&["H3_ID_ERROR"])),
    ),
    Check::new(
        "cancel-push-trailing-bytes",
        "RFC 9114 §7.1",
        Http3,
        "CANCEL_PUSH with a byte after its ID",
        || {
            Script::http3()
                .frame(2, CANCEL_PUSH, &[0, 0], false)
                .expect(http3(&["H3_FRAME_ERROR", "H3_ID_ERROR"]))
        },
    ),
    Check::new(
        "priority-update-wrong-stream",
        "RFC 9218 §7.2",
        Http3,
        "PRIORITY_UPDATE for a unidirectional stream",
        || {
            Script::http3()
                .frame(2, PRIORITY_UPDATE, b"\x02u=1", false)
                .expect(or_alive(http3(&["H3_ID_ERROR"])))
        },
    ),
    Check::new(
        "priority-update-empty",
        "RFC 9218 §7.2",
        Http3,
        "PRIORITY_UPDATE without an ID",
        || {
            Script::http3()
                .frame(2, PRIORITY_UPDATE, b"", false)
                .expect(or_alive(http3(&["H3_FRAME_ERROR"])))
        },
    ),
    Check::new(
        "priority-update",
        "RFC 9218 §7.2",
        Http3,
        "PRIORITY_UPDATE before its request",
        || {
            Script::http3()
                .frame(2, PRIORITY_UPDATE, b"\0u=1", false)
                .get(0, "/")
                .expect(answered())
        },
    ),
    Check::new(
        "control-frame-huge",
        "RFC 9114 §7.1",
        Http3,
        "a frame of a reserved type with a Length of 2^60, whose payload does not end",
        || {
            Script::http3()
                .stream(2, varints(&[0x21, 1 << 60]), false)
                .stream(2, "begin", false)
                .expect(or_alive(http3(&["H3_EXCESSIVE_LOAD", "H3_FRAME_ERROR"])))
        },
    ),
];

/// Returns the conditions for a response with any status.
pub(super) fn answered() -> Vec<Condition> {
    vec![Condition::response(0, &[])]
}

/// Opens a control stream with these bytes.
fn control(bytes: &[u8]) -> Script {
    let step = Step::OpenUni { stream: 2, kind: CONTROL_STREAM, data: bytes.into(), fin: false };
    Script::quic().step(step)
}

fn unexpected(kind: u64, payload: &[u8]) -> Script {
    Script::http3().frame(2, kind, payload, false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
}

fn http2_setting(id: u64) -> Script {
    control(&settings(&[(id, 1)])).expect(http3(&["H3_SETTINGS_ERROR"]))
}

fn critical_end(stream: u64) -> Script {
    Script::http3().stream(stream, "", true).expect(http3(&["H3_CLOSED_CRITICAL_STREAM"]))
}

fn second(kind: u64) -> Script {
    Script::http3()
        .step(Step::OpenUni { stream: 14, kind, data: b"\0".into(), fin: false })
        .expect(http3(&["H3_STREAM_CREATION_ERROR"]))
}

fn wrong_size(kind: u64, payload: &[u8]) -> Script {
    Script::http3().frame(2, kind, payload, false).expect(http3(&["H3_FRAME_ERROR"]))
}
