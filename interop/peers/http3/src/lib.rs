//! An HTTP/3 server and client based on h3, for any QUIC library that implements h3's traits.

#![forbid(unsafe_code)]

mod client;
mod load;
mod server;

pub use client::{Client, download};
pub use load::load;
pub use server::serve_connection;

/// The ALPN protocol of HTTP/3.
pub const ALPN: &[u8] = b"h3";
