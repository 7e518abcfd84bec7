//! Up to when a shard has received what arrived.

use std::collections::VecDeque;

use clearway_units::Timestamp;

use super::intake::RECEIVED_PER_TURN;
use crate::socket::SOCKET_BUFFER_SIZE;

/// What the kernel counts at least for a datagram in a socket's buffer, in bytes: it is the memory that it takes.
const LEAST_COUNTED: usize = 768;
/// So many datagrams a socket's buffer holds at most. Linux gives twice the size that was asked for.
const BUFFERED: usize = 2 * SOCKET_BUFFER_SIZE / LEAST_COUNTED;
/// In so many turns, all is received that was in a socket's buffer before.
const TURNS: usize = BUFFERED.div_ceil(RECEIVED_PER_TURN);

/// All datagrams that had arrived at this time were received. Timers that expire because a peer is silent compare it with
/// their deadline: what they wait for may be in a socket that a busy shard has not come to.
#[derive(Debug)]
pub(super) struct Frontier {
    time: Timestamp,
    /// When the turns began that have left something in the sockets, the latest ones in a row.
    behind: VecDeque<Timestamp>,
}

impl Frontier {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { time: now, behind: VecDeque::new() }
    }

    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// A turn has received, from `began` on. `is_all`: it left nothing in the sockets.
    pub(super) fn on_received(&mut self, began: Timestamp, is_all: bool) {
        if is_all {
            self.time = began;
            self.behind.clear();
            return;
        }
        if self.behind.len() == TURNS {
            self.time = self.behind.pop_front().unwrap_or(began);
        }
        self.behind.push_back(began);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn what_is_left_in_a_socket_counts_when_it_is_received_or_must_have_been() {
        let mut frontier = Frontier::new(at(0));
        frontier.on_received(at(10), true);
        assert_eq!(frontier.time(), at(10));
        let turns = TURNS as u64;
        for turn in 2..turns + 2 {
            frontier.on_received(at(10 * turn), false);
            assert_eq!(frontier.time(), at(10), "turn {turn}");
        }
        for turn in 2..9 {
            frontier.on_received(at(10 * (turn + turns)), false);
            assert_eq!(frontier.time(), at(10 * turn), "a shard that is always behind");
        }
        frontier.on_received(at(1000), true);
        assert_eq!(frontier.time(), at(1000));
        frontier.on_received(at(1010), false);
        assert_eq!(frontier.time(), at(1000));
    }
}
