//! Error types, one enum for each kind of operation.
//!
//! If an error's message includes that of the error it wraps, `source()` skips the wrapped error
//! and returns its source, so that an error chain does not repeat itself. The variant contains the
//! wrapped error.

mod into_io;

use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::sync::Arc;

use clearway_io::{ConnectFailure, MigrateFailure};
use clearway_transport::{
    ConnectionError, ExportError as TlsExportError, MigrationFailure, SessionError,
};
use clearway_wire::VarInt;

use crate::certificates::IdentityError;

/// The reason why a configuration is invalid.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// TLS rejected the configuration.
    Tls(SessionError),
    /// The server's certificate and its key cannot be used.
    Identity(IdentityError),
    /// The platform has no root certificates; contains the first error that occurred while loading
    /// them, if any.
    NoNativeRoots(Option<Arc<dyn core::error::Error + Send + Sync>>),
    /// The endpoint has no default client configuration: see
    /// [`set_default_client_config`](crate::Endpoint::set_default_client_config).
    NoClientConfig,
    /// The preferred address is unspecified, multicast, broadcast or IPv4-mapped: see
    /// [`preferred_address_v4`](crate::ServerConfig::preferred_address_v4).
    PreferredAddress(SocketAddr),
    /// The endpoint accepts no connections: it was not created as a server.
    NotAServer,
    /// Another server has already been started with this configuration or a clone of it, and uses
    /// its [`listening_sockets`](crate::ServerConfig::listening_sockets) or its
    /// [`hot_restart`](crate::ServerConfig::hot_restart).
    InUse(&'static str),
    /// The number of [`shards`](crate::ServerConfig::shards) exceeds the maximum for a server.
    TooManyShards {
        /// The maximum number of shards.
        limit: usize,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(error) => error.fmt(f),
            Self::Identity(error) => error.fmt(f),
            Self::NoNativeRoots(why) => {
                f.write_str("cannot load the platform's root certificates: ")?;
                match why {
                    Some(error) => error.fmt(f),
                    None => f.write_str("none found"),
                }
            }
            Self::NoClientConfig => f.write_str("the endpoint has no default client configuration"),
            Self::PreferredAddress(address) => {
                write!(
                    f,
                    "{address} cannot be a preferred address: it is not the address of a single host"
                )
            }
            Self::NotAServer => f.write_str("the endpoint was not created as a server"),
            Self::InUse(what) => {
                write!(f, "the {what} of this configuration belong to another server")
            }
            Self::TooManyShards { limit } => {
                write!(f, "a server cannot have more than {limit} shards")
            }
        }
    }
}

impl core::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tls(error) => error.source(),
            Self::Identity(error) => error.source(),
            Self::NoNativeRoots(Some(error)) => error.source(),
            Self::NoNativeRoots(None)
            | Self::NoClientConfig
            | Self::PreferredAddress(_)
            | Self::NotAServer
            | Self::InUse(_)
            | Self::TooManyShards { .. } => None,
        }
    }
}

impl From<IdentityError> for ConfigError {
    fn from(error: IdentityError) -> Self {
        Self::Identity(error)
    }
}

impl From<SessionError> for ConfigError {
    fn from(error: SessionError) -> Self {
        Self::Tls(error)
    }
}

/// The reason why an endpoint could not be created.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointError {
    /// The operating system reported an error, for example because the address is in use.
    Io(io::Error),
    /// The configuration is invalid.
    Config(ConfigError),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EndpointError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            Self::Config(error) => error.source(),
        }
    }
}

impl From<io::Error> for EndpointError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ConfigError> for EndpointError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// The reason why a connection was not established.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The connection could not be started.
    NotStarted(ConnectFailure),
    /// The connection ended before it was established.
    Lost(ConnectionError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(failure) => failure.fmt(f),
            Self::Lost(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotStarted(error) => error.source(),
            Self::Lost(error) => error.source(),
        }
    }
}

/// The reason why nothing more can be read from a stream.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream with this application error code (RESET_STREAM).
    Reset(VarInt),
    /// The application has stopped this stream.
    ClosedStream,
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(code) => {
                write!(f, "the peer reset the stream with error code {:#x}", code.get())
            }
            Self::ClosedStream => f.write_str("this endpoint stopped the stream"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => error.source(),
            Self::Reset(_) | Self::ClosedStream => None,
        }
    }
}

