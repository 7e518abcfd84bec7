//! Fb: a shorter path is an advantage, but by no more than the ratio of the round-trip times.
//!
//! Applies to CUBIC outside its Reno-friendly region: there the throughput of flows is inversely
//! proportional to their round-trip times (RFC 9438, Section 3.3). Reno's throughput is inversely
//! proportional to the round-trip time or to its square, and BBR favors longer paths, so the
//! results of these two are only logged.

use core::time::Duration;

use clearway_network::FlowDelay;

use super::{plan, received};
use crate::across::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;

/// The path and result of one of two flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Way {
    /// The flow's round-trip time without queues.
    round_trip: Duration,
    /// Bytes that the flow received.
    received: u64,
}

/// Compares the two flows of a setup after `settled`, seed by seed: once with a longer path for the
/// first flow, and once for the second. The additional round-trip time is `more`, half of it in
/// each direction. If `is_logged`, the result is only logged and has no limit.
///
/// # Errors
/// Returns an error if the setup does not have two flows.
pub fn comparison(
    subject: Subject<'_>,
    settled: Duration,
    more: Duration,
    is_logged: bool,
) -> Result<Comparison, Inapplicable> {
    if subject.setup.flows.len() != 2 {
        return Err(Inapplicable("it requires two flows"));
    }
    let longer = |flow: u32| {
        let mut twin = subject.setup.clone();
        twin.network.flows.push(FlowDelay { flow, to_server: more / 2, to_client: more / 2 });
        plan(subject, twin)
    };
    let plans = vec![longer(0), longer(1)];
    let short = crate::across::twin::round_trip(&subject.setup.network);
    let compared = format!("{short:?} and {:?}", short + more);
    Ok(Comparison::new(Property::Fb, compared, plans, move |runs| {
        let verdicts = runs.iter().enumerate().flat_map(|(long, runs)| {
            runs.iter().map(move |run| {
                let received = received(run, settled);
                let way = |flow| {
                    let round_trip = if flow == long { short + more } else { short };
                    let received = *received.as_ref()?.get(flow)?;
                    Some(Way { round_trip, received })
                };
                judge(run.seed, way(1 - long), way(long), is_logged)
            })
        });
        Verdict::worst(verdicts).unwrap_or_else(|| judge(0, None, None, is_logged))
    }))
}

/// Judges the bytes that two flows received; `short` has the shorter path.
fn judge(seed: u64, short: Option<Way>, long: Option<Way>, is_logged: bool) -> Verdict {
    let ways = short.zip(long);
    let times_shorter =
        ways.map(|(short, long)| long.round_trip.as_secs_f64() / short.round_trip.as_secs_f64());
    let times_more = ways.map(|(short, long)| short.received as f64 / long.received as f64);
    let at_most = times_shorter.filter(|_| !is_logged);
    Verdict {
        property: Property::Fb,
        figure: times_more.filter(|times| times.is_finite()),
        bound: Bound { at_least: None, at_most, unit: Unit::Times },
        details: format!("seed {seed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_ratio_is_too_much() {
        let way = |milliseconds, received| {
            Some(Way { round_trip: Duration::from_millis(milliseconds), received })
        };
        let holds = |short, long| judge(0, short, long, false).holds();
        assert!(holds(way(20, 400), way(80, 100)));
        assert!(!holds(way(20, 401), way(80, 100)));
        assert!(!holds(way(20, 400), way(80, 0)));
        assert!(!holds(way(20, 0), way(80, 0)));
        assert!(judge(0, way(20, 900), way(80, 100), true).holds());
    }
}
