//! The state at the end of an event sequence, and the states before each event.

use clearway_congestion::{Controller, ControllerParameters};

use super::Root;
use super::moves::Move;
use super::rules::{LastReduction, Rules};
use super::sender::Sender;

/// The configured maximum window of a controller, in datagrams; large enough to allow growth.
pub(super) const MAXIMUM: u64 = 64;

/// A controller, together with the rules' records of it.
#[derive(Clone)]
pub(super) struct State<C> {
    pub(super) sender: Sender<C>,
    pub(super) reduction: LastReduction,
}

/// Advances from one event sequence to the next. Consecutive sequences share a prefix, so only the
/// rest is recomputed.
pub(super) struct Cursor<'a, C, F> {
    make: &'a F,
    rules: Rules,
    root: Option<Root>,
    moves: Vec<Move>,
    /// The state at the root, and after each event.
    states: Vec<State<C>>,
}

impl<'a, C: Controller + Clone, F: Fn(&ControllerParameters) -> C> Cursor<'a, C, F> {
    pub(super) fn new(make: &'a F, rules: Rules) -> Self {
        Self { make, rules, root: None, moves: Vec::new(), states: Vec::new() }
    }

    /// Returns the state after `moves`; all shorter prefixes have already been checked.
    pub(super) fn go_to(&mut self, root: Root, moves: &[Move]) -> &State<C> {
        if self.root != Some(root) {
            self.root = Some(root);
            self.moves.clear();
            self.states = vec![State::at(self.make, self.rules, root)];
        }
        let common = self.moves.iter().zip(moves).take_while(|(one, other)| one == other).count();
        self.moves.truncate(common);
        self.states.truncate(common + 1);
        for step in &moves[common..] {
            let mut state = self.states[self.moves.len()].clone();
            let made = state.sender.make(*step);
            let _ = self.rules.check(&made, &mut state.reduction);
            self.moves.push(*step);
            self.states.push(state);
        }
        &self.states[moves.len()]
    }
}

impl<C: Controller> State<C> {
    /// Returns the state at `root`.
    pub(super) fn at(make: &impl Fn(&ControllerParameters) -> C, rules: Rules, root: Root) -> Self {
        let mut sender = Sender::new(make, root.window, MAXIMUM);
        let mut reduction = LastReduction::default();
        let opening: &[Move] = match root.avoids {
            true => &[Move::SendBurst, Move::LoseOne, Move::AckAll, Move::SendBurst],
            false => &[Move::SendBurst],
        };
        for step in opening {
            if sender.permits(*step) {
                let made = sender.make(*step);
                // The moves to the root are part of other sequences, and violations are reported
                // there.
                let _ = rules.check(&made, &mut reduction);
            }
        }
        Self { sender, reduction }
    }
}
