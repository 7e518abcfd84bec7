//! Detects problems of a connection from its trace.
//!
//! [`FindingsBuilder`] processes events one at a time, in bounded memory, and returns a [`Report`]
//! at the end. `state` derives the state of the connection from the events (using the records of
//! `ledger`, `rounds` and `flow`). Detectors read that state; each family of findings has a file of
//! detectors. `catalogue` describes what each finding means, what causes it, and which property its
//! bound is derived from. These properties are called L1 to L11 and S1 to S19, here as in `clearway
//! lab properties`.
//!
//! Healthy traces must not have findings. Where a property is not exact, the bound here is wider
//! than the lab's, because a trace may lack information that the lab's checker has.

mod accounting;
mod catalogue;
mod dropped;
mod ending;
mod errors;
mod flapping;
mod flow;
mod flow_control;
mod growth;
mod ledger;
mod loss;
mod mtu;
mod outcome;
mod pacer;
mod peer;
mod phase;
mod queue;
mod receiving;
mod rounds;
mod sending;
mod shares;
mod slow_start;
mod state;
mod text;
mod window;

use core::time::Duration;

use crate::read::{Event, QlogReader, Reading, TraceVisitor, VantagePoint, visit_traces};

pub use catalogue::{CATALOGUE, Entry, FindingId};
pub use outcome::{Closer, Ending, EndingKind};
pub use shares::Shares;

use state::State;

/// A problem that a trace shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The finding's identifier in the catalog.
    pub id: FindingId,
    /// The approximate time that the problem cost, in seconds. Findings are sorted by it, worst
    /// first.
    pub severity: f64,
    /// The time at which the problem began, relative to the trace's first event.
    pub begin: Duration,
    /// The time at which the problem ended, relative to the trace's first event.
    pub end: Duration,
    /// A summary with the most important metrics, in at most twelve words.
    pub headline: String,
    /// The measurements: names, and values with their units.
    pub metrics: Vec<(&'static str, String)>,
}

/// The findings of a trace, and the information about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The information about the trace.
    pub reading: Reading,
    /// The length of the trace.
    pub duration: Duration,
    /// How the connection ended.
    pub ending: Ending,
    /// The findings, worst first.
    pub findings: Vec<Finding>,
    /// The shares of time during which each limit applied to sending.
    pub shares: Shares,
}

/// Detects one problem, or several related ones.
trait Detector: Duplicate + Send {
    /// Processes an event, which `state` already includes.
    fn on_event(&mut self, event: &Event, state: &State);

    /// Returns the findings at the end of the trace.
    fn finish(self: Box<Self>, state: &State) -> Vec<Finding>;
}

/// Clones a boxed detector of any type.
trait Duplicate {
    fn duplicate(&self) -> Box<dyn Detector>;
}

impl<T: Detector + Clone + 'static> Duplicate for T {
    fn duplicate(&self) -> Box<dyn Detector> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Detector> {
    fn clone(&self) -> Self {
        // This calls the detector's implementation, not the box's.
        (**self).duplicate()
    }
}

/// Detects problems, event by event. To get the findings so far, call [`finish`](Self::finish) on a
/// clone.
#[derive(Clone)]
pub struct FindingsBuilder {
    state: State,
    detectors: Vec<Box<dyn Detector>>,
    outcome: outcome::Outcome,
    shares: shares::Clocks,
}

