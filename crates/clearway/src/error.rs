//! What can go wrong, one enum for each thing that is done.

use core::fmt;
use std::io;
use std::sync::Arc;

use clearway_io::ConnectFailure;
use clearway_transport::{ConnectionError, ExportError as TlsExportError, SessionError};
use clearway_wire::VarInt;

/// A configuration cannot be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// TLS does not accept it.
    Tls(SessionError),
    /// The platform has no certificates to trust; with the first failure to read some, if there was one.
    NoNativeRoots(Option<Arc<dyn core::error::Error + Send + Sync>>),
    /// The endpoint has no configuration for clients: see
    /// [`set_default_client_config`](crate::Endpoint::set_default_client_config).
    NoClientConfig,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(error) => error.fmt(f),
            Self::NoNativeRoots(why) => {
                f.write_str("the platform has no root certificates to trust: ")?;
                match why {
                    Some(error) => error.fmt(f),
                    None => f.write_str("none was found"),
                }
            }
            Self::NoClientConfig => f.write_str("the endpoint has no client configuration"),
        }
    }
}

impl core::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tls(error) => Some(error),
            Self::NoNativeRoots(Some(error)) => Some(&**error),
            Self::NoNativeRoots(None) | Self::NoClientConfig => None,
        }
    }
}

impl From<SessionError> for ConfigError {
    fn from(error: SessionError) -> Self {
        Self::Tls(error)
    }
}

/// An endpoint cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointError {
    /// The operating system refuses, for example because the address is in use.
    Io(io::Error),
    /// The configuration cannot be used.
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
            Self::Io(error) => Some(error),
            Self::Config(error) => Some(error),
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

/// A connection was not established.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// It could not even be started.
    NotStarted(ConnectFailure),
    /// It ended before it was established.
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
            Self::NotStarted(error) => Some(error),
            Self::Lost(error) => Some(error),
        }
    }
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NotStarted(_) => io::Error::new(io::ErrorKind::InvalidInput, error),
            ConnectError::Lost(error) => connection_lost(error),
        }
    }
}

/// Nothing more can be read from a stream.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave the stream up, with this application error code.
    Reset(VarInt),
    /// This end has stopped the stream.
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
            Self::ClosedStream => f.write_str("the stream was stopped by this end"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => Some(error),
            Self::Reset(_) | Self::ClosedStream => None,
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
            ReadError::ClosedStream => io::Error::new(io::ErrorKind::NotConnected, error),
            ReadError::ConnectionLost(error) => connection_lost(error),
        }
    }
}

/// A stream was not read to its end.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// Reading failed.
    Read(ReadError),
    /// There is more than the caller wants.
    TooLong {
        /// How many bytes it wants at most.
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
            Self::Read(error) => Some(error),
            Self::TooLong { .. } => None,
        }
    }
}

/// Nothing more can be written to a stream.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer wants no more, with this application error code.
    Stopped(VarInt),
    /// This end has finished or reset the stream.
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
            Self::ClosedStream => f.write_str("the stream was finished or reset by this end"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => Some(error),
            Self::Stopped(_) | Self::ClosedStream => None,
        }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
            WriteError::ClosedStream => io::Error::new(io::ErrorKind::NotConnected, error),
            WriteError::ConnectionLost(error) => connection_lost(error),
        }
    }
}

fn connection_lost(error: ConnectionError) -> io::Error {
    let kind = match error {
        ConnectionError::LocallyClosed => io::ErrorKind::NotConnected,
        ConnectionError::ApplicationClosed { .. } | ConnectionError::ConnectionClosed { .. } => {
            io::ErrorKind::ConnectionAborted
        }
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut => io::ErrorKind::TimedOut,
        ConnectionError::Unreachable | ConnectionError::Refused => io::ErrorKind::ConnectionRefused,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// The stream was finished, reset or stopped before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StreamClosed;

impl fmt::Display for StreamClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream was finished, reset or stopped by this end")
    }
}

impl core::error::Error for StreamClosed {}

/// An unreliable datagram was not taken.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams.
    Unsupported,
    /// The peer takes no datagrams as large as this.
    TooLarge {
        /// The largest payload that it may take.
        maximum: usize,
    },
    /// Too many wait to be sent.
    QueueFull,
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for SendDatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the peer takes no datagrams"),
            Self::TooLarge { maximum } => {
                write!(f, "a datagram can hold no more than {maximum} bytes")
            }
            Self::QueueFull => f.write_str("too many datagrams wait to be sent"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for SendDatagramError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => Some(error),
            Self::Unsupported | Self::TooLarge { .. } | Self::QueueFull => None,
        }
    }
}

/// Keying material was not exported.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// TLS cannot derive so many bytes.
    Tls(TlsExportError),
    /// The connection ended.
    ConnectionLost(ConnectionError),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(_) => f.write_str("TLS cannot export such keying material"),
            Self::ConnectionLost(error) => write!(f, "the connection ended: {error}"),
        }
    }
}

impl core::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::ConnectionLost(error) => Some(error),
            Self::Tls(error) => Some(error),
        }
    }
}
