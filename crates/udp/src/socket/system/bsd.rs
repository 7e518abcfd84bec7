//! Support for macOS and FreeBSD.

use std::io;
use std::net::UdpSocket;

use quinn_udp::UdpSocketState;

/// Sets up a socket.
pub(crate) fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    UdpSocketState::new(socket.into())
}

/// Returns whether a receive call returned the error of an earlier send call instead of a datagram.
/// These systems do so only for connected sockets.
pub(crate) fn is_reset(_: &io::Error) -> bool {
    false
}
