//! M3: how many packets an ACK frame covers does not decide how fast the window grows.
//!
//! Published: "for each new ACK" taken as "for each ACK frame" makes growth ten times slower behind a
//! receiver that acknowledges every tenth packet; and a window that grows by a datagram for each frame.
//!
//! The notes from which the property comes say that the window at the end may differ by a datagram for each
//! round trip. A Reno that grows per frame grows by less than a datagram per round trip, so that it would
//! pass. Growth here is compared relative to growth, over the same number of windows acknowledged.

use super::tap::{Point, Tap};
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, run};
use crate::setup::Setup;
use clearway_congestion::Phase;

/// M3.
pub const PROPERTY: Property = Property {
    id: "M3",
    meaning: "while as many windows are acknowledged, congestion avoidance grows by as much with ACKs \
              of 1, 2, 10 packets and of whole windows: within a fifth, a datagram, and a datagram \
              for each round trip",
};

/// How many ack-eliciting packets are acknowledged at once. With the last it is
/// [`EndSetup::max_ack_delay`](crate::setup::EndSetup::max_ack_delay) that decides, or a gap.
pub const THRESHOLDS: [u32; 4] = [1, 2, 10, u32::MAX];

/// Runs `setup`, in which one loss ends slow start early and nothing else is lost, with each of
/// [`THRESHOLDS`], and compares the growth of the first flow's sender while so many windows are
/// acknowledged.
///
/// It is about controllers whose window is what acknowledged bytes made of it. Others, such as BBR, whose
/// window holds what ACKs are seen to cover at once by intent, have no congestion avoidance.
///
/// # Errors
/// If it cannot be run, or no run has so long a congestion avoidance.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
    windows: f64,
) -> Result<Verdict, NotComparable> {
    let growth = |threshold| {
        let mut twin = setup.clone();
        for flow in &mut twin.flows {
            flow.client.ack_eliciting_threshold = threshold;
            flow.server.ack_eliciting_threshold = threshold;
        }
        let (tapped, tap) = Tap::of(candidate);
        run(&twin, &tapped, seed, Extras::default())?;
        growth(&tap.sender(), windows)
            .ok_or(NotComparable::Inapplicable("no long congestion avoidance"))
    };
    let growths = THRESHOLDS.map(growth).into_iter().collect::<Result<Vec<_>, _>>()?;
    let flow = setup.flows.first().ok_or(NotComparable::Inapplicable("there is no flow"))?;
    let end = if flow.traffic.is_upload() { &flow.client } else { &flow.server };
    Ok(judge(windows, u64::from(end.max_datagram_size), &growths))
}

/// Judges by how many bytes the window grew while `windows` were acknowledged, first with the finest ACKs.
pub fn judge(windows: f64, max_datagram_size: u64, growths: &[i64]) -> Verdict {
    let size = max_datagram_size as f64;
    let reference = growths.first().copied().unwrap_or_default() as f64;
    let tolerance = (reference.abs() / 5.0 + size).min(windows * size);
    let is_near = |growth: &i64| (*growth as f64 - reference).abs() <= tolerance;
    let datagrams = growths.iter().map(|growth| format!("{:.2}", *growth as f64 / size));
    let datagrams = datagrams.collect::<Vec<_>>().join(", ");
    Verdict {
        property: PROPERTY,
        holds: growths.iter().all(is_near),
        figures: format!("{datagrams} datagrams in {windows} windows"),
    }
}

/// By how much the window grew in the first congestion avoidance that lasts while so many windows are
/// acknowledged.
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
        Point { at: Timestamp::ORIGIN, delivered, window, phase }
    }

    #[test]
    fn growth_is_that_of_one_congestion_avoidance() {
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
    fn growth_by_the_frame_is_seen() {
        assert!(judge(40.0, 1200, &[48_000, 47_000, 49_000, 48_000]).holds);
        // A datagram for each frame, and a tenth of the growth for a tenth of the frames.
        assert!(!judge(40.0, 1200, &[96_000, 48_000, 9_600, 4_800]).holds);
        assert!(!judge(40.0, 1200, &[48_000, 24_000, 4_800, 1200]).holds);
    }
}
