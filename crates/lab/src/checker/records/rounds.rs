//! Packet-timed round trips. Each ends when a packet that was sent in it is acknowledged.

use clearway_congestion::Phase;
use clearway_units::Timestamp;

/// The events of a round.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Round {
    pub(in crate::checker) began: Timestamp,
    pub(in crate::checker) ended: Timestamp,
    /// The controller's effective window at the beginning and at the end of the round.
    pub(in crate::checker) window_before: u64,
    pub(in crate::checker) window_after: u64,
    pub(in crate::checker) phase_before: Phase,
    pub(in crate::checker) phase_after: Phase,
    /// Whether the controller was in another phase during the round.
    is_mixed: bool,
    /// Bytes acknowledged in the round.
    pub(in crate::checker) acked: u64,
    /// The acknowledged bytes of packets sent after the last window reduction, which count toward
    /// window growth.
    pub(in crate::checker) growing: u64,
    /// Whether the round had no packet loss, undone reduction, expired timer or path change.
    pub(in crate::checker) is_clean: bool,
    /// Whether data waited for the window or the pacer whenever sending stopped.
    pub(in crate::checker) was_held: bool,
}

/// Counts packet-timed rounds.
#[derive(Debug)]
pub(in crate::checker) struct Rounds {
    number: u64,
    /// The index of the first packet in this round.
    began_at: u64,
    current: Round,
    /// The last round that was limited by congestion control.
    limited: Option<u64>,
    is_held: bool,
    held_since: Timestamp,
}

impl Rounds {
    /// Creates records whose first round begins at `now` with packet `next_index`.
    pub(in crate::checker) fn new(now: Timestamp, next_index: u64, window: u64) -> Self {
        let phase = Phase::SlowStart;
        Self {
            number: 0,
            began_at: next_index,
            current: Round::new(now, window, phase),
            limited: None,
            is_held: false,
            held_since: now,
        }
    }

    /// Returns the number of rounds that have ended.
    pub(in crate::checker) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the acknowledgment of packet `index` ends the round.
    pub(in crate::checker) fn is_ended_by(&self, index: u64) -> bool {
        index >= self.began_at
    }

    /// Records an event that makes this round unclean.
    pub(in crate::checker) fn spoil(&mut self) {
        self.current.is_clean = false;
    }

    /// Records that the endpoint has sent as much as it can. With `is_held`, data waits for the
    /// window or the pacer; with `is_full`, the window has no room for a datagram.
    pub(in crate::checker) fn on_settled(&mut self, now: Timestamp, is_held: bool, is_full: bool) {
        self.current.was_held &= is_held;
        let was_held = core::mem::replace(&mut self.is_held, is_held || is_full);
        if self.is_held || was_held && now > self.held_since {
            self.limited = Some(self.number);
        }
        if !was_held {
            self.held_since = now;
        }
    }

    /// Returns whether congestion control limited sending in this round or the previous one.
    pub(in crate::checker) fn was_limited(&self) -> bool {
        self.limited.is_some_and(|limited| limited + 1 >= self.number)
    }

    /// Records acknowledged bytes. If congestion control limits sending at this time, the round
    /// counts as limited.
    pub(in crate::checker) fn on_acknowledged(&mut self, acked: u64, growing: u64, phase: Phase) {
        self.current.is_mixed |= phase != self.current.phase_before;
        if self.is_held {
            self.limited = Some(self.number);
        }
        self.current.acked += acked;
        self.current.growing += growing;
    }

    /// Ends the round, and begins the next one with packet `next_index`.
    pub(in crate::checker) fn end(
        &mut self,
        now: Timestamp,
        next_index: u64,
        window: u64,
        phase: Phase,
    ) -> Round {
        let mut ended = core::mem::replace(&mut self.current, Round::new(now, window, phase));
        ended.ended = now;
        ended.window_after = window;
        ended.phase_after = phase;
        self.number += 1;
        self.began_at = next_index;
        ended
    }
}

impl Round {
    fn new(now: Timestamp, window: u64, phase: Phase) -> Self {
        Self {
            began: now,
            ended: now,
            window_before: window,
            window_after: window,
            phase_before: phase,
            phase_after: phase,
            is_mixed: false,
            acked: 0,
            growing: 0,
            is_clean: true,
            was_held: true,
        }
    }

    /// Returns whether the window must grow in this round, given the behavior of the network and
    /// the application.
    pub(in crate::checker) fn is_clean_and_held(&self) -> bool {
        self.is_clean && self.was_held
    }

    /// Returns whether the controller was in `phase` for the whole round.
    pub(in crate::checker) fn was_in(&self, phase: Phase) -> bool {
        self.phase_before == phase && self.phase_after == phase && !self.is_mixed
    }
}
