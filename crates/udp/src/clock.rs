use core::time::Duration;
use std::time::Instant;

use clearway_units::Timestamp;
use rustix::event::{PollFd, Timespec};

/// Monotonic clock of a thread with sockets; its origin is the time of its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Creates a clock that starts now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Returns the time since the clock was started.
    #[inline]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.origin.elapsed())
    }
}

/// Maximum wait. Some systems take the timeout as a 32-bit number of milliseconds, which is at most
/// 24.8 days.
const MAX_WAIT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// Waits until one of `descriptors` is ready or `timeout` has passed; without a timeout, waits
/// indefinitely. Returns the number of ready descriptors; the results in `descriptors` show which
/// ones are ready. A wait of more than 24 days ends early.
///
/// # Errors
/// Returns errors of ppoll(2), such as an interruption by a signal.
pub fn poll(
    descriptors: &mut [PollFd<'_>],
    timeout: Option<Duration>,
) -> rustix::io::Result<usize> {
    let timeout = timeout.and_then(|wait| Timespec::try_from(wait.min(MAX_WAIT)).ok());
    rustix::event::poll(descriptors, timeout.as_ref())
}
