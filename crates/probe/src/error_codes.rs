//! Names of error codes: transport error codes (RFC 9000 §20.1, RFC 9368 §10.2), TLS alerts (RFC
//! 9001 §4.8), and HTTP/3 and QPACK error codes (RFC 9114 §8.1, RFC 9204 §8.3, RFC 9297 §5.2).

use clearway_http3::Code;

const TRANSPORT: [(&str, u64); 18] = [
    ("NO_ERROR", 0x00),
    ("INTERNAL_ERROR", 0x01),
    ("CONNECTION_REFUSED", 0x02),
    ("FLOW_CONTROL_ERROR", 0x03),
    ("STREAM_LIMIT_ERROR", 0x04),
    ("STREAM_STATE_ERROR", 0x05),
    ("FINAL_SIZE_ERROR", 0x06),
    ("FRAME_ENCODING_ERROR", 0x07),
    ("TRANSPORT_PARAMETER_ERROR", 0x08),
    ("CONNECTION_ID_LIMIT_ERROR", 0x09),
    ("PROTOCOL_VIOLATION", 0x0a),
    ("INVALID_TOKEN", 0x0b),
    ("APPLICATION_ERROR", 0x0c),
    ("CRYPTO_BUFFER_EXCEEDED", 0x0d),
    ("KEY_UPDATE_ERROR", 0x0e),
    ("AEAD_LIMIT_REACHED", 0x0f),
    ("NO_VIABLE_PATH", 0x10),
    ("VERSION_NEGOTIATION_ERROR", 0x11),
];

/// The TLS alerts of RFC 8446 §6, by name, as transport error codes.
const ALERTS: [(&str, u64); 14] = [
    ("unexpected_message", 0x10a),
    ("handshake_failure", 0x128),
    ("bad_certificate", 0x12a),
    ("unsupported_certificate", 0x12b),
    ("illegal_parameter", 0x12f),
    ("unknown_ca", 0x130),
    ("decode_error", 0x132),
    ("decrypt_error", 0x133),
    ("protocol_version", 0x146),
    ("internal_error", 0x150),
    ("missing_extension", 0x16d),
    ("unsupported_extension", 0x16e),
    ("unrecognized_name", 0x170),
    ("no_application_protocol", 0x178),
];

const HTTP3: [u64; 21] = [
    0x33, 0x100, 0x101, 0x102, 0x103, 0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10a, 0x10b,
    0x10c, 0x10d, 0x10e, 0x10f, 0x110, 0x200, 0x201, 0x202,
];

/// Returns the number of an error code that is given by its name in the RFCs, or as a decimal or
/// hexadecimal number.
pub fn number(text: &str) -> Option<u64> {
    let named = TRANSPORT.iter().chain(&ALERTS).find(|(name, _)| *name == text);
    named
        .map(|(_, code)| *code)
        .or_else(|| HTTP3.into_iter().find(|code| Code::new(*code).name() == Some(text)))
        .or_else(|| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        })
}

/// Returns the name of a transport error code, or the number in hexadecimal if it has none.
/// CRYPTO_ERROR codes include the name of the TLS alert.
pub fn transport(code: u64) -> String {
    match TRANSPORT.iter().chain(&ALERTS).find(|(_, number)| *number == code) {
        Some((name, _)) if code >= 0x100 => format!("CRYPTO_ERROR ({name})"),
        Some((name, _)) => (*name).to_owned(),
        None if code >> 8 == 1 => format!("CRYPTO_ERROR (alert {})", code & 0xff),
        None => format!("{code:#x}"),
    }
}

/// Returns the name of an HTTP/3 or QPACK error code, or the number in hexadecimal if it has none.
pub fn application(code: u64) -> String {
    Code::new(code).name().map_or_else(|| format!("{code:#x}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(number("PROTOCOL_VIOLATION"), Some(0x0a));
        assert_eq!(number("H3_FRAME_UNEXPECTED"), Some(0x105));
        assert_eq!((number("0x10"), number("17"), number("NONSENSE")), (Some(16), Some(17), None));
        assert_eq!(transport(0x178), "CRYPTO_ERROR (no_application_protocol)");
        assert_eq!(
            (transport(0x1ff), transport(0x77)),
            ("CRYPTO_ERROR (alert 255)".into(), "0x77".into())
        );
        assert_eq!(
            (application(0x202), application(9)),
            ("QPACK_DECODER_STREAM_ERROR".into(), "0x9".into())
        );
        for code in HTTP3 {
            assert!(number(&application(code)) == Some(code), "{code:#x}");
        }
    }
}
