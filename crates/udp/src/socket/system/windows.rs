//! Support for Windows and Wine.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use quinn_udp::UdpSocketState;
use socket2::{Domain, Protocol, Socket, Type};

/// WSAEOPNOTSUPP (winerror.h).
const NOT_SUPPORTED: i32 = 10_045;
/// WSAENETRESET (winerror.h): the TTL of an earlier datagram expired.
const NET_RESET: i32 = 10_052;

/// Sets up a socket.
pub(crate) fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    match UdpSocketState::new(socket.into()) {
        Err(error) if error.raw_os_error() == Some(NOT_SUPPORTED) => state_for_wine(socket),
        state => state,
    }
}

/// Sets up an IPv4 socket for Wine. quinn-udp reads IPV6_V6ONLY, which Wine cannot read on an IPv4
/// socket. The state contains only what the system supports, so an IPv6 socket's state is used. The
/// IPv4 socket itself gets no options: it does not report destination addresses, and does not set
/// the Don't Fragment bit.
fn state_for_wine(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    socket.set_nonblocking(true)?;
    let other = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
    // Only a dual-stack socket reveals which features are supported for IPv4.
    other.set_only_v6(false)?;
    UdpSocketState::new((&other).into())
}

/// Returns whether a call returned the error of an earlier datagram: its destination was
/// unreachable, according to an ICMP message that anyone can forge.
pub(crate) fn is_report(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionReset || error.raw_os_error() == Some(NET_RESET)
}
