use core::fmt;
use core::net::SocketAddr;

use clearway_wire::ConnectionId;
use clearway_wire::quic_lb::{ConfigId, ServerId};

use super::Pool;
use crate::AddressFault;

/// The reason why servers cannot form a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// Two configurations have the same number.
    ConfigTwice(ConfigId),
    /// There are more servers than [`Pool::MAX_SERVERS`].
    TooManyServers(usize),
    /// Two servers have the same name.
    NameTwice(String),
    /// Two servers have different names but the same [key](crate::ServerKey).
    KeyTwice([String; 2]),
    /// Two servers have the same address.
    AddressTwice {
        /// The names of both servers.
        names: [String; 2],
        /// The address of both servers.
        address: SocketAddr,
    },
    /// A server has an [invalid address](AddressFault).
    NoDestination {
        /// The name of the server.
        name: String,
        /// The invalid address.
        address: SocketAddr,
    },
    /// Two servers have the same server ID, or one server has an ID twice.
    IdTwice {
        /// The names of both servers.
        names: [String; 2],
        /// The configuration that the ID belongs to.
        config: ConfigId,
        /// The duplicate server ID.
        id: ServerId,
    },
    /// A server has a server ID for a configuration that does not exist.
    NoConfig {
        /// The name of the server.
        name: String,
        /// The missing configuration.
        config: ConfigId,
    },
    /// A server's ID does not have the length that its configuration requires.
    IdLength {
        /// The name of the server.
        name: String,
        /// The server ID with the wrong length.
        id: ServerId,
        /// The length that the configuration requires, in octets.
        expected: usize,
    },
    /// A server's connection IDs are longer than QUIC versions 1 and 2 allow.
    ConnectionIdLength {
        /// The name of the server.
        name: String,
        /// The length of the connection IDs, in octets.
        length: usize,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfigTwice(config) => {
                write!(f, "configuration {} is defined twice", config.number())
            }
            Self::TooManyServers(count) => {
                write!(f, "a pool can have at most {} servers, not {count}", Pool::MAX_SERVERS)
            }
            Self::NameTwice(name) => write!(f, "two servers have the name {name:?}"),
            Self::KeyTwice([one, other]) => write!(
                f,
                "the names {one:?} and {other:?} have the same hash: rename one of the servers"
            ),
            Self::AddressTwice { names: [one, other], address } => {
                write!(f, "servers {one:?} and {other:?} have the same address, {address}")
            }
            Self::NoDestination { name, address } => {
                write!(f, "server {name:?} has the invalid address {address}")?;
                AddressFault::of(*address).map_or(Ok(()), |fault| write!(f, ": {fault}"))
            }
            Self::IdTwice { names: [one, other], config, id } if one == other => {
                let config = config.number();
                write!(f, "server {one:?} has the server ID {id} twice in configuration {config}")
            }
            Self::IdTwice { names: [one, other], config, id } => write!(
                f,
                "servers {one:?} and {other:?} have the same server ID in configuration {}, {id}",
                config.number()
            ),
            Self::NoConfig { name, config } => write!(
                f,
                "server {name:?} has a server ID for configuration {}, which does not exist",
                config.number()
            ),
            Self::IdLength { name, id, expected } => write!(
                f,
                "server {name:?} has the server ID {id} of {} octets, but its configuration requires {expected}",
                id.as_bytes().len()
            ),
            Self::ConnectionIdLength { name, length } => write!(
                f,
                "server {name:?} has connection IDs of {length} octets, but the maximum is {}",
                ConnectionId::MAX_LEN
            ),
        }
    }
}

impl core::error::Error for PoolError {}
