//! Up to when a shard has received what arrived.

use clearway_units::Timestamp;

/// How many turns in a row may leave something in the sockets. In so many, all is received that a socket's buffer holds.
const MAX_TURNS: u32 = 4;

/// All datagrams that had arrived at this time were received. Timers that expire because a peer is silent compare it with
/// their deadline: what they wait for may be in a socket that a busy shard has not come to.
#[derive(Debug)]
pub(super) struct Frontier {
    time: Timestamp,
    turns: u32,
}

impl Frontier {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { time: now, turns: 0 }
    }

    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// A turn has received, from `began` on. `is_all`: it left nothing in the sockets.
    pub(super) fn on_received(&mut self, began: Timestamp, is_all: bool) {
        if is_all || self.turns == MAX_TURNS {
            *self = Self::new(began);
        } else {
            self.turns += 1;
        }
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
        for turn in 2..6 {
            frontier.on_received(at(10 * turn), false);
            assert_eq!(frontier.time(), at(10), "turn {turn}");
        }
        frontier.on_received(at(60), false);
        assert_eq!(
            frontier.time(),
            at(60),
            "a shard that is always behind notices silence all the same"
        );
        frontier.on_received(at(70), false);
        assert_eq!(frontier.time(), at(60));
        frontier.on_received(at(80), true);
        assert_eq!(frontier.time(), at(80));
    }
}
