//! M7: a better network is no worse.

use core::time::Duration;

use clearway_network::Window;
use clearway_units::Timestamp;

use super::twin::{round_trip, ways};
use super::{NotComparable, Property, Verdict};
use crate::run::{Candidate, Extras, run};
use crate::setup::Setup;

/// M7.
pub const PROPERTY: Property = Property {
    id: "M7",
    meaning: "if from some time on nothing is lost any more, completion is at most 10 % and one \
              round trip later",
};

/// Runs `setup`, whose losses last for as long as their rules say, and once for each of `ends`, after
/// which its rules lose nothing. Until then the runs are the same, datagram by datagram.
///
/// # Errors
/// If it cannot be run, or the windows of its losses have other ends than times.
pub fn check(
    setup: &Setup,
    candidate: &Candidate,
    seed: u64,
    ends: &[Duration],
) -> Result<Verdict, NotComparable> {
    let time = |setup: &Setup| -> Result<_, NotComparable> {
        Ok(run(setup, candidate, seed, Extras::default())?.flows[0].took)
    };
    let twins = ends.iter().map(|end| Ok((*end, time(&without_later(setup, *end)?)?)));
    let twins = twins.collect::<Result<Vec<_>, NotComparable>>()?;
    Ok(judge(round_trip(&setup.network), time(setup)?, &twins))
}

/// Judges the first flow's time to completion with all losses, and with those until each end only; `None`
/// never finished.
pub fn judge(
    round_trip: Duration,
    with_all: Option<Duration>,
    with_some: &[(Duration, Option<Duration>)],
) -> Verdict {
    let is_in_time = |time: &Option<Duration>| match (with_all, time) {
        (Some(reference), Some(time)) => *time <= reference + reference / 10 + round_trip,
        (None, _) => true,
        (Some(_), None) => false,
    };
    let times = with_some.iter().map(|(end, time)| format!("until {end:?}: {time:?}"));
    let times = times.collect::<Vec<_>>().join(", ");
    Verdict {
        property: PROPERTY,
        holds: with_some.iter().all(|(_, time)| is_in_time(time)),
        figures: format!("with all losses: {with_all:?}; {times}"),
    }
}

/// `setup` without the losses from `end` on.
fn without_later(setup: &Setup, end: Duration) -> Result<Setup, NotComparable> {
    let mut twin = setup.clone();
    let end = Timestamp::from_origin(end);
    for conditions in ways(&mut twin.network) {
        for rule in &mut conditions.loss {
            rule.window = match rule.window {
                Window::Always => Window::Absolute { from: Timestamp::ORIGIN, until: end },
                Window::Absolute { from, until } => {
                    Window::Absolute { from, until: until.min(end) }
                }
                _ => return Err(NotComparable::Inapplicable("losses begin with the traffic")),
            };
        }
    }
    Ok(twin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_network_that_is_slower_is_seen() {
        let ms = Duration::from_millis;
        let holds = |all, some| judge(ms(10), all, &[(ms(1), some)]).holds;
        assert!(holds(Some(ms(1000)), Some(ms(500))));
        assert!(holds(Some(ms(1000)), Some(ms(1110))));
        assert!(!holds(Some(ms(1000)), Some(ms(1111))));
        assert!(!holds(Some(ms(1000)), None));
        assert!(holds(None, None));
    }
}
