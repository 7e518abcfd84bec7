//! `clearway lab explore`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use clearway_congestion::Algorithm;
use clearway_lab::explore::{Explored, Found, Manner, Progress, explore_algorithm};
use serde_json::json;

use super::interruptible::{Words, interruptible};
use super::selection::Controllers;
use clearway_terminal::failure::Failure;
use clearway_terminal::output;

/// Interval at which the progress of a search is printed. Progress is also printed when all
/// sequences of one length have been explored.
const INTERVAL: Duration = Duration::from_secs(10);

/// Enumerate all short event sequences of every controller.
///
/// From windows of 2 to 16 datagrams, in slow start and in congestion avoidance, every sequence of
/// moves is tried: a burst is sent, all or half is acknowledged, a packet is lost, a congestion mark
/// (ECN-CE) is reported, the application is idle, a second passes. No move may panic or violate a
/// safety property; and from every state in which data waits, round trips without loss must make
/// the window grow: otherwise, a sender can get stuck in a cycle. States that differ only in time
/// are explored once. The exit status is 0 only if nothing was found.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ExploreCommand {
    /// Search only these congestion controllers, separated by commas.
    #[arg(long = "controller", value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// Maximum number of moves in a sequence.
    #[arg(long, value_name = "COUNT", default_value_t = 12, value_parser = clap::value_parser!(u8).range(1..=32))]
    depth: u8,
    /// Number of threads [default: the number of cores].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print one JSON object per controller, a line each, instead of sentences.
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
With --json each line has: controller, depth, states, moves, cycles, faults (number of faults; the \
search ends after eight), complete (whether all sequences were explored), levels (number of states first \
reached after 0, 1, 2 ... moves), violated (a list of property, explanation, window, avoids (whether it \
starts in congestion avoidance), path), wall_s (real seconds).

Examples:
  Search all controllers:
    clearway lab explore
  Quickly check one controller:
    clearway lab explore --controller cubic --depth 6";

/// Runs the command.
pub(super) async fn run(command: ExploreCommand) -> Result<(), Failure> {
    let words = Words {
        on_interrupt: "interrupted: printing the results so far; interrupt again to stop \
            immediately",
        undone: "some sequences were not explored",
    };
    interruptible(move |is_ended| search(&command, is_ended), words).await
}

fn search(command: &ExploreCommand, is_ended: &AtomicBool) -> Result<(), Failure> {
    let threads = command.threads.map_or_else(cores, usize::from);
    let manner = Manner { depth: command.depth.into(), threads };
    let mut faults = 0_usize;
    for algorithm in Algorithm::ALL.into_iter().filter(|it| command.controllers.has(it.name())) {
        if is_ended.load(Ordering::Relaxed) {
            break;
        }
        let mut reporter = Reporter::new(algorithm);
        let begin = Instant::now();
        let explored = explore_algorithm(algorithm, manner, is_ended, &mut |progress| {
            reporter.report(progress)
        });
        let unknown =
            || Failure::new(format!("exploring {} is not supported yet", algorithm.name()));
        let explored = explored.ok_or_else(unknown)?;
        let seconds = begin.elapsed().as_secs_f64();
        faults = faults.saturating_add(explored.faults.len());
        let text = if command.json {
            object(algorithm, command.depth, &explored, seconds)
        } else {
            sentences(algorithm, &explored, seconds)
        };
        output::result(&text)?;
    }
    match faults {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} sequences violate a property"))),
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Prints the progress of a search periodically.
struct Reporter {
    algorithm: Algorithm,
    begin: Instant,
    last: Instant,
}

impl Reporter {
    fn new(algorithm: Algorithm) -> Self {
        let begin = Instant::now();
        Self { algorithm, begin, last: begin }
    }

    fn report(&mut self, progress: Progress) {
        let Progress { length, done, all, states } = progress;
        if done < all && self.last.elapsed() < INTERVAL {
            return;
        }
        self.last = Instant::now();
        let (name, seconds) = (self.algorithm, self.begin.elapsed().as_secs());
        output::status(&format!(
            "{name}: {done} of {all} sequences of {length} moves, {states} states, {seconds} s"
        ));
    }
}

fn object(algorithm: Algorithm, depth: u8, explored: &Explored, seconds: f64) -> String {
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
        "controller": algorithm.name(), "depth": depth, "states": explored.states(), "moves": explored.moves,
        "cycles": explored.cycles, "faults": explored.faults.len(), "complete": explored.is_complete,
        "levels": explored.levels, "violated": violated, "wall_s": seconds,
    })
    .to_string()
}

fn sentences(algorithm: Algorithm, explored: &Explored, seconds: f64) -> String {
    let Explored { levels, moves, cycles, faults, is_complete } = explored;
    let (states, length) = (explored.states(), levels.len().saturating_sub(1));
    let end = if *is_complete { "" } else { ", but some of the longest were not explored" };
    let mut text = format!(
        "{algorithm}: {states} states in sequences of up to {length} moves{end} ({moves} moves \
         performed, {seconds:.1} s); cycles in which the window does not grow: {cycles}"
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
