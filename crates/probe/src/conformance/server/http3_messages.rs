//! Malformed and well-formed requests (RFC 9114 §4.2, §4.3, §4.4).

use super::super::allowed::{malformed, stream_error};
use super::super::{Check, Need::Http3};
use super::http3_control::answered;
use crate::http3::DATA;
use crate::script::{Condition, Field, Script, Step};

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "{authority}");
const PATH: (&str, &str) = (":path", "/");

pub(super) const CHECKS: &[Check] = &[
    Check::new("pseudo-header-twice", "RFC 9114 §4.3", Http3, ":method twice", || {
        bad(&[METHOD, METHOD, SCHEME, AUTHORITY, PATH])
    })
    .h3spec(),
    Check::new("path-twice", "RFC 9114 §4.3", Http3, ":path twice", || {
        bad(&[METHOD, SCHEME, AUTHORITY, PATH, PATH])
    }),
    Check::new("method-missing", "RFC 9114 §4.3.1", Http3, "no :method", || {
        bad(&[SCHEME, AUTHORITY, PATH])
    })
    .h3spec(),
    Check::new("scheme-missing", "RFC 9114 §4.3.1", Http3, "no :scheme", || {
        bad(&[METHOD, AUTHORITY, PATH])
    })
    .h3spec(),
    Check::new("path-missing", "RFC 9114 §4.3.1", Http3, "no :path", || {
        bad(&[METHOD, SCHEME, AUTHORITY])
    })
    .h3spec(),
    Check::new(
        "authority-missing",
        "RFC 9114 §4.3.1",
        Http3,
        "neither :authority nor Host",
        || bad(&[METHOD, SCHEME, PATH]),
    ),
    Check::new("authority-empty", "RFC 9114 §4.3.1", Http3, "an empty :authority", || {
        bad(&[METHOD, SCHEME, (":authority", ""), PATH])
    }),
    Check::new(
        "authority-and-host-differ",
        "RFC 9114 §4.3.1",
        Http3,
        "a Host field that differs from :authority",
        || bad(&[METHOD, SCHEME, AUTHORITY, PATH, ("host", "other.example")]),
    ),
    Check::new(
        "authority-with-userinfo",
        "RFC 9114 §4.3.1",
        Http3,
        "an :authority with userinfo",
        || bad(&[METHOD, SCHEME, (":authority", "user@localhost"), PATH]),
    ),
    Check::new("path-empty", "RFC 9114 §4.3.1", Http3, "an empty :path", || {
        bad(&[METHOD, SCHEME, AUTHORITY, (":path", "")])
    }),
    Check::new("forbidden-pseudo-header", "RFC 9114 §4.3", Http3, ":status in a request", || {
        bad(&[METHOD, SCHEME, AUTHORITY, PATH, (":status", "200")])
    })
    .h3spec(),
    Check::new(
        "unknown-pseudo-header",
        "RFC 9114 §4.3",
        Http3,
        "an unknown pseudo-header",
        || bad(&[METHOD, SCHEME, AUTHORITY, PATH, (":unknown", "1")]),
    ),
    Check::new(
        "pseudo-header-after-field",
        "RFC 9114 §4.3",
        Http3,
        "a pseudo-header after a field",
        || bad(&[METHOD, SCHEME, AUTHORITY, ("accept", "*/*"), PATH]),
    )
    .h3spec(),
    Check::new(
        "pseudo-header-in-trailers",
        "RFC 9114 §4.3",
        Http3,
        "a pseudo-header in the trailer section",
        || {
            Script::http3()
                .headers(0, &[(":method", "POST"), SCHEME, AUTHORITY, PATH], false)
                .frame(0, DATA, "x", false)
                .headers(0, &[(":path", "/")], true)
                // A response may be on its way already.
                .expect(either(malformed()))
        },
    ),
    Check::new(
        "uppercase-name",
        "RFC 9114 §4.2",
        Http3,
        "a field name with an uppercase letter",
        || with("Accept", "*/*"),
    ),
    Check::new("name-empty", "RFC 9114 §4.2", Http3, "an empty field name", || with("", "x")),
    Check::new("name-with-space", "RFC 9114 §4.2", Http3, "a field name with a space", || {
        with("my name", "x")
    }),
    Check::new("name-with-colon", "RFC 9114 §4.2", Http3, "a field name with a colon", || {
        with("my:name", "x")
    }),
    Check::new(
        "name-with-control-character",
        "RFC 9114 §4.2",
        Http3,
        "a field name with a line feed",
        || with("my\nname", "x"),
    ),
    Check::new(
        "name-not-ascii",
        "RFC 9114 §4.2",
        Http3,
        "a field name with a letter that is not ASCII",
        || with("n\u{e4}me", "x"),
    ),
    Check::new("value-with-nul", "RFC 9114 §10.3", Http3, "a field value with NUL", || {
        with("name", "a\0b")
    }),
    Check::new(
        "value-with-line-feed",
        "RFC 9114 §10.3",
        Http3,
        "a field value with a line feed",
        || with("name", "a\nb: c"),
    ),
    Check::new(
        "value-with-carriage-return",
        "RFC 9114 §10.3",
        Http3,
        "a field value with a carriage return",
        || with("name", "a\rb"),
    ),
    Check::new("connection-header", "RFC 9114 §4.2", Http3, "the field Connection", || {
        with("connection", "close")
    }),
    Check::new("keep-alive-header", "RFC 9114 §4.2", Http3, "the field Keep-Alive", || {
        with("keep-alive", "5")
    }),
    Check::new(
        "proxy-connection-header",
        "RFC 9114 §4.2",
        Http3,
        "the field Proxy-Connection",
        || with("proxy-connection", "close"),
    ),
    Check::new(
        "transfer-encoding-header",
        "RFC 9114 §4.2",
        Http3,
        "the field Transfer-Encoding",
        || with("transfer-encoding", "chunked"),
    ),
    Check::new("upgrade-header", "RFC 9114 §4.2", Http3, "the field Upgrade", || {
        with("upgrade", "websocket")
    }),
    Check::new(
        "te-other-than-trailers",
        "RFC 9114 §4.2",
        Http3,
        "the field TE with a value other than trailers",
        || with("te", "gzip"),
    ),
    Check::new(
        "te-trailers",
        "RFC 9114 §4.2",
        Http3,
        "the field TE with the value trailers, which is allowed",
        || {
            Script::http3()
                .headers(0, &[METHOD, SCHEME, AUTHORITY, PATH, ("te", "trailers")], true)
                .expect(answered())
        },
    ),
    Check::new(
        "content-length-too-large",
        "RFC 9114 §4.1.2",
        Http3,
        "a Content-Length that exceeds the content",
        || content("10", "four"),
    ),
    Check::new(
        "content-length-too-small",
        "RFC 9114 §4.1.2",
        Http3,
        "a Content-Length below the content",
        || content("2", "four"),
    ),
    Check::new(
        "content-length-not-a-number",
        "RFC 9114 §4.1.2",
        Http3,
        "a Content-Length that is not a number",
        || content("four", "four"),
    ),
    Check::new(
        "content-lengths-differ",
        "RFC 9114 §4.1.2",
        Http3,
        "two Content-Length fields with different values",
        || {
            Script::http3()
                .headers(
                    0,
                    &[
                        (":method", "POST"),
                        SCHEME,
                        AUTHORITY,
                        PATH,
                        ("content-length", "4"),
                        ("content-length", "5"),
                    ],
                    false,
                )
                .frame(0, DATA, "four", true)
                .expect(malformed())
        },
    ),
    Check::new(
        "content-length",
        "RFC 9114 §4.1.2",
        Http3,
        "a Content-Length that matches the content",
        || {
            Script::http3()
                .headers(
                    0,
                    &[(":method", "POST"), SCHEME, AUTHORITY, PATH, ("content-length", "4")],
                    false,
                )
                .frame(0, DATA, "four", true)
                .expect(answered())
        },
    ),
    Check::new(
        "connect-with-path",
        "RFC 9114 §4.4",
        Http3,
        "CONNECT with :scheme and :path",
        || {
            Script::http3()
                .headers(0, &[(":method", "CONNECT"), SCHEME, AUTHORITY, PATH], true)
                .expect(rejected())
        },
    ),
    Check::new(
        "connect-without-authority",
        "RFC 9114 §4.4",
        Http3,
        "CONNECT without :authority",
        || Script::http3().headers(0, &[(":method", "CONNECT")], true).expect(rejected()),
    ),
    Check::new(
        "host-instead-of-authority",
        "RFC 9114 §4.3.1",
        Http3,
        "Host in place of :authority, which is allowed",
        || {
            Script::http3()
                .headers(0, &[METHOD, SCHEME, PATH, ("host", "{authority}")], true)
                .expect(answered())
        },
    ),
    Check::new(
        "cookie-crumbs",
        "RFC 9114 §4.2.1",
        Http3,
        "several Cookie fields, which are allowed",
        || {
            Script::http3()
                .headers(
                    0,
                    &[METHOD, SCHEME, AUTHORITY, PATH, ("cookie", "a=1"), ("cookie", "b=2")],
                    true,
                )
                .expect(answered())
        },
    ),
    Check::new(
        "unknown-method",
        "RFC 9114 §4.3.1",
        Http3,
        "a request with an unknown method",
        || {
            Script::http3()
                .headers(0, &[(":method", "JUMP"), SCHEME, AUTHORITY, PATH], true)
                .expect(answered())
        },
    ),
    Check::new(
        "huffman-and-static-table",
        "RFC 9204 §4.5",
        Http3,
        "a request with the static table and Huffman coding",
        || {
            let fields = [
                METHOD,
                SCHEME,
                AUTHORITY,
                PATH,
                ("accept", "*/*"),
                ("user-agent", "clearway-probe"),
            ];
            let fields = fields.iter().map(|(name, value)| Field::new(name, value)).collect();
            Script::http3()
                .step(Step::Headers { stream: 0, fields, literal: false, fin: true })
                .expect(answered())
        },
    ),
    Check::new(
        "large-field-section",
        "RFC 9114 §4.2.2",
        Http3,
        "a request with a field of 100,000 bytes, which may be rejected",
        || {
            let value = "x".repeat(100_000);
            let mut allowed = stream_error(&[
                "H3_EXCESSIVE_LOAD",
                "H3_REQUEST_REJECTED",
                "H3_REQUEST_CANCELLED",
                "H3_INTERNAL_ERROR",
                "H3_MESSAGE_ERROR",
            ]);
            allowed.extend(answered());
            allowed.push(Condition::reset(0, &[]));
            Script::http3()
                .headers(0, &[METHOD, SCHEME, AUTHORITY, PATH, ("large", &value)], true)
                .expect(allowed)
        },
    ),
    Check::new(
        "malformed-then-well-formed",
        "RFC 9114 §4.1.2",
        Http3,
        "a malformed request, and then a well-formed one",
        || {
            Script::http3().headers(0, &[METHOD, SCHEME, AUTHORITY], true).get(4, "/").expect(vec![
                Condition::response(4, &[]),
                Condition::application_close(&["H3_MESSAGE_ERROR", "H3_GENERAL_PROTOCOL_ERROR"]),
            ])
        },
    ),
];

fn bad(fields: &[(&str, &str)]) -> Script {
    Script::http3().headers(0, fields, true).expect(malformed())
}

fn with(name: &str, value: &str) -> Script {
    bad(&[METHOD, SCHEME, AUTHORITY, PATH, (name, value)])
}

fn content(length: &str, content: &str) -> Script {
    Script::http3()
        .headers(
            0,
            &[(":method", "POST"), SCHEME, AUTHORITY, PATH, ("content-length", length)],
            false,
        )
        .frame(0, DATA, content, true)
        .expect(malformed())
}

/// Returns the conditions for a CONNECT request, which a server need not support.
fn rejected() -> Vec<Condition> {
    let mut all = malformed();
    all.push(Condition::response(0, &[5]));
    all
}

fn either(mut conditions: Vec<Condition>) -> Vec<Condition> {
    conditions.extend(answered());
    conditions
}
