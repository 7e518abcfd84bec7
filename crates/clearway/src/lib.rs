//! QUIC and HTTP/3 with congestion control that is tested never to stall.
//!
//! # Where your code runs
//!
//! A shard is a thread that owns a socket and its connections. There are three ways to use
//! connections:
//!
//! - **In tasks of your runtime**: [`Endpoint`], [`Connection`], [`SendStream`] and [`RecvStream`],
//!   whose names are familiar from other QUIC libraries in Rust, and [`http3::Server::serve`].
//!   Handles may be dropped, and futures canceled, at any point. A task may compute for any length
//!   of time; each request costs two thread switches.
//! - **In tasks on the shard's thread**: the same handles and `async fn`, started with
//!   [`Connection::spawn`], [`http3::Client::spawn`] and [`http3::Server::serve_on_shards`]. They
//!   need no thread switch, and their output is sent with the datagrams of the same turn.
//!   These tasks must not block or compute for long, since the shard's connections wait for them.
//! - **In the shard itself**: [`Application`] and [`http3::Handler`], whose methods get direct
//!   access to the connection, without locks or futures. See
//!   [`Endpoint::server_with_applications`], [`Endpoint::connect_application`] and
//!   [`http3::serve_in_shard`].
//!
//! # Panics
//!
//! Your own callbacks may panic. A panic never ends a shard, and never affects a connection other
//! than the one for which the code was called. Each panic is logged as a `tracing` event of level
//! ERROR and counted in [`ShardStatistics::panics`].
//!
//! | what panics | what ends |
//! |---|---|
//! | an [`Observer`], an [`ObserverFactory`] | the observer; its connection continues |
//! | a [`CertificateResolver`] | the handshake, with the alert access_denied |
//! | a [`SessionStore`] of a [`ClientConfig`] | nothing; the session or token it was called for is lost |
//! | an [`Acceptor`] | the connection attempt, with CONNECTION_REFUSED |
//! | a [`congestion::Controller`] or its factory, custom TLS [sessions](transport::Session), verifiers and key logs | their connection, with INTERNAL_ERROR |
//! | an [`Application`], an [`http3::Handler`], an [`http3::BodySource`] | their connection, with INTERNAL_ERROR |
//! | a task on a shard | the task |
//! | a service of [`http3::Server`], an [`http_body::Body`] | the request |
//!
//! A `tracing` subscriber that panics ends the shard that called it; [`Endpoint::failure`] then
//! reports this. None of these guarantees holds in programs built with `panic = "abort"`.
//!
//! None of this code may block: the shard's connections wait until it returns, and time out if this
//! takes longer than their idle timeout.
//!
//! # Features
//!
//! | cargo feature | by default | what it adds |
//! |---|---|---|
//! | `aws-lc-rs` | yes | TLS with [aws-lc-rs](https://docs.rs/aws-lc-rs), including post-quantum key exchange (X25519MLKEM768) and Encrypted ClientHello |
//! | `ring` | no | TLS and packet protection with [ring](https://docs.rs/ring), which builds faster and supports neither of the two |
//! | `ring-packet-protection` | yes | packet protection with ring, which is faster than aws-lc-rs on many processors |
//! | `http3` | yes | the [`http3`] module |
//! | `native-roots` | yes | `ClientConfig::with_native_roots`, which uses the platform's root certificates |
//! | `qlog` | no | the `qlog` module, which writes a log of each connection |
//! | `quic-lb` | no | `ServerConfig::quic_lb`: connection IDs that load balancers can route |
//!
//! One of `aws-lc-rs` and `ring` is required. With both, TLS uses aws-lc-rs. The `ring` feature
//! also enables the `ring` feature of rustls, which has no default cryptography provider if both
//! are enabled: a program that uses rustls directly must then install a provider.
//!
//! ```toml
//! # QUIC without HTTP/3, and ring only:
//! [dependencies.clearway]
//! path = "../clearway/crates/clearway" # a checkout; the crate is not published yet
//! default-features = false
//! features = ["ring"]
//! ```
//!
//! # A server
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use clearway::{Connection, Endpoint, Identity, ServerConfig};
//!
//! async fn echo(connection: Connection) -> std::io::Result<()> {
//!     let (mut send, mut recv) = connection.accept_bi().await?;
//!     let question = recv.read_to_end(64 << 10).await?;
//!     send.write_all(&question).await?;
//!     send.finish()?;
//!     // Waits until everything is delivered, before the connection is dropped and so closed.
//!     send.stopped().await?;
//!     Ok(())
//! }
//!
//! let identity = Identity::from_pem(&std::fs::read("cert.pem")?, &std::fs::read("key.pem")?)?;
//! let config = ServerConfig::with_identity(identity).application_protocols(["example"]);
//! let endpoint = Endpoint::server("[::]:4433".parse()?, config)?;
//! while let Some(connecting) = endpoint.accept().await {
//!     tokio::spawn(async move {
//!         let outcome = match connecting.await {
//!             Ok(connection) => echo(connection).await,
//!             Err(error) => Err(error.into()),
//!         };
//!         if let Err(error) = outcome {
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
//!
//! let endpoint = Endpoint::client("[::]:0".parse()?)?;
//! let config = ClientConfig::with_native_roots()?.application_protocols(["example"]);
//! let connecting = endpoint.connect_with(&config, "192.0.2.1:4433".parse()?, "example.com")?;
//! let connection = connecting.await?;
//! let (mut send, mut recv) = connection.open_bi().await?;
//! send.write_all(b"hello").await?;
//! send.finish()?;
//! let answer = recv.read_to_end(64 << 10).await?;
//! connection.close(0_u32.into(), b"done");
//! // Ensures that the close reaches the server even if a datagram is lost.
//! endpoint.wait_idle().await;
//! # let _ = answer;
//! # Ok(())
//! # }
//! ```
//!
//! # An HTTP/3 server
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use clearway::http3::{Body, RecvBody, Server};
//! use clearway::{Identity, ServerConfig};
//! use http::{Request, Response};
//!
//! async fn answer(request: Request<RecvBody>) -> Response<Body> {
//!     Response::new(Body::from(format!("This is {}.", request.uri().path())))
//! }
//!
//! let identity = Identity::from_pem(&std::fs::read("cert.pem")?, &std::fs::read("key.pem")?)?;
//! let server = Server::bind("[::]:443".parse()?, ServerConfig::with_identity(identity))?;
//! server.serve(answer).await;
//! # Ok(())
//! # }
//! ```
//!
//! # An HTTP/3 client
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use clearway::http3::Client;
//! use clearway::{ClientConfig, Endpoint};
//!
//! let endpoint = Endpoint::client("[::]:0".parse()?)?;
//! let config = ClientConfig::with_native_roots()?.application_protocols(["h3"]);
//! let client = Client::connect(&endpoint, &config, "192.0.2.1:443".parse()?, "example.org").await?;
//! let response = client.send(http::Request::get("https://example.org/").body(())?).await?;
//! println!("{}", response.status());
//! let body = response.into_body().bytes(1 << 20).await?;
//! client.shutdown().await;
//! endpoint.wait_idle().await;
//! # let _ = body;
//! # Ok(())
//! # }
//! ```

