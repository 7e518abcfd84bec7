//! Fc: CUBIC is Reno's equal where Reno does well (RFC 9438, Section 4.3).

use core::time::Duration;

use super::{plan, received};
use crate::across::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;

const BOUND: Bound = Bound { at_least: Some(0.7), at_most: Some(1.3), unit: Unit::Times };

/// Looks at the two flows of a setup, one with CUBIC and one with Reno, from `settled` on, in both orders of
/// beginning, seed by seed.
///
/// # Errors
/// If it has other flows.
pub fn comparison(subject: Subject<'_>, settled: Duration) -> Result<Comparison, Inapplicable> {
    let names: Vec<_> = subject.setup.flows.iter().map(|it| it.controller.as_deref()).collect();
    let cubic = match names.as_slice() {
        [Some("cubic"), Some("reno")] => 0,
        [Some("reno"), Some("cubic")] => 1,
        _ => return Err(Inapplicable("it takes a flow with CUBIC and one with Reno")),
    };
    let mut other = subject.setup.clone();
    let (first, second) = (other.flows[0].controller.take(), other.flows[1].controller.take());
    other.flows[0].controller = second;
    other.flows[1].controller = first;
    let plans = vec![plan(subject, subject.setup.clone()), plan(subject, other)];
    Ok(Comparison::new(Property::Fc, "throughput", plans, move |runs| {
        let orders = runs.iter().zip([cubic, 1 - cubic]);
        let verdicts = orders.flat_map(|(runs, cubic)| {
            runs.iter().map(move |run| {
                let received = received(run, settled);
                let of = |flow| received.as_ref().and_then(|it| it.get(flow)).copied();
                judge(run.seed, cubic, of(cubic), of(1 - cubic))
            })
        });
        Verdict::worst(verdicts).unwrap_or_else(|| judge(0, cubic, None, None))
    }))
}

/// Judges what CUBIC, which was the flow `place`, and Reno received.
fn judge(seed: u64, place: usize, cubic: Option<u64>, reno: Option<u64>) -> Verdict {
    let ratio = cubic.zip(reno).map(|(cubic, reno)| cubic as f64 / reno as f64);
    let first = if place == 0 { "CUBIC" } else { "Reno" };
    Verdict {
        property: Property::Fc,
        figure: ratio.filter(|ratio| ratio.is_finite()),
        bound: BOUND,
        details: format!("seed {seed}, {first} first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_too_much_nor_too_little() {
        assert!(judge(0, 0, Some(100), Some(100)).holds());
        assert!(judge(0, 0, Some(71), Some(100)).holds());
        assert!(!judge(0, 0, Some(69), Some(100)).holds());
        assert!(!judge(0, 0, Some(131), Some(100)).holds());
        assert!(!judge(0, 0, Some(1), Some(0)).holds());
        assert!(!judge(0, 0, Some(0), Some(0)).holds());
    }
}
