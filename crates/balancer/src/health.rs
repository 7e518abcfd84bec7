//! Whether a server can be reached, from the outcome of checks, and how many new clients it gets after it came up.

use core::time::Duration;

use clearway_units::Timestamp;

use crate::ServerState;

/// When a server counts as up or down, and how it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthSettings {
    /// The time from the beginning of a check to that of the next one.
    pub interval: Duration,
    /// How many checks in a row have to succeed until a server that was down is up; 0 is taken as 1.
    pub up_after: u32,
    /// How many checks in a row have to fail until a server that was up is down; 0 is taken as 1.
    pub down_after: u32,
    /// How long it takes from coming up until the server gets its full part of new clients; zero if it gets it at once.
    pub slow_start: Duration,
}

impl Default for HealthSettings {
    /// Checks every half a second, up after two, down after three, a slow start of thirty seconds.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            up_after: 2,
            down_after: 3,
            slow_start: Duration::from_secs(30),
        }
    }
}

/// The health of one server.
///
/// The caller begins a check when [`deadline`](Self::deadline) has come, and reports the outcome when there is one; how
/// long it waits for it is the caller's decision. The first outcome alone decides whether a server whose state is not
/// known is up.
///
/// ```
/// use clearway_balancer::{Health, HealthSettings, ServerState};
/// use clearway_units::Timestamp;
/// use std::time::Duration;
///
/// let slow_start = Duration::from_secs(27);
/// let settings = HealthSettings { slow_start, ..HealthSettings::default() };
/// let mut health = Health::new(settings, Timestamp::ORIGIN);
/// assert_eq!(health.state(), ServerState::Down);
/// assert!(health.begin_check(Timestamp::ORIGIN));
/// health.on_success(Timestamp::ORIGIN);
/// assert_eq!((health.state(), health.weight(Timestamp::ORIGIN)), (ServerState::Active, 1));
/// let later = Timestamp::ORIGIN + Duration::from_secs(12);
/// assert_eq!(health.weight(later), 5);
/// assert_eq!(health.next_weight(later), Some(later + Duration::from_secs(3)));
/// ```
#[derive(Clone, Debug)]
pub struct Health {
    settings: HealthSettings,
    next_check: Timestamp,
    condition: Condition,
    is_draining: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Condition {
    /// No check has had an outcome.
    Unknown,
    /// With as many checks that failed in a row; `since` is `None` if it was taken to be up from the beginning.
    Up { since: Option<Timestamp>, failed: u32 },
    /// With as many checks that succeeded in a row.
    Down { succeeded: u32 },
}

impl Health {
    /// The greatest [weight](Self::weight).
    pub const FULL_WEIGHT: u32 = 10;

    /// The health of a server that nothing is known of. A check is due at once.
    pub fn new(settings: HealthSettings, now: Timestamp) -> Self {
        Self { settings, next_check: now, condition: Condition::Unknown, is_draining: false }
    }

    /// The health of a server that is taken to be up and gets its full part of new clients, until checks say otherwise. A
    /// check is due at once.
    pub fn assumed_up(settings: HealthSettings, now: Timestamp) -> Self {
        let condition = Condition::Up { since: None, failed: 0 };
        Self { condition, ..Self::new(settings, now) }
    }

    /// What the server may be given.
    pub fn state(&self) -> ServerState {
        match self.condition {
            Condition::Unknown | Condition::Down { .. } => ServerState::Down,
            Condition::Up { .. } if self.is_draining => ServerState::Draining,
            Condition::Up { .. } => ServerState::Active,
        }
    }

    /// The server gets no new clients while this is set.
    pub fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// When the next check is due.
    pub fn deadline(&self) -> Timestamp {
        self.next_check
    }

    /// Whether a check is due. If so, the caller begins it, and the next one is due an interval later.
    pub fn begin_check(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.next_check;
        if is_due {
            // Not more often because the caller was late once.
            let regular = self.next_check + self.settings.interval;
            self.next_check = if regular > now { regular } else { now + self.settings.interval };
        }
        is_due
    }

    /// A check has succeeded. Returns whether that changes what the server may be given.
    pub fn on_success(&mut self, now: Timestamp) -> bool {
        let state = self.state();
        self.condition = match self.condition {
            Condition::Unknown => Condition::Up { since: Some(now), failed: 0 },
            Condition::Up { since, .. } => Condition::Up { since, failed: 0 },
            Condition::Down { succeeded } => match succeeded.saturating_add(1) {
                succeeded if succeeded < self.settings.up_after => Condition::Down { succeeded },
                _ => Condition::Up { since: Some(now), failed: 0 },
            },
        };
        self.state() != state
    }

    /// A check has failed, or had no outcome in time. Returns whether that changes what the server may be given.
    pub fn on_failure(&mut self) -> bool {
        let state = self.state();
        self.condition = match self.condition {
            Condition::Up { since, failed } => match failed.saturating_add(1) {
                failed if failed < self.settings.down_after => Condition::Up { since, failed },
                _ => Condition::Down { succeeded: 0 },
            },
            Condition::Unknown | Condition::Down { .. } => Condition::Down { succeeded: 0 },
        };
        self.state() != state
    }

    /// A check has found that nothing receives at the server's address: it is down at once, whatever `down_after` is. Returns
    /// whether that changes what the server may be given.
    pub fn on_unreachable(&mut self) -> bool {
        let state = self.state();
        self.condition = Condition::Down { succeeded: 0 };
        self.state() != state
    }

    /// The server's part of new clients in tenths of the full one: 1 when it has come up, and one more after each ninth of
    /// the slow start; 0 while it gets none. The weight that it is configured to have is to be multiplied by this.
    ///
    /// It changes in steps because each one makes a new [`Pool`](crate::Pool).
    pub fn weight(&self, now: Timestamp) -> u32 {
        match self.condition {
            Condition::Up { since: None, .. } if !self.is_draining => Self::FULL_WEIGHT,
            Condition::Up { since: Some(since), .. } if !self.is_draining => {
                let tenths = (1..Self::FULL_WEIGHT).filter(|step| self.step(since, *step) <= now);
                (tenths.count() as u32).saturating_add(1)
            }
            _ => 0,
        }
    }

    /// When the weight grows next; `None` if it does not grow unless something else happens.
    pub fn next_weight(&self, now: Timestamp) -> Option<Timestamp> {
        let Condition::Up { since: Some(since), .. } = self.condition else { return None };
        let mut steps = (1..Self::FULL_WEIGHT).map(|step| self.step(since, step));
        if self.is_draining { None } else { steps.find(|at| *at > now) }
    }

    /// When so many ninths of the slow start have passed.
    fn step(&self, since: Timestamp, step: u32) -> Timestamp {
        let steps = Self::FULL_WEIGHT.saturating_sub(1);
        let passed = self.settings.slow_start.saturating_mul(step).checked_div(steps);
        since + passed.unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
