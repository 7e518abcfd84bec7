//! Fa: flows with the same controller receive equal shares.

use core::time::Duration;

use super::{percentages, plan, received};
use crate::across::{Bound, Comparison, Subject, Unit, Verdict};
use crate::checker::Property;

const BOUND: Bound = Bound::at_least(0.95, Unit::Index);

/// Compares the flows of a setup, all of the same kind, from `settled` on, seed by seed.
pub fn comparison(subject: Subject<'_>, settled: Duration) -> Comparison {
    let plans = vec![plan(subject, subject.setup.clone())];
    let compared = format!("{} flows", subject.setup.flows.len());
    Comparison::new(Property::Fa, compared, plans, move |runs| {
        let verdicts = runs[0].iter().map(|run| judge(run.seed, received(run, settled)));
        Verdict::worst(verdicts).unwrap_or_else(|| judge(0, None))
    })
}

/// Returns Jain's fairness index: 1 if all flows received the same, 1/n if one of n received
/// everything, 0 if none received anything. (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.)
pub fn jain(received: &[u64]) -> f64 {
    let sum: f64 = received.iter().map(|bytes| *bytes as f64).sum();
    let squares: f64 = received.iter().map(|bytes| (*bytes as f64) * (*bytes as f64)).sum();
    let count = received.len() as f64;
    if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 }
}

/// Judges the bytes that flows of the same kind received.
fn judge(seed: u64, received: Option<Vec<u64>>) -> Verdict {
    let shares = received.as_deref().map_or_else(|| "nothing".to_owned(), percentages);
    let details = format!("seed {seed}: {shares}");
    let figure = received.map(|received| jain(&received));
    Verdict { property: Property::Fa, figure, bound: BOUND, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index() {
        assert_eq!(jain(&[7, 7, 7]), 1.0);
        assert_eq!(jain(&[0, 9, 0, 0]), 0.25);
        assert_eq!(jain(&[0, 0]), 0.0);
        assert_eq!(jain(&[]), 0.0);
    }

    #[test]
    fn one_that_has_twice_as_much_is_too_much() {
        assert!(judge(0, Some(vec![100, 100])).holds());
        assert!(judge(0, Some(vec![100, 150])).holds());
        assert!(!judge(0, Some(vec![100, 200])).holds());
        assert!(!judge(0, Some(vec![0, 0])).holds());
    }
}
