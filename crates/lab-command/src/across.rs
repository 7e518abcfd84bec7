//! `clearway lab across`.

use clap::Args;
use clearway_lab::checker::{Place, Property};

use super::comparisons::Comparisons;
use super::perform::{Manner, Work, perform};
use super::selection::Controllers;
use clearway_terminal::failure::Failure;

/// Check the properties that hold across runs (M1 to M9, Fa to Fd).
///
/// Some properties cannot be checked in a single run: a run and its counterpart in another network
/// must agree, or flows that share a bottleneck must get fair shares. Each property is checked for
/// every controller that it applies to. The table has a row for each comparison: what was compared,
/// the worst value, its bound, and whether the property held; if not, also the seed and the
/// measurements. A row without a bound is for information only. The exit status is 0 only if all
/// properties held. `lab run --all` includes these checks.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AcrossCommand {
    /// Check only these properties, by their IDs.
    #[arg(value_name = "PROPERTY", value_parser = property)]
    properties: Vec<Property>,
    /// Compare only these congestion controllers, separated by commas.
    #[arg(long = "controller", value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// Number of seeds [default: as many as each comparison needs].
    ///
    /// Medians over a few seeds are not meaningful.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    #[command(flatten)]
    manner: Manner,
}

const AFTER_HELP: &str = "\
With --json each line has: property (its ID), controllers (those involved), compared (a description), \
runs (number of runs), figure (the worst value, null if a run did not finish), unit (share, where \
1 is all; index; times; datagrams), at_least and at_most (the bound, null for none), expectations_met, \
details (a description), wall_s (real seconds of all its runs).

Examples:
  Run all comparisons:
    clearway lab across
  Check the fairness between equal flows, with eight seeds:
    clearway lab across Fa --seeds 8
  Show what each ID means:
    clearway lab properties";

fn property(id: &str) -> Result<Property, String> {
    let property = Property::from_id(id).map_err(|error| error.to_string())?;
    match property.place() {
        Place::Across => Ok(property),
        _ => Err(format!("{id} is not a comparison across runs: it is checked in every scenario")),
    }
}

/// Runs the command.
pub(super) async fn run(command: AcrossCommand) -> Result<(), Failure> {
    let AcrossCommand { properties, controllers, seeds, manner } = command;
    let comparisons = Comparisons::new(&properties, &controllers, seeds);
    if comparisons.is_empty() {
        return Err(Failure::new(
            "nothing to compare: no comparison of these properties involves the selected \
             controllers",
        )
        .advise("choose other controllers or properties"));
    }
    perform(Work { comparisons, ..Work::default() }, manner).await
}
