//! TLS (RFC 9001 §4, §8).

use super::super::allowed::alert;
use super::super::{Check, Need::Quic};
use super::packets::at;
use crate::Data;
use crate::quic::{Frame, Level};
use crate::script::{Condition, Script};

/// The TLS extension with the transport parameters.
const TRANSPORT_PARAMETERS: u16 = 0x39;
/// The TLS extension with the application protocols.
const ALPN: u16 = 16;
/// The TLS extension supported_versions.
const SUPPORTED_VERSIONS: u16 = 43;

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "key-update-message-handshake",
        "RFC 9001 §6",
        Quic,
        "a TLS KeyUpdate message in a Handshake packet",
        || message(Level::Handshake, b"\x18\0\0\x01\0"),
    )
    .h3spec(),
    Check::new(
        "key-update-message-one-rtt",
        "RFC 9001 §6",
        Quic,
        "a TLS KeyUpdate message in a 1-RTT packet",
        || message(Level::OneRtt, b"\x18\0\0\x01\0"),
    )
    .h3spec(),
    Check::new(
        "end-of-early-data-handshake",
        "RFC 9001 §8.3",
        Quic,
        "a TLS EndOfEarlyData message in a Handshake packet",
        || message(Level::Handshake, b"\x05\0\0\0"),
    )
    .h3spec(),
    Check::new(
        "end-of-early-data-one-rtt",
        "RFC 9001 §8.3",
        Quic,
        "a TLS EndOfEarlyData message in a 1-RTT packet",
        || message(Level::OneRtt, b"\x05\0\0\0"),
    ),
    Check::new(
        "no-common-alpn",
        "RFC 9001 §8.1",
        Quic,
        "an application protocol that the server does not know",
        || {
            Script::quic().connect(|it| it.alpn = vec!["unknown-protocol".into()]).expect(vec![
                Condition::transport_close(&["no_application_protocol", "handshake_failure"]),
            ])
        },
    )
    .h3spec(),
    Check::new("no-alpn", "RFC 9001 §8.1", Quic, "no application protocol", || {
        without(ALPN).expect(vec![Condition::transport_close(&[
            "no_application_protocol",
            "handshake_failure",
            "missing_extension",
        ])])
    }),
    Check::new(
        "transport-parameters-missing",
        "RFC 9001 §8.2",
        Quic,
        "no transport parameters extension",
        || without(TRANSPORT_PARAMETERS).expect(alert(&["missing_extension"])),
    )
    .h3spec(),
    Check::new(
        "tls-1-2",
        "RFC 9001 §4.2",
        Quic,
        "a ClientHello that does not offer TLS 1.3",
        || {
            without(SUPPORTED_VERSIONS).expect(alert(&[
                "protocol_version",
                "missing_extension",
                "illegal_parameter",
                "unsupported_extension",
            ]))
        },
    ),
    Check::new(
        "middlebox-compatibility",
        "RFC 9001 §8.4",
        Quic,
        "a ClientHello with a legacy_session_id",
        || {
            Script::quic()
                .connect(|it| it.tls.legacy_session_id = Some(Data::new([7; 32])))
                .expect(alert(&["illegal_parameter"]))
        },
    ),
    Check::new(
        "message-after-client-hello",
        "RFC 8446 §4",
        Quic,
        "a TLS message of an unknown type after ClientHello",
        || {
            Script::quic()
                .connect(|it| it.tls.append = Some(b"\xfe\0\0\x01\0".into()))
                .expect(alert(&["unexpected_message", "decode_error", "illegal_parameter"]))
        },
    ),
    Check::new(
        "second-client-hello",
        "RFC 8446 §4.1.2",
        Quic,
        "a ClientHello message in a 1-RTT packet",
        || {
            Script::quic()
                .frames(vec![Frame::tls_message(b"\x01\0\0\0")])
                .expect(alert(&["unexpected_message", "decode_error"]))
        },
    ),
    Check::new(
        "new-session-ticket-from-client",
        "RFC 8446 §4.6.1",
        Quic,
        "a TLS NewSessionTicket message",
        || {
            Script::quic()
                .frames(vec![Frame::tls_message(b"\x04\0\0\x0e\0\0\0\x01\0\0\0\x01\0\0\x01a\0\0")])
                .expect(alert(&["unexpected_message", "decode_error"]))
        },
    ),
    Check::new(
        "second-finished",
        "RFC 8446 §4.4.4",
        Quic,
        "a second TLS Finished message, in a 1-RTT packet",
        || {
            let mut finished = vec![0x14, 0, 0, 32];
            finished.resize(36, 7);
            Script::quic()
                .frames(vec![Frame::tls_message(finished)])
                .expect(alert(&["unexpected_message"]))
        },
    ),
    Check::new(
        "wrong-finished",
        "RFC 8446 §4.4.4",
        Quic,
        "a TLS Finished message with wrong contents",
        || {
            let mut finished = vec![0x14, 0, 0, 32];
            finished.resize(36, 7);
            at(Level::Handshake)
                .packet(crate::quic::Packet {
                    once: true,
                    ..crate::quic::Packet::at(
                        Level::Handshake,
                        vec![Frame::Crypto { offset: 0.into(), data: finished.into() }],
                    )
                })
                .expect(alert(&["decrypt_error", "unexpected_message", "decode_error"]))
        },
    ),
    Check::new(
        "unknown-message-one-rtt",
        "RFC 8446 §4",
        Quic,
        "a TLS message of an unknown type in a 1-RTT packet",
        || {
            Script::quic().frames(vec![Frame::tls_message(b"\xfe\0\0\x01\0")]).expect(alert(&[
                "unexpected_message",
                "decode_error",
                "illegal_parameter",
            ]))
        },
    ),
    Check::new(
        "crypto-after-handshake-in-handshake",
        "RFC 9001 §4.1.3",
        Quic,
        "CRYPTO data of the next encryption level in a Handshake packet",
        || {
            at(Level::Handshake)
                .frames_at(
                    Level::Handshake,
                    vec![Frame::Crypto { offset: 0.into(), data: b"\x18\0\0\x01\0".into() }],
                )
                .expect(alert(&["unexpected_message"]))
        },
    ),
    Check::new(
        "initial-crypto-after-client-hello",
        "RFC 9001 §4.1.3",
        Quic,
        "more data at the Initial level after ClientHello",
        || {
            let frame = Frame::tls_message(b"\x01\0\0\x01\0");
            at(Level::Initial)
                .frames_at(Level::Initial, vec![frame])
                .expect(alert(&["unexpected_message", "decode_error"]))
        },
    ),
];

fn message(level: Level, message: &[u8]) -> Script {
    let frame = match level {
        // The client's own messages have not been sent yet.
        Level::Handshake => Frame::Crypto { offset: 0.into(), data: message.into() },
        _ => Frame::tls_message(message),
    };
    at(level).frames_at(level, vec![frame]).expect(alert(&["unexpected_message"]))
}

fn without(extension: u16) -> Script {
    Script::quic().connect(|it| it.tls.remove_extensions.push(extension))
}
