//! Fc: CUBIC gets the same throughput as Reno where Reno performs well (RFC 9438, Section 4.3).

use core::time::Duration;

use super::{plan, received};
use crate::across::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;

const BOUND: Bound = Bound { at_least: Some(0.7), at_most: Some(1.3), unit: Unit::Times };

/// Compares the bytes received by a setup's CUBIC flow and its Reno flow after `settled`, summed
/// over all runs, in both start orders. The two algorithms have the same average window (RFC 9438,
/// Section 4.3), but within a single minute, it is a matter of chance which one reduces its window
/// more often.
///
/// If `is_logged`, the result is only logged and has no limit.
///
/// # Errors
/// Returns an error if the setup does not consist of one CUBIC flow and one Reno flow.
pub fn comparison(
    subject: Subject<'_>,
    settled: Duration,
    is_logged: bool,
) -> Result<Comparison, Inapplicable> {
    let names: Vec<_> = subject.setup.flows.iter().map(|it| it.controller.as_deref()).collect();
    let cubic = match names.as_slice() {
        [Some("cubic"), Some("reno")] => 0,
        [Some("reno"), Some("cubic")] => 1,
        _ => return Err(Inapplicable("it requires a flow with CUBIC and one with Reno")),
    };
    let mut other = subject.setup.clone();
    let (first, second) = (other.flows[0].controller.take(), other.flows[1].controller.take());
    other.flows[0].controller = second;
    other.flows[1].controller = first;
    let plans = vec![plan(subject, subject.setup.clone()), plan(subject, other)];
    Ok(Comparison::new(Property::Fc, "throughput", plans, move |runs| {
        let orders = runs.iter().zip([cubic, 1 - cubic]);
        let shares = orders.flat_map(|(runs, cubic)| {
            runs.iter().map(move |run| {
                let received = received(run, settled)?;
                Some((*received.get(cubic)?, *received.get(1 - cubic)?))
            })
        });
        judge(&shares.collect::<Vec<_>>(), is_logged)
    }))
}

/// Judges the bytes that CUBIC and Reno received in each run; `None` for a run that was too short.
fn judge(shares: &[Option<(u64, u64)>], is_logged: bool) -> Verdict {
    let shares: Option<Vec<_>> = shares.iter().copied().collect();
    let shares = shares.unwrap_or_default();
    let sum = |of: fn(&(u64, u64)) -> u64| shares.iter().map(of).sum::<u64>() as f64;
    let ratios = shares.iter().map(|(cubic, reno)| *cubic as f64 / *reno as f64);
    let (least, most) = ratios
        .fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
    Verdict {
        property: Property::Fc,
        figure: Some(sum(|it| it.0) / sum(|it| it.1)).filter(|ratio| ratio.is_finite()),
        bound: if is_logged { Bound { at_least: None, at_most: None, ..BOUND } } else { BOUND },
        details: format!("over {} runs; individual runs: {least:.2} to {most:.2}", shares.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_too_much_nor_too_little() {
        let ratio = |cubic, reno| judge(&[Some((cubic, reno))], false).holds();
        assert!(ratio(100, 100));
        assert!(ratio(71, 100));
        assert!(!ratio(69, 100));
        assert!(!ratio(131, 100));
        assert!(!ratio(1, 0));
        assert!(!ratio(0, 0));
    }

    #[test]
    fn the_total_of_all_runs_counts() {
        assert!(judge(&[Some((150, 100)), Some((90, 100))], false).holds());
        assert!(!judge(&[Some((150, 100)), Some((120, 100))], false).holds());
        assert!(!judge(&[Some((100, 100)), None], false).holds());
        assert!(!judge(&[], false).holds());
        assert!(judge(&[Some((300, 100))], true).holds());
    }
}
