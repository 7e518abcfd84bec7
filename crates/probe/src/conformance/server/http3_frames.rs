//! Frames on request streams (RFC 9114 §4.1, §7).

use super::super::allowed::{http3, stream_error};
use super::super::{Check, Need::Http3};
use super::http3_control::answered;
use crate::http3::{
    CANCEL_PUSH, DATA, GOAWAY, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, PUSH_PROMISE, SETTINGS,
    varints,
};
use crate::script::{Condition, Script, Step};

pub(super) const CHECKS: &[Check] = &[
    Check::new("data-before-headers", "RFC 9114 §4.1", Http3, "DATA before HEADERS", || {
        Script::http3().frame(0, DATA, "x", false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
    })
    .h3spec(),
    Check::new(
        "cancel-push-on-request",
        "RFC 9114 §7.2.3",
        Http3,
        "CANCEL_PUSH on a request stream",
        || first(CANCEL_PUSH, b"\0"),
    )
    .h3spec(),
    Check::new(
        "settings-on-request",
        "RFC 9114 §7.2.4",
        Http3,
        "SETTINGS on a request stream",
        || first(SETTINGS, b""),
    ),
    Check::new(
        "goaway-on-request",
        "RFC 9114 §7.2.6",
        Http3,
        "GOAWAY on a request stream",
        || first(GOAWAY, b"\0"),
    ),
    Check::new(
        "max-push-id-on-request",
        "RFC 9114 §7.2.7",
        Http3,
        "MAX_PUSH_ID on a request stream",
        || first(MAX_PUSH_ID, b"\0"),
    ),
    Check::new(
        "push-promise-on-request",
        "RFC 9114 §7.2.5",
        Http3,
        "PUSH_PROMISE from a client",
        || after_headers(PUSH_PROMISE, b"\0\0\0\xd1"),
    ),
    Check::new(
        "priority-update-on-request",
        "RFC 9218 §7.2",
        Http3,
        "PRIORITY_UPDATE on a request stream",
        || {
            let mut allowed = http3(&["H3_FRAME_UNEXPECTED"]);
            // A server without priorities ignores frames of unknown types.
            allowed.extend(answered());
            post("/").frame(0, PRIORITY_UPDATE, b"\0u=1", true).expect(allowed)
        },
    ),
    Check::new(
        "http2-priority-on-request",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's PRIORITY frame on a request stream",
        || after_headers(0x02, &[0; 5]),
    ),
    Check::new(
        "http2-ping-on-request",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's PING frame on a request stream",
        || after_headers(0x06, &[0; 8]),
    ),
    Check::new(
        "http2-window-update-on-request",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's WINDOW_UPDATE frame on a request stream",
        || after_headers(0x08, &[0; 4]),
    ),
    Check::new(
        "http2-continuation-on-request",
        "RFC 9114 §7.2.8",
        Http3,
        "HTTP/2's CONTINUATION frame on a request stream",
        || after_headers(0x09, b""),
    ),
    Check::new(
        "reserved-frames-on-request",
        "RFC 9114 §7.2.8",
        Http3,
        "frames of reserved and unknown types before and after HEADERS, to be ignored",
        || {
            post_after(Script::http3().frame(0, 0x21, "grease", false))
                .frame(0, 0x7777, "unknown", true)
                .expect(answered())
        },
    ),
    Check::new(
        "reserved-frame-empty",
        "RFC 9114 §7.2.8",
        Http3,
        "an empty frame of a reserved type before HEADERS",
        || Script::http3().frame(0, 0x40, "", false).get(0, "/").expect(answered()),
    ),
    Check::new(
        "data-after-trailers",
        "RFC 9114 §4.1",
        Http3,
        "DATA after the trailer section",
        || {
            post("/")
                .frame(0, DATA, "x", false)
                .headers(0, &[("trailer", "1")], false)
                .frame(0, DATA, "y", true)
                .expect(http3(&["H3_FRAME_UNEXPECTED"]))
        },
    ),
    Check::new(
        "headers-after-trailers",
        "RFC 9114 §4.1",
        Http3,
        "HEADERS after the trailer section",
        || {
            post("/")
                .frame(0, DATA, "x", false)
                .headers(0, &[("trailer", "1")], false)
                .headers(0, &[("more", "2")], true)
                .expect(http3(&["H3_FRAME_UNEXPECTED"]))
        },
    ),
    Check::new(
        "trailers",
        "RFC 9114 §4.1",
        Http3,
        "a request with content and a trailer section",
        || {
            post("/")
                .frame(0, DATA, "x", false)
                .headers(0, &[("trailer", "1")], true)
                .expect(answered())
        },
    ),
    Check::new(
        "data-frames-empty",
        "RFC 9114 §7.2.1",
        Http3,
        "a request with empty DATA frames",
        || {
            post("/")
                .frame(0, DATA, "", false)
                .frame(0, DATA, "x", false)
                .frame(0, DATA, "", true)
                .expect(answered())
        },
    ),
    Check::new(
        "frame-cut-by-end",
        "RFC 9114 §7.1",
        Http3,
        "a request stream that ends in the middle of HEADERS",
        || {
            Script::http3()
                .stream(0, b"\x01\x40\x64\0\0", true)
                .expect(stream_error(&["H3_FRAME_ERROR", "H3_REQUEST_INCOMPLETE"]))
        },
    ),
    Check::new(
        "data-cut-by-end",
        "RFC 9114 §7.1",
        Http3,
        "a request stream that ends in the middle of DATA",
        || {
            let mut bytes = varints(&[DATA, 100]);
            bytes.extend_from_slice(b"ten bytes.");
            post("/").stream(0, bytes, true).expect(stream_error(&[
                "H3_FRAME_ERROR",
                "H3_REQUEST_INCOMPLETE",
                "H3_MESSAGE_ERROR",
            ]))
        },
    ),
    Check::new(
        "frame-type-cut-by-end",
        "RFC 9114 §7.1",
        Http3,
        "a request stream that ends in the middle of a frame type",
        || {
            Script::http3()
                .stream(0, b"\x40", true)
                .expect(stream_error(&["H3_FRAME_ERROR", "H3_REQUEST_INCOMPLETE"]))
        },
    ),
    Check::new(
        "request-empty",
        "RFC 9114 §4.1",
        Http3,
        "a request stream that ends without a frame",
        || Script::http3().stream(0, "", true).expect(stream_error(&["H3_REQUEST_INCOMPLETE"])),
    ),
    Check::new(
        "request-of-reserved-frames",
        "RFC 9114 §4.1",
        Http3,
        "a request stream that ends after a frame of a reserved type",
        || {
            Script::http3()
                .frame(0, 0x21, "grease", true)
                .expect(stream_error(&["H3_REQUEST_INCOMPLETE"]))
        },
    ),
    Check::new(
        "request-canceled",
        "RFC 9114 §4.1.1",
        Http3,
        "a request that is reset, and then another request",
        || {
            post("/")
                .step(Step::ResetStream { stream: 0, code: 0x10c.into() })
                .get(4, "/")
                .expect(vec![Condition::response(4, &[])])
        },
    ),
    Check::new(
        "response-stopped",
        "RFC 9114 §4.1.1",
        Http3,
        "STOP_SENDING for a response, and another request",
        || {
            Script::http3()
                .get(0, "/")
                .step(Step::StopSending { stream: 0, code: 0x10c.into() })
                .get(4, "/")
                .expect(vec![Condition::response(4, &[])])
        },
    ),
    Check::new(
        "request-on-second-stream-first",
        "RFC 9114 §6.1",
        Http3,
        "a request on stream 8 before one on stream 0",
        || {
            Script::http3()
                .get(8, "/")
                .expect(vec![Condition::response(8, &[])])
                .get(0, "/")
                .expect(answered())
        },
    ),
    Check::new(
        "request-in-pieces",
        "RFC 9114 §7.1",
        Http3,
        "a request in pieces of one byte",
        || {
            let fields: [(&[u8], &[u8]); 4] = [
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":authority", b"localhost"),
                (b":path", b"/"),
            ];
            let bytes = crate::http3::frame(HEADERS, &crate::http3::literal_section(fields));
            let script =
                bytes.chunks(1).fold(Script::http3(), |script, byte| script.stream(0, byte, false));
            script.stream(0, "", true).expect(answered())
        },
    ),
    Check::new("many-requests", "RFC 9114 §6.1", Http3, "twenty requests at once", || {
        let script = (0..20).fold(Script::http3(), |script, index| script.get(index * 4, "/"));
        (0..20)
            .fold(script, |script, index| script.expect(vec![Condition::response(index * 4, &[])]))
    }),
    Check::new(
        "data-huge-length",
        "RFC 9114 §7.1",
        Http3,
        "DATA with a Length of 2^62 - 1, of which ten bytes arrive",
        || {
            let mut bytes = varints(&[DATA, (1 << 62) - 1]);
            bytes.extend_from_slice(b"ten bytes.");
            let mut allowed =
                stream_error(&["H3_FRAME_ERROR", "H3_EXCESSIVE_LOAD", "H3_MESSAGE_ERROR"]);
            allowed.extend(answered());
            allowed.push(Condition::Alive {});
            post("/").stream(0, bytes, false).expect(allowed)
        },
    ),
];

fn first(kind: u64, payload: &[u8]) -> Script {
    Script::http3().frame(0, kind, payload, false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
}

/// Sends the header section of a request with content.
fn post(path: &str) -> Script {
    post_to(Script::http3(), path)
}

fn post_after(script: Script) -> Script {
    post_to(script, "/")
}

fn post_to(script: Script, path: &str) -> Script {
    let fields =
        [(":method", "POST"), (":scheme", "https"), (":authority", "{authority}"), (":path", path)];
    script.headers(0, &fields, false)
}

fn after_headers(kind: u64, payload: &[u8]) -> Script {
    post("/").frame(0, kind, payload, false).expect(http3(&["H3_FRAME_UNEXPECTED"]))
}
