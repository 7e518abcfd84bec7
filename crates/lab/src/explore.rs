//! An exhaustive search at a small scope: every controller, every history of a few moves.
//!
//! From windows of 2 to 16 datagrams, in slow start and in congestion avoidance, every sequence of [`Move`]s up to some
//! length is run, with one real [`Controller`], pacer and sampler. States that differ only in time are explored once. The
//! rules of safety are checked at every move. Every state is then followed by clean rounds in which data waits, in a few
//! rhythms. In none of them may the window stay the same: that would be a cycle in which a sender is stuck for ever.

mod canonical;
mod cursor;
mod hashing;
mod liveness;
mod moves;
mod rules;
mod search;
mod sender;

use std::sync::atomic::AtomicBool;

use clearway_congestion::{Algorithm, Bbr, Controller, ControllerParameters, Cubic, Inspect, Reno};

use self::search::Search;

pub use self::moves::Move;

/// What a search found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Explored {
    /// How many states were met first after so many moves, from none on.
    pub levels: Vec<usize>,
    /// Moves that were made.
    pub moves: u64,
    /// States from which clean rounds follow in which a window does not grow as it should.
    pub cycles: usize,
    /// The first few faults.
    pub faults: Vec<Found>,
    /// All histories of the depth that was asked for were looked into.
    pub is_complete: bool,
}

impl Explored {
    /// States that are not the same.
    pub fn states(&self) -> usize {
        self.levels.iter().sum()
    }
}

/// A fault, and how to come there.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// What is violated, by its ID.
    pub property: &'static str,
    /// What was observed.
    pub explanation: String,
    /// Where its history begins.
    pub root: Root,
    /// The moves, the last one included.
    pub path: Vec<Move>,
}

/// Where a search begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The window to begin with, in datagrams.
    pub window: u64,
    /// A loss has ended slow start, and the recovery period has ended.
    pub avoids: bool,
}

/// How far and by how many a search is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// How many moves a history has at most.
    pub depth: usize,
    /// How many threads work on it, at least one. What is found does not depend on it.
    pub threads: usize,
}

/// How far a search is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// How many moves the histories have that are looked into.
    pub length: usize,
    /// How many of them were looked into, each to a state of its own.
    pub done: usize,
    /// How many of them there are.
    pub all: usize,
    /// How many states have been met.
    pub states: usize,
}

/// Makes all histories with `algorithm`, as [`explore`] does. `None` if the algorithm is newer than this crate.
pub fn explore_algorithm(
    algorithm: Algorithm,
    manner: Manner,
    is_ended: &AtomicBool,
    on_progress: &mut dyn FnMut(Progress),
) -> Option<Explored> {
    match algorithm {
        Algorithm::Reno => Some(explore(Reno::new, manner, is_ended, on_progress)),
        Algorithm::Cubic => Some(explore(Cubic::new, manner, is_ended, on_progress)),
        Algorithm::Bbr => Some(explore(Bbr::new, manner, is_ended, on_progress)),
        _ => None,
    }
}

/// Runs all histories with controllers that `make` creates. States with equal values ([`Inspect`]) are equal.
///
/// `on_progress` is called from time to time. When `is_ended` is set, the search ends soon, with its results until then. It
/// also ends after the first few faults, since deeper ones follow from them.
pub fn explore<C: Controller + Inspect + Clone>(
    make: impl Fn(&ControllerParameters) -> C + Sync,
    manner: Manner,
    is_ended: &AtomicBool,
    on_progress: &mut dyn FnMut(Progress),
) -> Explored {
    Search::new(&make, manner).run(is_ended, on_progress)
}

#[cfg(test)]
#[path = "explore_tests.rs"]
mod tests;
