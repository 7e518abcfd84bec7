//! M5: idle time does not affect the congestion window.

use core::time::Duration;

use super::tap::{Point, Tap};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::setup::{Setup, Traffic};

const BOUND: Bound = Bound::at_most(1.0, Unit::Datagrams);

/// Compares a setup, whose first flow is idle between requests, with twins whose idle periods are
/// longer by each of `idles`. Compares the sender's window after the longest idle period, as a
/// function of the bytes delivered, using seed 0.
///
/// # Errors
/// Returns an error if the first flow does not make requests at regular intervals.
pub fn comparison(subject: Subject<'_>, idles: &[Duration]) -> Result<Comparison, Inapplicable> {
    let size = subject.max_datagram_size()?;
    let (mut plans, mut taps) = (Vec::new(), Vec::new());
    for idle in [Duration::ZERO].iter().chain(idles) {
        let (tapped, tap) = Tap::of(subject.candidate);
        plans.push(subject.plan_for(with_idle(subject.setup, *idle)?, tapped, 0..1));
        taps.push(tap);
    }
    let idles = idles.to_vec();
    let compared = format!("{} longer idle times", idles.len());
    Ok(Comparison::new(Property::M5, compared, plans, move |_| {
        let with = idles.iter().copied().zip(taps[1..].iter().map(Tap::sender));
        judge(size, &taps[0].sender(), &with.collect::<Vec<_>>())
    }))
}

/// Evaluates a sender's window with and without additional idle time.
fn judge(max_datagram_size: u64, without: &[Point], with: &[(Duration, Vec<Point>)]) -> Verdict {
    let reference = after_silence(without);
    let verdict = |(idle, points): &(Duration, Vec<Point>)| {
        let bytes = difference(&reference, &after_silence(points));
        Verdict {
            property: Property::M5,
            figure: bytes.map(|bytes| bytes as f64 / max_datagram_size as f64),
            bound: BOUND,
            details: format!("with {idle:?} of additional idle time"),
        }
    };
    let none = verdict(&(Duration::ZERO, Vec::new()));
    Verdict::worst(with.iter().map(verdict)).unwrap_or(none)
}

/// Returns the bytes delivered since the longest idle period, each with the window at that point.
fn after_silence(points: &[Point]) -> Vec<(u64, u64)> {
    let silence = |index: &usize| points[*index].at.saturating_since(points[index - 1].at);
    let Some(end) = (1..points.len()).max_by_key(silence) else { return Vec::new() };
    let before = points[end - 1].delivered;
    points[end..].iter().map(|point| (point.delivered - before, point.window)).collect()
}

/// Returns the largest difference between two windows after the same number of delivered bytes;
/// `None` if there is nothing to compare.
fn difference(one: &[(u64, u64)], other: &[(u64, u64)]) -> Option<u64> {
    let differences = one.iter().map(|(delivered, window)| {
        let next = other.partition_point(|(bytes, _)| bytes <= delivered);
        let (_, twin) = other.get(next.saturating_sub(1))?;
        Some(window.abs_diff(*twin))
    });
    differences.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn with_idle(setup: &Setup, idle: Duration) -> Result<Setup, Inapplicable> {
    let mut twin = setup.clone();
    match twin.flows.first_mut().map(|flow| &mut flow.traffic) {
        Some(Traffic::Requests { every: Some(every), .. }) => *every += idle,
        _ => return Err(Inapplicable("the first flow has no idle time between requests")),
    }
    twin.limit += idle * 10;
    Ok(twin)
}

#[cfg(test)]
mod tests {
    use clearway_congestion::Phase;
    use clearway_units::Timestamp;

    use super::*;

    fn points(points: &[(u64, u64, u64)]) -> Vec<Point> {
        let point = |&(milliseconds, delivered, window)| Point {
            at: Timestamp::from_origin(Duration::from_millis(milliseconds)),
            delivered,
            window,
            phase: Phase::CongestionAvoidance,
            rate: None,
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn a_jump_after_idle_time_is_detected() {
        let without = points(&[(0, 10, 5000), (100, 20, 5000), (110, 40, 6000)]);
        let with = |window| {
            let points = points(&[(0, 10, 5000), (900, 20, 5000), (905, 40, window)]);
            [(Duration::from_millis(800), points)]
        };
        assert!(judge(1200, &without, &with(6500)).holds());
        assert!(!judge(1200, &without, &with(9000)).holds());
        assert!(!judge(1200, &without, &[(Duration::ZERO, Vec::new())]).holds());
        assert!(!judge(1200, &[], &with(6500)).holds());
    }
}
