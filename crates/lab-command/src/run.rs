//! `clearway lab run`.

use clap::Args;

use super::comparisons::Comparisons;
use super::library::Library;
use super::matrix::Matrix;
use super::perform::{Manner, Traces, Work, perform};
use super::selection::Selection;
use clearway_terminal::failure::Failure;

/// Run scenarios, and compare the results with the expected ones.
///
/// Every variant is run with every controller, with the number of seeds that the scenario defines.
/// The table has a row for each: in how many runs the window fell to its floor, how long runs took
/// in virtual time (median, 99th percentile, longest), and whether all expectations of the scenario
/// were met; if not, which were not. The exit status is 0 only if all expectations were met and no
/// property was violated.
///
/// With --all, the properties that hold across runs are checked too, as by `lab across`, unless
/// --variant is given; their results are in a separate table.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunCommand {
    /// Scenarios: names, as listed by lab list, or files.
    #[arg(value_name = "SCENARIO", required_unless_present = "all", conflicts_with = "all")]
    scenarios: Vec<String>,
    /// Run all scenarios.
    #[arg(long)]
    all: bool,
    /// Number of seeds [default: as many as each scenario defines].
    ///
    /// Comparisons across runs are not affected.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
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
With --json, each line has the format of `lab sweep`, or that of `lab across`, which begins with property.

Examples:
  Run all scenarios:
    clearway lab run --all
  Run two scenarios with CUBIC only:
    clearway lab run collapse blackhole --controller cubic
  Run your own scenario:
    clearway lab run ./my-network.toml --seeds 100";

/// Runs the command.
pub(super) async fn run(command: RunCommand) -> Result<(), Failure> {
    let RunCommand { scenarios, all, seeds, selection, library, manner, traces } = command;
    let scenarios = match all {
        true => library.all()?,
        false => scenarios.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?,
    };
    let comparisons = match all && selection.variants().is_empty() {
        true => Comparisons::new(&[], selection.selected_controllers(), None),
        false => Comparisons::default(),
    };
    let matrix = Some(Matrix::new(scenarios, &selection, 0, seeds)?);
    perform(Work { matrix, comparisons, traces, seeds_file: None }, manner).await
}
