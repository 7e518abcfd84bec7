//! Either poller, for tests: the portable one if `CLEARWAY_POLLER=portable` is set.

use core::time::Duration;
use std::io;

use clearway_udp::{BusyPoll, Clock, Waited};
use clearway_units::Timestamp;

use super::super::portable;
use super::super::sources::{Ready, Sources};
use super::ppoll;

/// Waits for sources.
pub(crate) enum Poller {
    Ppoll(ppoll::Poller),
    Portable(portable::Poller),
}

/// Wakes a waiting thread from any other one.
pub(crate) enum Waker {
    Ppoll(ppoll::Waker),
    Portable(portable::Waker),
}

impl Waker {
    pub(crate) fn wake(&self) {
        match self {
            Self::Ppoll(waker) => waker.wake(),
            Self::Portable(waker) => waker.wake(),
        }
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<(Self, Waker)> {
        match std::env::var_os("CLEARWAY_POLLER").is_some_and(|name| name == "portable") {
            true => Self::portable(),
            false => Self::ppoll(),
        }
    }

    fn ppoll() -> io::Result<(Self, Waker)> {
        let (poller, waker) = ppoll::Poller::new()?;
        Ok((Self::Ppoll(poller), Waker::Ppoll(waker)))
    }

    fn portable() -> io::Result<(Self, Waker)> {
        let (poller, waker) = portable::Poller::new()?;
        Ok((Self::Portable(poller), Waker::Portable(waker)))
    }

    pub(crate) fn wait(
        &mut self,
        busy_poll: &mut BusyPoll,
        clock: &Clock,
        limit: Duration,
        deadline: Option<Timestamp>,
        sources: Sources<'_>,
    ) -> (Waited, Ready) {
        match self {
            Self::Ppoll(poller) => poller.wait(busy_poll, clock, limit, deadline, sources),
            Self::Portable(poller) => poller.wait(busy_poll, clock, limit, deadline, sources),
        }
    }
}

#[cfg(test)]
#[path = "either_tests.rs"]
mod tests;
