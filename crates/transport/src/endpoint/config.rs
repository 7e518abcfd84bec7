//! Settings of endpoints, servers and client connections, and the errors of starting a connection.

use core::net::{SocketAddrV4, SocketAddrV6};
use core::time::Duration;
use std::sync::Arc;

use super::token::SharedTokens;
use crate::TransportError;
use crate::config::TransportConfig;
use crate::handshake::{ClientSessions, ServerSessions, SessionError};
use crate::ids::{ConnectionIdGenerator, ResetKey};

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The generator of this endpoint's connection IDs.
    pub id_generator: Arc<dyn ConnectionIdGenerator>,
    /// The key from which stateless reset tokens are derived. If it is kept across restarts, peers
    /// of lost connections receive a stateless reset immediately (RFC 9000 §10.3).
    pub reset_key: ResetKey,
    /// The maximum number of connections; additional connections are refused.
    pub max_connections: usize,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The factory for TLS sessions.
    pub sessions: Arc<dyn ServerSessions>,
    /// The transport settings.
    pub transport: Arc<TransportConfig>,
    /// The lifetime of a Retry token.
    pub retry_token_lifetime: Duration,
    /// The lifetime of a NEW_TOKEN token.
    pub new_token_lifetime: Duration,
    /// Lets endpoints accept each other's tokens. Without it an endpoint has its own keys, and a
    /// token is valid only at the endpoint that issued it.
    pub shared_tokens: Option<SharedTokens>,
    /// The preferred addresses that the server announces to clients.
    pub preferred_addresses: PreferredAddresses,
}

impl ServerConfig {
    /// The default lifetime of a Retry token.
    pub const RETRY_TOKEN_LIFETIME: Duration = Duration::from_secs(15);
    /// The default lifetime of a NEW_TOKEN token.
    pub const NEW_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
}

/// A server's preferred addresses, one per address family: clients migrate to them after the
/// handshake (RFC 9000 §9.6). The driver has to receive there too, through a socket whose
/// [`SocketIndex`](crate::SocketIndex) differs from that of the socket to which clients connect.
/// The default is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PreferredAddresses {
    /// The preferred address for clients that connect over IPv4.
    pub v4: Option<SocketAddrV4>,
    /// The preferred address for clients that connect over IPv6.
    pub v6: Option<SocketAddrV6>,
}

/// Settings of one client connection.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The factory for the TLS session.
    pub sessions: Arc<dyn ClientSessions>,
    /// The transport settings.
    pub transport: Arc<TransportConfig>,
    /// A token that the same server sent on an earlier connection
    /// ([`Event::NewToken`](crate::Event::NewToken)), or empty. It is used only if that connection
    /// had the same version as the first flight of this one (RFC 9369 §5).
    pub token: Vec<u8>,
}

/// Why a client was not accepted.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum AcceptError {
    /// The endpoint has no server configuration.
    NotAServer,
    /// The endpoint has reached its maximum number of connections; the client is refused.
    TooManyConnections,
    /// The configuration does not have the client's version; the client is refused.
    UnsupportedVersion,
    /// The client's first packet could not be authenticated (RFC 9001 §5.2); it is dropped.
    NotAuthentic,
    /// TLS could not be started.
    Session(SessionError),
    /// The connection could not be started.
    Transport(TransportError),
}

impl core::fmt::Display for AcceptError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAServer => f.write_str("the endpoint is not a server"),
            Self::TooManyConnections => {
                f.write_str("the endpoint has reached its connection limit")
            }
            Self::UnsupportedVersion => {
                f.write_str("the configuration does not have the client's QUIC version")
            }
            Self::NotAuthentic => {
                f.write_str("the client's first packet could not be authenticated")
            }
            Self::Session(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AcceptError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Session(error) => error.source(),
            Self::Transport(error) => error.source(),
            Self::NotAServer
            | Self::TooManyConnections
            | Self::UnsupportedVersion
            | Self::NotAuthentic => None,
        }
    }
}

/// Why a connection could not be started.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint has reached its maximum number of connections.
    TooManyConnections,
    /// TLS could not be started.
    Session(SessionError),
    /// The connection could not be started.
    Transport(TransportError),
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyConnections => {
                f.write_str("the endpoint has reached its connection limit")
            }
            Self::Session(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Session(error) => error.source(),
            Self::Transport(error) => error.source(),
            Self::TooManyConnections => None,
        }
    }
}
