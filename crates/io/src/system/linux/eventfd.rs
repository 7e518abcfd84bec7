//! Wake-ups through an eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// The receiving end of wake-ups.
pub(crate) struct WakeReceiver(Arc<OwnedFd>);

/// Wakes the thread; usable from any other thread.
pub(crate) struct Waker(Arc<OwnedFd>);

/// Returns two handles to one eventfd.
pub(crate) fn wake_pair() -> io::Result<(WakeReceiver, Waker)> {
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    Ok((WakeReceiver(event.clone()), Waker(event)))
}

impl Waker {
    pub(crate) fn wake(&self) {
        // If the counter is full, the thread is already being woken.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl WakeReceiver {
    /// Discards the wake-ups that have arrived.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for WakeReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
