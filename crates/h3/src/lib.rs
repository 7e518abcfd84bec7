//! [Clearway](clearway)'s QUIC connections for the crate [h3], which implements HTTP/3 over any QUIC
//! library.
//!
//! [`Connection`] implements the traits of [`h3::quic`]: pass it to h3 where an example for quinn
//! passes `h3_quinn::Connection`. Everything else of h3 is used as before.
//!
//! # A server
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use bytes::Bytes;
//! use clearway::{Endpoint, Identity, ServerConfig};
//! use http::Response;
//!
//! async fn serve(connection: clearway::Connection) -> Result<(), Box<dyn std::error::Error>> {
//!     let connection = clearway_h3::Connection::new(connection);
//!     let mut connection = h3::server::Connection::new(connection).await?;
//!     while let Some(resolver) = connection.accept().await? {
//!         let (_request, mut stream) = resolver.resolve_request().await?;
//!         stream.send_response(Response::new(())).await?;
//!         stream.send_data(Bytes::from_static(b"hello")).await?;
//!         stream.finish().await?;
//!     }
//!     Ok(())
//! }
//!
//! let identity = Identity::from_pem(&std::fs::read("cert.pem")?, &std::fs::read("key.pem")?)?;
//! let config = ServerConfig::with_identity(identity).application_protocols(["h3"]);
//! let endpoint = Endpoint::server("[::]:443".parse()?, config)?;
//! while let Some(connecting) = endpoint.accept().await {
//!     tokio::spawn(async move {
//!         let Ok(connection) = connecting.await else { return };
//!         if let Err(error) = serve(connection).await {
//!             eprintln!("{error}");
//!         }
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # A client
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use clearway::{ClientConfig, Endpoint};
//! use http::Request;
//!
//! let endpoint = Endpoint::client("[::]:0".parse()?)?;
//! # let config = ClientConfig::with_roots(clearway::rustls::RootCertStore::empty());
//! # /*
//! let config = ClientConfig::with_native_roots()?;
//! # */
//! let config = config.application_protocols(["h3"]);
//! let address = "192.0.2.1:443".parse()?;
//! let connection = endpoint.connect_with(&config, address, "example.com")?.await?;
//! let (mut driver, mut client) = h3::client::new(clearway_h3::Connection::new(connection)).await?;
//! let driving = tokio::spawn(async move { driver.wait_idle().await });
//!
//! let request = Request::get("https://example.com/").body(())?;
//! let mut stream = client.send_request(request).await?;
//! stream.finish().await?;
//! println!("{}", stream.recv_response().await?.status());
//! drop(client); // h3 closes the connection when the last handle is dropped.
//! driving.await?;
//! endpoint.wait_idle().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Memory
//!
//! If a program reads slowly, unread content is limited by the receive windows of the stream and of
//! the connection: this crate passes content to h3 in pieces that h3 does not store. A program holds
//! at most what the windows allow, and 64 KiB per stream. This is not the case with every QUIC
//! library ([h3 issue 308](https://github.com/hyperium/h3/issues/308)).
//!
//! h3 stores header sections, trailers and the frames of the control stream whole before it checks
//! its own limits. A frame of more than 1 MiB, other than DATA, therefore ends its request with an
//! error. Frames of unknown types are dropped before h3 stores them.
//!
//! # Datagrams
//!
//! With the feature `datagram`, which is enabled by default, [`Connection`] also implements the
//! trait of the crate [h3-datagram](https://docs.rs/h3-datagram). An endpoint receives datagrams
//! only if its configuration has a
//! [`max_datagram_frame_size`](clearway::TransportConfigBuilder::max_datagram_frame_size), and h3
//! needs `enable_datagram` in the builders of both ends.
//!
//! # Differences from h3-quinn
//!
//! - A frame whose write has failed, for example because the peer stopped the stream, is discarded.
//!   The next frame fails in the same way, and does not close the connection.
//! - A datagram for which the send queue has no room is dropped; quinn drops the oldest one.
//! - Streams are opened by the connection's thread. If a frame such as GOAWAY follows the peer's
//!   SETTINGS at the very beginning of a connection, h3 may lose it while it waits for the stream of
//!   a reserved type. `send_grease(false)` in h3's builders avoids this.

mod bidi_stream;
mod connection;
#[cfg(feature = "datagram")]
mod datagrams;
pub mod error;
mod frame_cutter;
mod recv_stream;
mod send_stream;

pub use bidi_stream::BidiStream;
pub use connection::{Connection, OpenStreams};
#[cfg(feature = "datagram")]
pub use datagrams::{RecvDatagrams, SendDatagrams};
pub use recv_stream::RecvStream;
pub use send_stream::SendStream;

/// Converts a stream ID into h3's type.
fn stream_id(id: clearway::StreamId) -> h3::quic::StreamId {
    h3::quic::StreamId::try_from(id.get()).expect("stream IDs are variable-length integers")
}

/// Converts an application error code of h3. Larger values than a variable-length integer can have
/// become the largest one.
fn error_code(code: u64) -> clearway::VarInt {
    clearway::VarInt::try_from(code).unwrap_or(clearway::VarInt::MAX)
}
