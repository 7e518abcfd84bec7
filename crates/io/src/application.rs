//! What runs inside a shard.

use core::fmt;
use core::net::SocketAddr;
use std::sync::Arc;

use clearway_transport::{
    ClientConfig, ConnectError, Connection, Incoming, Observer, ServerConfig, Statistics,
};
use clearway_units::Timestamp;

use crate::mailbox::ConnectionWaker;

/// One connection's application. It runs inside the shard, on the shard's thread: it must not block.
pub trait Application: Send {
    /// Called when the connection may have events, when it was [woken](ConnectionWaker::wake), and once
    /// when it has just been made; at most once per batch. Drains
    /// [`Connection::next_event`] and does what it wants; the shard sends what comes of it.
    fn process(&mut self, now: Timestamp, connection: &mut Connection);

    /// The connection is gone, and these are its last metrics. [`Event::Closed`] came before.
    ///
    /// [`Event::Closed`]: clearway_transport::Event::Closed
    fn closed(&mut self, statistics: &Statistics) {
        let _ = statistics;
    }
}

/// Makes a connection's application, when there is a connection. The waker lets other threads have
/// [`Application::process`] called.
pub type ApplicationFactory = Box<dyn FnOnce(ConnectionWaker) -> Box<dyn Application> + Send>;

/// Decides about clients. It runs inside the shard: it must not block.
pub trait Acceptor: Send {
    /// A client wants a connection.
    fn incoming(&mut self, incoming: &Incoming) -> Decision;
}

/// What becomes of a client.
#[non_exhaustive]
pub enum Decision {
    /// It is taken in.
    Accept(Accept),
    /// It is told that it cannot be served (CONNECTION_REFUSED).
    Refuse,
    /// It has to show first that it receives what is sent to its address (RFC 9000 §8.1.2).
    Retry,
    /// It gets no answer.
    Ignore,
}

/// How a client is taken in.
pub struct Accept {
    /// Makes the connection's application.
    pub application: ApplicationFactory,
    /// Watches the connection.
    pub observer: Option<Box<dyn Observer>>,
}

/// What a shard needs to be a server.
pub struct ServerSetup {
    /// How connections are made.
    pub config: Arc<ServerConfig>,
    /// Which are made.
    pub acceptor: Box<dyn Acceptor>,
}

/// A request to start a connection.
pub struct ConnectRequest {
    /// The settings of the connection.
    pub config: Arc<ClientConfig>,
    /// The server's address.
    pub remote: SocketAddr,
    /// What the server is called: its certificate must say so.
    pub server_name: String,
    /// Makes the connection's application.
    pub application: ApplicationFactory,
    /// Watches the connection.
    pub observer: Option<Box<dyn Observer>>,
    /// Called, in the shard, if the connection cannot be started.
    pub on_failure: Box<dyn FnOnce(ConnectFailure) + Send>,
}

/// Why a connection could not be started.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The socket cannot send to such an address: it is of another family, or has no host or port.
    UnsupportedAddress(SocketAddr),
    /// The endpoint cannot start it.
    Endpoint(ConnectError),
    /// The shard takes no new connections any more.
    ShuttingDown,
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedAddress(address) => {
                write!(f, "this socket cannot send to {address}")
            }
            Self::Endpoint(error) => error.fmt(f),
            Self::ShuttingDown => f.write_str("the endpoint is being shut down"),
        }
    }
}

impl core::error::Error for ConnectFailure {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Endpoint(error) => Some(error),
            Self::UnsupportedAddress(_) | Self::ShuttingDown => None,
        }
    }
}
