//! M6: the same path in round trips is used as well, however long a round trip is.

use core::time::Duration;

use clearway_network::{Conditions, QueueLimit, Way};
use clearway_units::Rate;

use super::twin::ways;
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, Outcome, run};
use crate::setup::Setup;
use crate::world::Stop;

/// M6.
pub const PROPERTY: Property = Property {
    id: "M6",
    meaning: "with round-trip times from 50 us to 2 s and a queue of one path, a long transfer uses 0.9 \
              of the bottleneck or more",
};

/// The round-trip times that are tried.
pub const ROUND_TRIPS: [Duration; 9] = [
    Duration::from_micros(50),
    Duration::from_micros(500),
    Duration::from_millis(2),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

const LEAST_UTILISATION: f64 = 0.9;

/// Runs `setup`, a download whose network is replaced by one that holds `path` bytes, with one of
/// [`ROUND_TRIPS`], and a queue for as many. For the time to begin not to count, it should transfer some
/// hundred paths.
///
/// # Errors
/// If it cannot be run.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
    path: u64,
    round_trip: Duration,
) -> Result<Verdict, NotComparable> {
    let rate = Rate::from_transfer(path, round_trip)
        .ok_or(NotComparable::Inapplicable("a round trip takes time"))?;
    let outcome =
        run(&with_round_trip(setup, path, rate, round_trip), candidate, seed, Extras::default())?;
    Ok(judge(round_trip, rate, &outcome))
}

/// Judges a download over a bottleneck of `rate`.
pub fn judge(round_trip: Duration, rate: Rate, outcome: &Outcome) -> Verdict {
    let delivered = outcome.network.of(Way::ToClient).delivered_bytes;
    let utilisation = delivered as f64 / rate.bytes_in(outcome.at).max(1) as f64;
    Verdict {
        property: PROPERTY,
        holds: outcome.stop == Stop::Finished && utilisation >= LEAST_UTILISATION,
        figures: format!("{utilisation:.3} at {round_trip:?} ({:?})", outcome.stop),
    }
}

fn with_round_trip(setup: &Setup, path: u64, rate: Rate, round_trip: Duration) -> Setup {
    let mut twin = setup.clone();
    for conditions in ways(&mut twin.network) {
        *conditions = Conditions {
            delay: round_trip / 2,
            rate: Some(rate),
            queue: QueueLimit { packets: None, bytes: Some(path) },
            ..Conditions::default()
        };
    }
    twin
}
