//! A server's TLS messages (RFC 9001 §4, §6, §8).

use super::super::allowed::alert;
use super::super::{Check, Need::Quic};
use crate::quic::Frame;
use crate::script::{Condition, Script};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "transport-parameters-missing",
        "RFC 9001 §8.2",
        Quic,
        "no transport parameters extension",
        || without(0x39).expect(alert(&["missing_extension"])),
    ),
    Check::new(
        "no-alpn",
        "RFC 9001 §8.1",
        Quic,
        "no application protocol in EncryptedExtensions",
        || {
            without(16).expect(vec![Condition::transport_close(&[
                "no_application_protocol",
                "handshake_failure",
            ])])
        },
    ),
    Check::new("key-update-message", "RFC 9001 §6", Quic, "a TLS KeyUpdate message", || {
        message(b"\x18\0\0\x01\0")
    }),
    Check::new(
        "end-of-early-data",
        "RFC 9001 §8.3",
        Quic,
        "a TLS EndOfEarlyData message from a server",
        || message(b"\x05\0\0\0"),
    ),
    Check::new(
        "certificate-request-after-handshake",
        "RFC 9001 §4.4",
        Quic,
        "a TLS CertificateRequest message after the handshake",
        || {
            // One context byte, and the extension signature_algorithms with ecdsa_secp256r1_sha256.
            message(b"\x0d\0\0\x0c\x01a\0\x08\0\x0d\0\x04\0\x02\x04\x03")
        },
    ),
    Check::new(
        "ticket-early-data-limit",
        "RFC 9001 §4.6.1",
        Quic,
        "a NewSessionTicket whose max_early_data_size is 1,000",
        || {
            let ticket =
                b"\x04\0\0\x16\0\0\x0e\x10\0\0\0\x01\x01n\0\x01t\0\x08\0\x2a\0\x04\0\0\x03\xe8";
            Script::quic()
                .frames(vec![Frame::tls_message(ticket)])
                .expect(alert(&["illegal_parameter", "decode_error"]))
        },
    ),
    Check::new(
        "unknown-message",
        "RFC 8446 §4",
        Quic,
        "a TLS message of an unknown type after the handshake",
        || {
            Script::quic().frames(vec![Frame::tls_message(b"\xfe\0\0\x01\0")]).expect(alert(&[
                "unexpected_message",
                "decode_error",
                "illegal_parameter",
            ]))
        },
    ),
    Check::new(
        "second-finished",
        "RFC 8446 §4.4.4",
        Quic,
        "a TLS Finished message after the handshake",
        || {
            let mut finished = vec![0x14, 0, 0, 32];
            finished.resize(36, 7);
            Script::quic()
                .frames(vec![Frame::tls_message(finished)])
                .expect(alert(&["unexpected_message"]))
        },
    ),
];

fn message(message: &[u8]) -> Script {
    Script::quic().frames(vec![Frame::tls_message(message)]).expect(alert(&["unexpected_message"]))
}

fn without(extension: u16) -> Script {
    Script::quic().connect(|it| it.tls.remove_extensions.push(extension))
}
