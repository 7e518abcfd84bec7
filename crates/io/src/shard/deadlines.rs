//! Timer deadlines of a shard's connections.

use clearway_transport::Deadlines;
use clearway_units::{Timers, Timestamp};

use super::turn::RECEIVED_PER_TURN;

/// Maximum number of timers for unresponsive peers to serve between two receive phases. If
/// datagrams arrive faster than the shard receives them, it serves one such timer per four
/// datagrams received.
const SILENCE_PER_TURN: usize = RECEIVED_PER_TURN / 4;

/// The kind of a connection's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeadlineKind {
    /// See [`Deadlines::own`].
    Own,
    /// See [`Deadlines::silence`].
    Silence,
}

/// The deadlines of connections, indexed by
/// [`ConnectionHandle::index`](clearway_transport::ConnectionHandle::index).
///
/// Timers that expire because a peer is silent are kept separately: an overloaded host has more of
/// them than it can serve, and received data and acknowledgments must not wait for them. They are
/// served in the order of their deadlines.
pub(super) struct ShardDeadlines {
    own: Timers,
    silence: Timers,
    /// Number of `silence` deadlines that may still be served in this turn.
    left: usize,
}

impl ShardDeadlines {
    pub(super) fn new() -> Self {
        Self { own: Timers::new(), silence: Timers::new(), left: SILENCE_PER_TURN }
    }

    /// Replaces the deadlines of a connection.
    pub(super) fn set(&mut self, connection: usize, deadlines: Deadlines) {
        self.own.set(connection, deadlines.own);
        self.silence.set(connection, deadlines.silence);
    }

    /// Returns the earliest deadline.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.own.earliest().into_iter().chain(self.silence.earliest()).min()
    }

    /// Begins a turn.
    pub(super) fn begin_turn(&mut self) {
        self.left = SILENCE_PER_TURN;
    }

    /// Removes and returns a connection with timers that have expired at `now`, given that
    /// everything that arrived by `received_until` was received; `None` if no more are due in this
    /// turn.
    pub(super) fn pop_due(
        &mut self,
        now: Timestamp,
        received_until: Timestamp,
    ) -> Option<(usize, DeadlineKind)> {
        if let Some(connection) = self.own.pop_due(now) {
            return Some((connection, DeadlineKind::Own));
        }
        self.left = self.left.checked_sub(1)?;
        let connection = self.silence.pop_due(now.min(received_until))?;
        Some((connection, DeadlineKind::Silence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_nanos(milliseconds * 1_000_000)
    }

    fn due(
        deadlines: &mut ShardDeadlines,
        now: u64,
        received_until: u64,
    ) -> Vec<(usize, DeadlineKind)> {
        deadlines.begin_turn();
        let due = || deadlines.pop_due(at(now), at(received_until));
        core::iter::from_fn(due).collect()
    }

    #[test]
    fn silence_counts_up_to_what_was_received() {
        let mut deadlines = ShardDeadlines::new();
        deadlines.set(1, Deadlines { own: Some(at(20)), silence: Some(at(10)) });
        deadlines.set(2, Deadlines { own: None, silence: Some(at(15)) });
        assert_eq!(deadlines.earliest(), Some(at(10)));
        assert_eq!(due(&mut deadlines, 15, 9), []);
        assert_eq!(
            due(&mut deadlines, 25, 14),
            [(1, DeadlineKind::Own), (1, DeadlineKind::Silence)]
        );
        assert_eq!(deadlines.earliest(), Some(at(15)));
        deadlines.set(2, Deadlines::default());
        assert_eq!(deadlines.earliest(), None);
    }

    #[test]
    fn in_one_turn_all_own_timers_expire_and_so_many_of_silence_the_oldest_first() {
        let mut deadlines = ShardDeadlines::new();
        let count = 3 * SILENCE_PER_TURN;
        for connection in 0..count {
            let silence = Some(at((count - connection) as u64));
            deadlines.set(connection, Deadlines { own: Some(at(5)), silence });
        }
        let all = due(&mut deadlines, 1000, 1000);
        assert_eq!(all.len(), count + SILENCE_PER_TURN);
        let silent =
            all.iter().filter(|(_, kind)| *kind == DeadlineKind::Silence).map(|(it, _)| *it);
        assert!(silent.eq((0..count).rev().take(SILENCE_PER_TURN)));
        for _ in 1..3 {
            assert_eq!(due(&mut deadlines, 1000, 1000).len(), SILENCE_PER_TURN);
        }
        assert_eq!(due(&mut deadlines, 1000, 1000), []);
    }
}
