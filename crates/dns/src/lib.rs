//! DNS over dedicated QUIC connections (DoQ, RFC 9250), DNS over HTTPS (DoH, RFC 8484) over HTTP/3,
//! and a caching forwarder between these, DNS over TLS, UDP and TCP.
//!
//! - [`Client`] sends queries over a QUIC connection.
//! - [`Server`] and [`serve`] respond to queries with a [`Handler`].
//! - [`Forwarder`] is a handler that forwards queries to [`Upstream`] servers, and caches their
//!   responses.
//!
//! DNS messages are those of [`hickory_proto`], which is re-exported.
//!
//! # A client
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use clearway::{ClientConfig, Endpoint};
//! use clearway_dns::Client;
//! use clearway_dns::hickory_proto::op::{Message, Query};
//! use clearway_dns::hickory_proto::rr::{Name, RecordType};
//!
//! let endpoint = Endpoint::client("[::]:0".parse()?)?;
//! let config = ClientConfig::with_native_roots()?;
//! let address = "192.0.2.1:853".parse()?;
//! let client = Client::connect(&endpoint, &config, address, "dns.example").await?;
//! let mut query = Message::query();
//! query.metadata.recursion_desired = true;
//! query.add_query(Query::query(Name::from_ascii("www.example.org.")?, RecordType::AAAA));
//! for record in client.query(query).await?.answers {
//!     println!("{record}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # A forwarder
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use clearway_dns::{Forwarder, ForwarderConfig, Server};
//!
//! let upstreams = ["quic://192.0.2.1#dns.example", "https://dns.example/dns-query"];
//! let upstreams = upstreams.iter().map(|url| url.parse()).collect::<Result<Vec<_>, _>>()?;
//! let forwarder = Forwarder::new(upstreams, ForwarderConfig::with_native_roots()?)?;
//! let server = Server::new(forwarder);
//! let socket = tokio::net::UdpSocket::bind("127.0.0.1:5353").await?;
//! return Err(server.serve_udp(socket).await.into());
//! # }
//! ```

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails"))]

mod client;
mod code;
mod extended_error;
mod forwarder;
mod framing;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handler;
mod limits;
mod protocol;
mod query_error;
mod reply;
mod server;
mod stored;
mod stream;
mod upstream;
mod violation;
mod wire;

pub use client::Client;
pub use code::ErrorCode;
pub use extended_error::{ErrorInfo, ExtendedError};
pub use forwarder::{
    Forwarder, ForwarderConfig, ForwarderError, ForwarderStatistics, HealthWatch,
    UpstreamStatistics,
};
pub use handler::{Handler, Request};
pub use protocol::Protocol;
// Re-exports the entire crate, because queries and responses are its messages, in the version that
// this crate uses.
pub use hickory_proto;
pub use limits::{Limits, UnsafeEarlyQuery};
pub use query_error::{ConnectError, QueryError};
pub use reply::Answer;
pub use server::{Server, ServerStatistics, serve};
pub use upstream::{Upstream, UpstreamError, UpstreamProtocol};
pub use violation::Violation;

/// The application protocol (ALPN) of DoQ (RFC 9250 §4.1.1).
pub const PROTOCOL: &str = "doq";
