//! What both ends of HTTP/0.9 over QUIC have to agree on.

/// The application protocol (ALPN).
pub(crate) const PROTOCOL: &[u8] = b"hq-interop";

/// The error code with which a stream is reset when there is no such file.
pub(crate) const NOT_FOUND: u32 = 0x404;