impl Default for FindingsBuilder {
    fn default() -> Self {
        Self {
            state: State::default(),
            detectors: vec![
                Box::new(window::AtFloor::default()),
                Box::new(window::BelowMinimum::default()),
                Box::new(flapping::Flapping::default()),
                Box::new(flapping::RecoveryWithoutLoss::default()),
                Box::new(growth::NoGrowth::default()),
                Box::new(growth::Suppressors::default()),
                Box::new(growth::ApplicationLimitedClaim::default()),
                Box::new(phase::Phases::default()),
                Box::new(sending::IdleWithData::default()),
                Box::new(sending::ProbeOverdue::default()),
                Box::new(pacer::Pacer::default()),
                Box::new(accounting::AboveWindow::default()),
                Box::new(accounting::GhostBytes::default()),
                Box::new(flow_control::Stalls::default()),
                Box::new(peer::Amplification::default()),
                Box::new(peer::AckStarvation::default()),
                Box::new(peer::LateAcknowledgements::default()),
                Box::new(ending::Endings::default()),
                Box::new(loss::Spurious::default()),
                Box::new(mtu::BlackHole::default()),
                Box::new(mtu::Ecn::default()),
                Box::new(queue::StandingQueue::default()),
                Box::new(slow_start::SlowStartLeft::default()),
                Box::new(receiving::LateLimits::default()),
                Box::new(dropped::DroppedPackets::default()),
            ],
            outcome: outcome::Outcome::default(),
            shares: shares::Clocks::default(),
        }
    }
}

impl FindingsBuilder {
    /// Processes an event. Events must be passed in the order of their times.
    pub fn on_event(&mut self, event: &Event) {
        self.shares.until(event.at, &self.state);
        self.state.update(event);
        self.outcome.on_event(event, &self.state);
        for detector in &mut self.detectors {
            detector.on_event(event, &self.state);
        }
    }

    /// Returns the findings in the trace, which `reading` describes.
    pub fn finish(self, mut reading: Reading) -> Report {
        let Self { state, detectors, outcome, shares } = self;
        // If the file does not say which endpoint wrote the trace, the first packet shows it.
        reading.vantage_point = match (reading.vantage_point, state.is_server) {
            (VantagePoint::Unknown, Some(true)) => VantagePoint::Server,
            (VantagePoint::Unknown, Some(false)) => VantagePoint::Client,
            (known, _) => known,
        };
        let mut findings: Vec<Finding> =
            detectors.into_iter().flat_map(|detector| detector.finish(&state)).collect();
        let ending = outcome.ending(&state, reading.vantage_point);
        findings.extend(outcome.findings(&ending, &state));
        raise_causes(&mut findings);
        findings.sort_by(|one, other| {
            let by_severity = other.severity.total_cmp(&one.severity);
            by_severity.then(one.begin.cmp(&other.begin)).then(one.id.cmp(&other.id))
        });
        Report { reading, duration: state.now, ending, findings, shares: shares.shares() }
    }
}

/// Raises the severity of dropped packets to that of the findings that the drops caused in the same
/// part of the trace.
fn raise_causes(findings: &mut [Finding]) {
    let Some(place) = findings.iter().position(|it| it.id == FindingId::PacketsDropped) else {
        return;
    };
    let Some((begin, end)) = findings.get(place).map(|it| (it.begin, it.end)) else { return };
    let symptoms = findings.iter().filter(|it| it.begin <= end && it.end >= begin);
    let most = symptoms.map(|it| it.severity).fold(0.0, f64::max);
    if let Some(cause) = findings.get_mut(place) {
        cause.severity = cause.severity.max(most * 1.001);
    }
}

/// Keeps the worst occurrence according to `measure`. Of equally bad occurrences, the first is
/// kept.
fn keep_worst<T, M: Ord>(worst: &mut Option<T>, one: T, measure: impl Fn(&T) -> M) {
    if worst.as_ref().is_none_or(|worst| measure(worst) < measure(&one)) {
        *worst = Some(one);
    }
}

impl core::fmt::Debug for FindingsBuilder {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = formatter.debug_struct("FindingsBuilder");
        debug.field("now", &self.state.now).finish_non_exhaustive()
    }
}

impl TraceVisitor for FindingsBuilder {
    type Output = Report;

    fn on_event(&mut self, event: Event) {
        Self::on_event(self, &event);
    }

    fn finish(self, reading: Reading) -> Report {
        Self::finish(self, reading)
    }
}

/// Reads a whole file, and returns a report for each trace in it. `progress` is called periodically
/// with the number of bytes read.
pub fn find(reader: QlogReader, progress: impl FnMut(u64)) -> Vec<Report> {
    visit_traces(reader, |_| FindingsBuilder::default(), progress)
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
