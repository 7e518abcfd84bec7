//! An exhaustive search in a small scope: every short sequence of events, for every controller.
//!
//! From windows of 2 to 16 datagrams, in slow start and in congestion avoidance, every sequence of
//! [`Move`]s up to some length is run with one real [`Controller`], pacer and sampler. States that
//! differ only in time are explored once. The safety rules are checked at every move. Every state
//! is then followed by clean rounds in which data waits, in a few ACK patterns. If the window
//! stayed the same with any of these patterns, that would be a cycle in which a sender is stuck
//! forever.

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
    /// The number of states first reached after each number of events, starting with zero events.
    pub levels: Vec<usize>,
    /// The number of events that were simulated.
    pub moves: u64,
    /// The number of states from which a window does not grow as required in clean rounds.
    pub cycles: usize,
    /// The first few violations.
    pub faults: Vec<Found>,
    /// Whether all event sequences of the requested depth were explored.
    pub is_complete: bool,
}

impl Explored {
    /// Returns the number of distinct states.
    pub fn states(&self) -> usize {
        self.levels.iter().sum()
    }
}

/// A violation, and the event sequence that leads to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The ID of the violated property.
    pub property: &'static str,
    /// The observation that contradicts the property.
    pub explanation: String,
    /// The state in which the sequence begins.
    pub root: Root,
    /// The events, including the last one.
    pub path: Vec<Move>,
}

/// The state in which a search begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The initial window, in datagrams.
    pub window: u64,
    /// Whether the sender is in congestion avoidance: a loss has ended slow start, and recovery is
    /// over.
    pub avoids: bool,
}

/// The depth of a search, and its number of threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// The maximum number of events in a sequence.
    pub depth: usize,
    /// The number of threads, at least one. It does not affect the results.
    pub threads: usize,
}

/// The progress of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The number of events in the sequences that are being explored.
    pub length: usize,
    /// The number of sequences of length `length` that have been explored, each leading to a
    /// different state.
    pub done: usize,
    /// The total number of sequences of length `length`.
    pub all: usize,
    /// The number of states reached so far.
    pub states: usize,
}

/// Explores all event sequences with `algorithm`, like [`explore`]. Returns `None` if this crate
/// does not know the algorithm.
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

/// Explores all event sequences with controllers created by `make`. States that report equal values
/// ([`Inspect`]) are considered equal.
///
/// `on_progress` is called periodically. When `is_ended` is set, the search ends soon and returns
/// its results so far. It also ends after the first few violations, because deeper ones follow from
/// them.
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
