//! M4: the batch size does not affect a sender's measurements.
//!
//! A sender that passes many datagrams to the kernel in one call has the same effect on the network
//! as one that passes each one separately; the same holds for endpoints that act after each
//! datagram that arrives, or after all that arrive at the same time. Their events come in a
//! different order, perhaps with different ACK frames, but this must not affect delivery rate
//! samples. Samples may differ by the fraction of a round trip's data that arrives at once, because
//! a packet sent in the middle of a batch has recorded only part of the batch. A published bug:
//! rates computed from the time between two calls, which is zero within a batch.

use core::time::Duration;

use clearway_units::Rate;

use super::tap::{Point, Tap};
use super::twin::{deviation, text, time};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::setup::{Acting, Turns};

const BOUND: Bound = Bound::at_most(0.02, Unit::Share);

/// The batch settings to try; the first is the reference.
pub const TURNS: [Turns; 7] = [
    Turns { batch: 16, acting: Acting::OnAll },
    Turns { batch: 1, acting: Acting::OnAll },
    Turns { batch: 4, acting: Acting::OnAll },
    Turns { batch: 40, acting: Acting::OnAll },
    Turns { batch: 1, acting: Acting::OnEach },
    Turns { batch: 16, acting: Acting::OnEach },
    Turns { batch: 40, acting: Acting::OnEach },
];

/// The measurements of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Seen {
    /// The first flow's time to completion; `None` if it did not finish.
    took: Option<Duration>,
    /// The median and the maximum of the delivery rate samples, weighted by delivered bytes.
    rates: Option<(Rate, Rate)>,
}

/// Compares a setup with each of [`TURNS`], using seed 0: the sender's delivery rate samples and
/// the first flow's completion time. Some network condition, such as a timer tick, should make
/// datagrams arrive at the same time.
///
/// # Errors
/// Returns an error if there is no flow.
pub fn comparison(subject: Subject<'_>) -> Result<Comparison, Inapplicable> {
    subject.max_datagram_size()?;
    let (mut plans, mut taps) = (Vec::new(), Vec::new());
    for turns in TURNS {
        let twin = crate::setup::Setup { turns, ..subject.setup.clone() };
        let (tapped, tap) = Tap::of(subject.candidate);
        plans.push(subject.plan_for(twin, tapped, 0..1));
        taps.push(tap);
    }
    let compared = "batches, acting per datagram or batch";
    Ok(Comparison::new(Property::M4, compared, plans, move |runs| {
        let seen = runs.iter().zip(&taps).map(|(runs, tap)| Seen {
            took: runs.first().and_then(|run| time(run, 0)),
            rates: rates(&tap.sender()),
        });
        let seen: Vec<_> = TURNS.into_iter().zip(seen).collect();
        judge(&seen)
    }))
}

/// Judges the measurements with each of the settings; the first is the reference.
fn judge(seen: &[(Turns, Seen)]) -> Verdict {
    let (_, reference) = seen.first().copied().unwrap_or_default();
    let verdict = |what: &str, turns: &Turns, figure| Verdict {
        property: Property::M4,
        figure,
        bound: BOUND,
        details: format!("{what}, with batches of {} and acting {:?}", turns.batch, turns.acting),
    };
    let verdicts = seen.iter().flat_map(|(turns, seen)| {
        let times = format!("{}, not {}", text(seen.took), text(reference.took));
        let rates = seen.rates.zip(reference.rates);
        let median = rates.map(|((one, _), (other, _))| difference(one, other));
        let highest = rates.map(|((_, one), (_, other))| difference(one, other));
        [
            verdict(&times, turns, deviation(seen.took, reference.took)),
            verdict("the median sample", turns, median),
            verdict("the highest sample", turns, highest),
        ]
    });
    let none = verdict("nothing", &Turns::default(), None);
    Verdict::worst(verdicts).unwrap_or(none)
}

fn difference(one: Rate, other: Rate) -> f64 {
    let [one, other] = [one, other].map(|rate| rate.bytes_per_second() as f64);
    (one - other).abs() / other
}

/// Returns the median and the maximum of the rates, weighted by delivered bytes; `None` if there is
/// no sample.
fn rates(points: &[Point]) -> Option<(Rate, Rate)> {
    let mut before = 0;
    let mut samples = Vec::new();
    for point in points {
        let bytes = point.delivered.saturating_sub(before);
        before = point.delivered;
        samples.extend(point.rate.map(|rate| (rate, bytes)));
    }
    samples.sort();
    let all: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let mut sum = 0;
    let median = samples.iter().find(|(_, bytes)| {
        sum += bytes;
        sum * 2 >= all
    })?;
    Some((median.0, samples.last()?.0))
}

#[cfg(test)]
mod tests {
    use clearway_congestion::Phase;
    use clearway_units::Timestamp;

    use super::*;

    fn point(delivered: u64, rate: Option<u64>) -> Point {
        Point {
            at: Timestamp::ORIGIN,
            delivered,
            window: 0,
            phase: Phase::SlowStart,
            rate: rate.map(Rate::from_bytes_per_second),
        }
    }

    #[test]
    fn rates_are_weighted_by_bytes() {
        let of = |points: &[Point]| {
            rates(points).map(|(one, two)| [one, two].map(Rate::bytes_per_second))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[point(100, None)]), None);
        let points = [point(100, Some(9)), point(400, Some(7)), point(450, None)];
        assert_eq!(of(&points), Some([7, 9]));
        assert_eq!(of(&[point(100, Some(9)), point(150, Some(7))]), Some([9, 9]));
    }

    #[test]
    fn a_dependence_on_batches_is_detected() {
        let seen = |milliseconds, median, highest| Seen {
            took: Some(Duration::from_millis(milliseconds)),
            rates: Some([median, highest].map(Rate::from_bytes_per_second).into()),
        };
        let holds = |other| {
            let turns = Turns::default();
            judge(&[(turns, seen(1000, 500, 1000)), (turns, other)]).holds()
        };
        assert!(holds(seen(1019, 509, 1019)));
        assert!(holds(seen(981, 491, 981)));
        assert!(!holds(seen(1021, 500, 1000)));
        assert!(!holds(seen(1000, 511, 1000)));
        assert!(!holds(seen(1000, 500, 979)));
        assert!(!holds(Seen { rates: None, ..seen(1000, 500, 1000) }));
        assert!(!holds(Seen { took: None, ..seen(1000, 500, 1000) }));
    }
}
