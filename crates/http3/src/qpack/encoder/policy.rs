//! Which fields are inserted into the dynamic table.

/// A cookie shorter than this many bytes is not inserted: it could be guessed byte by byte by somebody who can send
/// requests on the same connection and see their sizes (RFC 9204 §7.1).
const LEAST_COOKIE: usize = 20;

/// Whether a field is likely to be repeated on this connection, and its value safe to compress. An insertion costs a byte
/// or two more than a literal, so what is not known to be different each time is inserted when it is first seen.
pub(super) fn is_worth_inserting(name: &[u8], value: &[u8]) -> bool {
    match name {
        // Different for each resource, or for each response.
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
        // Secrets that could be guessed (§7.1.3).
        b"authorization" | b"proxy-authorization" => false,
        b"cookie" => value.len() >= LEAST_COOKIE,
        _ => true,
    }
}
