//! Rules for individual fields, which apply to both sent and received messages.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};

use crate::structured::{self, Value};

/// Returns whether a field is specific to an HTTP/1.1 connection, and so forbidden in HTTP/3 (RFC
/// 9114 §4.2, RFC 9110 §7.6.1). `te` is handled separately.
pub(super) fn is_connection_specific(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    )
}

/// Returns whether `value` is the only allowed value of `te`, which is allowed only in request
/// headers (RFC 9114 §4.2).
pub(super) fn is_trailers(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"trailers")
}

/// Returns whether `value` is a valid field value (RFC 9110 §5.5): visible characters and obs-text,
/// with spaces and tabs only between them.
pub(super) fn is_valid_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    value.iter().all(|&byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
        && !is_space(value.first())
        && !is_space(value.last())
}

/// Parses a content-length field, which consists only of digits (RFC 9110 §8.6).
pub(super) fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Returns whether `path` is a valid value of `:path`: a URI's path and query, which excludes
/// spaces, control characters, non-ASCII characters and a fragment.
pub(super) fn is_valid_path(path: &[u8]) -> bool {
    path.iter().all(|&byte| matches!(byte, b'!'..=b'~') && byte != b'#')
}

/// Returns whether the Capsule-Protocol field declares that the content consists of capsules (RFC
/// 9297 §3.4).
pub(super) fn uses_capsules(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all("capsule-protocol").iter();
    // Multiple values would form a list, which is ignored.
    matches!((values.next(), values.next()), (Some(value), None)
        if structured::item(value.as_bytes()) == Ok(Value::Boolean(true)))
}

/// Returns whether there is a field that is allowed only in a message with content (RFC 9297 §3.2).
/// Transfer-Encoding is never allowed.
pub(super) fn describes_content(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_LENGTH) || headers.contains_key(CONTENT_TYPE)
}
