//! Fd: flows with different controllers may get different shares, but no flow starves.

use core::time::Duration;

use super::{percentages, plan, received, shares};
use crate::across::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;

const BOUND: Bound = Bound::at_least(0.1, Unit::Share);

/// Compares the two flows of a setup, which have different controllers, after `settled`, in both
/// start orders, seed by seed.
///
/// # Errors
/// Returns an error if the setup does not have two flows.
pub fn comparison(subject: Subject<'_>, settled: Duration) -> Result<Comparison, Inapplicable> {
    let mut other = subject.setup.clone();
    let [one, two] = other.flows.as_mut_slice() else {
        return Err(Inapplicable("it requires two flows"));
    };
    core::mem::swap(&mut one.controller, &mut two.controller);
    let plans = vec![plan(subject, subject.setup.clone()), plan(subject, other)];
    Ok(Comparison::new(Property::Fd, "smaller share", plans, move |runs| {
        let orders = runs.iter().zip(["", ", swapped"]);
        let verdicts = orders.flat_map(|(runs, order)| {
            runs.iter().map(move |run| judge(run.seed, order, received(run, settled)))
        });
        Verdict::worst(verdicts).unwrap_or_else(|| judge(0, "", None))
    }))
}

/// Judges the bytes that two flows with different controllers received.
fn judge(seed: u64, order: &str, received: Option<Vec<u64>>) -> Verdict {
    let shares = received.as_deref().map(|received| (shares(received), percentages(received)));
    let text = shares.as_ref().map_or("nothing", |(_, text)| text);
    Verdict {
        property: Property::Fd,
        details: format!("seed {seed}{order}: {text}"),
        figure: shares.and_then(|(shares, _)| shares.into_iter().reduce(f64::min)),
        bound: BOUND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_tenth_is_too_little() {
        assert!(judge(0, "", Some(vec![10, 90])).holds());
        assert!(!judge(0, "", Some(vec![91, 9])).holds());
        assert!(!judge(0, "", Some(vec![0, 0])).holds());
    }
}
