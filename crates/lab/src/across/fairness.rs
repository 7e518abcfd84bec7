//! Who gets what of a bottleneck: each property is about the bytes that flows receive in the same time,
//! which begins when they have settled.

pub mod equal;
pub mod reno_friendly;
pub mod round_trips;
pub mod starvation;

use core::time::Duration;

use clearway_units::Timestamp;

use super::comparison::Plan;
use super::twin::Subject;
use crate::setup::Setup;
use crate::sweep::Run;
use crate::world::Stop;

/// How often it is noted what flows have received.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs `setup` and notes what its flows receive.
fn plan(subject: Subject<'_>, setup: Setup) -> Plan {
    Plan { sample_every: Some(SAMPLE_INTERVAL), ..subject.plan(setup) }
}

/// What each flow of a run received from `settled` on; `None` if the run came to no good end, or ended
/// before.
fn received(run: &Run, settled: Duration) -> Option<Vec<u64>> {
    let outcome = &run.outcome;
    let is_good = matches!(outcome.stop, Stop::Finished | Stop::TimeUp);
    let settled = Timestamp::from_origin(settled);
    let first = outcome.samples.iter().find(|sample| sample.at >= settled);
    let (first, last) = (first.filter(|_| is_good)?, outcome.samples.last()?);
    let flows = first.received.iter().zip(&last.received);
    Some(flows.map(|(before, after)| after.saturating_sub(*before)).collect())
}

/// What part of the whole each has.
fn shares(received: &[u64]) -> Vec<f64> {
    let all: f64 = received.iter().map(|bytes| *bytes as f64).sum();
    received.iter().map(|bytes| if all > 0.0 { *bytes as f64 / all } else { 0.0 }).collect()
}

fn percentages(received: &[u64]) -> String {
    let shares = shares(received).into_iter().map(|share| format!("{:.1}", 100.0 * share));
    shares.collect::<Vec<_>>().join(", ") + " %"
}
