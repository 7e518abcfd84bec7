//! An exhaustive search in a small scope: every controller, every history of a few moves.
//!
//! From windows of 2 to 16 datagrams, in slow start and in congestion avoidance, every sequence of
//! [`Move`]s up to some length is run, with one real [`Controller`], pacer and sampler. States that
//! differ only in time are explored once. The safety rules are checked at every move. Every state
//! is then followed by clean rounds in which data waits, in a few ACK patterns. In none of them may
//! the window stay the same: that would be a cycle in which a sender is stuck forever.

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

/// The results of a search.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Explored {
    /// The number of states first reached after each number of moves, starting with none.
    pub levels: Vec<usize>,
    /// The number of moves that were made.
    pub moves: u64,
    /// The number of states from which clean rounds follow in which a window does not grow as it
    /// should.
    pub cycles: usize,
    /// The first few faults.
    pub faults: Vec<Found>,
    /// Whether all histories of the requested depth were explored.
    pub is_complete: bool,
}

impl Explored {
    /// Returns the number of distinct states.
    pub fn states(&self) -> usize {
        self.levels.iter().sum()
    }
}

/// A fault, and the history that leads to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The ID of the violated property.
    pub property: &'static str,
    /// The observation.
    pub explanation: String,
    /// The state in which its history begins.
    pub root: Root,
    /// The moves, including the last one.
    pub path: Vec<Move>,
}

/// The state in which a search begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The initial window, in datagrams.
    pub window: u64,
    /// Whether the sender is in congestion avoidance: a loss has ended slow start, and the recovery
    /// period has ended.
    pub avoids: bool,
}

/// The depth of a search, and its number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// The maximum number of moves in a history.
    pub depth: usize,
    /// The number of threads, at least one. It does not affect the results.
    pub threads: usize,
}

/// The progress of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The number of moves in the histories that are being explored.
    pub length: usize,
    /// The number of these histories that have been explored, each leading to a different state.
    pub done: usize,
    /// The total number of these histories.
    pub all: usize,
    /// The number of states reached so far.
    pub states: usize,
}

/// Explores all histories with `algorithm`, like [`explore`]. `None` if the algorithm is newer than
/// this crate.
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

/// Explores all histories with controllers that `make` creates. States with equal values
/// ([`Inspect`]) are equal.
///
/// `on_progress` is called periodically. When `is_ended` is set, the search ends soon, with its
/// results until then. It also ends after the first few faults, since deeper ones follow from them.
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
