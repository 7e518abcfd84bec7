//! The breadth-first search: it explores all event sequences of one length before any longer one.
//!
//! A state is not stored. It is represented by the sequence that reached it first. The previous
//! state's number and the move take eight bytes, and the canonical form takes eight more. The state
//! is reconstructed when it is explored.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clearway_congestion::{Controller, ControllerParameters, Inspect};

use super::canonical::canonical;
use super::cursor::{Cursor, MAXIMUM, State};
use super::hashing::Plain;
use super::liveness::{Liveness, Notes};
use super::moves::Move;
use super::rules::{Fault, Rules};
use super::sender::SIZE;
use super::{Explored, Found, Manner, Progress, Root};
use crate::checker::Property;

/// The initial windows, in datagrams.
const WINDOWS: core::ops::RangeInclusive<u64> = 2..=16;
/// The window, in datagrams, above which a state is not explored further because it has grown
/// enough.
const LARGEST: u64 = 16;
/// The maximum number of violations that are kept; the search ends when it is reached.
const KEPT: usize = 8;
/// The number of states that a thread explores at a time.
const CHUNK: usize = 128;
/// The number of chunks after which their results are merged.
const CHUNKS: usize = 64;

/// A state: its previous state, and the event that led to it. A root has no parent, and is stored
/// at its index among the roots.
#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    step: Option<Move>,
}

/// A search for violations by one controller.
pub(super) struct Search<'a, F> {
    make: &'a F,
    manner: Manner,
    rules: Rules,
    roots: Vec<Root>,
    nodes: Vec<Node>,
    /// The canonical forms of all states.
    seen: HashSet<u64, Plain>,
    notes: Notes,
    explored: Explored,
}

/// The results for some of the states.
#[derive(Default)]
struct Part {
    moves: u64,
    cycles: usize,
    faults: Vec<Found>,
    /// New canonical forms, and how they were reached.
    met: Vec<(u64, Node)>,
    notes: Notes,
}

impl<'a, C, F> Search<'a, F>
where
    C: Controller + Inspect + Clone,
    F: Fn(&ControllerParameters) -> C + Sync,
{
    pub(super) fn new(make: &'a F, manner: Manner) -> Self {
        let roots = WINDOWS.flat_map(|window| [false, true].map(|avoids| Root { window, avoids }));
        let parameters = ControllerParameters {
            max_datagram_size: SIZE,
            initial_window: None,
            maximum_window: MAXIMUM * SIZE,
            seed: 1,
        };
        Self {
            make,
            manner,
            rules: Rules::new(make(&parameters).name(), MAXIMUM),
            roots: roots.collect(),
            nodes: Vec::new(),
            seen: HashSet::default(),
            notes: Notes::default(),
            explored: Explored::default(),
        }
    }

    pub(super) fn run(
        mut self,
        is_ended: &AtomicBool,
        on_progress: &mut dyn FnMut(Progress),
    ) -> Explored {
        for (place, root) in (0..).zip(self.roots.clone()) {
            let State { sender, reduction } = State::at(self.make, self.rules, root);
            let form = canonical(&sender, &reduction, self.rules.is_rated());
            if self.seen.insert(form) {
                self.nodes.push(Node { parent: place, step: None });
            }
        }
        let mut level = 0..self.nodes.len();
        for length in 0..=self.manner.depth {
            self.explored.levels.push(level.len());
            let all = level.len();
            let mut from = level.start;
            while from < level.end {
                let to = level.end.min(from + CHUNK * CHUNKS);
                self.look_into(from, to, length < self.manner.depth);
                from = to;
                let (done, states) = (from - level.start, self.nodes.len());
                on_progress(Progress { length, done, all, states });
                if self.explored.faults.len() >= KEPT || is_ended.load(Ordering::Relaxed) {
                    return self.explored;
                }
            }
            level = level.end..self.nodes.len();
        }
        self.explored.is_complete = true;
        self.explored
    }

    /// Explores the states `from` to `to` and, if `goes_on`, their successors.
    fn look_into(&mut self, from: usize, to: usize, goes_on: bool) {
        let parts: Vec<Mutex<Part>> = (from..to).step_by(CHUNK).map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let search = &*self;
        thread::scope(|scope| {
            for _ in 0..search.manner.threads.clamp(1, parts.len()) {
                scope.spawn(|| {
                    loop {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(part) = parts.get(place) else { break };
                        let first = from + place * CHUNK;
                        let found = search.look_into_part(first, to.min(first + CHUNK), goes_on);
                        *part.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    }
                });
            }
        });
        for part in parts {
            self.take(part.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn take(&mut self, part: Part) {
        self.explored.moves += part.moves;
        self.explored.cycles += part.cycles;
        let room = KEPT.saturating_sub(self.explored.faults.len());
        self.explored.faults.extend(part.faults.into_iter().take(room));
        self.notes.extend(part.notes);
        for (form, node) in part.met {
            if self.seen.insert(form) {
                self.nodes.push(node);
            }
        }
    }

    fn look_into_part(&self, from: usize, to: usize, goes_on: bool) -> Part {
        let mut part = Part::default();
        let mut cursor = Cursor::new(self.make, self.rules);
        let mut liveness = Liveness::new(self.rules, &self.notes);
        for number in from..to {
            let (root, mut path) = self.path(number);
            let state = cursor.go_to(root, &path);
            let live = safely(|| liveness.check(&state.sender, &state.reduction));
            if let Err(fault) = live {
                part.cycles += 1;
                part.keep(fault, root, &path);
            }
            if !goes_on {
                continue;
            }
            for step in Move::ALL.into_iter().filter(|step| state.sender.permits(*step)) {
                part.moves += 1;
                match self.follow(state, step) {
                    Ok(Some(form)) if !self.seen.contains(&form) => {
                        let parent = number as u32;
                        part.met.push((form, Node { parent, step: Some(step) }));
                    }
                    Ok(_) => {}
                    Err(fault) => {
                        path.push(step);
                        part.keep(fault, root, &path);
                        path.pop();
                    }
                }
            }
            if part.faults.len() >= KEPT {
                break;
            }
        }
        part.notes = liveness.found;
        part
    }

    /// Applies the event `step`. Returns the canonical form of the resulting state; `None` if its
    /// window is too large to be explored.
    fn follow(&self, state: &State<C>, step: Move) -> Result<Option<u64>, Fault> {
        safely(|| {
            let State { mut sender, mut reduction } = state.clone();
            self.rules.check(&sender.make(step), &mut reduction)?;
            let is_small = sender.controller.window() <= LARGEST * SIZE;
            Ok(is_small.then(|| canonical(&sender, &reduction, self.rules.is_rated())))
        })
    }

    /// Returns the root from which a state was reached, and the events from there.
    fn path(&self, number: usize) -> (Root, Vec<Move>) {
        let mut node = self.nodes[number];
        let mut moves = Vec::with_capacity(self.manner.depth);
        while let Some(step) = node.step {
            moves.push(step);
            node = self.nodes[node.parent as usize];
        }
        moves.reverse();
        (self.roots[node.parent as usize], moves)
    }
}

impl Part {
    fn keep(&mut self, (property, explanation): Fault, root: Root, path: &[Move]) {
        if self.faults.len() < KEPT {
            let property = property.id();
            self.faults.push(Found { property, explanation, root, path: path.to_vec() });
        }
    }
}

/// Converts a panic to a violation of S3.
fn safely<T>(action: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(action))
        .unwrap_or_else(|_| Err((Property::S3, "a panic".to_owned())))
}
