//! Statistics over many runs.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::sweep::Run;
use crate::world::Stop;

/// The number of seeds that are listed for each kind of failed run.
pub(super) const NAMED: usize = 8;

/// The statistics of the runs of one variant with one controller.
///
/// A percentile is the time of a run (nearest rank) among all runs. A run that did not finish counts as
/// infinitely long, so a percentile is `None` if too many runs did not finish.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics {
    /// The number of runs.
    pub runs: usize,
    /// The number of runs that finished.
    pub finished: usize,
    /// The seeds of the first few runs that did not finish.
    pub unfinished_seeds: Vec<u64>,
    /// The number of runs that ended early, because they violated a property.
    pub ended_early: usize,
    /// The number of runs that violated a property.
    pub violations: usize,
    /// The seeds of the first few runs that violated a property.
    pub violating_seeds: Vec<u64>,
    /// The properties that were violated, in order of their IDs.
    pub violated: Vec<Violated>,
    /// The fraction of runs, from 0 to 1, in which a sender's congestion window reached its
    /// minimum.
    pub floor_reached: f64,
    /// The median of the run times.
    pub median: Option<Duration>,
    /// The 99th percentile of the run times.
    pub p99: Option<Duration>,
    /// The longest run time.
    pub longest: Option<Duration>,
    /// The share of all content that each flow received, if there are several flows.
    pub shares: Vec<Share>,
}

/// The share of a run's content that a flow received, 0 to 1, over all runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Share {
    /// The flow's name.
    pub flow: String,
    /// The smallest share of all runs.
    pub least: f64,
    /// The mean share.
    pub mean: f64,
    /// The largest share of all runs.
    pub most: f64,
}

/// A property that did not hold in some runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Violated {
    /// The ID of the property.
    pub property: &'static str,
    /// The number of runs in which the property was violated.
    pub runs: usize,
    /// The seed of the first run that violated the property.
    pub seed: u64,
    /// The virtual time of the violation in the first run that violated the property, in seconds.
    pub at_s: f64,
}

impl Statistics {
    /// Computes the statistics of `runs`.
    pub fn new(runs: &[Run]) -> Self {
        let mut times: Vec<_> = runs.iter().map(|run| run.outcome.took()).collect();
        // `None` sorts before `Some`, but a run that did not finish must come last.
        times.sort_unstable_by_key(|time| (time.is_none(), *time));
        let finished = runs.iter().filter(|run| run.outcome.took().is_some()).count();
        let violating = || runs.iter().filter(|run| run.outcome.violation.is_some());
        let at_floor = runs.iter().filter(|run| run.outcome.reached_floor()).count();
        let unfinished = runs.iter().filter(|run| run.outcome.took().is_none());
        let seeds = |run: &Run| run.seed;
        Self {
            runs: runs.len(),
            finished,
            unfinished_seeds: unfinished.map(seeds).take(NAMED).collect(),
            ended_early: runs.iter().filter(|run| run.outcome.stop == Stop::Violated).count(),
            violations: violating().count(),
            violating_seeds: violating().map(seeds).take(NAMED).collect(),
            violated: violated(runs),
            floor_reached: share(at_floor, runs.len()),
            median: percentile(&times, 50),
            p99: percentile(&times, 99),
            longest: percentile(&times, 100),
            shares: shares(runs),
        }
    }
}

/// Returns the shares of the flows, in order; empty if there is only one flow, or nothing was
/// received.
fn shares(runs: &[Run]) -> Vec<Share> {
    let of_run = |run: &Run| {
        let received: Vec<_> = run.outcome.flows.iter().map(|flow| flow.received).collect();
        let all: u64 = received.iter().sum();
        let parts = received.into_iter().map(move |bytes| bytes as f64 / all as f64);
        (all > 0).then(|| parts.collect::<Vec<_>>())
    };
    let parts: Vec<_> = runs.iter().filter_map(of_run).collect();
    let flows = runs.iter().map(|run| &run.outcome.flows).find(|flows| flows.len() > 1);
    let share = |(index, flow): (usize, &crate::run::FlowOutcome)| {
        let of_flow = || parts.iter().filter_map(|parts| parts.get(index).copied());
        Share {
            flow: flow.name.clone(),
            least: of_flow().fold(f64::INFINITY, f64::min),
            mean: of_flow().sum::<f64>() / parts.len() as f64,
            most: of_flow().fold(0.0, f64::max),
        }
    };
    match flows {
        Some(flows) if !parts.is_empty() => flows.iter().enumerate().map(share).collect(),
        _ => Vec::new(),
    }
}

/// Returns the properties that were violated in `runs`, in order of their IDs.
fn violated(runs: &[Run]) -> Vec<Violated> {
    let mut found = BTreeMap::new();
    for run in runs {
        let Some(violation) = &run.outcome.violation else { continue };
        let first = || Violated {
            property: violation.property,
            runs: 0,
            seed: run.seed,
            at_s: violation.at.since_origin().as_secs_f64(),
        };
        found.entry(violation.property).or_insert_with(first).runs += 1;
    }
    found.into_values().collect()
}

/// Returns `part` as a share of `whole`; 0 if `whole` is 0.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the smallest of the sorted `times` such that at least `percent` percent of them do not
/// exceed it.
pub(super) fn percentile(times: &[Option<Duration>], percent: usize) -> Option<Duration> {
    let rank = (times.len() * percent).div_ceil(100);
    times.get(rank.checked_sub(1)?).copied().flatten()
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
