//! Server-side decisions about incoming clients.

use core::net::IpAddr;
use std::sync::Arc;

use clearway_transport::{Incoming, Observer, ServerConfig};

use crate::mailbox::ApplicationFactory;

/// Decides which clients to accept. It runs inside the shard: it must not block.
pub trait Acceptor: Send {
    /// Called when a client tries to connect.
    fn incoming(&mut self, incoming: &Incoming) -> Decision;
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
}

/// The application and observer of an accepted connection.
pub struct Accept {
    /// Creates the connection's application.
    pub application: ApplicationFactory,
    /// Observes the connection.
    pub observer: Option<Box<dyn Observer>>,
}

/// What a shard needs to act as a server.
pub struct ServerSetup {
    /// The configuration of accepted connections.
    pub config: Arc<ServerConfig>,
    /// Decides which clients to accept.
    pub acceptor: Box<dyn Acceptor>,
    /// What clients must do before the acceptor is called.
    pub admission: Admission,
}

/// Admission control that a server applies before it calls its [`Acceptor`].
#[derive(Clone, Debug)]
pub struct Admission {
    /// Send Retry packets (RFC 9000 §8.1.2) while at least this many clients have begun a handshake
    /// and not completed it, and until half that many remain. The acceptor is then called only for
    /// clients with a validated address.
    ///
    /// A client waits until its handshake begins; at most one begins per turn of the shard's loop.
    /// While the shard receives less than arrives, handshakes get a quarter of its time. Up to 256
    /// clients with 1 MiB of datagrams wait, or 1,024 with 4 MiB if their address is validated;
    /// further clients without a validated address get a Retry packet too. A turn sends one Retry
    /// packet; up to 256 clients with 1 MiB wait for one, and the datagrams of further clients are
    /// dropped ([`incoming_dropped`](crate::ShardStatistics::incoming_dropped)).
    pub retry_above: usize,
    /// The addresses of load balancers that put a [preface](clearway_wire::preface) before each
    /// datagram, at most [`MAX_BALANCERS`](crate::MAX_BALANCERS). If there are any, the shard's
    /// listening sockets accept datagrams only from these addresses and drop others
    /// ([`foreign_dropped`](crate::ShardStatistics::foreign_dropped)), so nobody else can begin a
    /// connection.
    ///
    /// A datagram with a preface is treated as coming from the client whose address it states, and
    /// the connection's responses go to the balancer that sent its latest authentic datagram, with
    /// a preface of their own. A datagram without a preface comes from the balancer itself, such as
    /// a health check. Whoever can send from the address of a balancer can claim any client
    /// address, so the network between them must prevent that. A preface takes 11 bytes of each
    /// datagram with IPv4, and 35 with IPv6: the path must carry packets of 1,283 bytes.
    ///
    /// If empty, anyone may send, and there are no prefaces.
    pub balancers: Vec<IpAddr>,
}

impl Default for Admission {
    /// Returns an admission control without Retry packets and without balancers.
    fn default() -> Self {
        Self { retry_above: usize::MAX, balancers: Vec::new() }
    }
}
