//! How the thread of a shard waits: for its sockets, for the other process of a hot restart, and for other threads.
//!
//! The implementation for Linux asks about all descriptors at once (ppoll(2)), and is woken by an eventfd. The portable one is
//! that of all other systems; with `CLEARWAY_POLLER=portable`, tests use it on Linux, too.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
mod portable;

use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;

use clearway_transport::SocketIndex;
use clearway_udp::{BusyPoll, Clock, Socket, Waited};
use clearway_units::Timestamp;

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

/// Wakes a thread that waits, from any other.
pub(crate) enum Waker {
    #[cfg(target_os = "linux")]
    Linux(linux::Waker),
    #[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
    Portable(portable::Waker),
}

impl Waker {
    pub(crate) fn wake(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Linux(waker) => waker.wake(),
            #[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
            Self::Portable(waker) => waker.wake(),
        }
    }
}

/// One wait, for the same sources each time that it looks.
trait Waiting {
    /// Waits for `timeout`, or without end. Returns whether anything is ready; an interruption by a signal counts as that.
    fn poll(&mut self, timeout: Option<Duration>) -> bool;

    /// Ends the wait.
    fn end(self) -> Ready;
}

/// Waits for sources.
pub(crate) enum Poller {
    #[cfg(target_os = "linux")]
    Linux(linux::Poller),
    #[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
    Portable(portable::Poller),
}

impl Poller {
    /// The implementation for this system, and what wakes its thread.
    #[cfg(target_os = "linux")]
    pub(crate) fn new() -> io::Result<(Self, Waker)> {
        #[cfg(any(test, feature = "testing"))]
        if std::env::var_os("CLEARWAY_POLLER").is_some_and(|name| name == "portable") {
            return Self::portable();
        }
        let (poller, waker) = linux::Poller::new()?;
        Ok((Self::Linux(poller), Waker::Linux(waker)))
    }

    /// The implementation for this system, and what wakes its thread.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new() -> io::Result<(Self, Waker)> {
        Self::portable()
    }

    #[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
    fn portable() -> io::Result<(Self, Waker)> {
        let (poller, waker) = portable::Poller::new()?;
        Ok((Self::Portable(poller), Waker::Portable(waker)))
    }

    /// Waits until one of `sources` is ready, another thread wakes this one, or `deadline` is reached. Before it sleeps, it may
    /// look for at most `limit`.
    pub(crate) fn wait(
        &mut self,
        busy_poll: &mut BusyPoll,
        clock: &Clock,
        limit: Duration,
        deadline: Option<Timestamp>,
        sources: Sources<'_>,
    ) -> (Waited, Ready) {
        fn run(
            mut waiting: impl Waiting,
            wait: impl FnOnce(&mut dyn FnMut(Option<Duration>) -> bool) -> Waited,
        ) -> (Waited, Ready) {
            let waited = wait(&mut |timeout| waiting.poll(timeout));
            (waited, waiting.end())
        }
        let wait = |poll: &mut dyn FnMut(Option<Duration>) -> bool| {
            busy_poll.wait(clock, limit, deadline, poll)
        };
        match self {
            #[cfg(target_os = "linux")]
            Self::Linux(poller) => run(poller.begin(sources), wait),
            #[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
            Self::Portable(poller) => run(poller.begin(sources), wait),
        }
    }
}

#[cfg(test)]
#[path = "poller_tests.rs"]
mod tests;
