//! M8: the outcome of a run does not depend on tiny timing variations.
//!
//! When everything happens at exact times, a controller may get stuck in a cycle that the smallest
//! irregularity would break, or may escape a stall only because of such a cycle. A published bug: a
//! CUBIC implementation that treated any time without bytes in flight as idle time got stuck only
//! if nothing disturbed the timing.

use core::time::Duration;

use clearway_network::Jitter;

use super::median::median;
use super::twin::{deviation, text, times, ways};
use super::{Bound, Comparison, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::setup::Setup;

const BOUND: Bound = Bound::at_most(0.1, Unit::Share);

/// The jitter ranges to try, each in both directions. None of them reorders packets.
pub const JITTERS: [Duration; 4] = [
    Duration::from_nanos(1),
    Duration::from_micros(1),
    Duration::from_micros(100),
    Duration::from_millis(1),
];

/// Compares the median completion times (over all seeds) of a setup without jitter and of its twins
/// with each of [`JITTERS`].
pub fn comparison(subject: Subject<'_>) -> Comparison {
    let ranges = [Duration::ZERO].into_iter().chain(JITTERS);
    let plans = ranges.map(|range| subject.plan(with_jitter(subject.setup, range))).collect();
    let compared = "jitter up to 1 ms, medians";
    Comparison::new(Property::M8, compared, plans, |runs| {
        let with = runs[1..].iter().map(|runs| times(runs));
        judge(&times(&runs[0]), &JITTERS.into_iter().zip(with).collect::<Vec<_>>())
    })
}

/// Evaluates the first flow's completion times without jitter, and with each jitter; `None`
/// represents a run that did not finish.
fn judge(without: &[Option<Duration>], with: &[(Duration, Vec<Option<Duration>>)]) -> Verdict {
    let reference = median(without);
    let verdict = |(range, times): &(Duration, Vec<Option<Duration>>)| Verdict {
        property: Property::M8,
        figure: deviation(median(times), reference),
        bound: BOUND,
        details: format!(
            "median without jitter: {}; with up to {range:?} of jitter: {}",
            text(reference),
            text(median(times))
        ),
    };
    let none = verdict(&(Duration::ZERO, Vec::new()));
    Verdict::worst(with.iter().map(verdict)).unwrap_or(none)
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
    fn a_trap_that_jitter_opens_is_detected() {
        let with = |times| [(Duration::from_nanos(1), seconds(times))];
        assert!(judge(&seconds([100, 100, 100]), &with([109, 110, 300])).holds());
        assert!(!judge(&seconds([100, 100, 100]), &with([111, 110, 111])).holds());
        assert!(!judge(&seconds([100, 100, 100]), &with([40, 41, 42])).holds());
        assert!(!judge(&seconds([0, 0, 40]), &with([40, 41, 42])).holds());
        assert!(!judge(&seconds([40, 41, 42]), &with([0, 0, 42])).holds());
        assert!(!judge(&seconds([0, 0, 0]), &with([0, 0, 0])).holds());
    }
}
