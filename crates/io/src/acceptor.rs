//! What a server decides about the clients that connect to it.

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
    /// Makes the connection's application.
    pub application: ApplicationFactory,
    /// Watches the connection.
    pub observer: Option<Box<dyn Observer>>,
}

/// What a shard needs to be a server.
pub struct ServerSetup {
    /// The configuration of accepted connections.
    pub config: Arc<ServerConfig>,
    /// Decides which clients to accept.
    pub acceptor: Box<dyn Acceptor>,
    /// What clients have to do before they are brought before the acceptor.
    pub admission: Admission,
}

/// What a server demands of those who send to it, before its [`Acceptor`] decides.
#[derive(Clone, Debug)]
pub struct Admission {
    /// While so many clients have begun a handshake and not completed it, and until half as many are left, further ones are
    /// not brought before the acceptor unless their address is validated: they get a Retry packet (RFC 9000 §8.1.2).
    ///
    /// A client waits until its handshake begins, one in each turn of the shard's loop at most. While the shard receives less
    /// than arrives, handshakes have a quarter of its time. 256 clients wait with 1 MiB of datagrams at most, or 1,024 with
    /// 4 MiB if their address is validated; those with too many before them get a Retry packet, too. A turn sends 4 of
    /// these, or 1 while the shard receives less than arrives; 256 clients wait for one with 1 MiB, and the datagrams of
    /// others are dropped ([`incoming_dropped`](crate::ShardStatistics::incoming_dropped)).
    pub retry_above: usize,
    /// The addresses of load balancers that put a [preface](clearway_wire::preface) before each datagram, at most
    /// [`MAX_BALANCERS`](crate::MAX_BALANCERS). Then the shard's listening sockets take datagrams from these addresses only, and
    /// drop others ([`foreign_dropped`](crate::ShardStatistics::foreign_dropped)): connections cannot begin there to anyone else.
    ///
    /// A datagram with a preface counts as that of the client whose address it states, and the connection's answers go to the
    /// balancer from which its latest authentic datagram came, with a preface of their own. One without preface is the
    /// balancer's own, such as a health check. Whoever can send with the address of a balancer can state any address for a
    /// client, so the network between must keep others from that. A preface takes 11 bytes of each datagram with IPv4, and 35
    /// with IPv6: the path must carry packets of 1,283 bytes.
    ///
    /// Without any, everyone may send, and there are no prefaces.
    pub balancers: Vec<IpAddr>,
}

impl Default for Admission {
    /// No Retry packets, and no balancers.
    fn default() -> Self {
        Self { retry_above: usize::MAX, balancers: Vec::new() }
    }
}
