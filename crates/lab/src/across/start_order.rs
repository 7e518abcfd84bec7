//! M9: the result does not depend on which of two identical flows begins first.

use core::time::Duration;

use super::median::median;
use super::twin::{deviation, text, time};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::sweep::Run;

const BOUND: Bound = Bound::at_most(0.1, Unit::Share);

/// The completion times of the flow that begins first and of the flow that begins second.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Times {
    /// Completion times of the flow that begins first; `None` for a run in which it did not finish.
    first: Vec<Option<Duration>>,
    /// Completion times of the flow that begins second, in the same runs.
    second: Vec<Option<Duration>>,
}

impl Times {
    /// Returns the completion times from runs in which the flow with the index `first` begins.
    fn of(runs: &[Run], first: usize) -> Self {
        let of = |flow| runs.iter().map(|run| time(run, flow)).collect();
        Self { first: of(first), second: of(1 - first) }
    }
}

/// Compares the two flows of a setup, which begin `apart` from each other, in both start orders, by
/// the median over all seeds.
///
/// # Errors
/// Returns an error if the setup does not have two flows.
pub fn comparison(subject: Subject<'_>, apart: Duration) -> Result<Comparison, Inapplicable> {
    if subject.setup.flows.len() != 2 {
        return Err(Inapplicable("it requires two flows"));
    }
    let plan = |first: usize| {
        let mut twin = subject.setup.clone();
        twin.flows[first].start = Duration::ZERO;
        twin.flows[1 - first].start = apart;
        subject.plan(twin)
    };
    let plans = vec![plan(0), plan(1)];
    Ok(Comparison::new(Property::M9, "other flow first, medians", plans, |runs| {
        judge(&Times::of(&runs[0], 0), &Times::of(&runs[1], 1))
    }))
}

/// Evaluates the completion times in both start orders.
fn judge(one: &Times, other: &Times) -> Verdict {
    let verdict = |which: &str, one: &[Option<Duration>], other: &[Option<Duration>]| {
        let (one, other) = (median(one), median(other));
        let (longer, shorter) = if one > other { (one, other) } else { (other, one) };
        Verdict {
            property: Property::M9,
            figure: deviation(longer, shorter),
            bound: BOUND,
            details: format!("median of the {which} flow: {} and {}", text(one), text(other)),
        }
    };
    let first = verdict("first", &one.first, &other.first);
    let second = verdict("second", &one.second, &other.second);
    Verdict::worst([first.clone(), second]).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_favoured_flow_is_detected() {
        let times = |first, second| {
            let [first, second] =
                [first, second].map(|time| vec![Some(Duration::from_millis(time))]);
            Times { first, second }
        };
        assert!(judge(&times(1000, 2000), &times(1099, 1901)).holds());
        assert!(!judge(&times(1000, 2000), &times(1101, 2000)).holds());
        assert!(!judge(&times(1000, 2000), &times(1000, 1500)).holds());
        let never = Times { first: vec![None], second: vec![None] };
        assert!(!judge(&never, &never).holds());
    }
}
