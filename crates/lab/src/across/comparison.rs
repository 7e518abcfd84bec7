use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::time::Duration;

use super::Verdict;
use crate::checker::Property;
use crate::run::{Candidate, RunError};
use crate::setup::Setup;
use crate::sweep::{Event, Job, Run, sweep};

/// Part of the runs that a comparison needs: those of one setup with one controller.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) setup: Setup,
    pub(super) candidate: Candidate,
    pub(super) seeds: Range<u64>,
    /// The interval at which the flows' progress is sampled; `None` takes no samples.
    pub(super) sample_every: Option<Duration>,
}

/// Judges the runs of each plan, in the order of plans and seeds.
type Judge = dyn Fn(&[Vec<Run>]) -> Verdict + Send + Sync;

/// A check of a property for some controllers: the required runs, and the function that evaluates
/// their outcomes. Callers with several threads can perform its [`jobs`](Self::jobs);
/// [`run`](Self::run) uses one.
pub struct Comparison {
    /// The property that is checked.
    pub property: Property,
    /// The controllers that are compared.
    pub controllers: Vec<String>,
    /// A short description of the compared quantities.
    pub compared: String,
    plans: Vec<Plan>,
    judge: Box<Judge>,
}

impl Comparison {
    pub(super) fn new(
        property: Property,
        compared: impl Into<String>,
        plans: Vec<Plan>,
        judge: impl Fn(&[Vec<Run>]) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let mut controllers = Vec::new();
        for plan in &plans {
            for flow in &plan.setup.flows {
                let name = flow.controller.as_ref().unwrap_or(&plan.candidate.name);
                if !controllers.contains(name) {
                    controllers.push(name.clone());
                }
            }
        }
        let (compared, judge) = (compared.into(), Box::new(judge));
        Self { property, controllers, compared, plans, judge }
    }

    /// Adds a description of the network to the comparison.
    pub fn on(mut self, place: &str) -> Self {
        self.compared = format!("{}; {place}", self.compared);
        self
    }

    /// Returns the runs that the comparison needs.
    pub fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        self.plans.iter().map(|plan| Job {
            setup: &plan.setup,
            candidate: &plan.candidate,
            seeds: plan.seeds.clone(),
            sample_every: plan.sample_every,
            check: false,
            goes_on: false,
        })
    }

    /// Returns the comparison's estimated cost, relative to other comparisons.
    pub fn cost(&self) -> u64 {
        let cost = |job: Job<'_>| job.cost().saturating_mul(job.count() as u64);
        self.jobs().map(cost).fold(0, u64::saturating_add)
    }

    /// Judges the runs of the [`jobs`](Self::jobs), each with all its seeds. The runs must be those
    /// of this comparison, because some checks record data while their runs are in progress.
    pub fn judge(&self, runs: &[Vec<Run>]) -> Verdict {
        (self.judge)(runs)
    }

    /// Performs all runs, one after the other, and judges them.
    ///
    /// # Errors
    /// Returns an error if a run fails.
    pub fn run(&self) -> Result<Verdict, RunError> {
        let jobs: Vec<_> = self.jobs().collect();
        let mut runs = Vec::new();
        sweep(&jobs, 1, &AtomicBool::new(false), &mut |event| {
            if let Event::JobDone { swept, .. } = event {
                runs.push(swept.runs);
            }
        })?;
        Ok(self.judge(&runs))
    }
}

impl core::fmt::Debug for Comparison {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { property, controllers, compared, plans, .. } = self;
        let mut text = formatter.debug_struct("Comparison");
        text.field("property", property).field("controllers", controllers);
        text.field("compared", compared).field("plans", plans).finish_non_exhaustive()
    }
}
