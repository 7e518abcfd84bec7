//! What an endpoint may be told, and why it may refuse.

use core::time::Duration;
use std::sync::Arc;

use crate::TransportError;
use crate::config::TransportConfig;
use crate::handshake::{ClientSessions, ServerSessions, SessionError};
use crate::ids::{ConnectionIdGenerator, ResetKey};

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Makes the connection IDs by which this endpoint is known.
    pub id_generator: Arc<dyn ConnectionIdGenerator>,
    /// Stateless reset tokens are derived with it. Keep it across restarts, and peers of lost
    /// connections learn at once that they are lost.
    pub reset_key: ResetKey,
    /// Unknown connections are refused beyond this many.
    pub max_connections: usize,
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Makes the TLS sessions.
    pub sessions: Arc<dyn ServerSessions>,
    /// The transport's settings.
    pub transport: Arc<TransportConfig>,
    /// For how long a client may take to come back with a Retry token.
    pub retry_token_lifetime: Duration,
    /// For how long a client may use a token from NEW_TOKEN.
    pub new_token_lifetime: Duration,
}

/// Settings of one client connection.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Makes the TLS session.
    pub sessions: Arc<dyn ClientSessions>,
    /// The transport's settings.
    pub transport: Arc<TransportConfig>,
    /// A token from an earlier connection to the same server, or nothing.
    pub token: Vec<u8>,
}

/// Why a client was not accepted.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum AcceptError {
    /// The endpoint has no configuration for servers.
    NotAServer,
    /// The endpoint has all the connections that it may have; the client is refused.
    TooManyConnections,
    /// The client's first packet was changed on its way or made up (RFC 9001 §5.2); it is dropped.
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
            Self::TooManyConnections => f.write_str("the endpoint has too many connections"),
            Self::NotAuthentic => f.write_str("the client's first packet is not authentic"),
            Self::Session(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AcceptError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Session(error) => Some(error),
            Self::Transport(error) => Some(error),
            Self::NotAServer | Self::TooManyConnections | Self::NotAuthentic => None,
        }
    }
}

/// Why a connection could not be started.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint has all the connections that it may have.
    TooManyConnections,
    /// TLS could not be started.
    Session(SessionError),
    /// The connection could not be started.
    Transport(TransportError),
}

impl core::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyConnections => f.write_str("the endpoint has too many connections"),
            Self::Session(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Session(error) => Some(error),
            Self::Transport(error) => Some(error),
            Self::TooManyConnections => None,
        }
    }
}
