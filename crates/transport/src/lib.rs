//! QUIC versions 1 and 2 (RFC 8999, 9000, 9001, 9002, 9368, 9369) without I/O.
//!
//! This crate never reads a clock, a socket or a system random source: methods that need the time
//! take `now` as an argument, and all randomness comes from the seeded source with which the
//! endpoint is created.
//!
//! An [`Endpoint`] finds the connection that a datagram belongs to. A [`Connection`] is driven with
//! `receive`, `transmit`, `transmitted`, `deadline`, `on_deadline` and `next_event`; applications
//! use `open`, `read`, `write`, `close` and so on.
//!
//! # A driver
//!
//! Two endpoints and the connection between them, without a socket: each receives what the other
//! transmits. A real driver waits on its socket until the earlier of the two deadlines.
//!
//! ```
//! # use std::sync::Arc;
//! # use clearway_transport::*;
//! # use clearway_units::{Random, Timestamp};
//! # use clearway_wire::Direction;
//! # fn configs() -> Result<(ClientConfig, ServerConfig), Box<dyn std::error::Error>> {
//! #     let made = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
//! #     let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
//! #     let mut roots = rustls::RootCertStore::empty();
//! #     roots.add(made.cert.der().clone())?;
//! #     let tls = TlsServerConfig::with_certificate(vec![made.cert.into()], key.into(), &[b"x"])?;
//! #     let server = ServerConfig {
//! #         sessions: Arc::new(tls),
//! #         transport: Arc::default(),
//! #         retry_token_lifetime: std::time::Duration::from_secs(15),
//! #         new_token_lifetime: std::time::Duration::from_secs(3600),
//! #         shared_tokens: None,
//! #         preferred_addresses: PreferredAddresses::default(),
//! #     };
//! #     let tls = TlsClientConfig::with_roots(roots, &[b"x"])?;
//! #     let sessions = Arc::new(tls);
//! #     Ok((ClientConfig { sessions, transport: Arc::default(), token: Vec::new() }, server))
//! # }
//! # fn endpoint(server: Option<Arc<ServerConfig>>, now: Timestamp) -> Endpoint {
//! #     let config = EndpointConfig {
//! #         id_generator: Arc::new(RandomIds),
//! #         reset_key: ResetKey::new(&[7; 32]),
//! #         max_connections: 10,
//! #     };
//! #     Endpoint::new(config, server, now, Random::from_number(1))
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (client_config, server_config) = configs()?;
//! let mut now = Timestamp::from_nanos(1);
//! let addresses = ["192.0.2.1:50000".parse()?, "192.0.2.2:443".parse()?];
//! let mut ends = [endpoint(None, now), endpoint(Some(Arc::new(server_config)), now)];
//! let client = ends[0].connect(now, &client_config, addresses[1], "localhost", None)?;
//! let mut handles = [Some(client), None];
//! let mut buffer = vec![0; 65_536];
//! let answer = loop {
//!     for this in [0, 1] {
//!         let Some(handle) = handles[this] else { continue };
//!         while let Some(sent) = ends[this].transmit(handle, now, &mut buffer, 10) {
//!             ends[this].transmitted(handle, now);
//!             let segment = sent.segment_size.unwrap_or(sent.size);
//!             for datagram in buffer[..sent.size].chunks_mut(segment) {
//!                 let (remote, ecn) = (addresses[this], sent.ecn);
//!                 let arrival = Arrival { remote, socket: sent.socket, local_ip: None, ecn };
//!                 if let Received::Incoming(incoming) = ends[1 - this].receive(now, arrival, datagram) {
//!                     handles[1 - this] = Some(ends[1 - this].accept(now, incoming, None)?);
//!                 }
//!             }
//!         }
//!     }
//!     let connection = ends[0].connection_mut(client).ok_or("the connection is gone")?;
//!     while let Some(event) = connection.next_event() {
//!         if event == Event::Connected {
//!             let stream = connection.open(Direction::Bidirectional).ok_or("no stream permitted")?;
//!             connection.write_slice(stream, b"hello")?;
//!             connection.finish(stream)?;
//!         }
//!     }
//!     if let Some(connection) = handles[1].and_then(|handle| ends[1].connection_mut(handle))
//!         && let Some(stream) = connection.accept(Direction::Bidirectional)
//!         && let ReadOutcome::Data(data) = connection.read(now, stream, 100)?
//!     {
//!         break data;
//!     }
//!     let connections = [0, 1].map(|end| handles[end].and_then(|handle| ends[end].connection(handle)));
//!     let next = connections.into_iter().flatten().filter_map(Connection::deadline).min();
//!     now = next.ok_or("nothing is outstanding")?.max(now);
//!     for end in [0, 1] {
//!         if let Some(connection) = handles[end].and_then(|handle| ends[end].connection_mut(handle))
//!             && connection.deadline().is_some_and(|deadline| deadline <= now)
//!         {
//!             connection.on_deadline(now);
//!         }
//!     }
//! };
//! assert_eq!(answer, "hello");
//! # Ok(())
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

