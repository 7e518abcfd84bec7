//! M3: congestion window growth does not depend on how many packets an ACK frame acknowledges.
//!
//! Published bugs: "for each new ACK" interpreted as "for each ACK frame", which makes growth ten
//! times slower with a receiver that acknowledges every tenth packet, and a window that grows by a
//! datagram for each frame.
//!
//! The original definition of the property allows the final window to differ by one datagram per
//! round trip. A Reno implementation that grows per frame grows by less than a datagram per round
//! trip, so it would pass. Here, the relative difference in growth over the same number of
//! acknowledged windows is compared.

use super::tap::{Point, Tap};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use clearway_congestion::Phase;

/// The ack-eliciting thresholds to compare: an acknowledgment is sent after this many ack-eliciting
/// packets. With the last threshold, acknowledgments are triggered by
/// [`EndSetup::max_ack_delay`](crate::setup::EndSetup::max_ack_delay) or a gap instead.
pub const THRESHOLDS: [u32; 4] = [1, 2, 10, u32::MAX];

/// Compares a setup, in which one loss ends slow start early and nothing else is lost, with each of
/// [`THRESHOLDS`]: the growth of the first flow's congestion window while `windows` windows are acknowledged, with
/// seed 0.
///
/// Applies to controllers whose window depends on acknowledged bytes. BBR, for example,
/// intentionally includes ACK aggregation in its window. Such controllers have no congestion
/// avoidance phase, and therefore no result.
///
/// # Errors
/// Returns an error if there is no flow.
pub fn comparison(subject: Subject<'_>, windows: f64) -> Result<Comparison, Inapplicable> {
    let size = subject.max_datagram_size()?;
    let (mut plans, mut taps) = (Vec::new(), Vec::new());
    for threshold in THRESHOLDS {
        let mut twin = subject.setup.clone();
        for flow in &mut twin.flows {
            flow.client.ack_eliciting_threshold = threshold;
            flow.server.ack_eliciting_threshold = threshold;
        }
        let (tapped, tap) = Tap::of(subject.candidate);
        plans.push(subject.plan_for(twin, tapped, 0..1));
        taps.push(tap);
    }
    let compared = "an ACK per 1, 2 or 10 packets, or per window";
    Ok(Comparison::new(Property::M3, compared, plans, move |_| {
        let growths: Vec<_> = taps.iter().map(|tap| growth(&tap.sender(), windows)).collect();
        judge(windows, size, &growths)
    }))
}

/// Judges by how many bytes the window grew while `windows` windows were acknowledged. The first
/// entry is the run with the most frequent ACKs; `None` represents a run without a congestion
/// avoidance phase of that length. The result is the largest difference from the first entry.
fn judge(windows: f64, max_datagram_size: u64, growths: &[Option<i64>]) -> Verdict {
    let size = max_datagram_size as f64;
    let datagrams = |growth: &Option<i64>| growth.map(|growth| growth as f64 / size);
    let growths: Vec<_> = growths.iter().map(datagrams).collect();
    let reference = growths.first().copied().flatten();
    let tolerance = (reference.unwrap_or(0.0).abs() / 5.0 + 1.0).min(windows);
    let differences = growths.iter().map(|growth| Some((growth.as_ref()? - reference?).abs()));
    let largest = differences.collect::<Option<Vec<_>>>();
    let text = |growth: &Option<f64>| growth.map_or("none".to_owned(), |it| format!("{it:.2}"));
    let texts = growths.iter().map(text).collect::<Vec<_>>().join(", ");
    Verdict {
        property: Property::M3,
        figure: largest.and_then(|differences| differences.into_iter().reduce(f64::max)),
        bound: Bound::at_most(tolerance, Unit::Datagrams),
        details: format!("growth of {texts} datagrams in {windows} windows"),
    }
}

/// Returns the growth of the window in the first congestion avoidance phase that lasts until
/// `windows` windows are acknowledged.
fn growth(points: &[Point], windows: f64) -> Option<i64> {
    let mut begin: Option<Point> = None;
    let (mut last, mut passed) = (begin, 0.0);
    for point in points {
        if point.phase != Phase::CongestionAvoidance {
            (begin, passed) = (None, 0.0);
        } else if let (Some(begin), Some(last)) = (begin, last) {
            passed += point.delivered.saturating_sub(last.delivered) as f64 / last.window as f64;
            if passed >= windows {
                return Some(point.window as i64 - begin.window as i64);
            }
        } else {
            begin = Some(*point);
        }
        last = Some(*point);
    }
    None
}

#[cfg(test)]
mod tests {
    use clearway_units::Timestamp;

    use super::*;

    fn point(delivered: u64, window: u64, phase: Phase) -> Point {
        Point { at: Timestamp::ORIGIN, delivered, window, phase, rate: None }
    }

    #[test]
    fn growth_is_measured_in_one_congestion_avoidance_phase() {
        let calm = Phase::CongestionAvoidance;
        let points = [
            point(0, 500, calm),
            point(500, 600, Phase::Recovery),
            point(600, 100, calm),
            point(700, 110, calm),
            point(810, 120, calm),
        ];
        assert_eq!(growth(&points, 2.0), Some(20));
        assert_eq!(growth(&points, 2.5), None);
    }

    #[test]
    fn growth_per_ack_frame_is_detected() {
        assert!(judge(40.0, 1200, &[48_000, 47_000, 49_000, 48_000].map(Some)).holds());
        // One datagram of growth per ACK frame: with a tenth of the frames, the window grows a
        // tenth as much.
        assert!(!judge(40.0, 1200, &[96_000, 48_000, 9_600, 4_800].map(Some)).holds());
        assert!(!judge(40.0, 1200, &[48_000, 24_000, 4_800, 1200].map(Some)).holds());
        assert!(!judge(40.0, 1200, &[Some(48_000), None]).holds());
    }
}
