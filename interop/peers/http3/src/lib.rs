//! An HTTP/3 server and client on h3, over any QUIC library for which h3's traits are implemented.

#![forbid(unsafe_code)]

mod client;
mod load;
mod server;

pub use client::{Client, download};
pub use load::load;
pub use server::serve_connection;

/// The ALPN protocol of HTTP/3.
pub const ALPN: &[u8] = b"h3";
