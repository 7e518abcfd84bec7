use core::fmt;
use core::net::SocketAddr;
use std::io;
use std::path::PathBuf;

/// The reason why a process cannot replace another one, which continues unaffected. In functions
/// that return an [`io::Error`], this is the error's cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum HotRestartError {
    /// The running process has itself replaced another process that still has connections. Try
    /// again later.
    Draining,
    /// The running process has a different number of shards; both processes must have the same
    /// number.
    ShardCount {
        /// The number of shards in the running process.
        running: usize,
        /// The requested number of shards.
        asked: usize,
    },
    /// The running process listens at other addresses.
    Addresses {
        /// The addresses at which the running process listens; clients connect to the first one.
        running: Vec<SocketAddr>,
        /// The requested addresses.
        asked: Vec<SocketAddr>,
    },
    /// The running process issues connection IDs in a different format. Either both processes must
    /// use QUIC-LB (`QuicLb`) with IDs of the same length, or neither.
    ConnectionIds {
        /// The length of the running process's IDs in octets, if it uses QUIC-LB.
        running: Option<usize>,
        /// The requested length of IDs in octets, if QUIC-LB was requested.
        asked: Option<usize>,
    },
    /// The number of shards is too large for a replaceable server.
    TooManyShards {
        /// The maximum number of shards.
        limit: usize,
    },
    /// The process that listens at the path belongs to another user.
    OtherUser {
        /// The user's ID.
        user: u32,
    },
    /// The process that listens at the path uses another version of this protocol, or another
    /// protocol.
    Foreign,
    /// The running process did not respond, or did not stop receiving.
    Busy,
    /// The running process ended while it was being replaced.
    Ended,
    /// The path cannot be used.
    Path {
        /// The path of the unix socket.
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
                "the running process has {running} shards, but this one would have {asked}, and \
                 the number cannot change"
            ),
            Self::Addresses { running, asked } => write!(
                f,
                "the running process listens at {}, not at {}",
                list(running),
                list(asked)
            ),
            Self::ConnectionIds { running, asked } => write!(
                f,
                "the running process issues {}, but this one would issue {}",
                kind(*running),
                kind(*asked)
            ),
            Self::TooManyShards { limit } => {
                write!(f, "a server that can be replaced cannot have more than {limit} shards")
            }
            Self::OtherUser { user } => {
                write!(f, "the running process belongs to the user with the ID {user}")
            }
            Self::Foreign => f.write_str("the running process uses another hot restart protocol"),
            Self::Busy => f.write_str("the running process does not respond"),
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
        None => "connection IDs without QUIC-LB".to_owned(),
        Some(length) => format!("QUIC-LB connection IDs of {length} octets"),
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

#[cfg(test)]
mod tests {
    use core::error::Error as _;

    use super::*;

    #[test]
    fn an_error_states_what_differs() {
        let error = HotRestartError::ConnectionIds { running: Some(9), asked: None };
        assert_eq!(
            error.to_string(),
            "the running process issues QUIC-LB connection IDs of 9 octets, but this one would \
             issue connection IDs without QUIC-LB"
        );
        let [a, b]: [SocketAddr; 2] = ["192.0.2.1:1", "[::1]:2"].map(|it| it.parse().unwrap());
        let error = HotRestartError::Addresses { running: vec![a, b], asked: vec![a] };
        assert_eq!(
            error.to_string(),
            "the running process listens at 192.0.2.1:1 and [::1]:2, not at 192.0.2.1:1"
        );
    }

    /// An error of an underlying library, with a cause.
    #[derive(Debug)]
    struct Refused(fmt::Error);

    impl fmt::Display for Refused {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("refused")
        }
    }

    impl core::error::Error for Refused {
        fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    /// `Display` already shows the system error, so the source is that error's cause.
    #[test]
    fn the_source_is_the_cause_of_the_error_that_is_shown() {
        let error = || io::Error::other(Refused(fmt::Error));
        let path = HotRestartError::Path { path: "/x".into(), error: error() };
        assert_eq!(path.to_string(), "cannot use the socket /x: refused");
        for error in [path, HotRestartError::NoSeed(error())] {
            assert!(error.source().is_some_and(|source| source.is::<fmt::Error>()));
        }
        assert!(HotRestartError::Busy.source().is_none());
    }
}
