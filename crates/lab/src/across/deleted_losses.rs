//! M7: a run is not slower in a better network.

use core::time::Duration;

use clearway_network::Window;
use clearway_units::Timestamp;

use super::twin::{round_trip, text, time, ways};
use super::{Bound, Comparison, Inapplicable, Subject, Unit, Verdict};
use crate::checker::Property;
use crate::setup::Setup;

const BOUND: Bound = Bound::at_most(0.1, Unit::Share);

/// Compares a setup with a twin for each of `ends`, seed by seed. In the original setup, losses
/// occur for as long as its rules specify. In a twin, no datagram is lost after the twin's end
/// time, and until then both runs are identical, datagram by datagram.
///
/// # Errors
/// Returns an error if the setup's loss periods do not begin and end at fixed times.
pub fn comparison(subject: Subject<'_>, ends: &[Duration]) -> Result<Comparison, Inapplicable> {
    let mut plans = vec![subject.plan(subject.setup.clone())];
    for end in ends {
        plans.push(subject.plan(without_later(subject.setup, *end)?));
    }
    let (ends, round_trip) = (ends.to_vec(), round_trip(&subject.setup.network));
    let compared = format!("losses that stop at {} different times", ends.len());
    Ok(Comparison::new(Property::M7, compared, plans, move |runs| {
        let verdicts = runs[0].iter().enumerate().map(|(index, run)| {
            let of = |runs: &Vec<crate::sweep::Run>| runs.get(index).and_then(|run| time(run, 0));
            let twins = ends.iter().copied().zip(runs[1..].iter().map(of));
            judge(round_trip, time(run, 0), &twins.collect::<Vec<_>>())
        });
        Verdict::worst(verdicts).unwrap_or_else(|| judge(round_trip, None, &[]))
    }))
}

/// Judges the first flow's time to completion with all losses, and with only the losses before each
/// end time; `None` if the flow never finished. The result is the relative delay of the slowest
/// twin, minus one round trip.
fn judge(
    round_trip: Duration,
    with_all: Option<Duration>,
    with_some: &[(Duration, Option<Duration>)],
) -> Verdict {
    let later = |time: &Option<Duration>| match (with_all, time) {
        (Some(reference), Some(time)) => {
            let limit = (reference + round_trip).as_secs_f64();
            Some((time.as_secs_f64() - limit) / reference.as_secs_f64())
        }
        // Any completion time is better than never finishing.
        (None, _) => Some(-1.0),
        (Some(_), None) => None,
    };
    let figures = with_some.iter().map(|(_, time)| later(time)).collect::<Option<Vec<_>>>();
    let times = with_some.iter().map(|(end, time)| format!("until {end:?}: {}", text(*time)));
    let times = times.collect::<Vec<_>>().join(", ");
    Verdict {
        property: Property::M7,
        figure: figures.and_then(|figures| figures.into_iter().reduce(f64::max)),
        bound: BOUND,
        details: format!("with all losses: {}; with losses {times}", text(with_all)),
    }
}

/// Returns `setup` without losses after `end`.
fn without_later(setup: &Setup, end: Duration) -> Result<Setup, Inapplicable> {
    let mut twin = setup.clone();
    let end = Timestamp::from_origin(end);
    for conditions in ways(&mut twin.network) {
        for rule in &mut conditions.loss {
            rule.window = match rule.window {
                Window::Always => Window::Absolute { from: Timestamp::ORIGIN, until: end },
                Window::Absolute { from, until } => {
                    Window::Absolute { from, until: until.min(end) }
                }
                _ => {
                    return Err(Inapplicable(
                        "the losses start after a number of bytes, not at a fixed time",
                    ));
                }
            };
        }
    }
    Ok(twin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_network_that_is_slower_is_detected() {
        let ms = Duration::from_millis;
        let holds = |all, some| judge(ms(10), all, &[(ms(1), some)]).holds();
        assert!(holds(Some(ms(1000)), Some(ms(500))));
        assert!(holds(Some(ms(1000)), Some(ms(1109))));
        assert!(!holds(Some(ms(1000)), Some(ms(1111))));
        assert!(!holds(Some(ms(1000)), None));
        assert!(holds(None, None));
    }
}
