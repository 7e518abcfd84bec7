//! The servers at one point in time.

use core::fmt;
use core::net::SocketAddr;

use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

/// Names a server for as long as it exists, whatever others come and go: derived from its name, so that two balancers with the
/// same configuration agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerKey(u64);

/// What a server may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    /// New clients and existing connections.
    Active,
    /// Existing connections only.
    Draining,
    /// Nothing: it cannot be reached.
    Down,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Unique in its pool.
    pub name: String,
    /// Where its datagrams go.
    pub address: SocketAddr,
    /// The server IDs in its connection IDs, of each configuration; none if it does not issue IDs of QUIC-LB.
    pub ids: Vec<(ConfigId, ServerId)>,
    /// The length of its connection IDs in octets if it does not issue IDs of QUIC-LB; `None` if it is not known. Then it is
    /// read from the long headers that it sends.
    pub id_len: Option<usize>,
    /// Its part of new clients, relative to those of others; 0 for none.
    pub weight: u32,
    /// What it may be given.
    pub state: ServerState,
    /// Whether its datagrams have a [preface](clearway_wire::preface).
    pub has_preface: bool,
}

/// Servers that cannot be a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// Two configurations have one number.
    ConfigTwice(ConfigId),
    /// Two servers have one name.
    NameTwice(String),
    /// Two servers have one address.
    AddressTwice {
        /// The names of both.
        names: [String; 2],
        /// Their address.
        address: SocketAddr,
    },
    /// Two servers have one server ID.
    IdTwice {
        /// The names of both.
        names: [String; 2],
        /// Of which configuration it is.
        config: ConfigId,
        /// Their ID.
        id: ServerId,
    },
    /// A server has an ID of a configuration that does not exist.
    NoConfig {
        /// The name of the server.
        name: String,
        /// The configuration.
        config: ConfigId,
    },
    /// A server's ID has not the length that its configuration states.
    IdLength {
        /// The name of the server.
        name: String,
        /// Its ID.
        id: ServerId,
        /// How many octets the configuration states.
        expected: usize,
    },
}
