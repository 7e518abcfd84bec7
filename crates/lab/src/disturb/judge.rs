//! Evaluates and counts the outcomes of disturbed runs.

use core::time::Duration;
use std::collections::BTreeMap;

use super::Event;
use crate::checker::Violation;
use crate::run::Outcome;
use crate::world::Stop;

/// A failure of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// A property was violated.
    Violated(Box<Violation>),
    /// The run did not finish.
    Unfinished(Stop),
    /// The run finished later than its time limit.
    Late {
        /// The duration of the run.
        took: Duration,
        /// The maximum duration of the run.
        bound: Duration,
    },
}

impl Fault {
    /// Returns the class of the failure: the violated property, "unfinished", or "late".
    pub fn class(&self) -> &'static str {
        match self {
            Self::Violated(violation) => violation.property,
            Self::Unfinished(_) => "unfinished",
            Self::Late { .. } => "late",
        }
    }
}

impl core::fmt::Display for Fault {
    /// Describes the failure as a predicate, such as "finished after 3.000 s; at most 2.000 s are
    /// allowed".
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Violated(violation) => write!(
                formatter,
                "violated {} after {:.3} s at the {}: {}",
                violation.property,
                violation.at.since_origin().as_secs_f64(),
                violation.end.side.name(),
                violation.explanation
            ),
            Self::Unfinished(stop) => stop.fmt(formatter),
            Self::Late { took, bound } => write!(
                formatter,
                "finished after {:.3} s; at most {:.3} s are allowed",
                took.as_secs_f64(),
                bound.as_secs_f64()
            ),
        }
    }
}

/// Returns the failure of a run with `outcome` that must finish by `bound`; `None` if it did not
/// fail.
pub fn judge(outcome: &Outcome, bound: Duration) -> Option<Fault> {
    if let Some(violation) = &outcome.violation {
        return Some(Fault::Violated(Box::new(violation.clone())));
    }
    match outcome.took() {
        None => Some(Fault::Unfinished(outcome.stop.clone())),
        Some(took) if took > bound => Some(Fault::Late { took, bound }),
        Some(_) => None,
    }
}

/// Returns whether `why`, the reason for a connection failure, states that the peer was
/// unreachable.
pub(super) fn names_the_cause(why: &str) -> bool {
    const CAUSES: [&str; 3] = [
        "nothing was received from the peer for the idle timeout",
        "the handshake did not complete in time",
        "this host could not send to the peer",
    ];
    CAUSES.iter().any(|cause| why.contains(cause))
}

/// The results of runs with one disturbance, one controller and one variant.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// The durations of the runs that finished.
    times: Vec<Duration>,
    runs: usize,
    /// The number of findings of each class.
    found: BTreeMap<&'static str, usize>,
    violations: usize,
    /// The largest time limit.
    bound: Duration,
    /// The worst run so far, and its severity.
    worst: Option<(Badness, Vec<Event>)>,
}

/// A measure of how bad a run was, compared in this order: whether it is a finding, whether it did
/// not finish, and the fraction of its time limit that it used.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
struct Badness {
    is_fault: bool,
    is_unfinished: bool,
    share: f64,
}

impl Tally {
    /// Adds a run with `events` and its `outcome`. The run had to finish by `bound`, and `fault` is
    /// the verdict.
    pub fn add(
        &mut self,
        events: &[Event],
        outcome: &Outcome,
        bound: Duration,
        fault: Option<&Fault>,
    ) {
        self.runs += 1;
        self.bound = self.bound.max(bound);
        if let Some(fault) = fault {
            *self.found.entry(fault.class()).or_default() += 1;
        }
        self.violations += usize::from(matches!(fault, Some(Fault::Violated(_))));
        self.times.extend(outcome.took());
        let badness = Badness {
            is_fault: fault.is_some(),
            is_unfinished: outcome.took().is_none(),
            share: outcome.at.as_secs_f64() / bound.as_secs_f64().max(f64::MIN_POSITIVE),
        };
        if self.worst.as_ref().is_none_or(|(worst, _)| badness > *worst) {
            self.worst = Some((badness, events.to_vec()));
        }
    }

    /// Returns the number of runs.
    pub const fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the number of runs that finished.
    pub fn finished(&self) -> usize {
        self.times.len()
    }

    /// Returns the number of runs that violated a property.
    pub const fn violations(&self) -> usize {
        self.violations
    }

    /// Returns the number of failed runs, by class of failure.
    pub const fn found(&self) -> &BTreeMap<&'static str, usize> {
        &self.found
    }

    /// Returns the largest time limit of all runs.
    pub const fn bound(&self) -> Duration {
        self.bound
    }

    /// Returns the median and the longest duration of all runs; `None` for either if that run did
    /// not finish.
    pub fn p50_and_max(&self) -> (Option<Duration>, Option<Duration>) {
        let mut times = self.times.clone();
        times.sort_unstable();
        let middle = self.runs.saturating_sub(1) / 2;
        let is_whole = times.len() == self.runs;
        (times.get(middle).copied(), times.last().copied().filter(|_| is_whole))
    }

    /// Returns the disturbances of the run that came closest to its time limit or exceeded it the
    /// most.
    pub fn worst(&self) -> &[Event] {
        self.worst.as_ref().map_or(&[], |(_, events)| events)
    }
}
