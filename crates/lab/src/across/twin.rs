//! The subject of a comparison, and helper functions that create its twins: the same setup in a
//! changed network.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use clearway_network::{Conditions, LinkConfig};

use super::comparison::Plan;
use crate::run::Candidate;
use crate::setup::Setup;
use crate::sweep::Run;

/// An error: the property does not apply to this setup, for this reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inapplicable(pub &'static str);

impl fmt::Display for Inapplicable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the property does not apply: {}", self.0)
    }
}

impl core::error::Error for Inapplicable {}

/// A setup with a controller and seeds: the subject of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The setup that is run, both unchanged and modified.
    pub setup: &'a Setup,
    /// The controller of flows that do not specify one.
    pub candidate: &'a Candidate,
    /// The number of seeds; seeds are counted from 0.
    pub seeds: u64,
}

impl Subject<'_> {
    /// Plans runs of `setup` with all seeds.
    pub(super) fn plan(&self, setup: Setup) -> Plan {
        self.plan_for(setup, self.candidate.clone(), 0..self.seeds)
    }

    /// Plans runs of `setup` using `candidate` and `seeds`.
    pub(super) fn plan_for(&self, setup: Setup, candidate: Candidate, seeds: Range<u64>) -> Plan {
        Plan { setup, candidate, seeds, sample_every: None }
    }

    /// Returns the maximum datagram size of the first flow's sender, in bytes.
    pub(super) fn max_datagram_size(&self) -> Result<u64, Inapplicable> {
        let flow = self.setup.flows.first().ok_or(Inapplicable("there is no flow"))?;
        let end = if flow.traffic.is_upload() { &flow.client } else { &flow.server };
        Ok(u64::from(end.max_datagram_size))
    }
}

/// Returns the time to completion of each run's first flow; `None` if it did not finish.
pub(super) fn times(runs: &[Run]) -> Vec<Option<Duration>> {
    runs.iter().map(|run| time(run, 0)).collect()
}

/// Returns the time to completion of a flow of `run`; `None` if it did not finish.
pub(super) fn time(run: &Run, flow: usize) -> Option<Duration> {
    run.outcome.flows.get(flow).and_then(|flow| flow.took)
}

/// Returns the absolute relative deviation of a duration from `reference`.
pub(super) fn deviation(time: Option<Duration>, reference: Option<Duration>) -> Option<f64> {
    let (time, reference) = (time?.as_secs_f64(), reference?.as_secs_f64());
    Some((time - reference).abs() / reference)
}

/// Formats a duration for a verdict's details.
pub(super) fn text(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| format!("{:.3} s", time.as_secs_f64()))
}

/// Returns the network conditions of both directions.
pub(super) fn ways(network: &mut LinkConfig) -> [&mut Conditions; 2] {
    [&mut network.to_server, &mut network.to_client]
}

/// Returns the round-trip time of the first datagrams, excluding queueing delay.
pub(super) fn round_trip(network: &LinkConfig) -> Duration {
    network.to_server.delay + network.to_client.delay
}
