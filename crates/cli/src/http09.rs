//! Conventions shared by the HTTP/0.9 client and server.

/// The ALPN name of HTTP/0.9 over QUIC.
pub(crate) const PROTOCOL: &[u8] = b"hq-interop";

/// The application error code with which a stream is reset if the file does not exist or cannot be
/// sent.
pub(crate) const NOT_FOUND: u32 = 0x404;
