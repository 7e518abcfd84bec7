//! M8: whether a run ends well does not hang on a hair.
//!
//! Where everything happens at exact times, a controller may be caught in a cycle that the least
//! irregularity breaks, or be saved by one. Published: a CUBIC that took each empty flight for idleness
//! was trapped only as long as nothing disturbed the rhythm.

use core::time::Duration;

use clearway_network::Jitter;

use super::median::median;
use super::twin::ways;
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, run};
use crate::setup::Setup;

/// M8.
pub const PROPERTY: Property = Property {
    id: "M8",
    meaning: "with jitter of 1 ns to 1 ms, the median time to completion differs by at most 10 % \
              from that without",
};

/// The jitters that are tried, each in both directions, none of which reorders anything.
pub const JITTERS: [Duration; 4] = [
    Duration::from_nanos(1),
    Duration::from_micros(1),
    Duration::from_micros(100),
    Duration::from_millis(1),
];

/// Runs `setup` with each jitter and each seed.
///
/// # Errors
/// If it cannot be run.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seeds: core::ops::Range<u64>,
) -> Result<Verdict, NotComparable> {
    let times = |range| {
        let twin = with_jitter(setup, range);
        let time = |seed| Ok(run(&twin, candidate, seed, Extras::default())?.flows[0].took);
        seeds.clone().map(time).collect::<Result<Vec<_>, NotComparable>>()
    };
    let without = times(Duration::ZERO)?;
    let with = JITTERS.map(|range| Ok((range, times(range)?)));
    let with = with.into_iter().collect::<Result<Vec<_>, NotComparable>>()?;
    Ok(judge(&without, &with))
}

/// Judges the times of the first flow without jitter, and with each jitter; `None` is a run that did
/// not finish.
pub fn judge(without: &[Option<Duration>], with: &[(Duration, Vec<Option<Duration>>)]) -> Verdict {
    let reference = median(without);
    let near = |times: &Vec<Option<Duration>>| match (reference, median(times)) {
        (Some(reference), Some(time)) => time.abs_diff(reference) <= reference / 10,
        _ => false,
    };
    let medians = with.iter().map(|(range, times)| format!("{range:?}: {:?}", median(times)));
    let figures = medians.collect::<Vec<_>>().join(", ");
    Verdict {
        property: PROPERTY,
        holds: with.iter().all(|(_, times)| near(times)),
        figures: format!("median without: {reference:?}; with {figures}"),
    }
}

fn with_jitter(setup: &Setup, range: Duration) -> Setup {
    let mut twin = setup.clone();
    for conditions in ways(&mut twin.network) {
        conditions.jitter = Jitter { range, reorder_by_jitter: false };
    }
    twin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(times: [u64; 3]) -> Vec<Option<Duration>> {
        times.map(|time| (time > 0).then(|| Duration::from_secs(time))).to_vec()
    }

    #[test]
    fn a_trap_that_opens_with_jitter_is_seen() {
        let with = |times| [(Duration::from_nanos(1), seconds(times))];
        assert!(judge(&seconds([100, 100, 100]), &with([109, 110, 300])).holds);
        assert!(!judge(&seconds([100, 100, 100]), &with([111, 110, 111])).holds);
        assert!(!judge(&seconds([100, 100, 100]), &with([40, 41, 42])).holds);
        assert!(!judge(&seconds([0, 0, 40]), &with([40, 41, 42])).holds);
        assert!(!judge(&seconds([40, 41, 42]), &with([0, 0, 42])).holds);
        assert!(!judge(&seconds([0, 0, 0]), &with([0, 0, 0])).holds);
    }
}
