//! Validation of one path (RFC 9000 §8.2).

use core::time::Duration;

use clearway_units::{Random, Timestamp};

/// The maximum number of challenges in one validation. Since the intervals double, this number is
/// reached only if the first interval is shorter than 6 ms.
const MAX_CHALLENGES: usize = 10;
/// Validation takes at least this many probe timeouts of the new path, which has no RTT estimate yet (§8.2.4).
const TIMEOUTS: u32 = 3;
/// The probe timeout of a path without an RTT estimate, from the initial RTT of 333 ms (§8.2.4).
const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(999);

/// The result of a validation deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValidationOutcome {
    /// A response may still arrive.
    Waiting,
    /// Validation has failed.
    Failed,
}

/// A PATH_CHALLENGE that was or will be sent.
#[derive(Clone, Copy, Debug)]
struct Challenge {
    data: [u8; 8],
    /// Whether the challenge's datagram had at least 1200 bytes, in which case the response also
    /// validates the path MTU.
    is_full_size: bool,
}

impl Challenge {
    fn new(random: &mut Random) -> Self {
        Self { data: random.array(), is_full_size: false }
    }
}

/// The result of a response (§8.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The peer receives datagrams at its address.
    Address,
    /// The path also carries datagrams of QUIC's minimum size (1200 bytes).
    Path,
}

#[derive(Debug)]
pub(super) struct Validation {
    challenges: Vec<Challenge>,
    pending: bool,
    interval: Duration,
    next_challenge: Timestamp,
    gives_up: Timestamp,
}

impl Validation {
    pub(super) fn new(now: Timestamp, probe_timeout: Duration, random: &mut Random) -> Self {
        // A slow current path does not slow down challenges on another one.
        let interval = probe_timeout.min(INITIAL_PROBE_TIMEOUT);
        let patience = probe_timeout.max(INITIAL_PROBE_TIMEOUT).saturating_mul(TIMEOUTS);
        Self {
            challenges: vec![Challenge::new(random)],
            pending: true,
            interval,
            next_challenge: now + interval,
            gives_up: now + patience,
        }
    }

    pub(super) fn is_challenge_pending(&self) -> bool {
        self.pending
    }

    pub(super) fn pending_challenge(&self) -> Option<[u8; 8]> {
        self.challenges.last().filter(|_| self.pending).map(|challenge| challenge.data)
    }

    pub(super) fn on_challenge_sent(&mut self, now: Timestamp) {
        self.pending = false;
        self.next_challenge = now + self.interval;
    }

    /// Notes that the last challenge was sent in a datagram of 1200 bytes or more.
    pub(super) fn on_full_size(&mut self) {
        if let Some(challenge) = self.challenges.last_mut() {
            challenge.is_full_size = true;
        }
    }

    pub(super) fn answered_by(&self, data: [u8; 8]) -> Option<Answer> {
        let challenge = self.challenges.iter().find(|challenge| challenge.data == data)?;
        Some(if challenge.is_full_size { Answer::Path } else { Answer::Address })
    }

    pub(super) fn deadline(&self) -> Timestamp {
        if self.pending || self.challenges.len() >= MAX_CHALLENGES {
            self.gives_up
        } else {
            self.next_challenge.min(self.gives_up)
        }
    }

    pub(super) fn on_deadline(&mut self, now: Timestamp, random: &mut Random) -> ValidationOutcome {
        if self.gives_up <= now {
            return ValidationOutcome::Failed;
        }
        if !self.pending && self.next_challenge <= now && self.challenges.len() < MAX_CHALLENGES {
            // Each challenge has its own data, and each may get a response (§8.2.1).
            self.challenges.push(Challenge::new(random));
            self.pending = true;
            self.interval = self.interval.saturating_mul(2);
        }
        ValidationOutcome::Waiting
    }
}
