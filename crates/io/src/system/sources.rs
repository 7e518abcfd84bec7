//! Event sources of a shard's thread: its sockets, the other process of a hot restart, and other
//! threads.

use clearway_transport::SocketIndex;
use clearway_udp::Socket;
use rustix::fd::BorrowedFd;

/// A socket, and the events to wait for.
#[derive(Clone, Copy)]
pub(crate) struct Interest<'a> {
    pub(crate) index: SocketIndex,
    pub(crate) socket: &'a Socket,
    /// Whether to wait until the socket can receive.
    pub(crate) receives: bool,
    /// Whether to wait until the socket can send.
    pub(crate) sends: bool,
}

/// Event sources of a thread, in addition to wake-ups by other threads.
pub(crate) struct Sources<'a> {
    /// The pipe from the other process of a hot restart.
    pub(crate) pipe: Option<BorrowedFd<'a>>,
    pub(crate) sockets: Vec<Interest<'a>>,
}

/// The result of a wait.
#[derive(Default)]
pub(crate) struct Ready {
    /// The other process has sent something, or has ended.
    pub(crate) pipe: bool,
    /// The state of each awaited socket.
    pub(crate) sockets: Vec<(SocketIndex, Readiness)>,
}

/// The state of a socket after waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readiness {
    /// The socket can receive, or has an error.
    pub(crate) receives: bool,
    /// The socket has an error, such as an ICMP message.
    pub(crate) has_error: bool,
}
