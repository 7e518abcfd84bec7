use core::time::Duration;
use std::time::Instant;

use clearway_units::Timestamp;
use rustix::event::{PollFd, Timespec};

/// The clock of a thread with sockets: monotonic, and its own start is the origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time since the clock was started.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.origin.elapsed())
    }
}

/// Waits until one of `descriptors` is ready, whose results then say which, or for `timeout`, or without end. Returns how many are
/// ready.
///
/// # Errors
/// Errors of ppoll(2), such as an interruption by a signal.
pub fn poll(
    descriptors: &mut [PollFd<'_>],
    timeout: Option<Duration>,
) -> rustix::io::Result<usize> {
    rustix::event::poll(descriptors, timeout.map(timespec).as_ref())
}

/// A time to wait as the kernel has it.
fn timespec(wait: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    }
}
