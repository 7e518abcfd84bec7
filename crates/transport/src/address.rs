//! Identification of a connection's paths: a socket of this endpoint and an address of the peer.

use core::net::{IpAddr, SocketAddr};

use crate::ecn::EcnCodepoint;

/// The index of one of an endpoint's sockets, chosen by the driver. A driver with one socket uses
/// the default, 0.
///
/// The transport only compares these indices. Paths through different sockets are different paths,
/// and each datagram has to be sent through the socket that
/// [`Transmit::socket`](crate::Transmit::socket) specifies. A driver that replaces a UDP socket
/// under the same index changes the path's address as a NAT would.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SocketIndex(pub u32);

/// The addresses of a received datagram, and its ECN mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The sender's address.
    pub remote: SocketAddr,
    /// The socket that received the datagram.
    pub socket: SocketIndex,
    /// The local address to which the datagram was sent, if the socket reports it.
    pub local_ip: Option<IpAddr>,
    /// The ECN field (RFC 9000 §13.4.1); treated as not marked if the socket does not report it.
    pub ecn: EcnCodepoint,
}

impl Arrival {
    /// Returns the path on which the datagram was received.
    pub(crate) fn address(&self) -> PathAddress {
        PathAddress { socket: self.socket, remote: self.remote }
    }
}

/// A path: a socket of this endpoint and an address of the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PathAddress {
    pub(crate) socket: SocketIndex,
    pub(crate) remote: SocketAddr,
}

impl From<SocketAddr> for PathAddress {
    /// The path to `remote` through the default socket.
    fn from(remote: SocketAddr) -> Self {
        Self { socket: SocketIndex::default(), remote }
    }
}
