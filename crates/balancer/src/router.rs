//! Finds the server of each datagram.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_units::{Random, Timestamp};

use crate::{Pool, ServerKey};

/// How much a router remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Flows (a client's address, and its connection ID while it has none of the server) at a time.
    pub flows: usize,
    /// Connection IDs of servers that do not issue IDs of QUIC-LB.
    pub learned: usize,
    /// How long a flow or an ID is remembered after it was last used.
    pub lifetime: Duration,
}

/// By what the server of a datagram was found, in the order in which they are tried (§4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Means {
    /// The server ID in the connection ID.
    ServerId,
    /// A long header from a client and with a connection ID of its own for which the server was chosen before.
    Flow,
    /// A connection ID that the server was seen to use.
    Learned,
    /// The client's address, of which datagrams have gone to the server before.
    Address,
    /// The hash of the addresses.
    Hash,
}

/// Why a datagram goes nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DropReason {
    /// It has no octet, or its header is cut off.
    NotQuic,
    /// No server takes new clients.
    NoServer,
    /// The server that its connection ID names cannot be reached.
    Down,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It goes to a server of the pool.
    Forward {
        /// Which one.
        server: ServerKey,
        /// By what it was found.
        means: Means,
    },
    /// It is dropped.
    Drop(DropReason),
}

/// What a router has counted.
#[derive(Clone, Debug, Default)]
pub struct RouterStatistics {}

/// Finds the servers of datagrams. Each thread has its own.
#[derive(Debug)]
pub struct Router {
    pool: Arc<Pool>,
}

impl Router {
    /// A router that remembers nothing yet.
    pub fn new(pool: Arc<Pool>, limits: Limits, random: Random) -> Self;
    /// The servers.
    pub fn pool(&self) -> &Arc<Pool>;
    /// From now on these are the servers.
    pub fn replace(&mut self, now: Timestamp, pool: Arc<Pool>);
    /// Finds the server of a datagram of `client`, which it sent to `local`.
    pub fn route(
        &mut self,
        now: Timestamp,
        client: SocketAddr,
        local: SocketAddr,
        datagram: &[u8],
    ) -> Decision;
    /// A server has sent a datagram to `client`.
    pub fn observe(
        &mut self,
        now: Timestamp,
        server: ServerKey,
        client: SocketAddr,
        datagram: &[u8],
    );
    /// What was counted.
    pub fn statistics(&self) -> &RouterStatistics;
}
