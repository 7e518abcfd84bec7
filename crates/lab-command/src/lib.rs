//! `clearway lab`: runs scenarios in virtual time.

mod across;
mod comparisons;
mod conclusion;
mod disturb;
mod explore;
mod fleet;
mod interruptible;
mod invocation;
mod library;
mod list;
mod matrix;
mod perform;
mod progress;
mod properties;
mod replay;
mod run;
mod seeds_file;
mod selection;
mod sweep;
mod violation;

use clap::{Args, Subcommand};

use clearway_terminal::failure::Failure;

/// Test congestion controllers: scenarios in virtual time.
///
/// A scenario is a TOML file that describes networks, traffic, and what is expected. The real
/// stack, HTTP/3 at both ends, runs over the simulated network; time jumps from one event to the
/// next, so that a minute passes in a fraction of a second. Safety and liveness properties are
/// checked at every event of a run; others are checked by comparing runs. A seed determines
/// everything random: the same seed gives the same bytes.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LabCommand {
    #[command(subcommand)]
    command: LabSubcommand,
}

#[derive(Subcommand, Debug)]
enum LabSubcommand {
    Run(run::RunCommand),
    Sweep(sweep::SweepCommand),
    Across(across::AcrossCommand),
    Explore(explore::ExploreCommand),
    Disturb(disturb::DisturbCommand),
    Fleet(fleet::FleetCommand),
    List(list::ListCommand),
    Properties(properties::PropertiesCommand),
    Replay(replay::ReplayCommand),
}

const AFTER_HELP: &str = "\
Examples:
  List the scenarios:
    clearway lab list
  List the properties that are checked:
    clearway lab properties
  Run all scenarios with every check, and print a table:
    clearway lab run --all
  Run one scenario with ten thousand seeds, for every controller:
    clearway lab sweep collapse --seeds 10000
  Apply one disturbance at every injection point of a connection:
    clearway lab disturb
  Test the load balancer with a thousand changing fleets:
    clearway lab fleet
  Repeat one seed, and write its qlog file:
    clearway lab replay collapse --controller cubic --seed 4711 --qlog run.sqlog";

/// Runs the command.
pub async fn run(command: LabCommand) -> Result<(), Failure> {
    match command.command {
        LabSubcommand::Run(command) => run::run(command).await,
        LabSubcommand::Sweep(command) => sweep::run(command).await,
        LabSubcommand::Across(command) => across::run(command).await,
        LabSubcommand::Explore(command) => explore::run(command).await,
        LabSubcommand::Disturb(command) => disturb::run(command).await,
        LabSubcommand::Fleet(command) => fleet::run(command).await,
        LabSubcommand::List(command) => list::run(&command),
        LabSubcommand::Properties(command) => properties::run(&command),
        LabSubcommand::Replay(command) => replay::run(&command),
    }
}
