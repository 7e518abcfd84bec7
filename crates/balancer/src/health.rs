//! A server's reachability, as determined by health checks, and its slow start after it comes up.

use core::time::Duration;

use clearway_units::Timestamp;

use crate::ServerState;

/// Settings that determine when a server counts as up or down, and its slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthSettings {
    /// Interval between the start times of two checks.
    pub interval: Duration,
    /// Number of consecutive successful checks after which a server that was down is up; 0 is
    /// treated as 1.
    pub up_after: u32,
    /// Number of consecutive failed checks after which a server that was up is down; 0 is treated
    /// as 1.
    pub down_after: u32,
    /// Time from coming up until the server receives its full share of new clients; zero for no
    /// slow start.
    pub slow_start: Duration,
}

impl Default for HealthSettings {
    /// Returns the default settings: checks every half second, up after two successes, down after
    /// three failures, and a slow start of thirty seconds.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            up_after: 2,
            down_after: 3,
            slow_start: Duration::from_secs(30),
        }
    }
}

/// The health state of one server.
///
/// The caller begins a check when [`deadline`](Self::deadline) has been reached, and reports its
/// outcome; the timeout is up to the caller. If a server's state is unknown, the first outcome
/// determines whether it is up.
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
    /// No check has completed yet.
    Unknown,
    /// The server is up. `failed` is the number of consecutive failed checks; `since` is `None` if
    /// the server was assumed to be up from the beginning.
    Up { since: Option<Timestamp>, failed: u32 },
    /// The server is down. `succeeded` is the number of consecutive successful checks.
    Down { succeeded: u32 },
}

impl Health {
    /// The maximum [weight](Self::weight).
    pub const FULL_WEIGHT: u32 = 10;

    /// Creates the health state of a server that may be up or down. A check is due immediately.
    pub fn new(settings: HealthSettings, now: Timestamp) -> Self {
        Self { settings, next_check: now, condition: Condition::Unknown, is_draining: false }
    }

    /// Creates the health state of a server that is assumed to be up, with its full share of new
    /// clients, until checks show otherwise. A check is due immediately.
    pub fn assumed_up(settings: HealthSettings, now: Timestamp) -> Self {
        let condition = Condition::Up { since: None, failed: 0 };
        Self { condition, ..Self::new(settings, now) }
    }

    /// Returns which traffic the server may receive.
    pub fn state(&self) -> ServerState {
        match self.condition {
            Condition::Unknown | Condition::Down { .. } => ServerState::Down,
            Condition::Up { .. } if self.is_draining => ServerState::Draining,
            Condition::Up { .. } => ServerState::Active,
        }
    }

    /// Sets whether the server is draining, in which case it receives no new clients.
    pub fn set_draining(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Returns when the next check is due.
    pub fn deadline(&self) -> Timestamp {
        self.next_check
    }

    /// Returns whether a check is due. If so, the caller must start it, and the next check is due
    /// one interval later.
    pub fn begin_check(&mut self, now: Timestamp) -> bool {
        let is_due = now >= self.next_check;
        if is_due {
            // One late call does not make later checks more frequent.
            let regular = self.next_check + self.settings.interval;
            self.next_check = if regular > now { regular } else { now + self.settings.interval };
        }
        is_due
    }

    /// Records a successful check. Returns whether that changes the state.
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

    /// Records a check that failed or timed out. Returns whether that changes the state.
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

    /// Records a report that nothing is listening at the server's address. Anyone can forge such a
    /// report, so the next check is due immediately; if that fails too, the server is down,
    /// regardless of `down_after`. Returns whether that changes the state.
    pub fn on_unreachable(&mut self, now: Timestamp) -> bool {
        let state = self.state();
        self.condition = match self.condition {
            Condition::Up { since, failed: 0 } if self.settings.down_after > 1 => {
                self.next_check = self.next_check.min(now);
                Condition::Up { since, failed: self.settings.down_after.saturating_sub(1) }
            }
            _ => Condition::Down { succeeded: 0 },
        };
        self.state() != state
    }

    /// Returns the server's share of new clients in tenths of its full share: 1 when it has just
    /// come up, and one more after each ninth of the slow start; 0 while it receives no new
    /// clients. Multiply the configured weight by this.
    ///
    /// The weight grows in steps because each change requires a new [`Pool`](crate::Pool).
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

    /// Returns when the weight will next grow; `None` if it will not grow before another event
    /// occurs.
    pub fn next_weight(&self, now: Timestamp) -> Option<Timestamp> {
        let Condition::Up { since: Some(since), .. } = self.condition else { return None };
        let mut steps = (1..Self::FULL_WEIGHT).map(|step| self.step(since, step));
        if self.is_draining { None } else { steps.find(|at| *at > now) }
    }

    /// Returns the time at which the given ninth of the slow start ends.
    fn step(&self, since: Timestamp, step: u32) -> Timestamp {
        let steps = Self::FULL_WEIGHT.saturating_sub(1);
        let passed = self.settings.slow_start.saturating_mul(step).checked_div(steps);
        since + passed.unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
