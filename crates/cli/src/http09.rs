//! Conventions shared by client and server of HTTP/0.9 over QUIC.

/// The application protocol (ALPN).
pub(crate) const PROTOCOL: &[u8] = b"hq-interop";

/// The application error code of a stream reset when the file does not exist or cannot be sent.
pub(crate) const NOT_FOUND: u32 = 0x404;
