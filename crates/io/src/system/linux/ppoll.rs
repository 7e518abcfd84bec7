//! Waiting with ppoll(2), which checks all descriptors at once; an eventfd wakes the thread.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use clearway_transport::SocketIndex;
use clearway_udp::{BusyPoll, Clock, Waited, poll};
use clearway_units::Timestamp;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::super::sources::{Interest, Readiness, Ready, Sources, Waiting, wait};

/// An eventfd.
pub(crate) struct Poller(Arc<OwnedFd>);

/// The same eventfd, for other threads.
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn wake(&self) {
        // A full counter means that the thread is already being woken.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<(Self, Waker)> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok((Self(event.clone()), Waker(event)))
    }

    fn begin<'a>(&'a mut self, sources: Sources<'a>) -> Wait<'a> {
        let Sources { pipe, sockets } = sources;
        let (mut descriptors, mut indices) = (Vec::with_capacity(2 + sockets.len()), Vec::new());
        descriptors.push(PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN));
        let has_pipe = pipe.is_some();
        descriptors.extend(pipe.map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        for Interest { index, socket, receives, sends } in sockets {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, receives);
            flags.set(PollFlags::OUT, sends);
            descriptors.push(PollFd::new(socket, flags));
            indices.push(index);
        }
        Wait { event: &self.0, descriptors, has_pipe, indices }
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
        wait(self.begin(sources), busy_poll, clock, limit, deadline)
    }
}

struct Wait<'a> {
    event: &'a OwnedFd,
    descriptors: Vec<PollFd<'a>>,
    has_pipe: bool,
    indices: Vec<SocketIndex>,
}

impl Waiting for Wait<'_> {
    fn poll(&mut self, timeout: Option<Duration>) -> bool {
        poll(&mut self.descriptors, timeout) != Ok(0)
    }

    fn end(self) -> Ready {
        let mut ready = self.descriptors.iter().map(PollFd::revents);
        if ready.next().is_some_and(|event| event.intersects(PollFlags::IN)) {
            let _ = rustix::io::read(self.event, &mut [0; 8]);
        }
        let pipe = self.has_pipe && ready.next().is_some_and(|it| !it.is_empty());
        let readiness = |flags: PollFlags| Readiness {
            receives: flags.intersects(PollFlags::IN | PollFlags::ERR),
            has_error: flags.intersects(PollFlags::ERR),
        };
        Ready { pipe, sockets: self.indices.into_iter().zip(ready.map(readiness)).collect() }
    }
}
