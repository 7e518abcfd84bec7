//! What came of disturbed runs.

use core::time::Duration;
use std::collections::BTreeMap;

use super::Event;
use crate::checker::Violation;
use crate::run::Outcome;
use crate::world::Stop;

/// What is wrong with a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// A property was violated.
    Violated(Box<Violation>),
    /// It did not finish.
    Unfinished(Stop),
    /// It finished late.
    Late {
        /// How long it took.
        took: Duration,
        /// How long it may take.
        bound: Duration,
    },
}

impl Fault {
    /// What kind of fault it is: the property that was violated, "unfinished", or "late".
    pub fn class(&self) -> &'static str {
        match self {
            Self::Violated(violation) => violation.property,
            Self::Unfinished(_) => "unfinished",
            Self::Late { .. } => "late",
        }
    }
}

impl core::fmt::Display for Fault {
    /// What the run did, such as "finished after 3 s, later than 2 s".
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
                "finished after {:.3} s; {:.3} s are permitted",
                took.as_secs_f64(),
                bound.as_secs_f64()
            ),
        }
    }
}

/// What is wrong with a run that came to `outcome` and had to be done by `bound`; `None` if nothing is.
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

/// The runs with one disturbance, one controller and one variant.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// How long those took that finished.
    times: Vec<Duration>,
    runs: usize,
    /// How many findings of each class.
    found: BTreeMap<&'static str, usize>,
    violations: usize,
    /// The greatest bound.
    bound: Duration,
    /// The run that is the worst so far, and how bad.
    worst: Option<(Badness, Vec<Event>)>,
}

/// How bad a run was, ordered: whether it is a finding, whether it did not finish, and the part of its bound
/// that it took.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
struct Badness {
    is_fault: bool,
    is_unfinished: bool,
    share: f64,
}

impl Tally {
    /// A run with `events` came to `outcome`, had to be done by `bound`, and was judged.
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

    /// How many there were.
    pub const fn runs(&self) -> usize {
        self.runs
    }

    /// How many finished.
    pub fn finished(&self) -> usize {
        self.times.len()
    }

    /// How many violated a property.
    pub const fn violations(&self) -> usize {
        self.violations
    }

    /// How many were not as they have to be, by the class of what was wrong.
    pub const fn found(&self) -> &BTreeMap<&'static str, usize> {
        &self.found
    }

    /// The greatest bound of any.
    pub const fn bound(&self) -> Duration {
        self.bound
    }

    /// The median time and the longest of all runs; `None` where that run did not finish.
    pub fn p50_and_max(&self) -> (Option<Duration>, Option<Duration>) {
        let mut times = self.times.clone();
        times.sort_unstable();
        let middle = self.runs.saturating_sub(1) / 2;
        let is_whole = times.len() == self.runs;
        (times.get(middle).copied(), times.last().copied().filter(|_| is_whole))
    }

    /// What was done to the run that came closest to its bound, or went furthest beyond.
    pub fn worst(&self) -> &[Event] {
        self.worst.as_ref().map_or(&[], |(_, events)| events)
    }
}
