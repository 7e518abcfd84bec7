//! Server-side decisions about connection attempts by clients.

use core::net::IpAddr;
use std::sync::Arc;

use clearway_transport::{Incoming, Observer, ServerConfig};

use crate::mailbox::{Accept, Undecided};

/// Default limits on waiting clients without a validated address, and on their datagrams in bytes.
const UNVALIDATED_CLIENTS: usize = 256;
const UNVALIDATED_BYTES: usize = 1 << 20;
/// The limits on clients with a validated address are this many times as large.
pub(crate) const VALIDATED_FACTOR: usize = 4;

/// Decides which clients to accept. Runs inside the shard, so it must not block.
pub trait Acceptor: Send {
    /// Called when a client tries to connect.
    fn incoming(&mut self, incoming: &Incoming) -> Decision;

    /// Returns an observer for an accepted connection to which the decision assigns none. Called
    /// when the connection begins. The default implementation returns none.
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        None
    }
}

/// How the server responds to a connection attempt.
#[non_exhaustive]
pub enum Decision {
    /// Accept the connection.
    Accept(Accept),
    /// Close the connection with CONNECTION_REFUSED.
    Refuse,
    /// Send a Retry packet: the client must validate its address first (RFC 9000 §8.1.2).
    Retry,
    /// Send no response.
    Ignore,
    /// Decide later, on any thread: the function is called at once, in the shard, and gets the
    /// client. Until then, the client's datagrams wait within the limits of
    /// [`Admission::max_incoming`].
    Postpone(Box<dyn FnOnce(Undecided)>),
}

/// The configuration that a shard needs to act as a server.
pub struct ServerSetup {
    /// The configuration of accepted connections.
    pub config: Arc<ServerConfig>,
    /// Decides which clients to accept.
    pub acceptor: Box<dyn Acceptor>,
    /// Admission control that is applied before the acceptor is called.
    pub admission: Admission,
}

/// Admission control that a server applies before it calls its [`Acceptor`].
#[derive(Clone, Debug)]
pub struct Admission {
    /// Threshold for Retry packets (RFC 9000 §8.1.2): the server sends them while at least this
    /// many handshakes are in progress, until half that many remain. The acceptor is then called
    /// only for clients with a validated address.
    ///
    /// Clients queue until their handshake begins; at most one handshake begins per turn of the
    /// shard's loop. While datagrams arrive faster than the shard receives them, handshakes get a
    /// quarter of its time. Clients whose decision is [postponed](Decision::Postpone) count as
    /// handshakes in progress. The limits on clients that wait are [`max_incoming`] and
    /// [`incoming_buffer`]. Additional clients without a validated address get a Retry packet too.
    /// The shard sends at most one Retry packet per turn. Up to 256 clients with 1 MiB can wait for
    /// a Retry packet, and the datagrams of additional clients are dropped
    /// ([`incoming_dropped`](crate::ShardStatistics::incoming_dropped)).
    ///
    /// [`max_incoming`]: Self::max_incoming
    /// [`incoming_buffer`]: Self::incoming_buffer
    pub retry_above: usize,
    /// The addresses of load balancers that prepend a [preface](clearway_wire::preface) with the
    /// client's address to each datagram; at most [`MAX_BALANCERS`](crate::MAX_BALANCERS). If there
    /// are any, the shard's listening sockets accept datagrams only from these addresses and drop
    /// others ([`foreign_dropped`](crate::ShardStatistics::foreign_dropped)), so no other host can
    /// begin a connection.
    ///
    /// A datagram with a preface is treated as coming from the client whose address it states, and
    /// the connection's responses, which also have a preface, go to the balancer that sent its
    /// latest authenticated datagram. A datagram without a preface, such as a health check, comes
    /// from the balancer itself. A host that can send from a balancer's address can claim any
    /// client address, so the network between balancers and servers must prevent that. A preface
    /// takes 11 bytes of each datagram with IPv4, and 35 bytes with IPv6, so the path must carry
    /// packets of 1,283 bytes.
    ///
    /// If this is empty, datagrams are accepted from any address, and have no preface.
    pub balancers: Vec<IpAddr>,
    /// Maximum number of clients with a validated address that wait, at each shard, until their
    /// handshake begins or the acceptor decides on them. A quarter of it applies to other clients;
    /// both limits are at least 1. The default is 1,024.
    pub max_incoming: usize,
    /// Maximum total size of the datagrams of waiting clients at each shard, in bytes. A quarter of
    /// it applies to clients without a validated address. Values below 64 KiB count as 64 KiB; the
    /// default is 4 MiB. Up to twelve datagrams of a client are kept.
    pub incoming_buffer: usize,
}

impl Default for Admission {
    /// Returns settings without Retry packets and without balancers, with the default limits on
    /// waiting clients.
    fn default() -> Self {
        Self {
            retry_above: usize::MAX,
            balancers: Vec::new(),
            max_incoming: VALIDATED_FACTOR * UNVALIDATED_CLIENTS,
            incoming_buffer: VALIDATED_FACTOR * UNVALIDATED_BYTES,
        }
    }
}
