//! Wake-ups in tests, which use the portable implementation if `CLEARWAY_POLLER=portable` is set.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::super::loopback;
use super::eventfd;

/// The receiving end of wake-ups.
pub(crate) enum WakeReceiver {
    Eventfd(eventfd::WakeReceiver),
    Loopback(loopback::WakeReceiver),
}

/// Wakes the thread; usable from any other thread.
pub(crate) enum Waker {
    Eventfd(eventfd::Waker),
    Loopback(loopback::Waker),
}

/// Creates both ends of a wake-up channel.
pub(crate) fn wake_pair() -> io::Result<(WakeReceiver, Waker)> {
    let is_portable = std::env::var_os("CLEARWAY_POLLER").is_some_and(|name| name == "portable");
    if is_portable { loopback_pair() } else { eventfd_pair() }
}

pub(crate) fn eventfd_pair() -> io::Result<(WakeReceiver, Waker)> {
    let (receiver, waker) = eventfd::wake_pair()?;
    Ok((WakeReceiver::Eventfd(receiver), Waker::Eventfd(waker)))
}

pub(crate) fn loopback_pair() -> io::Result<(WakeReceiver, Waker)> {
    let (receiver, waker) = loopback::wake_pair()?;
    Ok((WakeReceiver::Loopback(receiver), Waker::Loopback(waker)))
}

impl Waker {
    pub(crate) fn wake(&self) {
        match self {
            Self::Eventfd(waker) => waker.wake(),
            Self::Loopback(waker) => waker.wake(),
        }
    }
}

impl WakeReceiver {
    pub(crate) fn clear(&self) {
        match self {
            Self::Eventfd(receiver) => receiver.clear(),
            Self::Loopback(receiver) => receiver.clear(),
        }
    }
}

impl AsFd for WakeReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Eventfd(receiver) => receiver.as_fd(),
            Self::Loopback(receiver) => receiver.as_fd(),
        }
    }
}
