//! `clearway lab run`.

use clap::Args;

use super::comparisons::Comparisons;
use super::library::Library;
use super::matrix::Matrix;
use super::perform::{Manner, Traces, Work, perform};
use super::selection::Selection;
use crate::failure::Failure;

/// Run scenarios with as many seeds as they say, and hold the outcome against what they expect.
///
/// Every variant is run with every controller. The table has a row for each: in how many runs the
/// window came down to its floor, how long runs took in virtual time (median, 99th percentile, longest),
/// and whether all was as the scenario expects; if not, in words what was not. The exit status is 0 only
/// if everything was, and no property was violated.
///
/// With --all the properties that hold across runs are judged too, as by `lab across`, unless only some
/// variants were asked for; they have a table of their own.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunCommand {
    /// Scenarios: names in the folder of scenarios, or files.
    #[arg(value_name = "SCENARIO", required_unless_present = "all", conflicts_with = "all")]
    scenarios: Vec<String>,
    /// All scenarios of the folder.
    #[arg(long)]
    all: bool,
    /// How many seeds, instead of as many as each scenario says. Comparisons across runs have their own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
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
With --json each line is that of `lab sweep`, or that of `lab across`, which begins with property.

Examples:
  The whole set:
    clearway lab run --all
  Two scenarios, CUBIC only:
    clearway lab run collapse blackhole --controller cubic
  A scenario of your own:
    clearway lab run ./my-network.toml --seeds 100";

/// Runs the command.
pub(super) async fn run(command: RunCommand) -> Result<(), Failure> {
    let RunCommand { scenarios, all, seeds, selection, library, manner, traces } = command;
    let scenarios = match all {
        true => library.all()?,
        false => scenarios.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?,
    };
    let comparisons = match all && selection.variants().is_empty() {
        true => Comparisons::new(&[], selection.asked(), None),
        false => Comparisons::default(),
    };
    let matrix = Some(Matrix::new(scenarios, &selection, 0, seeds)?);
    perform(Work { matrix, comparisons, traces, seeds_file: None }, manner).await
}
