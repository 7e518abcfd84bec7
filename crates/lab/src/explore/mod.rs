//! Small scope, exhaustively: every controller, every history of a few moves.
//!
//! From windows of 2 to 16 datagrams, in slow start and in congestion avoidance, every sequence of [`Move`]s up to some
//! length is made, with one real [`Controller`](clearway_congestion::Controller), pacer and sampler. States that are
//! the same but for the time are looked into once. At every move the rules of safety are asked. From every state in
//! which data waits, clean rounds follow, in a few rhythms: in none may the window stay as it is. That would be a
//! cycle in which a sender is stuck for ever.

mod canonical;
mod rules;
mod sender;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clearway_congestion::{Algorithm, Phase};

use self::canonical::canonical;
use self::rules::{Boundary, Fault, Rules};
use self::sender::{SIZE, Sender};
use crate::checker::Property;

pub use self::sender::Move;

/// The windows to begin with, in datagrams.
const WINDOWS: core::ops::RangeInclusive<u64> = 2..=16;
/// What has grown beyond this is not looked into further: it grows.
const LARGEST: u64 = 16;
/// The largest window that a controller may have, so that there is room to grow.
const MAXIMUM: u64 = 64;
/// So many clean rounds are enough for any of them to grow.
const CLEAN_ROUNDS: u32 = 80;
/// In which rhythm acknowledgements come in clean rounds.
const RHYTHMS: [&[Move]; 4] = [
    &[Move::AckAll],
    &[Move::AckHalf],
    &[Move::Tick, Move::AckAll],
    &[Move::AckHalf, Move::Tick, Move::AckAll],
];

/// What the search found for one controller.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Explored {
    /// States that are not the same.
    pub states: usize,
    /// Moves that were made.
    pub moves: u64,
    /// Clean rounds in which a window did not grow.
    pub cycles: usize,
    /// The first few faults.
    pub faults: Vec<Found>,
}

/// A fault, and how to come there.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// What is violated, by its ID.
    pub property: &'static str,
    /// What was seen.
    pub explanation: String,
    /// The window to begin with, in datagrams, and whether in congestion avoidance.
    pub root: Root,
    /// The moves, the last one included.
    pub path: Vec<Move>,
}

/// Where a search begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The window, in datagrams.
    pub window: u64,
    /// A loss has ended slow start, and recovery is over.
    pub avoids: bool,
}

/// How many faults are kept.
const KEPT: usize = 8;

/// A history.
#[derive(Clone, Debug)]
struct Path {
    root: Root,
    moves: Vec<Move>,
}

/// Makes all histories of up to `depth` moves with `algorithm`; `on_level` is told of each length that is done, with
/// the states seen so far, and says whether to go on.
pub fn explore(
    algorithm: Algorithm,
    depth: usize,
    on_level: &mut dyn FnMut(usize, usize) -> bool,
) -> Explored {
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    let roots = WINDOWS.flat_map(|window| [false, true].map(|avoids| Root { window, avoids }));
    let mut level: Vec<Path> = roots.map(|root| Path { root, moves: Vec::new() }).collect();
    for length in 1..=depth {
        let mut next = Vec::new();
        for path in &level {
            for step in Move::ALL {
                explored.follow(algorithm, path, step, &mut seen, &mut next);
            }
        }
        level = next;
        explored.states = seen.len();
        if !on_level(length, seen.len()) || level.is_empty() {
            break;
        }
    }
    explored
}

impl Explored {
    /// Makes `step` after `path`, if it can be made, and goes on from there if that is a new state.
    fn follow(
        &mut self,
        algorithm: Algorithm,
        path: &Path,
        step: Move,
        seen: &mut HashSet<u64>,
        next: &mut Vec<Path>,
    ) {
        let mut path = path.clone();
        path.moves.push(step);
        let walked = catch_unwind(AssertUnwindSafe(|| walk(algorithm, &path)));
        let walked = walked.unwrap_or_else(|_| Err((Property::S3, "a panic".to_owned())));
        self.moves += 1;
        match walked {
            Err(fault) => self.keep(&path, fault),
            Ok(None) => {}
            Ok(Some(state)) if !seen.insert(state) => {}
            Ok(Some(_)) => {
                if let Err(fault) = stays_live(algorithm, &path) {
                    self.cycles += 1;
                    self.keep(&path, fault);
                }
                next.push(path);
            }
        }
    }

    fn keep(&mut self, path: &Path, (property, explanation): Fault) {
        if self.faults.len() < KEPT {
            let (root, moves) = (path.root, path.moves.clone());
            let property = property.id();
            self.faults.push(Found { property, explanation, root, path: moves });
        }
    }
}

/// A sender at the beginning of `root`, and where its last cut was.
fn begin(algorithm: Algorithm, root: Root) -> (Sender, Boundary) {
    let rules = Rules::new(algorithm.name(), MAXIMUM);
    let mut sender = Sender::new(&algorithm, root.window, MAXIMUM);
    let mut boundary = Boundary::default();
    let opening: &[Move] = match root.avoids {
        true => &[Move::SendBurst, Move::LoseOne, Move::AckAll, Move::SendBurst],
        false => &[Move::SendBurst],
    };
    for step in opening {
        if sender.permits(*step) {
            let made = sender.make(*step);
            // The opening is a part of other histories, where faults are reported.
            let _ = rules.check(&made, &mut boundary);
        }
    }
    (sender, boundary)
}

/// Makes all moves of `path`. Gives the state that it comes to; none if a move cannot be made, or if the window is
/// larger than what is explored.
fn walk(algorithm: Algorithm, path: &Path) -> Result<Option<u64>, Fault> {
    let rules = Rules::new(algorithm.name(), MAXIMUM);
    let (mut sender, mut boundary) = begin(algorithm, path.root);
    for step in &path.moves {
        if !sender.permits(*step) {
            return Ok(None);
        }
        rules.check(&sender.make(*step), &mut boundary)?;
    }
    let is_small = sender.controller.window() <= LARGEST * SIZE;
    Ok(is_small.then(|| canonical(&sender)))
}

/// From the end of `path` on, data waits and nothing is lost: the window has to grow.
fn stays_live(algorithm: Algorithm, path: &Path) -> Result<(), Fault> {
    for rhythm in RHYTHMS {
        let (mut sender, _) = begin(algorithm, path.root);
        for step in &path.moves {
            sender.make(*step);
        }
        let begin = budget(&sender);
        let mut is_grown = false;
        for _ in 0..CLEAN_ROUNDS {
            for step in [Move::SendBurst].iter().chain(rhythm) {
                if sender.permits(*step) {
                    sender.make(*step);
                }
            }
            is_grown = budget(&sender) > begin;
            if is_grown {
                break;
            }
        }
        if !is_grown {
            let explanation = format!(
                "after {CLEAN_ROUNDS} clean rounds of {rhythm:?} the window is {}, as it was",
                sender.controller.window()
            );
            return Err((Property::L1, explanation));
        }
    }
    Ok(())
}

/// What has to grow: the window that recovery leads to, or the window.
fn budget(sender: &Sender) -> u64 {
    let snapshot = sender.controller.snapshot();
    match (snapshot.phase, snapshot.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => snapshot.window,
    }
}

#[cfg(test)]
mod tests;
