//! Performs many runs on all cores.
//!
//! Runs are assigned one after the other, in order of jobs and seeds, to any idle thread. The
//! results are then sorted, so that they do not depend on thread scheduling. When a sweep is ended
//! early, no more runs are assigned; those that have begun are completed, so that the results
//! belong to the first seeds of a job without a gap.

mod collect;
mod job;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use crate::run::{Extras, Outcome, RunError, run};
use crate::world::Stop;
use collect::Collector;
pub use job::Job;

/// One run of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The seed of the run.
    pub seed: u64,
    /// The outcome of the run.
    pub outcome: Outcome,
}

/// The results of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Swept {
    /// The runs in order of their seeds; incomplete if the sweep was ended early.
    pub runs: Vec<Run>,
    /// Real time from the beginning of the job's first run to the end of its last run.
    pub wall: Duration,
}

/// An event that a sweep reports while it is running.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A run of a job has ended.
    RunDone {
        /// The index of the job.
        job: usize,
    },
    /// All runs of a job have ended, and all jobs before it have been reported.
    JobDone {
        /// The index of the job.
        job: usize,
        /// The results of the job.
        swept: Swept,
    },
}

/// A completed run, as a thread returns it.
struct Done {
    job: usize,
    seed: u64,
    outcome: Outcome,
    began: Instant,
    ended: Instant,
}

/// Performs `jobs` on `threads` threads, at least one, and reports progress to `on_event` on the
/// calling thread. Ends early once `is_ended` is set. In that case, jobs that have begun are
/// reported with their completed runs, and other jobs are not reported.
///
/// # Errors
/// Returns an error if any job cannot be run; in that case, none is run.
pub fn sweep(
    jobs: &[Job<'_>],
    threads: usize,
    is_ended: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), RunError> {
    for job in jobs {
        crate::run::validate(job.setup, job.candidate)?;
    }
    let next = AtomicUsize::new(0);
    let ends = job::ends(jobs);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let (sender, next, ends) = (sender.clone(), &next, &ends);
            scope.spawn(move || work(jobs, ends, next, is_ended, &sender));
        }
        drop(sender);
        let mut collector = Collector::new(jobs);
        for done in receiver {
            collector.add(done, on_event);
        }
        collector.finish(on_event);
    });
    Ok(())
}

/// Runs the loop of a worker thread, which takes the next run until none are left.
fn work(
    jobs: &[Job<'_>],
    ends: &[usize],
    next: &AtomicUsize,
    is_ended: &AtomicBool,
    sender: &Sender<Done>,
) {
    while !is_ended.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some((job, seed)) = job::locate(jobs, ends, number) else { return };
        let began = Instant::now();
        let outcome = perform(&jobs[job], seed);
        let done = Done { job, seed, outcome, began, ended: Instant::now() };
        if sender.send(done).is_err() {
            return;
        }
    }
}

/// Performs a run. A panic is reported as an outcome like any other, because it belongs to a seed
/// that can be replayed.
fn perform(job: &Job<'_>, seed: u64) -> Outcome {
    let Job { check, goes_on, sample_every, .. } = *job;
    let extras = Extras { check, goes_on, sample_every, ..Extras::default() };
    let attempt = AssertUnwindSafe(|| run(job.setup, job.candidate, seed, extras));
    match catch_unwind(attempt) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::stopped(Stop::Broken(error.to_string())),
        Err(panic) => Outcome::stopped(Stop::Broken(panic_text(&*panic))),
    }
}

fn panic_text(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without a message"))
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
