//! `clearway lab run`.

use clap::Args;

use super::library::Library;
use super::matrix::Matrix;
use super::perform::{Manner, perform};
use super::selection::Selection;
use crate::failure::Failure;

/// Run scenarios with as many seeds as they say, and hold the outcome against what they expect.
///
/// Every variant is run with every controller. The table has a row for each: in how many runs the
/// window came down to its floor, how long runs took in virtual time (median, 99th percentile, longest),
/// and whether all was as the scenario expects; if not, in words what was not. The exit status is 0 only
/// if everything was, and no property was violated.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunCommand {
    /// Scenarios: names in the folder of scenarios, or files.
    #[arg(value_name = "SCENARIO", required_unless_present = "all", conflicts_with = "all")]
    scenarios: Vec<String>,
    /// All scenarios of the folder.
    #[arg(long)]
    all: bool,
    /// How many seeds, instead of as many as each scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    library: Library,
    #[command(flatten)]
    manner: Manner,
}

const AFTER_HELP: &str = "\
Examples:
  The whole set:
    clearway lab run --all
  Two scenarios, CUBIC only:
    clearway lab run collapse blackhole --controller cubic
  A scenario of your own:
    clearway lab run ./my-network.toml --seeds 100";

/// Runs the command.
pub(super) async fn run(command: RunCommand) -> Result<(), Failure> {
    let RunCommand { scenarios, all, seeds, selection, library, manner } = command;
    let scenarios = match all {
        true => library.all()?,
        false => scenarios.iter().map(|name| library.find(name)).collect::<Result<_, _>>()?,
    };
    perform(Matrix::new(scenarios, &selection, 0, seeds)?, manner, None).await
}
