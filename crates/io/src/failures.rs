//! Errors in requests to a shard.

use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::sync::Arc;

use clearway_transport::{ConnectError, MigrationError};

/// The reason why a migration of a connection to another local address does not begin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MigrateFailure {
    /// The server cannot be reached from an address of this family.
    OtherFamily(SocketAddr),
    /// The shard has reached its limit of sockets for migrating connections.
    TooManySockets {
        /// The maximum number of sockets.
        limit: usize,
    },
    /// No socket could be opened at the address, or the server cannot be reached from there.
    Socket {
        /// The local address.
        local: SocketAddr,
        /// The error of the operating system.
        error: Arc<io::Error>,
    },
    /// The connection may not migrate at present.
    Refused(MigrationError),
}

impl fmt::Display for MigrateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFamily(local) => {
                write!(f, "the server cannot be reached from {local}: the address families differ")
            }
            Self::TooManySockets { limit } => {
                write!(f, "too many sockets for migrating connections: the limit is {limit}")
            }
            Self::Socket { local, error } => write!(f, "cannot use a socket at {local}: {error}"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MigrateFailure {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // The messages of these variants include that of the wrapped error.
            Self::Socket { error, .. } => error.source(),
            Self::Refused(error) => error.source(),
            Self::OtherFamily(_) | Self::TooManySockets { .. } => None,
        }
    }
}

/// The reason why a connection could not be started.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The socket cannot send to this address: its family differs, or it has no host or port.
    UnsupportedAddress(SocketAddr),
    /// The endpoint cannot start the connection.
    Endpoint(ConnectError),
    /// The shard is shutting down and starts no new connections.
    ShuttingDown,
    /// The shard failed.
    ShardFailed(ShardFailure),
    /// Application code from the connection's configuration panicked during the start, such as a
    /// congestion controller's factory.
    Panicked,
}

/// The reason why a shard ended unexpectedly.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShardFailure {
    /// The shard panicked, with this panic message. The shard catches panics in application code,
    /// so this is a bug in the library or in a `tracing` subscriber.
    Panicked(Arc<str>),
    /// The shard's socket can no longer receive.
    SocketUnusable,
}

impl fmt::Display for ShardFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "the thread panicked: {message}"),
            Self::SocketUnusable => f.write_str("the socket can no longer receive"),
        }
    }
}

impl core::error::Error for ShardFailure {}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedAddress(address) => {
                write!(f, "this socket cannot send to {address}")
            }
            Self::Endpoint(error) => error.fmt(f),
            Self::ShuttingDown => f.write_str("the endpoint is being shut down"),
            Self::ShardFailed(failure) => write!(f, "the endpoint has failed: {failure}"),
            Self::Panicked => {
                f.write_str("application code panicked while starting the connection")
            }
        }
    }
}

impl core::error::Error for ConnectFailure {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // The messages of these variants include that of the wrapped error.
            Self::Endpoint(error) => error.source(),
            Self::ShardFailed(failure) => failure.source(),
            Self::UnsupportedAddress(_) | Self::ShuttingDown | Self::Panicked => None,
        }
    }
}
