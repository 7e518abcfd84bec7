use std::time::Instant;

use clearway_units::Timestamp;

/// Real time as a [`Timestamp`], whose origin is the start of the relay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// Creates a clock whose origin is now.
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Timestamp {
        Timestamp::from_origin(self.0.elapsed())
    }
}
