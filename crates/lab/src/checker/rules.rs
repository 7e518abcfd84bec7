//! All rules that are applied at one endpoint.

use clearway_transport::Metrics;
use clearway_units::Timestamp;

use super::liveness::armed::Armed;
use super::liveness::escape::Escape;
use super::liveness::estimate::Estimate;
use super::liveness::growth::WindowGrowth;
use super::liveness::pacer::Pacing;
use super::liveness::phase::PhaseExit;
use super::liveness::retransmission::Retransmission;
use super::liveness::silence::Silence;
use super::liveness::suppressors::Suppression;
use super::liveness::wake::Wake;
use super::properties::{Property, PropertySet};
use super::records::{EndpointRecords, Lost, Report};
use super::rule::{Rule, SentEvent, Settled};
use super::safety::acknowledgement::Acknowledgement;
use super::safety::bandwidth::Bandwidth;
use super::safety::burst::Burst;
use super::safety::cubic::CubicCurve;
use super::safety::datagram_size::DatagramSize;
use super::safety::gate::Gate;
use super::safety::growth::Growth;
use super::safety::idle::Idle;
use super::safety::in_flight::InFlight;
use super::safety::loss::LossDetection;
use super::safety::new_path::NewPath;
use super::safety::probe_timeout::ProbeTimeout;
use super::safety::queue::Queue;
use super::safety::range::Range;
use super::safety::reaction::Reaction;
use super::safety::response::Response;
use super::safety::rtt::RoundTrip;
use super::safety::slow_start::SlowStart;
use super::safety::spin::Spin;
use super::safety::time::Time;
use super::safety::undo::Undo;
use super::safety::unnecessary::Unnecessary;

/// A violation: the property, and an explanation.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) property: Property,
    pub(super) explanation: String,
}

impl Failure {
    pub(super) fn new(property: Property, explanation: String) -> Self {
        Self { property, explanation }
    }
}

/// Passes each event to every rule whose property is checked. Most rules ignore most events, and the compiler removes those
/// calls.
macro_rules! rules {
    ($($field:ident: $rule:ty,)*) => {
        /// One instance of each rule.
        #[derive(Debug, Default)]
        pub(super) struct Rules { $($field: $rule,)* }

        impl Rules {
            pub(super) fn on_sent(
                &mut self, on: PropertySet, records: &EndpointRecords, packet: &SentEvent,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_sent(records, packet))?;)*
                Ok(())
            }

            pub(super) fn on_received(
                &mut self, on: PropertySet, records: &EndpointRecords, is_ack_eliciting: bool,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_received(records, is_ack_eliciting))?;)*
                Ok(())
            }

            pub(super) fn on_lost(
                &mut self, on: PropertySet, records: &EndpointRecords, lost: &Lost,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_lost(records, lost))?;)*
                Ok(())
            }

            pub(super) fn on_report(
                &mut self, on: PropertySet, records: &EndpointRecords, report: &Report<'_>,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_report(records, report))?;)*
                Ok(())
            }

            pub(super) fn on_quiet(
                &mut self, on: PropertySet, records: &EndpointRecords, metrics: &Metrics,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_quiet(records, metrics))?;)*
                Ok(())
            }

            pub(super) fn on_paced(
                &mut self, on: PropertySet, records: &EndpointRecords, until: Timestamp,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_paced(records, until))?;)*
                Ok(())
            }

            pub(super) fn on_probe_timeout(
                &mut self, on: PropertySet, records: &EndpointRecords,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_probe_timeout(records))?;)*
                Ok(())
            }

            pub(super) fn on_settled(
                &mut self, on: PropertySet, records: &EndpointRecords, settled: &Settled,
            ) -> Result<(), Failure> {
                $(ask::<$rule>(on, || self.$field.on_settled(records, settled))?;)*
                Ok(())
            }

            pub(super) fn on_moved(&mut self, records: &EndpointRecords) {
                $(self.$field.on_moved(records);)*
            }

            pub(super) fn on_mtu(&mut self, records: &EndpointRecords) {
                $(self.$field.on_mtu(records);)*
            }

            pub(super) fn on_path(&mut self, records: &EndpointRecords) {
                $(self.$field.on_path(records);)*
            }
        }
    };
}

#[cfg(test)]
impl Rules {
    /// Returns the number of congestion avoidance phases for which S24 has compared several rounds.
    pub(super) fn stages_judged(&self) -> u64 {
        self.cubic.judged
    }
}

#[inline]
fn ask<R: Rule>(
    on: PropertySet,
    question: impl FnOnce() -> Result<(), String>,
) -> Result<(), Failure> {
    if !on.contains(R::PROPERTY) {
        return Ok(());
    }
    question().map_err(|explanation| Failure::new(R::PROPERTY, explanation))
}

// If one event violates several properties, the first one in this order is reported: the most
// specific ones come first.
rules! {
    in_flight: InFlight,
    loss: LossDetection,
    probe_timeout: ProbeTimeout,
    gate: Gate,
    datagram_size: DatagramSize,
    new_path: NewPath,
    range: Range,
    undo: Undo,
    reaction: Reaction,
    response: Response,
    time: Time,
    growth: Growth,
    slow_start: SlowStart,
    cubic: CubicCurve,
    burst: Burst,
    round_trip: RoundTrip,
    bandwidth: Bandwidth,
    queue: Queue,
    spin: Spin,
    idle: Idle,
    unnecessary: Unnecessary,
    acknowledgement: Acknowledgement,
    window_growth: WindowGrowth,
    escape: Escape,
    armed: Armed,
    wake: Wake,
    phase: PhaseExit,
    pacing: Pacing,
    estimate: Estimate,
    suppression: Suppression,
    silence: Silence,
    retransmission: Retransmission,
}
