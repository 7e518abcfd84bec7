//! The datagrams in transit after the bottleneck, in order of delivery.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use clearway_units::Timestamp;

/// A datagram in transit.
///
/// Ordered by its fields, in this order: among datagrams due at the same time, the one that entered
/// the link first is delivered first, however often and late the driver polls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Due {
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) is_copy: bool,
    pub(crate) slot: usize,
}

/// A sorted run of datagrams, which contains nearly all of them on most links, and a heap for the
/// rest.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    in_order: VecDeque<Due>,
    others: BinaryHeap<Reverse<Due>>,
}

impl Pipe {
    pub(crate) fn push(&mut self, due: Due) {
        match self.in_order.back() {
            Some(last) if due < *last => self.others.push(Reverse(due)),
            _ => self.in_order.push_back(due),
        }
    }

    /// Returns the datagram that is due next.
    pub(crate) fn next(&self) -> Option<Due> {
        if self.is_in_order() {
            self.in_order.front().copied()
        } else {
            self.others.peek().map(|Reverse(due)| *due)
        }
    }

    /// Removes and returns the datagram that is due next.
    pub(crate) fn pop(&mut self) -> Option<Due> {
        if self.is_in_order() {
            self.in_order.pop_front()
        } else {
            self.others.pop().map(|Reverse(due)| due)
        }
    }

    /// Returns whether the next datagram is the first of the sorted run.
    fn is_in_order(&self) -> bool {
        match (self.in_order.front(), self.others.peek()) {
            (Some(one), Some(Reverse(other))) => one < other,
            (_, other) => other.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_out_in_the_order_of_times_then_of_numbers() {
        let mut pipe = Pipe::default();
        let times = [5, 7, 6, 6, 7, 9, 1, 9, 5, 12, 3, 0, 12];
        for (number, at) in (0..).zip(times) {
            let at = Timestamp::from_nanos(at);
            pipe.push(Due { at, number, is_copy: false, slot: 3 });
            pipe.push(Due { at, number, is_copy: true, slot: 1 });
        }
        let all: Vec<_> = core::iter::from_fn(|| pipe.pop()).collect();
        assert_eq!(all.len(), 2 * times.len());
        assert!(all.is_sorted());
        assert_eq!(pipe.next(), None);
    }
}
