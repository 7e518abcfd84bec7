//! Runs a matrix and comparisons on all cores, shows the progress, and prints the results.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use clearway_lab::report::{AcrossRow, Row, across_json, across_table, json, table};
use clearway_lab::sweep::{Event, Job, Swept, sweep};

use super::comparisons::{Comparisons, Pending};
use super::conclusion::conclude;
use super::interruptible::{Words, interruptible};
use super::matrix::Matrix;
use super::progress::Progress;
use super::seeds_file::SeedsFile;
use super::violation;
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// Options for running and printing.
#[derive(Args, Debug)]
pub(super) struct Manner {
    /// Number of runs in parallel [default: the number of cores].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print one JSON object per controller and variant instead of the table.
    #[arg(long)]
    json: bool,
    /// Continue a run that violates a property, to report its time as well.
    ///
    /// The exit status is the same. A run in which time no longer advances ends anyway.
    #[arg(long)]
    keep_going: bool,
}

/// The option for the qlog files of failed runs.
#[derive(Args, Debug, Default)]
pub(super) struct Traces {
    /// Folder for the qlog files of runs that violated a property.
    #[arg(long, value_name = "DIR", default_value = "target/lab")]
    qlog: PathBuf,
}

/// The matrix and the comparisons to run.
#[derive(Default)]
pub(super) struct Work {
    pub(super) matrix: Option<Matrix>,
    pub(super) comparisons: Comparisons,
    pub(super) traces: Traces,
    /// The file to which the result of every seed of the matrix is written.
    pub(super) seeds_file: Option<SeedsFile>,
}

/// Runs `work`. If it is interrupted, the rows that are complete are printed.
///
/// # Errors
///
/// Returns an error if any result is not as expected or cannot be written, or the work was
/// interrupted.
pub(super) async fn perform(work: Work, manner: Manner) -> Result<(), Failure> {
    let words = Words {
        on_interrupt: "interrupted: completing the runs in progress; interrupt again to stop \
            immediately",
        undone: "some seeds were not run",
    };
    interruptible(move |is_ended| perform_blocking(work, &manner, is_ended), words).await
}

fn perform_blocking(work: Work, manner: &Manner, is_ended: &AtomicBool) -> Result<(), Failure> {
    let Work { matrix, comparisons, traces, seeds_file } = work;
    let matrix_jobs = matrix.iter().flat_map(Matrix::views).map(|view| view.job());
    let goes_on = manner.keep_going;
    let jobs: Vec<Job<'_>> =
        matrix_jobs.chain(comparisons.jobs()).map(|job| Job { goes_on, ..job }).collect();
    let rows = Rows {
        matrix: matrix.as_ref(),
        cells: jobs.len() - comparisons.jobs().count(),
        pending: comparisons.pending(),
        json: manner.json,
        traces: &traces,
        seeds_file,
        rows: Vec::new(),
        across: Vec::new(),
        failure: None,
    };
    rows.perform(&jobs, manner.threads, is_ended)
}

/// Collects the results of runs, and creates rows from them.
struct Rows<'a> {
    matrix: Option<&'a Matrix>,
    /// Number of jobs that belong to the matrix; these jobs come first.
    cells: usize,
    pending: Pending<'a>,
    json: bool,
    traces: &'a Traces,
    seeds_file: Option<SeedsFile>,
    rows: Vec<Row>,
    /// The rows of the comparisons, each with its index in the table.
    across: Vec<(usize, AcrossRow)>,
    /// The first failure to write a result.
    failure: Option<Failure>,
}

impl Rows<'_> {
    fn perform(
        mut self,
        jobs: &[Job<'_>],
        threads: Option<u16>,
        is_ended: &AtomicBool,
    ) -> Result<(), Failure> {
        let costs: Vec<u64> = jobs.iter().map(Job::cost).collect();
        let all_runs = jobs.iter().map(|job| job.count() as u64).sum();
        let all_cost = jobs.iter().map(|job| job.cost().saturating_mul(job.count() as u64));
        let mut progress =
            Progress::start(all_runs, all_cost.fold(0, |sum: u64, it| sum.saturating_add(it)));
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.map_or_else(cores, usize::from);
        sweep(jobs, threads, is_ended, &mut |event| match event {
            Event::RunDone { job } => progress.add(costs.get(job).copied().unwrap_or(0)),
            Event::JobDone { job, swept } => {
                let reported = progress.around(|| self.on_job(job, swept));
                if let Err(failure) = reported {
                    self.failure.get_or_insert(failure);
                    // The results of the remaining runs could not be shown.
                    is_ended.store(true, Ordering::Relaxed);
                }
            }
        })
        .map_err(|error| Failure::new(error.to_string()))?;
        drop(progress);
        self.conclude()
    }

    /// Processes the result of a job. The result is partial if the job was interrupted.
    fn on_job(&mut self, job: usize, swept: Swept) -> Result<(), Failure> {
        match job.checked_sub(self.cells) {
            None => self.on_cell(job, &swept),
            Some(number) => self.on_comparison(number, swept),
        }
    }

    /// Processes the result of a variant with a controller. The result is partial if the job was
    /// interrupted.
    fn on_cell(&mut self, cell: usize, swept: &Swept) -> Result<(), Failure> {
        let Some(view) = self.matrix.and_then(|matrix| matrix.view(cell)) else { return Ok(()) };
        let row = view.row(swept);
        if self.json {
            let line = json(&row).map_err(|error| Failure::new(error.to_string()))?;
            output::result(&line)?;
        }
        let culprit = swept.runs.iter().find(|run| run.outcome.violation.is_some());
        let text = match culprit {
            Some(run) => violation::explain(&view, run, &self.traces.qlog),
            None => violation::explain_unmet(&view, &row),
        };
        if let Some(text) = text {
            output::status_lines(&text);
        }
        self.rows.push(row);
        self.seeds_file.as_mut().map_or(Ok(()), |file| file.add(&view, swept))
    }

    /// Processes the result of one job of a comparison. The result is partial if the job was
    /// interrupted.
    fn on_comparison(&mut self, number: usize, swept: Swept) -> Result<(), Failure> {
        let Some((place, row)) = self.pending.add(number, swept) else { return Ok(()) };
        if self.json {
            let line = across_json(&row).map_err(|error| Failure::new(error.to_string()))?;
            output::result(&line)?;
        }
        self.across.push((place, row));
        Ok(())
    }

    fn conclude(mut self) -> Result<(), Failure> {
        self.across.sort_by_key(|(place, _)| *place);
        let across: Vec<_> = self.across.into_iter().map(|(_, row)| row).collect();
        if !self.json {
            let tables = [
                (!self.rows.is_empty()).then(|| table(&self.rows)),
                (!across.is_empty()).then(|| across_table(&across)),
            ];
            let tables: Vec<_> = tables.into_iter().flatten().collect();
            if !tables.is_empty() {
                output::result(&tables.join("\n\n"))?;
            }
        }
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.seeds_file.map_or(Ok(()), SeedsFile::finish)?;
        conclude(&self.rows, &across)
    }
}
