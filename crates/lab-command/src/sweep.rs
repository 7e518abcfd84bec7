//! `clearway lab sweep`.

use std::path::PathBuf;

use clap::Args;

use super::library::Library;
use super::matrix::Matrix;
use super::perform::{Manner, Traces, Work, perform};
use super::seeds_file::SeedsFile;
use super::selection::Selection;
use clearway_terminal::failure::Failure;

/// Run a scenario with a large number of seeds.
///
/// Each variant gets its share of the seeds. Interrupt it (Ctrl-C) to get the results of the seeds
/// that were run so far; interrupt it again to end immediately. The exit status is 0 only if all
/// expectations were met, no property was violated, and all seeds were run.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SweepCommand {
    /// Scenarios: names, as listed by lab list, or files.
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<String>,
    /// Number of seeds.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    first_seed: u64,
    /// Write the result of each seed to this file, as JSON lines.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    library: Library,
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    traces: Traces,
}

const AFTER_HELP: &str = "\
With --json, each line has: scenario, controller, variant, seeds (number of runs), finished (number of \
finished runs), violations (number of runs in which the checker detected a violation), floor_reached \
(the share of the runs, 0 to 1), p50_s, p99_s, max_s (virtual seconds, null for never), wall_s (real \
seconds), complete, expectations_met, unmet (descriptions), unchecked (expectations that were not checked, \
because runs ended early), unfinished_seeds, late_seeds (later than a bound that was missed, or not \
finished), violating_seeds (those of violations; each list has the first few), violated (a list of \
property, runs, seed, at_s: the violations, and the properties that unmet bounds violate, such as L9 for \
late runs), references, shares (a list of flow, least, mean, most: of all content, 0 to 1).

Examples:
  Run ten thousand collapses for each controller:
    clearway lab sweep collapse --seeds 10000
  Run the scenario without its variants, and write the result of each seed:
    clearway lab sweep collapse --variant base --controller cubic --out seeds.json";

/// Runs the command.
pub(super) async fn run(command: SweepCommand) -> Result<(), Failure> {
    let SweepCommand { scenarios, seeds, first_seed, out, selection, library, manner, traces } =
        command;
    let find = |name: &String| library.find(name);
    let scenarios = scenarios.iter().map(find).collect::<Result<_, _>>()?;
    let matrix = Matrix::new(scenarios, &selection, first_seed, Some(seeds))?;
    let seeds_file = out.as_deref().map(SeedsFile::create).transpose()?;
    let work = Work { matrix: Some(matrix), traces, seeds_file, ..Work::default() };
    perform(work, manner).await
}
