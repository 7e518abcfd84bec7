//! M5: time in which nothing was sent does not count.

use core::time::Duration;

use super::tap::{Point, Tap};
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, run};
use crate::setup::{Setup, Traffic};

/// M5.
pub const PROPERTY: Property = Property {
    id: "M5",
    meaning: "after idleness of any length the window grows as after a short one, by bytes \
              delivered: within a datagram",
};

/// Runs `setup`, whose first flow makes requests so far apart that it is idle in between, once as it is and
/// once with each of `idles` on top of that, and compares the sender's window after the longest silence.
///
/// # Errors
/// If it cannot be run, or its first flow does not make requests at regular times.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
    idles: &[Duration],
) -> Result<Verdict, NotComparable> {
    let points = |idle| -> Result<_, NotComparable> {
        let (tapped, tap) = Tap::of(candidate);
        run(&with_idle(setup, idle)?, &tapped, seed, Extras::default())?;
        Ok(tap.sender())
    };
    let flow = setup.flows.first().ok_or(NotComparable::Inapplicable("there is no flow"))?;
    let size = u64::from(flow.server.max_datagram_size);
    let twins = idles.iter().map(|idle| Ok((*idle, points(*idle)?)));
    let twins = twins.collect::<Result<Vec<_>, NotComparable>>()?;
    Ok(judge(size, &points(Duration::ZERO)?, &twins))
}

/// Judges what a sender's window did without more idleness, and with more.
pub fn judge(
    max_datagram_size: u64,
    without: &[Point],
    with: &[(Duration, Vec<Point>)],
) -> Verdict {
    let reference = after_silence(without);
    let differences = with.iter().map(|(_, points)| difference(&reference, &after_silence(points)));
    let differences: Vec<_> = differences.collect();
    let is_near = |difference: &Option<u64>| difference.is_some_and(|it| it <= max_datagram_size);
    let figures = with.iter().zip(&differences);
    let figures = figures.map(|((idle, _), bytes)| format!("{idle:?}: {bytes:?}"));
    Verdict {
        property: PROPERTY,
        holds: differences.iter().all(is_near),
        figures: format!("bytes of difference with {}", figures.collect::<Vec<_>>().join(", ")),
    }
}

/// Bytes delivered since the longest silence, and the window then.
fn after_silence(points: &[Point]) -> Vec<(u64, u64)> {
    let silence = |index: &usize| points[*index].at.saturating_since(points[index - 1].at);
    let Some(end) = (1..points.len()).max_by_key(silence) else { return Vec::new() };
    let before = points[end - 1].delivered;
    points[end..].iter().map(|point| (point.delivered - before, point.window)).collect()
}

/// The largest difference between windows after as many bytes. `None` if there is nothing to compare.
fn difference(one: &[(u64, u64)], other: &[(u64, u64)]) -> Option<u64> {
    let differences = one.iter().map(|(delivered, window)| {
        let next = other.partition_point(|(bytes, _)| bytes <= delivered);
        let (_, twin) = other.get(next.saturating_sub(1))?;
        Some(window.abs_diff(*twin))
    });
    differences.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn with_idle(setup: &Setup, idle: Duration) -> Result<Setup, NotComparable> {
    let mut twin = setup.clone();
    match twin.flows.first_mut().map(|flow| &mut flow.traffic) {
        Some(Traffic::Requests { every: Some(every), .. }) => *every += idle,
        _ => return Err(NotComparable::Inapplicable("nothing is idle")),
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
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn a_jump_after_idleness_is_seen() {
        let without = points(&[(0, 10, 5000), (100, 20, 5000), (110, 40, 6000)]);
        let with = |window| {
            let points = points(&[(0, 10, 5000), (900, 20, 5000), (905, 40, window)]);
            [(Duration::from_millis(800), points)]
        };
        assert!(judge(1200, &without, &with(6500)).holds);
        assert!(!judge(1200, &without, &with(9000)).holds);
        assert!(!judge(1200, &without, &[(Duration::ZERO, Vec::new())]).holds);
        assert!(!judge(1200, &[], &with(6500)).holds);
    }
}
