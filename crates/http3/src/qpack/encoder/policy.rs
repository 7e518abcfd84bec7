//! Policy that selects the fields to insert into the dynamic table.

/// Minimum length in bytes of a cookie to insert. An attacker who can send requests on the same
/// connection and observe their sizes could guess a shorter cookie byte by byte (RFC 9204 §7.1).
const LEAST_COOKIE: usize = 20;

/// Returns whether a field is likely to be repeated on this connection, and its value is safe to
/// compress. An insertion costs one or two bytes more than a literal, so a field that is not known
/// to differ each time is inserted on first use.
pub(super) fn is_worth_inserting(name: &[u8], value: &[u8]) -> bool {
    match name {
        // These fields differ for each resource or each response.
        b":path"
        | b"content-length"
        | b"content-range"
        | b"date"
        | b"age"
        | b"etag"
        | b"last-modified"
        | b"if-modified-since"
        | b"if-none-match"
        | b"if-range"
        | b"if-unmodified-since"
        | b"location"
        | b"range"
        | b"set-cookie" => false,
        // These fields contain secrets that could be guessed (§7.1.3).
        b"authorization" | b"proxy-authorization" => false,
        b"cookie" => value.len() >= LEAST_COOKIE,
        _ => true,
    }
}
