use core::time::Duration;
use std::time::Instant;

use super::{Done, Event, Job, Run, Swept};

/// Sorts runs by their seeds, and reports jobs in order.
pub(super) struct Collector {
    jobs: Vec<Gathered>,
    /// The first job that has not been reported.
    next: usize,
}

/// The results of one job so far.
struct Gathered {
    expected: usize,
    runs: Vec<Run>,
    span: Option<(Instant, Instant)>,
}

impl Gathered {
    fn take(&mut self) -> Swept {
        let mut runs = core::mem::take(&mut self.runs);
        runs.sort_unstable_by_key(|run| run.seed);
        let wall = self.span.map_or(Duration::ZERO, |(began, ended)| ended - began);
        Swept { runs, wall }
    }
}

impl Collector {
    pub(super) fn new(jobs: &[Job<'_>]) -> Self {
        let gathered =
            |job: &Job<'_>| Gathered { expected: job.count(), runs: Vec::new(), span: None };
        Self { jobs: jobs.iter().map(gathered).collect(), next: 0 }
    }

    /// Adds a run that has ended.
    pub(super) fn add(&mut self, done: Done, on_event: &mut dyn FnMut(Event)) {
        let Done { job, seed, outcome, began, ended } = done;
        let gathered = &mut self.jobs[job];
        gathered.runs.push(Run { seed, outcome });
        let span = gathered.span.get_or_insert((began, ended));
        *span = (span.0.min(began), span.1.max(ended));
        on_event(Event::RunDone { job });
        self.tell(on_event);
    }

    /// Reports the jobs that are complete.
    fn tell(&mut self, on_event: &mut dyn FnMut(Event)) {
        while let Some(gathered) = self.jobs.get_mut(self.next)
            && gathered.runs.len() == gathered.expected
        {
            on_event(Event::JobDone { job: self.next, swept: gathered.take() });
            self.next += 1;
        }
    }

    /// Reports all remaining results, after the last run has ended.
    pub(super) fn finish(&mut self, on_event: &mut dyn FnMut(Event)) {
        self.tell(on_event);
        for job in self.next..self.jobs.len() {
            if !self.jobs[job].runs.is_empty() {
                on_event(Event::JobDone { job, swept: self.jobs[job].take() });
            }
        }
    }
}
