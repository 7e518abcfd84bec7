//! Tracking of the time up to which a shard has received everything that arrived.

use std::collections::VecDeque;

use clearway_udp::SOCKET_BUFFER_SIZE;
use clearway_units::Timestamp;

use super::turn::{RECEIVED_PER_TURN, RECEIVED_PER_TURN_BESIDE};

/// Minimum number of bytes that the kernel charges to a socket's buffer for a datagram.
const LEAST_COUNTED: usize = 768;
/// Maximum number of datagrams in a socket's buffer. Linux doubles the requested size.
const BUFFERED: usize = 2 * SOCKET_BUFFER_SIZE / LEAST_COUNTED;
/// The time up to which all datagrams that arrived have been received. Timers that expire because a
/// peer is silent compare this time with their deadline: the awaited datagram may be in a socket
/// that a busy shard has not read yet.
#[derive(Debug)]
pub(super) struct Frontier {
    own: Passing,
    beside: Passing,
}

/// Whether a turn has received everything, by kind of socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReceivedAll {
    /// Set if nothing was left in the shard's primary listening sockets and in its sockets for
    /// migrations.
    pub(super) own: bool,
    /// Set if nothing was left in the secondary sockets (for long headers).
    pub(super) beside: bool,
}

impl Frontier {
    pub(super) fn new(now: Timestamp) -> Self {
        let of = |per_turn| Passing::new(now, BUFFERED.div_ceil(per_turn));
        Self { own: of(RECEIVED_PER_TURN), beside: of(RECEIVED_PER_TURN_BESIDE) }
    }

    pub(super) fn time(&self) -> Timestamp {
        self.own.time.min(self.beside.time)
    }

    /// Records a turn that began to receive at `began`.
    pub(super) fn on_received(&mut self, began: Timestamp, all: ReceivedAll) {
        self.own.on_received(began, all.own);
        self.beside.on_received(began, all.beside);
    }
}

/// The time up to which all datagrams that arrived at sockets of one kind have been received.
#[derive(Debug)]
struct Passing {
    time: Timestamp,
    /// Number of turns that it takes to receive everything that was in a socket's buffer when they
    /// began.
    turns: usize,
    /// Start times of the latest consecutive turns that left something in the sockets.
    behind: VecDeque<Timestamp>,
}

impl Passing {
    fn new(now: Timestamp, turns: usize) -> Self {
        Self { time: now, turns, behind: VecDeque::new() }
    }

    /// Records a turn; `is_all` is set if it left nothing in the sockets.
    fn on_received(&mut self, began: Timestamp, is_all: bool) {
        if is_all {
            self.time = began;
            self.behind.clear();
            return;
        }
        if self.behind.len() == self.turns {
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

    fn is_left(own: bool, beside: bool) -> ReceivedAll {
        ReceivedAll { own: !own, beside: !beside }
    }

    #[test]
    fn what_is_left_in_a_socket_counts_when_it_is_received_or_must_have_been() {
        let calls = [(is_left(true, false), 43), (is_left(false, true), 171)];
        for (left, turns) in calls {
            let mut frontier = Frontier::new(at(0));
            frontier.on_received(at(10), is_left(false, false));
            assert_eq!(frontier.time(), at(10));
            for turn in 2..turns + 2 {
                frontier.on_received(at(10 * turn), left);
                assert_eq!(frontier.time(), at(10), "turn {turn}");
            }
            for turn in 2..9 {
                frontier.on_received(at(10 * (turn + turns)), left);
                assert_eq!(frontier.time(), at(10 * turn), "a shard that is always behind");
            }
            frontier.on_received(at(5000), is_left(false, false));
            assert_eq!(frontier.time(), at(5000));
            frontier.on_received(at(5010), left);
            assert_eq!(frontier.time(), at(5000));
        }
    }
}
