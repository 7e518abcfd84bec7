//! M6: paths with the same bandwidth-delay product are used equally efficiently, regardless of the
//! round-trip time.
//!
//! BBR's draft leaves a part of every path unused: every five seconds ProbeRTT reduces the data in
//! flight to half a bandwidth-delay product, and keeps it there for 200 ms or a round trip,
//! whichever is longer (draft-ietf-ccwg-bbr, Section 5.3.4). According to the draft, that costs 2 %
//! of the throughput. On a path of more than 200 ms it costs a whole bandwidth-delay product each
//! time. Clearway's BBR enters ProbeRTT at most once per five round trips, so at most 0.85 of a
//! path of 1 s or more can be used. On such paths, the limit is 0.9 of the capacity that remains
//! after ProbeRTT.

use core::time::Duration;

use clearway_network::{Conditions, QueueLimit, Way};
use clearway_units::Rate;

use super::twin::ways;
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::run::Outcome;
use crate::setup::Setup;
use crate::world::Stop;

/// The round-trip times to try.
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
/// BBR.ProbeRTTInterval, in seconds.
const PROBE_INTERVAL: f64 = 5.0;
/// The shortest ProbeRTT interval of Clearway's BBR, in round trips.
const PROBE_ROUND_TRIPS: f64 = 5.0;
/// BBR.ProbeRTTDuration, in seconds.
const PROBE_LENGTH: f64 = 0.2;

/// Whether a controller periodically drains the path to measure the minimum round-trip time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Habit {
    /// The controller never drains the path.
    Sends,
    /// The controller drains the path, like BBR.
    Probes,
}

impl Habit {
    /// Returns the fraction of a path's capacity that the controller can use.
    fn usable(self, round_trip: Duration) -> f64 {
        let path = round_trip.as_secs_f64();
        match self {
            Self::Probes if path > PROBE_LENGTH => {
                // Half a bandwidth-delay product is left unsent while the data in flight decreases,
                // and another half while it stays at the lower level. The RTT is at its minimum
                // until the end of that time, so the interval restarts then.
                let interval = PROBE_INTERVAL.max(PROBE_ROUND_TRIPS * path);
                1.0 - path / (interval + 1.5 * path)
            }
            _ => 1.0,
        }
    }

    fn bound(self, round_trip: Duration) -> Bound {
        Bound::at_least(LEAST_UTILISATION * self.usable(round_trip), Unit::Share)
    }
}

/// Compares a download over `round_trips`. Its network is replaced by networks with a
/// bandwidth-delay product of `path` bytes and a queue of the same size. The download should
/// transfer about a hundred times `path`, so that its startup does not matter.
///
/// # Errors
/// Returns an error if a round-trip time is zero.
pub fn comparison(
    subject: Subject<'_>,
    path: u64,
    round_trips: &[Duration],
    habit: Habit,
) -> Result<Comparison, Inapplicable> {
    let rate = |round_trip: Duration| {
        let rate = Rate::from_transfer(path, round_trip);
        rate.ok_or(Inapplicable("a round-trip time must not be zero"))
    };
    let mut plans = Vec::new();
    for round_trip in round_trips {
        let rate = rate(*round_trip)?;
        plans.push(subject.plan(with_round_trip(subject.setup, path, rate, *round_trip)));
    }
    let rates = round_trips.iter().map(|round_trip| Ok((*round_trip, rate(*round_trip)?)));
    let rates = rates.collect::<Result<Vec<_>, Inapplicable>>()?;
    let compared = match round_trips {
        [only] => format!("a round trip of {only:?}"),
        [first, .., last] => format!("round trips of {first:?} to {last:?}"),
        [] => return Err(Inapplicable("at least one round-trip time is required")),
    };
    Ok(Comparison::new(Property::M6, compared, plans, move |runs| {
        let all = rates.iter().zip(runs);
        let verdicts = all.flat_map(|((round_trip, rate), runs)| {
            runs.iter().map(|run| judge(*round_trip, *rate, habit, &run.outcome))
        });
        let bound = habit.bound(Duration::ZERO);
        let none = Verdict { property: Property::M6, figure: None, bound, details: String::new() };
        Verdict::worst(verdicts).unwrap_or(none)
    }))
}

/// Evaluates a download over a bottleneck of `rate`.
fn judge(round_trip: Duration, rate: Rate, habit: Habit, outcome: &Outcome) -> Verdict {
    let delivered = outcome.network.of(Way::ToClient).delivered_bytes;
    let utilisation = delivered as f64 / rate.bytes_in(outcome.at).max(1) as f64;
    Verdict {
        property: Property::M6,
        figure: (outcome.stop == Stop::Finished).then_some(utilisation),
        bound: habit.bound(round_trip),
        details: format!("at {round_trip:?}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cost_of_long_probe_rtt_rounds_is_tolerated() {
        let usable = |habit: Habit, milliseconds| {
            (habit.usable(Duration::from_millis(milliseconds)) * 1000.0).round()
        };
        assert_eq!(usable(Habit::Sends, 2000), 1000.0);
        assert_eq!(usable(Habit::Probes, 200), 1000.0);
        assert_eq!(usable(Habit::Probes, 500), 913.0);
        assert_eq!(usable(Habit::Probes, 2000), 846.0);
    }
}
