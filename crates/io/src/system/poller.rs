//! Waiting with poll(2), which is available on every system and checks all sockets in one call.

use core::time::Duration;
use std::io;

use clearway_udp::{BusyPoll, Clock, Waited, poll};
use clearway_units::Timestamp;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;

use super::sources::{Interest, Readiness, Ready, Sources};
use super::{WakeReceiver, Waker, wake_pair};

/// Waits for event sources, and for wake-ups by other threads.
pub(crate) struct Poller(WakeReceiver);

impl Poller {
    pub(crate) fn new() -> io::Result<(Self, Waker)> {
        wake_pair().map(Self::with)
    }

    fn with((receiver, waker): (WakeReceiver, Waker)) -> (Self, Waker) {
        (Self(receiver), waker)
    }

    /// Waits until one of `sources` is ready, another thread wakes this one, or `deadline` is
    /// reached. May busy-poll for at most `limit` before it sleeps.
    pub(crate) fn wait(
        &mut self,
        busy_poll: &mut BusyPoll,
        clock: &Clock,
        limit: Duration,
        deadline: Option<Timestamp>,
        sources: Sources<'_>,
    ) -> (Waited, Ready) {
        let Sources { pipe, sockets } = sources;
        let mut descriptors = Vec::with_capacity(2 + sockets.len());
        descriptors.push(PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN));
        let has_pipe = pipe.is_some();
        descriptors.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        for Interest { socket, receives, sends, .. } in &sockets {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, *receives);
            flags.set(PollFlags::OUT, *sends);
            descriptors.push(PollFd::new(*socket, flags));
        }
        // An error counts as ready: a signal interrupts the wait.
        let mut is_ready = |timeout| poll(&mut descriptors, timeout) != Ok(0);
        let waited = busy_poll.wait(clock, limit, deadline, &mut is_ready);
        let mut ready = descriptors.iter().map(PollFd::revents);
        if ready.next().is_some_and(|event| event.intersects(PollFlags::IN)) {
            self.0.clear();
        }
        let pipe = has_pipe && ready.next().is_some_and(|it| !it.is_empty());
        let readiness = |flags: PollFlags| Readiness {
            receives: flags.intersects(PollFlags::IN | PollFlags::ERR),
            has_error: flags.intersects(PollFlags::ERR),
        };
        let indices = sockets.iter().map(|interest| interest.index);
        let sockets = indices.zip(ready.map(readiness)).collect();
        (waited, Ready { pipe, sockets })
    }
}

#[cfg(test)]
#[path = "poller_tests.rs"]
mod tests;
