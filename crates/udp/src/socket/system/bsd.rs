//! Support for macOS and FreeBSD.

use std::io;
use std::net::UdpSocket;

use quinn_udp::UdpSocketState;

/// Sets up a socket.
pub(crate) fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    UdpSocketState::new(socket.into())
}

/// Returns whether a call returned the error of an earlier datagram, apart from the errors that have
/// the same kind on all systems. These systems return errors only on connected sockets.
pub(crate) fn is_report(_: &io::Error) -> bool {
    false
}
