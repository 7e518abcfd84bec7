use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::path::PathBuf;

/// A process cannot replace another one, which goes on as if nothing had happened. Where an [`io::Error`] is returned, this is
/// its cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum HotRestartError {
    /// The process that runs has replaced another one, which has connections yet. Try again later.
    Draining,
    /// The process that runs has another number of shards, which must be the same in both.
    ShardCount {
        /// How many it has.
        running: usize,
        /// How many this one would have.
        asked: usize,
    },
    /// The process that runs listens at other addresses.
    Addresses {
        /// Those at which it listens; the first is that to which clients connect.
        running: Vec<SocketAddr>,
        /// Those at which this one would listen.
        asked: Vec<SocketAddr>,
    },
    /// The process that runs issues other connection IDs. With QUIC-LB (`QuicLb`) both have it, and IDs of one length.
    ConnectionIds {
        /// Their length in octets in the process that runs, if it has QUIC-LB.
        running: Option<usize>,
        /// Their length in octets in this one, if it would have QUIC-LB.
        asked: Option<usize>,
    },
    /// A server that can be replaced cannot have as many shards.
    TooManyShards {
        /// How many it can have.
        limit: usize,
    },
    /// The process that listens at the path belongs to another user.
    OtherUser {
        /// The user's ID.
        user: u32,
    },
    /// The process that listens at the path speaks another version of this protocol, or none.
    Foreign,
    /// The process that runs does not answer, or does not stop receiving.
    Busy,
    /// The process that runs ended while it was being replaced.
    Ended,
    /// The path cannot be used.
    Path {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The operating system cannot provide a random seed.
    NoSeed(io::Error),
}

impl fmt::Display for HotRestartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining => f.write_str("a previous process is still draining"),
            Self::ShardCount { running, asked } => write!(
                f,
                "the running process has {running} shards and this one would have {asked}, but the \
                 number cannot change"
            ),
            Self::Addresses { running, asked } => write!(
                f,
                "the running process listens at {}, and not at {}",
                list(running),
                list(asked)
            ),
            Self::ConnectionIds { running, asked } => write!(
                f,
                "the running process issues connection IDs {}, and this one would issue those {}",
                kind(*running),
                kind(*asked)
            ),
            Self::TooManyShards { limit } => {
                write!(f, "a server that can be replaced cannot have more than {limit} shards")
            }
            Self::OtherUser { user } => {
                write!(f, "the running process belongs to the user with the ID {user}")
            }
            Self::Foreign => f.write_str("the running process speaks another protocol"),
            Self::Busy => f.write_str("the running process does not answer"),
            Self::Ended => f.write_str("the running process ended while it was being replaced"),
            Self::Path { path, error } => {
                write!(f, "cannot use the socket {}: {error}", path.display())
            }
            Self::NoSeed(error) => {
                write!(f, "the operating system cannot provide a random seed: {error}")
            }
        }
    }
}

fn kind(quic_lb_len: Option<usize>) -> String {
    match quic_lb_len {
        None => "without QUIC-LB".to_owned(),
        Some(length) => format!("of QUIC-LB with {length} octets"),
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(" and ")
}

impl core::error::Error for HotRestartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Path { error, .. } | Self::NoSeed(error) => error.source(),
            Self::Draining
            | Self::ShardCount { .. }
            | Self::Addresses { .. }
            | Self::ConnectionIds { .. }
            | Self::TooManyShards { .. }
            | Self::OtherUser { .. }
            | Self::Foreign
            | Self::Busy
            | Self::Ended => None,
        }
    }
}

impl From<HotRestartError> for io::Error {
    fn from(error: HotRestartError) -> Self {
        let kind = match &error {
            HotRestartError::Draining | HotRestartError::Busy => io::ErrorKind::ResourceBusy,
            HotRestartError::OtherUser { .. } => io::ErrorKind::PermissionDenied,
            HotRestartError::Ended => io::ErrorKind::ConnectionAborted,
            HotRestartError::Path { error, .. } | HotRestartError::NoSeed(error) => error.kind(),
            HotRestartError::Foreign => io::ErrorKind::InvalidData,
            HotRestartError::ShardCount { .. }
            | HotRestartError::Addresses { .. }
            | HotRestartError::ConnectionIds { .. }
            | HotRestartError::TooManyShards { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
