//! Fairness at a bottleneck. Each property compares the bytes that flows receive in the same
//! period, after they have reached a steady state.

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

/// The interval at which the flows' received bytes are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Plans runs of `setup` in which the bytes received by its flows are sampled.
fn plan(subject: Subject<'_>, setup: Setup) -> Plan {
    Plan { sample_every: Some(SAMPLE_INTERVAL), ..subject.plan(setup) }
}

/// Returns the bytes that each flow of a run received after `settled`; `None` if the run failed or
/// ended earlier.
fn received(run: &Run, settled: Duration) -> Option<Vec<u64>> {
    let outcome = &run.outcome;
    let is_good = matches!(outcome.stop, Stop::Finished | Stop::TimeUp);
    let settled = Timestamp::from_origin(settled);
    let first = outcome.samples.iter().find(|sample| sample.at >= settled);
    let (first, last) = (first.filter(|_| is_good)?, outcome.samples.last()?);
    let flows = first.received.iter().zip(&last.received);
    Some(flows.map(|(before, after)| after.saturating_sub(*before)).collect())
}

/// Returns each flow's share of the total bytes received.
fn shares(received: &[u64]) -> Vec<f64> {
    let all: f64 = received.iter().map(|bytes| *bytes as f64).sum();
    received.iter().map(|bytes| if all > 0.0 { *bytes as f64 / all } else { 0.0 }).collect()
}

fn percentages(received: &[u64]) -> String {
    let shares = shares(received).into_iter().map(|share| format!("{:.1}", 100.0 * share));
    shares.collect::<Vec<_>>().join(", ") + " %"
}
