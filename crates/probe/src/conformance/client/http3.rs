//! Streams, frames and responses of HTTP/3 servers (RFC 9114).

use super::super::allowed::{http3, stream_error};
use super::super::{Check, Need::Http3};
use super::accepted;
use crate::http3::{
    CANCEL_PUSH, CONTROL_STREAM, DATA, DECODER_STREAM, ENCODER_STREAM, GOAWAY, HEADERS,
    MAX_PUSH_ID, PUSH_PROMISE, PUSH_STREAM, SETTINGS, frame, settings,
};
use crate::script::{Condition, Script, Step};

/// The server's control stream.
const CONTROL: u64 = 3;

pub(super) const CHECKS: &[Check] = &[
    Check::new("response", "RFC 9114 §4.1", Http3, "a response with content", || {
        request().headers(0, &[OK], false).frame(0, DATA, "content", true).expect(accepted())
    }),
    Check::new(
        "interim-response",
        "RFC 9114 §4.1",
        Http3,
        "an interim response before the response",
        || {
            request()
                .headers(0, &[(":status", "103")], false)
                .headers(0, &[OK], true)
                .expect(accepted())
        },
    ),
    Check::new(
        "missing-settings",
        "RFC 9114 §6.2.1",
        Http3,
        "a control stream that begins with GOAWAY",
        || control(&frame(GOAWAY, &[0])).expect(http3(&["H3_MISSING_SETTINGS"])),
    ),
    Check::new("data-on-control", "RFC 9114 §7.2.1", Http3, "DATA on the control stream", || {
        unexpected(DATA, b"x")
    }),
    Check::new(
        "headers-on-control",
        "RFC 9114 §7.2.2",
        Http3,
        "HEADERS on the control stream",
        || unexpected(HEADERS, b"\0\0\xd9"),
    ),
    Check::new("second-settings", "RFC 9114 §7.2.4", Http3, "a second SETTINGS frame", || {
        unexpected(SETTINGS, b"")
    }),
    Check::new(
        "max-push-id-from-server",
        "RFC 9114 §7.2.7",
        Http3,
        "MAX_PUSH_ID from a server",
        || unexpected(MAX_PUSH_ID, b"\x08"),
    ),
    Check::new(
        "http2-ping-on-control",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's PING frame on the control stream",
        || unexpected(0x06, &[0; 8]),
    ),
    Check::new(
        "push-promise-on-control",
        "RFC 9114 §7.2.5",
        Http3,
        "PUSH_PROMISE on the control stream",
        || unexpected(PUSH_PROMISE, b"\0\0\0\xd1"),
    ),
    Check::new(
        "setting-twice",
        "RFC 9114 §7.2.4",
        Http3,
        "a setting twice, which may be an error",
        || {
            control(&settings(&[(6, 1000), (6, 1000)]))
                .expect([http3(&["H3_SETTINGS_ERROR"]), accepted()].concat())
        },
    ),
    Check::new("http2-setting", "RFC 9114 §7.2.4.1", Http3, "a setting of HTTP/2", || {
        control(&settings(&[(4, 1)])).expect(http3(&["H3_SETTINGS_ERROR"]))
    }),
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
        "unknown-settings",
        "RFC 9114 §7.2.4.1",
        Http3,
        "reserved and unknown settings, to be ignored",
        || control(&settings(&[(0x21, 1), (0x7777, 5)])).expect(accepted()),
    ),
    Check::new(
        "control-closed",
        "RFC 9114 §6.2.1",
        Http3,
        "the end of the control stream",
        || ended(CONTROL),
    ),
    Check::new(
        "encoder-stream-closed",
        "RFC 9204 §4.2",
        Http3,
        "the end of the QPACK encoder stream",
        || ended(7),
    ),
    Check::new(
        "decoder-stream-closed",
        "RFC 9204 §4.2",
        Http3,
        "the end of the QPACK decoder stream",
        || ended(11),
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
    Check::new(
        "push-stream",
        "RFC 9114 §4.6",
        Http3,
        "a push stream for a push that the client has not allowed",
        || {
            Script::http3()
                .step(Step::OpenUni {
                    stream: 15,
                    kind: PUSH_STREAM,
                    data: b"\0".into(),
                    fin: false,
                })
                .expect(http3(&["H3_ID_ERROR", "H3_STREAM_CREATION_ERROR"]))
        },
    ),
    Check::new(
        "push-promise",
        "RFC 9114 §7.2.5",
        Http3,
        "PUSH_PROMISE for a push that the client has not allowed",
        || {
            request()
                .frame(0, PUSH_PROMISE, b"\0\0\0\xd1", false)
                .expect(http3(&["H3_ID_ERROR", "H3_FRAME_UNEXPECTED"]))
        },
    ),
    Check::new(
        "cancel-push-beyond-maximum",
        "RFC 9114 §7.2.3",
        Http3,
        "CANCEL_PUSH for a push ID that the client has not allowed",
        || {
            Script::http3()
                .frame(CONTROL, CANCEL_PUSH, b"\x05", false)
                .expect(http3(&["H3_ID_ERROR"]))
        },
    ),
    Check::new(
        "goaway-increasing",
        "RFC 9114 §5.2",
        Http3,
        "GOAWAY with a larger stream ID than before",
        || {
            request()
                .frame(CONTROL, GOAWAY, b"\x04", false)
                .frame(CONTROL, GOAWAY, b"\x08", false)
                .expect(http3(&["H3_ID_ERROR"]))
        },
    ),
    Check::new(
        "goaway-not-a-request",
        "RFC 9114 §7.2.6",
        Http3,
        "GOAWAY with the ID of a unidirectional stream",
        || Script::http3().frame(CONTROL, GOAWAY, b"\x02", false).expect(http3(&["H3_ID_ERROR"])),
    ),
    Check::new(
        "goaway-trailing-bytes",
        "RFC 9114 §7.1",
        Http3,
        "GOAWAY with a byte after its ID",
        || {
            Script::http3()
                .frame(CONTROL, GOAWAY, b"\x08\0", false)
                .expect(http3(&["H3_FRAME_ERROR"]))
        },
    ),
    Check::new(
        "reserved-frames",
        "RFC 9114 §7.2.8",
        Http3,
        "frames of reserved types on the control stream and in a response, to be ignored",
        || {
            request()
                .frame(CONTROL, 0x21, "grease", false)
                .frame(0, 0x21, "grease", false)
                .headers(0, &[OK], true)
                .expect(accepted())
        },
    ),
    Check::new(
        "unknown-stream-type",
        "RFC 9114 §6.2",
        Http3,
        "a unidirectional stream of a reserved type, to be ignored",
        || {
            let step = Step::OpenUni { stream: 15, kind: 0x21, data: "grease".into(), fin: true };
            request().step(step).headers(0, &[OK], true).expect(accepted())
        },
    ),
    Check::new(
        "data-before-headers",
        "RFC 9114 §4.1",
        Http3,
        "DATA before HEADERS in a response",
        || request().frame(0, DATA, "x", false).expect(http3(&["H3_FRAME_UNEXPECTED"])),
    ),
    Check::new("settings-on-request", "RFC 9114 §7.2.4", Http3, "SETTINGS in a response", || {
        request().frame(0, SETTINGS, "", false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
    }),
    Check::new("goaway-on-request", "RFC 9114 §7.2.6", Http3, "GOAWAY in a response", || {
        request().frame(0, GOAWAY, b"\0", false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
    }),
    Check::new(
        "http2-continuation-on-request",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's CONTINUATION frame in a response",
        || {
            request()
                .headers(0, &[OK], false)
                .frame(0, 0x09, "", false)
                .expect(http3(&["H3_FRAME_UNEXPECTED"]))
        },
    ),
    Check::new(
        "data-after-trailers",
        "RFC 9114 §4.1",
        Http3,
        "DATA after the trailer section of a response",
        || {
            request()
                .headers(0, &[OK], false)
                .frame(0, DATA, "x", false)
                .headers(0, &[("trailer", "1")], false)
                .frame(0, DATA, "y", false)
                .expect(http3(&["H3_FRAME_UNEXPECTED"]))
        },
    ),
    Check::new(
        "frame-cut-by-end",
        "RFC 9114 §7.1",
        Http3,
        "a response that ends in the middle of a frame",
        || request().stream(0, b"\x01\x40\x64\0\0", true).expect(http3(&["H3_FRAME_ERROR"])),
    ),
    Check::new("status-missing", "RFC 9114 §4.3.2", Http3, "a response without :status", || {
        malformed(&[("server", "probe")])
    }),
    Check::new("status-twice", "RFC 9114 §4.3.2", Http3, "a response with :status twice", || {
        malformed(&[OK, OK])
    }),
    Check::new(
        "status-not-a-number",
        "RFC 9114 §4.3.2",
        Http3,
        "a response whose :status is not a number",
        || malformed(&[(":status", "fine")]),
    ),
    Check::new("status-101", "RFC 9114 §4.5", Http3, "a response with the status 101", || {
        malformed(&[(":status", "101")])
    }),
    Check::new("request-pseudo-header", "RFC 9114 §4.3", Http3, "a response with :path", || {
        malformed(&[OK, (":path", "/")])
    }),
    Check::new(
        "unknown-pseudo-header",
        "RFC 9114 §4.3",
        Http3,
        "a response with an unknown pseudo-header",
        || malformed(&[OK, (":unknown", "1")]),
    ),
    Check::new(
        "pseudo-header-after-field",
        "RFC 9114 §4.3",
        Http3,
        "a response with :status after a field",
        || malformed(&[("server", "probe"), OK]),
    ),
    Check::new(
        "uppercase-name",
        "RFC 9114 §4.2",
        Http3,
        "a response with an uppercase field name",
        || malformed(&[OK, ("Server", "probe")]),
    ),
    Check::new(
        "connection-header",
        "RFC 9114 §4.2",
        Http3,
        "a response with the field Connection",
        || malformed(&[OK, ("connection", "close")]),
    ),
    Check::new(
        "transfer-encoding-header",
        "RFC 9114 §4.2",
        Http3,
        "a response with the field Transfer-Encoding",
        || malformed(&[OK, ("transfer-encoding", "chunked")]),
    ),
    Check::new(
        "value-with-line-feed",
        "RFC 9114 §10.3",
        Http3,
        "a response whose field value has a line feed",
        || malformed(&[OK, ("server", "a\nb")]),
    ),
    Check::new(
        "content-length-too-small",
        "RFC 9114 §4.1.2",
        Http3,
        "a response with more content than its Content-Length",
        || {
            request()
                .headers(0, &[OK, ("content-length", "2")], false)
                .frame(0, DATA, "four", false)
                .expect(stream_error(&["H3_MESSAGE_ERROR"]))
        },
    ),
    Check::new(
        "server-opens-bidi-stream",
        "RFC 9114 §6.1",
        Http3,
        "a bidirectional stream opened by the server",
        || {
            Script::http3().stream(1, "x", false).expect({
                let mut allowed = http3(&["H3_STREAM_CREATION_ERROR"]);
                // A client that allows none detects it below HTTP/3.
                allowed.push(Condition::transport_close(&[
                    "STREAM_LIMIT_ERROR",
                    "PROTOCOL_VIOLATION",
                ]));
                allowed
            })
        },
    ),
];

const OK: (&str, &str) = (":status", "200");

/// Waits for the client's request.
fn request() -> Script {
    Script::http3().wait(Condition::Headers { stream: 0 })
}

fn control(bytes: &[u8]) -> Script {
    let step =
        Step::OpenUni { stream: CONTROL, kind: CONTROL_STREAM, data: bytes.into(), fin: false };
    Script::quic().step(step)
}

fn unexpected(kind: u64, payload: &[u8]) -> Script {
    Script::http3().frame(CONTROL, kind, payload, false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
}

fn ended(stream: u64) -> Script {
    Script::http3().stream(stream, "", true).expect(http3(&["H3_CLOSED_CRITICAL_STREAM"]))
}

fn second(kind: u64) -> Script {
    Script::http3()
        .step(Step::OpenUni { stream: 15, kind, data: "".into(), fin: false })
        .expect(http3(&["H3_STREAM_CREATION_ERROR"]))
}

/// Sends a malformed response without ending it, so that the client can still send STOP_SENDING.
fn malformed(fields: &[(&str, &str)]) -> Script {
    request().headers(0, fields, false).expect(stream_error(&["H3_MESSAGE_ERROR"]))
}