/// The reason why a stream was not read to its end.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// Reading failed.
    Read(ReadError),
    /// The rest of the stream is longer than the caller's limit.
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

impl fmt::Display for ReadToEndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::TooLong { limit } => write!(f, "the stream is longer than {limit} bytes"),
        }
    }
}

impl core::error::Error for ReadToEndError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => error.source(),
            Self::TooLong { .. } => None,
        }
    }
}

/// The reason why a buffer was not filled.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ReadExactError {
    /// Reading failed.
    Read(ReadError),
    /// The stream ended after this number of bytes.
    FinishedEarly(usize),
}

impl fmt::Display for ReadExactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::FinishedEarly(read) => {
                write!(f, "the stream ended before the buffer was full, after {read} bytes")
            }
        }
    }
}

impl core::error::Error for ReadExactError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => error.source(),
            Self::FinishedEarly(_) => None,
        }
    }
}

/// The reason why nothing more can be written to a stream.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer stopped the stream with this application error code (STOP_SENDING).
    Stopped(VarInt),
    /// The application has finished or reset this stream.
    ClosedStream,
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => {
                write!(f, "the peer stopped the stream with error code {:#x}", code.get())
            }
            Self::ClosedStream => f.write_str("this endpoint finished or reset the stream"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => error.source(),
            Self::Stopped(_) | Self::ClosedStream => None,
        }
    }
}

/// The application has already finished, reset or stopped the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StreamClosed;

impl fmt::Display for StreamClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this endpoint finished, reset or stopped the stream")
    }
}

impl core::error::Error for StreamClosed {}

/// The reason why a stream could not be reset with RESET_STREAM_AT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResetAtError {
    /// The peer does not accept RESET_STREAM_AT frames.
    Unsupported,
    /// The application has already reset the stream.
    ClosedStream,
}

impl fmt::Display for ResetAtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "the peer does not support RESET_STREAM_AT",
            Self::ClosedStream => "this endpoint reset the stream",
        })
    }
}

impl core::error::Error for ResetAtError {}

/// The reason why an unreliable datagram was not accepted for sending.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer does not support datagrams.
    Unsupported,
    /// The datagram is too large for the peer or for a packet.
    TooLarge {
        /// The largest payload that can be sent, in bytes.
        maximum: usize,
    },
    /// Too many datagrams are waiting to be sent.
    QueueFull,
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for SendDatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the peer does not support datagrams"),
            Self::TooLarge { maximum } => {
                write!(f, "the datagram is larger than {maximum} bytes")
            }
            Self::QueueFull => f.write_str("too many datagrams are waiting to be sent"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for SendDatagramError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => error.source(),
            Self::Unsupported | Self::TooLarge { .. } | Self::QueueFull => None,
        }
    }
}

/// The reason why a datagram or datagram outcome that a task waits for will not arrive.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum DatagramWaitError {
    /// The configuration does not enable this: this endpoint accepts no datagrams
    /// ([`max_datagram_frame_size`](crate::TransportConfigBuilder::max_datagram_frame_size)), or
    /// does not report their outcomes
    /// ([`datagram_notices`](crate::TransportConfigBuilder::datagram_notices)).
    NotEnabled,
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for DatagramWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnabled => {
                f.write_str("datagrams or their outcomes are not enabled in the configuration")
            }
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for DatagramWaitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => error.source(),
            Self::NotEnabled => None,
        }
    }
}

/// The reason why a connection could not migrate to another local address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MigrateError {
    /// The migration could not be started.
    NotStarted(MigrateFailure),
    /// The new path could not be used; the connection continues on the old one.
    Failed(MigrationFailure),
    /// The connection ended.
    ConnectionEnded,
}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(failure) => failure.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::ConnectionEnded => f.write_str("the connection has ended"),
        }
    }
}

impl core::error::Error for MigrateError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotStarted(error) => error.source(),
            Self::Failed(error) => error.source(),
            Self::ConnectionEnded => None,
        }
    }
}

/// The reason why keying material could not be exported.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// TLS cannot derive that many bytes.
    Tls(TlsExportError),
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(_) => f.write_str("TLS cannot export keying material of this length"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => error.source(),
            Self::Tls(error) => Some(error),
        }
    }
}
