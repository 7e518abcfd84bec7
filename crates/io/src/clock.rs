use std::time::Instant;

use clearway_units::Timestamp;

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
