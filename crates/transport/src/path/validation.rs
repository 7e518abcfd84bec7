//! Validation of one path (RFC 9000 §8.2).

use core::time::Duration;

use clearway_units::{Random, Timestamp};

/// How many challenges are sent before the path is given up.
const MAX_CHALLENGES: usize = 4;
/// §8.2.4: at least this many probe timeouts of the new path, before which there is no estimate.
const TIMEOUTS: u32 = 3;
/// §8.2.4: the probe timeout of a path without an estimate, from the initial RTT of 333 ms.
const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(999);

/// What a deadline meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The answer may still come.
    Waiting,
    /// The path is given up.
    Failed,
}

#[derive(Debug)]
pub(super) struct Validation {
    challenges: Vec<[u8; 8]>,
    owed: bool,
    interval: Duration,
    next_challenge: Timestamp,
    gives_up: Timestamp,
}

impl Validation {
    pub(super) fn new(now: Timestamp, probe_timeout: Duration, random: &mut Random) -> Self {
        let patience = probe_timeout.max(INITIAL_PROBE_TIMEOUT).saturating_mul(TIMEOUTS);
        Self {
            challenges: vec![random.array()],
            owed: true,
            interval: probe_timeout,
            next_challenge: now + probe_timeout,
            gives_up: now + patience,
        }
    }

    pub(super) fn is_challenge_owed(&self) -> bool {
        self.owed
    }

    pub(super) fn owed_challenge(&self) -> Option<[u8; 8]> {
        self.challenges.last().copied().filter(|_| self.owed)
    }

    pub(super) fn on_challenge_sent(&mut self, now: Timestamp) {
        self.owed = false;
        self.next_challenge = now + self.interval;
    }

    pub(super) fn is_answered_by(&self, data: [u8; 8]) -> bool {
        self.challenges.contains(&data)
    }

    pub(super) fn deadline(&self) -> Timestamp {
        if self.owed || self.challenges.len() >= MAX_CHALLENGES {
            self.gives_up
        } else {
            self.next_challenge.min(self.gives_up)
        }
    }

    pub(super) fn on_deadline(&mut self, now: Timestamp, random: &mut Random) -> Outcome {
        if self.gives_up <= now {
            return Outcome::Failed;
        }
        if !self.owed && self.next_challenge <= now && self.challenges.len() < MAX_CHALLENGES {
            // §8.2.1: each challenge has data of its own; each may be answered.
            self.challenges.push(random.array());
            self.owed = true;
            self.interval = self.interval.saturating_mul(2);
        }
        Outcome::Waiting
    }
}
