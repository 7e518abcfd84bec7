//! Virtual time for stacks that use `Instant`.

use std::sync::OnceLock;
use std::time::Instant;

use clearway_units::Timestamp;

/// Returns the instant that represents the time origin of all runs. Only differences from it are
/// used, so this single reading of the real clock does not affect a run.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

pub(super) fn instant(at: Timestamp) -> Instant {
    origin() + at.since_origin()
}

/// Returns `at` as a timestamp, or the time origin if `at` is earlier.
pub(super) fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from_origin(at.saturating_duration_since(origin()))
}

#[cfg(test)]
mod tests {
    use clearway_units::Timestamp;

    use super::{instant, timestamp};

    #[test]
    fn virtual_time_survives_the_way_there_and_back_to_the_nanosecond() {
        for nanoseconds in [0, 1, 999_999_999, 1_000_000_001, 86_400_000_000_001] {
            let at = Timestamp::from_nanos(nanoseconds);
            assert_eq!(timestamp(instant(at)), at);
        }
    }
}
