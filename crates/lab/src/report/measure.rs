//! Measures the values that expectations refer to, in one run.

use core::time::Duration;

use clearway_network::{Conditions, Way, WayCounters};
use clearway_units::{Rate, Timestamp};

use super::capacity::capacity;
use super::statistics::share;
use crate::run::{FlowOutcome, Outcome};
use crate::samples::Sample;
use crate::setup::Setup;

/// The outcome of a run, together with its setup.
#[derive(Clone, Copy)]
pub(super) struct Measured<'a> {
    pub(super) setup: &'a Setup,
    pub(super) outcome: &'a Outcome,
}

impl<'a> Measured<'a> {
    /// Returns the direction of the first flow that is not optional.
    fn way(self) -> Way {
        let flow = self.setup.flows.iter().find(|flow| !flow.is_optional);
        match flow.is_some_and(|flow| flow.traffic.is_upload()) {
            true => Way::ToServer,
            false => Way::ToClient,
        }
    }

    fn conditions(self) -> &'a Conditions {
        match self.way() {
            Way::ToServer => &self.setup.network.to_server,
            Way::ToClient => &self.setup.network.to_client,
        }
    }

    fn counters(self) -> &'a WayCounters {
        self.outcome.network.of(self.way())
    }

    /// Returns the goodput of each flow that is not optional; zero for a flow that did not finish.
    pub(super) fn goodputs(self) -> impl Iterator<Item = (&'a FlowOutcome, Rate)> {
        let counting = self.setup.flows.iter().zip(&self.outcome.flows);
        counting.filter(|(flow, _)| !flow.is_optional).map(|(_, outcome)| {
            let rate = outcome.took.and_then(|took| Rate::from_transfer(outcome.received, took));
            (outcome, rate.unwrap_or(Rate::ZERO))
        })
    }

    /// Returns the fraction of the bottleneck's capacity that was used from the first flow's start
    /// to the run's end; `None` if nothing limits the rate.
    pub(super) fn utilisation(self) -> Option<f64> {
        let start = self.setup.flows.iter().map(|flow| flow.start).min().unwrap_or_default();
        let conditions = self.conditions();
        let capacity = capacity(conditions, self.outcome.at.saturating_sub(start))?;
        let counters = self.counters();
        let below = counters.delivered.saturating_mul(u64::from(conditions.overhead));
        let used = counters.delivered_bytes.saturating_add(below);
        Some(if capacity == 0 { 0.0 } else { used as f64 / capacity as f64 })
    }

    /// Returns the fraction of sent datagrams that were dropped.
    pub(super) fn loss(self) -> f64 {
        let counters = self.counters();
        share(counters.dropped() as usize, counters.received as usize)
    }

    /// Returns the bytes that each flow received between `settled_after` and the end of the first
    /// flow that ended; `None` if there is no such period, or no samples were taken.
    fn received(self, settled_after: Duration) -> Option<Vec<u64>> {
        let ends = self.setup.flows.iter().zip(&self.outcome.flows);
        let ends = ends.filter_map(|(flow, outcome)| Some(flow.start + outcome.took?));
        let end = Timestamp::from_origin(ends.min().unwrap_or(self.outcome.at));
        let settled = Timestamp::from_origin(settled_after);
        let samples = &self.outcome.samples;
        let first = samples.iter().find(|sample| sample.at >= settled)?;
        let last = samples.iter().rfind(|sample| sample.at <= end)?;
        if last.at <= first.at {
            return None;
        }
        let flows = first.received.iter().zip(&last.received);
        Some(flows.map(|(before, after)| after.saturating_sub(*before)).collect())
    }

    /// Returns the mean queueing delay at the bottleneck after `settled_after`; `None` if no
    /// datagram left the bottleneck in that time or no samples were taken.
    pub(super) fn queue_delay(self, settled_after: Duration) -> Option<Duration> {
        let settled = Timestamp::from_origin(settled_after);
        let samples = &self.outcome.samples;
        let of = |sample: &Sample| match self.way() {
            Way::ToServer => sample.to_server,
            Way::ToClient => sample.to_client,
        };
        let first = of(samples.iter().find(|sample| sample.at >= settled)?);
        let last = of(samples.last()?);
        let waited = last.waited.saturating_sub(first.waited).as_nanos();
        let mean = waited.checked_div(u128::from(last.datagrams - first.datagrams))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// Returns Jain's fairness index: 1 if all flows received the same amount, 1/n if one of n
    /// flows received everything.
    pub(super) fn jain(self, settled_after: Duration) -> Option<f64> {
        let received = self.received(settled_after)?;
        let sum: f64 = received.iter().map(|bytes| *bytes as f64).sum();
        let squares: f64 = received.iter().map(|bytes| (*bytes as f64) * (*bytes as f64)).sum();
        let count = received.len() as f64;
        Some(if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 })
    }

    /// Returns the share of all received bytes that the flows of `group` received.
    pub(super) fn share_of(self, group: &str, settled_after: Duration) -> Option<f64> {
        let received = self.received(settled_after)?;
        let flows = self.setup.flows.iter().zip(&received);
        let own: u64 = flows.filter(|(flow, _)| flow.group == group).map(|(_, bytes)| bytes).sum();
        let all: u64 = received.iter().sum();
        Some(if all > 0 { own as f64 / all as f64 } else { 0.0 })
    }
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
