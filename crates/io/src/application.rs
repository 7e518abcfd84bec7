//! What runs inside a shard.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::sync::Arc;

use clearway_transport::{
    ClientConfig, ConnectError, Connection, Incoming, MigrationError, Observer, ServerConfig,
    SocketIndex, Statistics,
};
use clearway_units::Timestamp;

use crate::mailbox::ConnectionWaker;

/// One connection's application. It runs inside the shard, on the shard's thread: it must not block.
pub trait Application: Send {
    /// Called when the connection may have events, when it was [woken](ConnectionWaker::wake), and once
    /// when it has just been created; once per batch, a few times
    /// more if tasks on the shard's thread wake it, and again if the call itself, or sending, has events that it has not seen. It should drain
    /// [`Connection::next_event`] and may use the connection; the shard sends what that produces.
    fn process(&mut self, now: Timestamp, connection: &mut Connection);

    /// Returns when [`process`](Self::process) is to be called again at the latest, whatever happens on the connection before.
    /// Called after each call of that.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// About how many bytes the application keeps for the connection because its peer has sent them or does not take them. They
    /// count in the [`MemoryBudget`](crate::MemoryBudget), in addition to what the connection itself holds. Called once per turn
    /// in which something happened on the connection.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// Called with the connection's final metrics after [`Event::Closed`], once nothing but CONNECTION_CLOSE can be sent on it
    /// any more (RFC 9000 §10.2).
    ///
    /// [`Event::Closed`]: clearway_transport::Event::Closed
    fn closed(&mut self, statistics: &Statistics) {
        let _ = statistics;
    }
}

/// Creates a connection's application once the connection exists. Other threads use the waker to
/// have [`Application::process`] called.
pub type ApplicationFactory = Box<dyn FnOnce(ConnectionWaker) -> Box<dyn Application> + Send>;

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

/// A request to start a client connection.
pub struct ConnectRequest {
    /// The configuration of the connection.
    pub config: Arc<ClientConfig>,
    /// The address of the server.
    pub remote: SocketAddr,
    /// The server's name, for which its certificate must be valid.
    pub server_name: String,
    /// Makes the connection's application.
    pub application: ApplicationFactory,
    /// Watches the connection.
    pub observer: Option<Box<dyn Observer>>,
    /// Called, in the shard, if the connection cannot be started.
    pub on_failure: Box<dyn FnOnce(ConnectFailure) + Send>,
}

/// Called when a migration begins or cannot begin; see [`ConnectionWaker::migrate`].
pub type MigrationStarted = Box<dyn FnOnce(Result<Migration, MigrateFailure>) + Send>;

/// A migration that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Migration {
    /// The local address of the new path, with its port. The IP address is unspecified if it is that of a socket for all
    /// addresses.
    pub local: SocketAddr,
    /// The number of the new path's socket in the connection's events.
    pub socket: SocketIndex,
}

/// Why a connection does not begin to move to another local address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MigrateFailure {
    /// From an address of this family the server cannot be reached.
    OtherFamily(SocketAddr),
    /// The shard has as many sockets for connections that migrate as it may have.
    TooManySockets {
        /// How many that are.
        limit: usize,
    },
    /// No socket could be opened at the address, or the server cannot be reached from there.
    Socket {
        /// The address.
        local: SocketAddr,
        /// The error of the operating system.
        error: Arc<io::Error>,
    },
    /// The connection may not migrate now.
    Refused(MigrationError),
}

impl fmt::Display for MigrateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFamily(local) => {
                write!(f, "the server cannot be reached from {local}, which is of another family")
            }
            Self::TooManySockets { limit } => {
                write!(f, "{limit} sockets are open for connections that migrate")
            }
            Self::Socket { local, error } => write!(f, "cannot use a socket at {local}: {error}"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MigrateFailure {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // Their text contains that of the error.
            Self::Socket { error, .. } => error.source(),
            Self::Refused(error) => error.source(),
            Self::OtherFamily(_) | Self::TooManySockets { .. } => None,
        }
    }
}

/// Why a connection could not be started.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The socket cannot send to such an address: it is of another family, or has no host or port.
    UnsupportedAddress(SocketAddr),
    /// The endpoint cannot start it.
    Endpoint(ConnectError),
    /// The shard is shutting down and starts no new connections.
    ShuttingDown,
    /// The shard has ended although nobody had asked it to.
    ShardFailed(ShardFailure),
    /// Code of the application that the connection was configured with panicked while it was started, such as a congestion
    /// controller's factory.
    Panicked,
}

/// Why a shard has ended although nobody had asked it to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ShardFailure {
    /// It panicked; with the message of the panic. The code that a shard calls on behalf of the application is guarded, so this is
    /// a fault of the library, or of a `tracing` subscriber.
    Panicked(Arc<str>),
    /// Its socket cannot receive any more.
    SocketUnusable,
}

impl fmt::Display for ShardFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "the thread panicked: {message}"),
            Self::SocketUnusable => f.write_str("the socket cannot receive any more"),
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
                f.write_str("code of the application panicked while the connection was started")
            }
        }
    }
}

impl core::error::Error for ConnectFailure {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // Their text contains that of the error.
            Self::Endpoint(error) => error.source(),
            Self::ShardFailed(failure) => failure.source(),
            Self::UnsupportedAddress(_) | Self::ShuttingDown | Self::Panicked => None,
        }
    }
}
