//! Maglev hashing (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", §3.4), with weights.
//!
//! Each server has an order of its own in which it wants the rows of the table, and the servers take turns: whoever has the
//! turn takes the first row of its order that is still free. A server that comes or goes changes few rows of the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ServerKey;
use crate::siphash::siphash24;

/// Prime, so that every step from row to row visits all of them. More than a hundred rows for each of 655 servers: their
/// parts differ by less than a percent of theirs.
pub(crate) const ROWS: usize = PRIME as usize;
const PRIME: u64 = 65_537;
/// How many steps from row to row there are: any but 0.
const STEPS: u64 = PRIME - 1;

/// Keys for where a server's order begins, and for the step to its next row. They are fixed, as all balancers have to
/// compute the same.
const BEGIN_KEY: [u64; 2] = [1, 0];
const STEP_KEY: [u64; 2] = [2, 0];

/// The time between two turns of a server of weight 1. With the greatest weight it is still 2³².
const LONGEST_STRIDE: u128 = 1 << 64;

/// A server that takes rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) key: ServerKey,
    /// Not 0.
    pub(crate) weight: u32,
    /// What the rows contain.
    pub(crate) index: u16,
}

/// Which server a hash belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Maglev {
    /// None if there is no server.
    rows: Vec<u16>,
}

/// When a server has its next turn. The order of the fields is that of turns: servers of one time by their keys, so that
/// the table depends on names and weights alone.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: u128,
    key: ServerKey,
    stride: u128,
    row: usize,
    step: usize,
    index: u16,
}

impl Turn {
    /// The first turn is in the middle of a stride, so that the rows of a server are its part rounded to the nearest number.
    fn first(candidate: &Candidate) -> Self {
        let weight = u128::from(candidate.weight);
        let stride = LONGEST_STRIDE.checked_div(weight).unwrap_or(LONGEST_STRIDE);
        let key = [candidate.key.number()];
        let begin = siphash24(BEGIN_KEY, &key, &[]) % PRIME;
        let step = siphash24(STEP_KEY, &key, &[]) % STEPS;
        Self {
            at: stride / 2,
            key: candidate.key,
            stride,
            row: begin as usize,
            step: step.saturating_add(1) as usize,
            index: candidate.index,
        }
    }
}

impl Maglev {
    pub(crate) fn new(candidates: impl IntoIterator<Item = Candidate>) -> Self {
        let first = |candidate: Candidate| Reverse(Turn::first(&candidate));
        let mut turns: BinaryHeap<_> = candidates.into_iter().map(first).collect();
        if turns.is_empty() {
            return Self { rows: Vec::new() };
        }
        let mut rows = vec![None; ROWS];
        for _ in 0..ROWS {
            let Some(mut turn) = turns.peek_mut() else { break };
            let Turn { at, stride, row, step, index, .. } = &mut turn.0;
            // Ends: there is a free row, and the steps visit all.
            while let Some(Some(_)) = rows.get(*row) {
                *row = row.wrapping_add(*step) % ROWS;
            }
            if let Some(row) = rows.get_mut(*row) {
                *row = Some(*index);
            }
            *at = at.saturating_add(*stride);
        }
        Self { rows: rows.into_iter().flatten().collect() }
    }

    /// The server that `hash` belongs to; `None` if there is no server.
    pub(crate) fn find(&self, hash: u64) -> Option<u16> {
        self.rows.get((hash % PRIME) as usize).copied()
    }
}

#[cfg(test)]
#[path = "maglev_tests.rs"]
mod tests;
