//! Runs a scenario with a single disturbance, once for every possible injection point.
//!
//! A bug that stalls a connection permanently often requires one event at one particular time: a
//! NAT that forgets its mapping right after the last handshake message, or silence that begins with
//! the last ACK. That time is hard to predict, and random networks seldom hit it. Therefore all
//! injection points are tried: [`trials`] places each [`Kind`] of disturbance at every datagram of
//! a run, in both directions, and at every millisecond of its first ten round trips. Each of these
//! runs must finish within the time that [`Bounds`] derives from the kind and the time of the
//! disturbance, and must not violate any property of the checker.
//!
//! Until the disturbance, a run is identical to the undisturbed one, datagram for datagram, because
//! the same seed yields the same random numbers.

mod baseline;
mod bound;
mod event;
mod judge;
mod kind;

use core::time::Duration;

use clearway_network::{Moment, Way};
use clearway_units::Random;

use crate::scenario::{Scenario, ScenarioError};
use crate::setup::Setup;

pub use baseline::Baseline;
pub use bound::Bounds;
pub use event::{At, Event};
pub use judge::{Fault, Tally, judge};
pub use kind::{Kind, Remedy, UnknownName};

/// The disturbances and injection points to try.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The kinds of disturbances to try.
    pub kinds: Vec<Kind>,
    /// The step between injection points: only every n-th point is tried. Must be at least 1. Each
    /// disturbance starts at a different offset.
    pub every: usize,
    /// The maximum number of datagrams to try in each direction. If the run has more, half of the
    /// number covers the run's first datagrams, and the rest is spread evenly.
    pub datagrams: u64,
}

impl Default for Choice {
    /// Returns every disturbance at every injection point, with at most 1000 datagrams in each
    /// direction.
    fn default() -> Self {
        Self { kinds: Kind::ALL.to_vec(), every: 1, datagrams: 1000 }
    }
}

/// The number of round trips at the beginning of a run for which every millisecond is tried.
const ROUND_TRIPS: u32 = 10;

/// Returns the scenario of small transfers that is disturbed by default.
///
/// # Errors
/// Returns an error if the built-in scenario is invalid, which a test rules out.
pub fn standard() -> Result<Scenario, ScenarioError> {
    Scenario::parse("standard", include_str!("disturb/standard.toml"), std::path::Path::new(""))
}

/// Returns all single disturbances of `setup` that `choice` includes.
pub fn trials(choice: &Choice, setup: &Setup, baseline: &Baseline) -> Vec<Event> {
    let datagrams = datagrams(choice, baseline);
    let times = times(setup, baseline);
    let mut trials = Vec::new();
    for (place, &kind) in choice.kinds.iter().enumerate() {
        let times = times.iter().filter(|_| !kind.needs_datagram());
        let moments = datagrams.iter().chain(times).copied();
        let every = choice.every.max(1);
        let chosen = moments.skip(place % every).step_by(every);
        trials.extend(chosen.map(|moment| Event { kind, at: At(moment) }));
    }
    trials
}

/// Draws `count` pairs of different single disturbances, using `seed`; returns none if no pair
/// exists.
pub fn pairs(trials: &[Event], count: usize, seed: u64) -> Vec<[Event; 2]> {
    if trials.len() < 2 {
        return Vec::new();
    }
    let mut random = Random::from_number(seed);
    let length = trials.len();
    let draw = |random: &mut Random, below: usize| random.below(below as u64) as usize;
    let pair = |_| {
        let first = draw(&mut random, length);
        let second = draw(&mut random, length - 1);
        [trials[first], trials[if second < first { second } else { second + 1 }]]
    };
    (0..count).map(pair).collect()
}

/// Returns how many datagrams of the undisturbed run `choice` omits because the run has too many.
pub fn left_out(choice: &Choice, baseline: &Baseline) -> u64 {
    let ways = [Way::ToServer, Way::ToClient];
    ways.into_iter().map(|way| baseline.datagrams(way).saturating_sub(choice.datagrams)).sum()
}

fn datagrams(choice: &Choice, baseline: &Baseline) -> Vec<Moment> {
    let of_way = |way| {
        let numbers = numbers(baseline.datagrams(way), choice.datagrams);
        numbers.into_iter().map(move |number| Moment::Datagram { way, number })
    };
    [Way::ToServer, Way::ToClient].into_iter().flat_map(of_way).collect()
}

/// Returns the numbers from 1 to `count`, limited to `most` of them.
fn numbers(count: u64, most: u64) -> Vec<u64> {
    if count <= most {
        return (1..=count).collect();
    }
    let all_of = most / 2;
    let spread = most - all_of;
    let rest = count - all_of;
    let others = (1..=spread).map(|step| {
        all_of + (u128::from(rest) * u128::from(step) / u128::from(spread.max(1))) as u64
    });
    (1..=all_of).chain(others).collect()
}

/// Returns every millisecond of the first round trips, until the end of the run.
fn times(setup: &Setup, baseline: &Baseline) -> Vec<Moment> {
    let network = &setup.network;
    let round_trip = network.to_server.delay.saturating_add(network.to_client.delay);
    let end = (round_trip * ROUND_TRIPS).min(baseline.outcome.at);
    let milliseconds = u64::try_from(end.as_millis()).unwrap_or(u64::MAX);
    (0..=milliseconds).map(|time| Moment::After(Duration::from_millis(time))).collect()
}

#[cfg(test)]
#[path = "disturb_tests.rs"]
mod tests;
