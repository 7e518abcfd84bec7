//! The names of the error codes with which connections are closed.

/// The errors of RFC 9000 §20.1, RFC 9368 and the multipath draft, by code.
const TRANSPORT: [(u64, &str); 18] = [
    (0x0, "NO_ERROR"),
    (0x1, "INTERNAL_ERROR"),
    (0x2, "CONNECTION_REFUSED"),
    (0x3, "FLOW_CONTROL_ERROR"),
    (0x4, "STREAM_LIMIT_ERROR"),
    (0x5, "STREAM_STATE_ERROR"),
    (0x6, "FINAL_SIZE_ERROR"),
    (0x7, "FRAME_ENCODING_ERROR"),
    (0x8, "TRANSPORT_PARAMETER_ERROR"),
    (0x9, "CONNECTION_ID_LIMIT_ERROR"),
    (0xa, "PROTOCOL_VIOLATION"),
    (0xb, "INVALID_TOKEN"),
    (0xc, "APPLICATION_ERROR"),
    (0xd, "CRYPTO_BUFFER_EXCEEDED"),
    (0xe, "KEY_UPDATE_ERROR"),
    (0xf, "AEAD_LIMIT_REACHED"),
    (0x10, "NO_VIABLE_PATH"),
    (0x11, "VERSION_NEGOTIATION_ERROR"),
];

/// The errors of HTTP/3 and QPACK (RFC 9114 §8.1, RFC 9204 §6).
const HTTP3: [(u64, &str); 20] = [
    (0x100, "H3_NO_ERROR"),
    (0x101, "H3_GENERAL_PROTOCOL_ERROR"),
    (0x102, "H3_INTERNAL_ERROR"),
    (0x103, "H3_STREAM_CREATION_ERROR"),
    (0x104, "H3_CLOSED_CRITICAL_STREAM"),
    (0x105, "H3_FRAME_UNEXPECTED"),
    (0x106, "H3_FRAME_ERROR"),
    (0x107, "H3_EXCESSIVE_LOAD"),
    (0x108, "H3_ID_ERROR"),
    (0x109, "H3_SETTINGS_ERROR"),
    (0x10a, "H3_MISSING_SETTINGS"),
    (0x10b, "H3_REQUEST_REJECTED"),
    (0x10c, "H3_REQUEST_CANCELLED"),
    (0x10d, "H3_REQUEST_INCOMPLETE"),
    (0x10e, "H3_MESSAGE_ERROR"),
    (0x10f, "H3_CONNECT_ERROR"),
    (0x110, "H3_VERSION_FALLBACK"),
    (0x200, "QPACK_DECOMPRESSION_FAILED"),
    (0x201, "QPACK_ENCODER_STREAM_ERROR"),
    (0x202, "QPACK_DECODER_STREAM_ERROR"),
];

/// The TLS alerts (RFC 8446 §6); error codes from 0x100 on contain an alert (RFC 9001 §4.8).
const ALERTS: [(u64, &str); 27] = [
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (22, "record_overflow"),
    (40, "handshake_failure"),
    (42, "bad_certificate"),
    (43, "unsupported_certificate"),
    (44, "certificate_revoked"),
    (45, "certificate_expired"),
    (46, "certificate_unknown"),
    (47, "illegal_parameter"),
    (48, "unknown_ca"),
    (49, "access_denied"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (70, "protocol_version"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (112, "unrecognized_name"),
    (113, "bad_certificate_status_response"),
    (115, "unknown_psk_identity"),
    (116, "certificate_required"),
    (120, "no_application_protocol"),
];

fn find(table: &[(u64, &'static str)], code: u64) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

/// Returns the name of a transport error with its code.
pub(super) fn transport(code: u64) -> String {
    if let Some(alert) = code.checked_sub(0x100).filter(|alert| *alert < 0x100) {
        return match find(&ALERTS, alert) {
            Some(name) => format!("CRYPTO_ERROR {code:#x} (TLS alert {name})"),
            None => format!("CRYPTO_ERROR {code:#x} (TLS alert {alert})"),
        };
    }
    match find(&TRANSPORT, code) {
        Some(name) => format!("{name} ({code:#x})"),
        None => format!("transport error {code:#x}"),
    }
}

/// Returns the name of an application error with its code. Most applications are HTTP/3.
pub(super) fn application(code: u64) -> String {
    match find(&HTTP3, code) {
        Some(name) => format!("{name} ({code:#x})"),
        None => format!("application error {code:#x}"),
    }
}

/// Returns the code of a transport error, given its name in any draft: in upper or lower case,
/// `crypto_error_0x12a`, `0x1a`.
pub(super) fn transport_code(name: &str) -> Option<u64> {
    let name = name.to_ascii_lowercase();
    let digits = name.strip_prefix("crypto_error_").unwrap_or(&name);
    if let Some(digits) = digits.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    code(&TRANSPORT, &name).or_else(|| digits.parse().ok())
}

/// Returns the code of an application error, given its name or number.
pub(super) fn application_code(name: &str) -> Option<u64> {
    let name = name.to_ascii_lowercase();
    if let Some(digits) = name.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    // In qlog, the drafts call HTTP/3 errors `http_…`.
    let known =
        name.strip_prefix("http_").map_or_else(|| name.clone(), |rest| format!("h3_{rest}"));
    code(&HTTP3, &known).or_else(|| name.parse().ok())
}

fn code(table: &[(u64, &'static str)], name: &str) -> Option<u64> {
    let is_it = |(_, known): &&(u64, &'static str)| known.eq_ignore_ascii_case(name);
    table.iter().find(is_it).map(|(code, _)| *code)
}
