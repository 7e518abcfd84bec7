//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3) on [Clearway](clearway).
//!
//! Applications of WebTransport use error codes of 32 bits, which share the error codes of HTTP/3
//! with everything else on the connection. [`codes`] converts them.

pub mod codes;
