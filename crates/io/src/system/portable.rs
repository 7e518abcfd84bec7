//! Waiting with mio's poller of each system (epoll, kqueue).
//!
//! mio reports changes of readiness, but shards need the current state. So each wait registers its
//! sources again, which reports their current readiness, and deregisters them at its end.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use clearway_udp::{BusyPoll, Clock, Waited};
use clearway_units::Timestamp;
use mio::unix::SourceFd;
use mio::{Events, Interest as Direction, Token};

use super::sources::{Interest, Readiness, Ready, Sources, Waiting, wait};

const WAKER: Token = Token(usize::MAX);
const PIPE: Token = Token(usize::MAX - 1);
/// Maximum number of events per poll. The others are reported by the next wait.
const EVENTS: usize = 64;

pub(crate) struct Poller {
    poll: mio::Poll,
    events: Events,
}

pub(crate) struct Waker(mio::Waker);

impl Waker {
    pub(crate) fn wake(&self) {
        // This fails only if the thread has ended.
        let _ = self.0.wake();
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<(Self, Waker)> {
        let poll = mio::Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        Ok((Self { poll, events: Events::with_capacity(EVENTS) }, Waker(waker)))
    }

    fn begin<'a>(&'a mut self, sources: Sources<'a>) -> Wait<'a> {
        let mut waiting = Wait { poller: self, sources, ready: Ready::default(), failed: false };
        let Wait { poller, sources, ready, failed } = &mut waiting;
        let mut register = |descriptor: BorrowedFd<'_>, token, direction| {
            let registry = poller.poll.registry();
            let mut source = SourceFd(&descriptor.as_raw_fd());
            *failed |= registry.register(&mut source, token, direction).is_err();
        };
        if let Some(pipe) = sources.pipe {
            register(pipe, PIPE, Direction::READABLE);
        }
        for (number, Interest { index, socket, receives, sends }) in
            sources.sockets.iter().enumerate()
        {
            let direction = match (receives, sends) {
                (true, true) => Direction::READABLE | Direction::WRITABLE,
                (false, true) => Direction::WRITABLE,
                _ => Direction::READABLE,
            };
            register(socket.as_fd(), Token(number), direction);
            ready.sockets.push((*index, Readiness::default()));
        }
        waiting
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
    poller: &'a mut Poller,
    sources: Sources<'a>,
    ready: Ready,
    /// Something could not be registered, so everything counts as ready.
    failed: bool,
}

impl Waiting for Wait<'_> {
    fn poll(&mut self, timeout: Option<Duration>) -> bool {
        let Self { poller, ready, failed, .. } = self;
        let timeout = if *failed { Some(Duration::ZERO) } else { timeout };
        let polled = poller.poll.poll(&mut poller.events, timeout);
        for event in &poller.events {
            match event.token() {
                WAKER => {}
                PIPE => ready.pipe = true,
                Token(number) => {
                    let Some((_, readiness)) = ready.sockets.get_mut(number) else { continue };
                    readiness.has_error |= event.is_error();
                    readiness.receives |= event.is_readable() || event.is_error();
                }
            }
        }
        *failed || polled.is_err() || !poller.events.is_empty()
    }

    fn end(mut self) -> Ready {
        let registry = self.poller.poll.registry();
        let sockets = self.sources.sockets.iter().map(|it| it.socket.as_fd());
        for descriptor in self.sources.pipe.into_iter().chain(sockets) {
            // This fails for a descriptor that could not be registered.
            let _ = registry.deregister(&mut SourceFd(&descriptor.as_raw_fd()));
        }
        if self.failed {
            self.ready.pipe = true;
            self.ready.sockets.iter_mut().for_each(|(_, readiness)| readiness.receives = true);
        }
        self.ready
    }
}
