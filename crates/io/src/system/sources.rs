//! What the thread of a shard waits for: its sockets, the other process of a hot restart, and other threads.

use core::time::Duration;

use clearway_transport::SocketIndex;
use clearway_udp::{BusyPoll, Clock, Socket, Waited};
use clearway_units::Timestamp;
use rustix::fd::BorrowedFd;

/// A socket, and what to wait for.
#[derive(Clone, Copy)]
pub(crate) struct Interest<'a> {
    pub(crate) index: SocketIndex,
    pub(crate) socket: &'a Socket,
    /// That it can receive.
    pub(crate) receives: bool,
    /// That it can send.
    pub(crate) sends: bool,
}

/// What a thread waits for, beside what other threads have for it.
pub(crate) struct Sources<'a> {
    /// The pipe from the other process of a hot restart.
    pub(crate) pipe: Option<BorrowedFd<'a>>,
    pub(crate) sockets: Vec<Interest<'a>>,
}

/// What a thread has waited for.
#[derive(Default)]
pub(crate) struct Ready {
    /// Something comes from the other process, or it has ended.
    pub(crate) pipe: bool,
    /// All sockets that were waited for.
    pub(crate) sockets: Vec<(SocketIndex, Readiness)>,
}

/// The state of a socket after waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Readiness {
    /// It can receive, or has an error.
    pub(crate) receives: bool,
    /// It has an error, such as an ICMP message.
    pub(crate) has_error: bool,
}

/// One wait, for the same sources each time that it looks.
pub(super) trait Waiting {
    /// Waits for `timeout`, or without end. Returns whether anything is ready; an interruption by a signal counts as that.
    fn poll(&mut self, timeout: Option<Duration>) -> bool;

    /// Ends the wait.
    fn end(self) -> Ready;
}

/// Waits until something is ready, or `deadline` is reached. Before it sleeps, it may look for at most `limit`.
pub(super) fn wait(
    mut waiting: impl Waiting,
    busy_poll: &mut BusyPoll,
    clock: &Clock,
    limit: Duration,
    deadline: Option<Timestamp>,
) -> (Waited, Ready) {
    let waited = busy_poll.wait(clock, limit, deadline, &mut |timeout| waiting.poll(timeout));
    (waited, waiting.end())
}
