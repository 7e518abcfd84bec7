//! Virtual time for a stack that counts in `Instant`s.

use std::sync::OnceLock;
use std::time::Instant;

use clearway_units::Timestamp;

/// The instant that stands for the origin of all runs. Only differences to it are ever used, so that
/// the one reading of the real clock decides nothing.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

pub(super) fn instant(at: Timestamp) -> Instant {
    origin() + at.since_origin()
}

/// `at` as a timestamp; the origin if it is earlier.
pub(super) fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from_origin(at.saturating_duration_since(origin()))
}

#[cfg(test)]
mod tests;