mod bridge;
mod certificates;
mod config;
mod connection;
mod connection_ref;
#[cfg(test)]
mod conservation_tests;
mod datagrams;
mod driver;
mod endpoint;
mod error;
mod handshake_data;
mod happy_eyeballs;
#[cfg(feature = "http3")]
pub mod http3;
#[cfg(feature = "masque")]
pub mod masque;
mod observe;
mod path;
mod postponed_close;
#[cfg(feature = "qlog")]
pub mod qlog;
mod recv_stream;
mod reset_key;
mod send_stream;
mod stopped;
mod store;
#[cfg(test)]
mod stream_tests;
mod streams;
mod tasks;
#[cfg(test)]
mod wakes_tests;

pub use clearway_io::{
    Accept, Acceptor, Application, ApplicationFactory, ConnectFailure, ConnectionWaker, Decision,
    HotRestart, HotRestartError, MAX_BALANCERS, MAX_SHARDS, MAX_SHARDS_WITH_HOT_RESTART,
    MemoryBudget, MemoryStatistics, MigrateFailure, Migration, MigrationStarted,
    PreferredAddressUnusable, ShardFailure, ShardHandle, ShardStatistics, Steering, Undecided,
    halt,
};
#[cfg(feature = "quic-lb")]
pub use clearway_io::{QuicLb, RotateQuicLbError};
pub use clearway_transport::{
    ClientRoots, ConnectionError, DatagramId, DatagramOutcome, DatagramStatistics, EarlyData,
    Event, HandshakePackets, IgnoredAddress, InvalidSetting, MemorySessionStore, MigrationError,
    MigrationFailure, Observation, Observer, SavedSession, SavedSessionError, SendFailure,
    SessionStore, Side, SocketIndex, SpinBit, Statistics, TicketKeys, TransportConfig,
    TransportConfigBuilder,
};
pub use clearway_units::{Rate, Timestamp};
pub use clearway_wire::{Direction, StreamId, VarInt, VarIntTooLarge, Version};

