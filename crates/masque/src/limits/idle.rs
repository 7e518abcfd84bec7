use core::time::Duration;

use clearway_units::Timestamp;

/// Shortest idle time after which a proxy should close a UDP tunnel (RFC 9298 §3.1, RFC 4787
/// §4.3).
pub const MIN_IDLE: Duration = Duration::from_secs(120);

/// Measures how long a tunnel has been idle. When the timer expires, the tunnel's stream and socket
/// must be closed (RFC 9298 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleTimer {
    limit: Duration,
    last: Timestamp,
}

impl IdleTimer {
    /// Creates the timer of a tunnel that begins now. Limits below [`MIN_IDLE`] are raised to it.
    pub fn new(limit: Duration, now: Timestamp) -> Self {
        Self { limit: limit.max(MIN_IDLE), last: now }
    }

    /// Restarts the timer: a payload has passed in either direction.
    pub fn restart(&mut self, now: Timestamp) {
        self.last = self.last.max(now);
    }

    /// Returns when the tunnel must be closed if no payload passes until then.
    pub fn deadline(&self) -> Timestamp {
        self.last + self.limit
    }

    /// Returns whether the tunnel must be closed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.deadline() <= now
    }
}
