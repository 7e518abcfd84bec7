use core::time::Duration;
use std::time::Instant;

use clearway_units::Timestamp;
use rustix::event::Timespec;

/// The clock of a shard: monotonic, and its own start is the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time since the clock was started.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.origin.elapsed())
    }
}

/// A time to wait as the kernel has it.
pub(crate) fn timespec(wait: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    }
}