mod ack_frequency;
mod address;
mod config;
mod connection;
mod contents;
mod crypto;
mod datagram;
mod drops;
mod ecn;
mod endpoint;
mod error;
mod event;
#[cfg(fuzzing)]
pub mod fuzzing {
    //! Property checks for parsers that only this crate contains, for use by fuzz targets.

    pub use crate::endpoint::check_token;
    pub use crate::handshake::{check_client_hello, check_encrypted_extensions};
}
mod handshake;
mod ids;
mod observer;
mod packable;
mod path;
mod recovery;
mod send_failure;
mod side;
mod space;
mod space_id;
mod streams;
mod token;

pub use address::{Arrival, SocketIndex};
pub use clearway_congestion::SendLimit;
pub use config::{InvalidSetting, TransportConfig, TransportConfigBuilder};
pub use connection::{Connection, Deadlines, Statistics, Totals, Transmit};
pub use datagram::{DatagramError, DatagramStatistics};
pub use drops::{DropCounts, DropReason, HandshakePackets};
pub use ecn::{EcnCodepoint, EcnFailure, EcnState};
pub use endpoint::{
    AcceptError, AcceptOptions, ClientConfig, ConnectError, ConnectionHandle, Endpoint,
    EndpointConfig, EndpointTotals, Incoming, PreferredAddresses, Received, RetryOffload,
    ServerConfig, SharedTokens, TokenValidity,
};
pub use error::{
    CertificateChainLimit, MAX_CERTIFICATES, MAX_CERTIFICATES_OF_ONE_NAME, MAX_CHAIN_SIGNATURES,
    TransportError, TransportErrorCause,
};
pub use event::{
    ConnectionError, DatagramId, DatagramOutcome, Event, IgnoredAddress, MigrationError,
    MigrationFailure,
};
pub use handshake::{
    ClientHello, ClientRoots, ClientSessions, ClientTrust, ConnectionVersions, EarlyData,
    EarlyDataContext, EncryptedClientHello, ExportError, HelloParameters, KeySchedule,
    MAX_EARLY_DATA_CONTEXT, MemorySessionStore, NewKeys, PhaseKeys, SavedSession,
    SavedSessionError, ServerSessions, ServerTrust, Session, SessionError, SessionStore,
    TicketKeys, TlsClientConfig, TlsClientSettings, TlsServerConfig, TlsServerSettings,
    certified_key, initial_keys, prepare_randomness,
};
pub use ids::{ConnectionIdGenerator, RandomIds, ResetKey};
pub use observer::{
    ConnectionState, LossThresholds, LossTrigger, LostPacket, Metrics, Observation, Observer,
    PacketObservation, TimerChange, TimerKind,
};
pub use path::SpinBit;
pub use recovery::{PacketCounts, RecoveryStats};
pub use send_failure::SendFailure;
pub use side::Side;
pub use space_id::SpaceId;
pub use streams::{
    ReadError, ReadOutcome, ResetAtError, SendCredits, StreamCounts, StreamEvent, StreamProgress,
    StreamsStatistics, UnknownStream, WriteError,
};
