//! `clearway lab explore`.

use std::time::Instant;

use clap::Args;
use clearway::congestion::Algorithm;
use clearway_lab::explore::{Explored, Found, explore};
use serde_json::json;

use super::selection::Controllers;
use crate::failure::Failure;
use crate::output;

/// Search small scopes exhaustively: every controller, every history of a few moves.
///
/// From windows of 2 to 16 datagrams, in slow start and in congestion avoidance, every sequence of moves is
/// made: a burst is sent, all or half is acknowledged, a packet is lost, congestion is marked, the application is
/// idle, a millisecond passes. No move may panic or violate a property of safety; and from every state in which data
/// waits, clean rounds must make the window grow: where they do not, there is a cycle in which a sender is stuck. States
/// that are the same but for the time are looked into once. The exit status is 0 only if nothing was found.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExploreCommand {
    /// Only these congestion controllers, separated by commas.
    #[arg(long = "controller", value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// How many moves a history has at most.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=32))]
    depth: u64,
    /// Print one JSON object per controller, a line each, instead of sentences.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
With --json each line has: controller, depth, states, moves, cycles, violated (a list of property, \
explanation, window, avoids (whether it began in congestion avoidance), path), wall_s (real seconds).

Examples:
  All of them:
    clearway lab explore
  A quick look at one:
    clearway lab explore --controller cubic --depth 6";

/// Runs the command.
pub(super) fn run(command: &ExploreCommand) -> Result<(), Failure> {
    let mut faults = 0_usize;
    for algorithm in Algorithm::ALL.into_iter().filter(|it| command.controllers.has(it.name())) {
        let begin = Instant::now();
        let mut tell = |length: usize, states: usize| {
            let seconds = begin.elapsed().as_secs();
            output::status(&format!("{algorithm}: {length} moves, {states} states, {seconds} s"));
            true
        };
        let explored = explore(algorithm, command.depth as usize, &mut tell);
        faults = faults.saturating_add(explored.faults.len());
        let seconds = begin.elapsed().as_secs_f64();
        let text = if command.json {
            object(algorithm, command.depth, &explored, seconds)
        } else {
            sentences(algorithm, command.depth, &explored)
        };
        output::result(&text)?;
    }
    match faults {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} histories lead to what must not be"))),
    }
}

fn object(algorithm: Algorithm, depth: u64, explored: &Explored, seconds: f64) -> String {
    let violated: Vec<_> = explored
        .faults
        .iter()
        .map(|found| {
            json!({
                "property": found.property, "explanation": found.explanation,
                "window": found.root.window, "avoids": found.root.avoids, "path": path(found),
            })
        })
        .collect();
    json!({
        "controller": algorithm.name(), "depth": depth, "states": explored.states, "moves": explored.moves,
        "cycles": explored.cycles, "violated": violated, "wall_s": seconds,
    })
    .to_string()
}

fn sentences(algorithm: Algorithm, depth: u64, explored: &Explored) -> String {
    let Explored { states, moves, cycles, faults } = explored;
    let mut text = format!(
        "{algorithm}: {states} states in histories of up to {depth} moves ({moves} moves made); cycles in which the window \
         does not grow: {cycles}"
    );
    for found in faults {
        let start = if found.root.avoids { "congestion avoidance" } else { "slow start" };
        text.push_str(&format!(
            "\n  {}: {}\n    from a window of {} datagrams in {start}: {}",
            found.property,
            found.explanation,
            found.root.window,
            path(found)
        ));
    }
    text
}

fn path(found: &Found) -> String {
    let moves: Vec<String> = found.path.iter().map(|step| format!("{step:?}")).collect();
    moves.join(", ")
}
