//! M9: of two flows that are alike it does not matter which is which.

use core::time::Duration;

use super::median::median;
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, run};
use crate::setup::Setup;

/// M9.
pub const PROPERTY: Property = Property {
    id: "M9",
    meaning: "if two flows that are alike swap the order in which they begin, the one that begins \
              first takes as long as the other did, within 10 % in the median, and so does the second",
};

/// The times to completion of the flow that begins first, and of the one that begins second.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Of runs: `None` did not finish.
    pub first: Vec<Option<Duration>>,
    /// Of the same runs.
    pub second: Vec<Option<Duration>>,
}

/// Runs the two flows of `setup`, which begin so far apart, in both orders.
///
/// # Errors
/// If they cannot be run, or are not two.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seeds: core::ops::Range<u64>,
    apart: Duration,
) -> Result<Verdict, NotComparable> {
    if setup.flows.len() != 2 {
        return Err(NotComparable::Inapplicable("it takes two flows"));
    }
    let times = |first: usize| -> Result<Times, NotComparable> {
        let mut twin = setup.clone();
        twin.flows[first].start = Duration::ZERO;
        twin.flows[1 - first].start = apart;
        let mut times = Times::default();
        for seed in seeds.clone() {
            let outcome = run(&twin, candidate, seed, Extras::default())?;
            times.first.push(outcome.flows[first].took);
            times.second.push(outcome.flows[1 - first].took);
        }
        Ok(times)
    };
    Ok(judge(&times(0)?, &times(1)?))
}

/// Judges the times of both orders.
pub fn judge(one: &Times, other: &Times) -> Verdict {
    let are_near = |one, other| match (median(one), median(other)) {
        (Some(one), Some(other)) => one.abs_diff(other) <= one.min(other) / 10,
        _ => false,
    };
    let medians = |times: &Times| (median(&times.first), median(&times.second));
    Verdict {
        property: PROPERTY,
        holds: are_near(&one.first, &other.first) && are_near(&one.second, &other.second),
        figures: format!("medians {:?} and {:?}", medians(one), medians(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_is_favoured_is_seen() {
        let times = |first, second| {
            let [first, second] =
                [first, second].map(|time| vec![Some(Duration::from_millis(time))]);
            Times { first, second }
        };
        assert!(judge(&times(1000, 2000), &times(1100, 1900)).holds);
        assert!(!judge(&times(1000, 2000), &times(1101, 2000)).holds);
        assert!(!judge(&times(1000, 2000), &times(1000, 1500)).holds);
        let never = Times { first: vec![None], second: vec![None] };
        assert!(!judge(&never, &never).holds);
    }
}
