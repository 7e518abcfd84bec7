//! Runs a matrix on all cores, shows how far it is, and prints what comes of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use clearway_lab::report::{Row, json, table};
use clearway_lab::sweep::{Event, Job, Options, Swept, sweep};

use super::conclusion::conclude;
use super::matrix::Matrix;
use super::progress::Progress;
use super::seeds_file::SeedsFile;
use super::violation;
use crate::failure::Failure;
use crate::interrupt::{Ended, Interrupt};
use crate::output;

/// How a matrix is run.
#[derive(Args, Debug)]
pub(super) struct Manner {
    /// How many runs go on at a time [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print one JSON object per controller and variant, a line each, instead of the table.
    #[arg(long)]
    json: bool,
    /// Where the qlog file of a run is left that violated a property.
    #[arg(long, value_name = "DIR", default_value = "target/lab")]
    qlog: PathBuf,
}

/// Runs `matrix`. Interrupted, it prints what is complete.
///
/// # Errors
///
/// If anything is not as expected, cannot be written, or was interrupted.
pub(super) async fn perform(
    matrix: Matrix,
    manner: Manner,
    seeds_file: Option<SeedsFile>,
) -> Result<(), Failure> {
    let mut interrupt = Interrupt::listen()?;
    let is_ended = Arc::new(AtomicBool::new(false));
    let work = {
        let is_ended = is_ended.clone();
        move || Performance::new(&matrix, &manner, seeds_file, &is_ended).perform()
    };
    let mut work = tokio::task::spawn_blocking(work);
    let mut signal: Option<Ended> = None;
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            heard = interrupt.heard() => {
                if signal.replace(heard).is_some() {
                    return Err(Failure::interrupted(heard, "interrupted"));
                }
                is_ended.store(true, Ordering::Relaxed);
                output::status("interrupted: completing the runs that have begun; again to end now");
            }
        }
    };
    let outcome =
        outcome.unwrap_or_else(|error| Err(Failure::new(format!("the sweep failed: {error}"))));
    match signal {
        None => outcome,
        Some(signal) => {
            let unmet = outcome.err().map_or_else(String::new, |failure| format!("; {failure}"));
            let what = format!("interrupted: only a part of the seeds was run{unmet}");
            Err(Failure::interrupted(signal, what))
        }
    }
}

struct Performance<'a> {
    matrix: &'a Matrix,
    manner: &'a Manner,
    seeds_file: Option<SeedsFile>,
    is_ended: &'a AtomicBool,
    rows: Vec<Row>,
    /// The first thing that could not be written.
    failure: Option<Failure>,
}

impl<'a> Performance<'a> {
    fn new(
        matrix: &'a Matrix,
        manner: &'a Manner,
        seeds_file: Option<SeedsFile>,
        is_ended: &'a AtomicBool,
    ) -> Self {
        Self { matrix, manner, seeds_file, is_ended, rows: Vec::new(), failure: None }
    }

    fn perform(mut self) -> Result<(), Failure> {
        let jobs: Vec<Job<'_>> = self.matrix.views().map(|view| view.job()).collect();
        let costs: Vec<u64> = jobs.iter().map(Job::cost).collect();
        let all_runs = jobs.iter().map(|job| job.count() as u64).sum();
        let all_cost = jobs.iter().map(|job| job.cost().saturating_mul(job.count() as u64));
        let mut progress =
            Progress::start(all_runs, all_cost.fold(0, |sum: u64, it| sum.saturating_add(it)));
        let is_ended = self.is_ended;
        sweep(&jobs, self.options(), is_ended, &mut |event| match event {
            Event::RunDone { job } => progress.add(costs.get(job).copied().unwrap_or(0)),
            Event::JobDone { job, swept } => {
                let told = progress.around(|| self.tell(job, &swept));
                if let Err(failure) = told {
                    self.failure.get_or_insert(failure);
                    // Nobody would see the rest.
                    is_ended.store(true, Ordering::Relaxed);
                }
            }
        })
        .map_err(|error| Failure::new(error.to_string()))?;
        drop(progress);
        self.conclude()
    }

    fn options(&self) -> Options {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        Options { threads: self.manner.threads.map_or_else(cores, usize::from), check: true }
    }

    /// A variant with a controller is complete, or as complete as it gets.
    fn tell(&mut self, job: usize, swept: &Swept) -> Result<(), Failure> {
        let Some(view) = self.matrix.view(job) else { return Ok(()) };
        let row = view.row(swept);
        if self.manner.json {
            let line = json(&row).map_err(|error| Failure::new(error.to_string()))?;
            output::result(&line)?;
        }
        let culprit = swept.runs.iter().find(|run| run.outcome.violation.is_some());
        if let Some(text) =
            culprit.and_then(|run| violation::explain(&view, run, &self.manner.qlog))
        {
            output::status(&text);
        }
        self.rows.push(row);
        self.seeds_file.as_mut().map_or(Ok(()), |file| file.add(&view, swept))
    }

    fn conclude(self) -> Result<(), Failure> {
        if !self.manner.json && !self.rows.is_empty() {
            output::result(&table(&self.rows))?;
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.seeds_file.map_or(Ok(()), SeedsFile::finish)?;
        conclude(&self.rows)
    }
}
