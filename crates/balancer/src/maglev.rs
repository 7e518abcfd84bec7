//! Maglev hashing (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer",
//! §3.4), with weights.
//!
//! Each server has its own preference order of the table's rows, and the servers take turns: in its
//! turn, a server takes the first row of its order that is still free. Adding or removing a server
//! changes only a few rows of the other servers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ServerKey;
use crate::siphash::siphash24;

/// Number of rows: a prime, so that every step size visits all rows. Up to 655 servers have about a
/// hundred rows each, so their shares differ by less than a percent.
pub(crate) const ROWS: usize = PRIME as usize;
const PRIME: u64 = 65_537;
/// Number of possible step sizes between rows: any except 0.
const STEPS: u64 = PRIME - 1;

/// Hash keys for the first row in a server's permutation, and for the step to its next row. They
/// are fixed, since all balancers must compute the same table.
const BEGIN_KEY: [u64; 2] = [1, 0];
const STEP_KEY: [u64; 2] = [2, 0];

/// Time between two turns of a server with weight 1. Even with the maximum weight, it is 2³².
const LONGEST_STRIDE: u128 = 1 << 64;

/// A server that competes for rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) key: ServerKey,
    /// The server's weight, which is not 0.
    pub(crate) weight: u32,
    /// The value stored in the server's rows.
    pub(crate) index: u16,
}

/// Maps hashes to servers.
#[derive(Clone, Debug)]
pub(crate) struct Maglev {
    /// The server index in each row; empty if there are no servers.
    rows: Vec<u16>,
}

/// A server's next turn. Turns are ordered by the fields, in this order. Simultaneous turns are
/// ordered by the servers' keys, so that the table depends only on names and weights.
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
    /// Returns a server's first turn. It is in the middle of a stride, so that the server's number
    /// of rows is its exact share, rounded to the nearest integer.
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
            // This loop terminates, because there is a free row and the steps visit all rows.
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

    /// Returns the server for `hash`; `None` if there are no servers.
    pub(crate) fn find(&self, hash: u64) -> Option<u16> {
        self.rows.get((hash % PRIME) as usize).copied()
    }
}

#[cfg(test)]
#[path = "maglev_tests.rs"]
mod tests;