/// Congestion control: the built-in controllers, and the traits and types for writing your own.
pub mod congestion {
    pub use clearway_congestion::{
        Acknowledgement, Algorithm, Bbr, CongestionResponse, Controller, ControllerFactory,
        ControllerParameters, Cubic, DeliverySnapshot, Inspect, Limitation, Metric, Pacer, Phase,
        Quantity, RateSample, Reno, RttSnapshot, SendIndex, SendLimit, SentPacket, Snapshot,
        SpuriousLoss, StateValue, Suppressor, Suppressors, UnknownAlgorithm, Visit, conformance,
    };
}

/// Sockets that do not belong to the operating system, for
/// [`Endpoint::client_over`](crate::Endpoint::client_over).
pub mod socket {
    pub use clearway_io::{Batch, DatagramSocket, EcnCodepoint, Meta, SendOutcome};
}

/// Transport types used by [`Application`]s, [`Observer`]s and custom TLS sessions, in addition to
/// the types that this crate exports at the top level.
pub mod transport {
    pub use clearway_transport::{
        AcceptError, AcceptOptions, Arrival, CertificateChainLimit, ClientHello, ClientSessions,
        ClientTrust, ConnectError, Connection, ConnectionHandle, ConnectionState,
        ConnectionVersions, DatagramError, DropCounts, DropReason, EarlyDataContext, EcnCodepoint,
        EcnFailure, EcnState, EncryptedClientHello, ExportError, HelloParameters, Incoming,
        KeySchedule, LossThresholds, LossTrigger, LostPacket, MAX_CERTIFICATES,
        MAX_CERTIFICATES_OF_ONE_NAME, MAX_CHAIN_SIGNATURES, MAX_EARLY_DATA_CONTEXT, Metrics,
        NewKeys, PacketCounts, PacketObservation, ReadError, ReadOutcome, RecoveryStats,
        ResetAtError, SendCredits, ServerSessions, ServerTrust, Session, SessionError, SpaceId,
        StreamCounts, StreamEvent, StreamProgress, StreamsStatistics, TimerChange, TimerKind,
        TlsClientConfig, TlsClientSettings, TlsServerConfig, TlsServerSettings, Totals,
        TransportError, TransportErrorCause, UnknownStream, WriteError,
    };
}

/// QUIC packet contents that appear in errors and observations.
pub mod wire {
    pub use clearway_wire::{
        ConnectionId, DecodeError, Initiator, LongPacketType, PacketNumber, PacketType,
        PreferredAddress, ResetToken, TransportErrorCode, TransportParameters, VersionInformation,
    };

    /// The parts of a [`QuicLb`](crate::QuicLb) configuration.
    #[cfg(feature = "quic-lb")]
    pub mod quic_lb {
        pub use clearway_wire::quic_lb::{ConfigError, ConfigId, ServerId};
    }
}

// Re-exports the entire crate, because building a `TlsClientConfig` needs all of it, in the version
// that this crate uses.
pub use rustls;

pub use certificates::{CertificateResolver, Certificates, Identity, IdentityError};
pub use config::{ClientCertificates, ClientConfig, ServerConfig};
pub use connection::{Connecting, Connection, ZeroRttAccepted};
pub use endpoint::Endpoint;
pub use error::{
    ConfigError, ConnectError, DatagramWaitError, EndpointError, ExportError, MigrateError,
    ReadError, ReadExactError, ReadToEndError, ResetAtError, SendDatagramError, StreamClosed,
    WriteError,
};
pub use handshake_data::HandshakeData;
pub use happy_eyeballs::{AttemptError, CONNECTION_ATTEMPT_DELAY, ConnectAnyError, connect_any};
pub use observe::ObserverFactory;
pub use path::PathEvent;
pub use recv_stream::RecvStream;
pub use send_stream::{SendStream, Written};
pub use stopped::Stopped;
