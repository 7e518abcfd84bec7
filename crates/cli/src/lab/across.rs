//! `clearway lab across`.

use clap::Args;
use clearway_lab::checker::{Place, Property};

use super::comparisons::Comparisons;
use super::perform::{Manner, Work, perform};
use super::selection::Controllers;
use crate::failure::Failure;

/// Judge the properties that hold across runs (M1 to M9, Fa to Fd).
///
/// Some properties no single run can show: a run and its twin in another network have to agree, or
/// flows that share a bottleneck have to get fair shares. Each is asked of every controller that it applies
/// to. The table has a row for each: what was compared, the worst figure, its bound, and whether it held;
/// if not, which seed it was and what was measured. A row without a bound is a figure to look at. The exit
/// status is 0 only if all held. `lab run --all` does this too.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AcrossCommand {
    /// Only these properties, by their IDs.
    #[arg(value_name = "PROPERTY", value_parser = property)]
    properties: Vec<Property>,
    /// Only comparisons in which one of these congestion controllers takes part, separated by commas.
    #[arg(long = "controller", value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// How many seeds, instead of as many as each comparison needs. Medians of few seeds say little.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    #[command(flatten)]
    manner: Manner,
}

const AFTER_HELP: &str = "\
With --json each line has: property (its ID), controllers (those that took part), compared (what, in \
words), runs (how many it took), figure (the worst one, null if a run did not finish), unit (share: 1 is \
all; index; times; datagrams), at_least and at_most (the bound, null for none), expectations_met, details \
(in words), wall_s (real seconds of its runs, added up).

Examples:
  All of them:
    clearway lab across
  Fairness between flows of one kind, with eight seeds:
    clearway lab across Fa --seeds 8
  What each ID means:
    clearway lab properties";

fn property(id: &str) -> Result<Property, String> {
    let property = Property::from_id(id).map_err(|error| error.to_string())?;
    match property.place() {
        Place::Across => Ok(property),
        _ => Err(format!("{id} does not hold across runs: every scenario checks it")),
    }
}

/// Runs the command.
pub(super) async fn run(command: AcrossCommand) -> Result<(), Failure> {
    let AcrossCommand { properties, controllers, seeds, manner } = command;
    let comparisons = Comparisons::new(&properties, &controllers, seeds);
    if comparisons.is_empty() {
        return Err(Failure::new("there is nothing to compare: no such controller takes part"));
    }
    perform(Work { comparisons, ..Work::default() }, manner).await
}
