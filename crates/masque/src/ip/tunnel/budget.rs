use core::time::Duration;

use clearway_units::Timestamp;

/// Maximum number of ICMP errors that may be sent in a burst.
const BURST: u32 = 50;
/// Interval at which one more ICMP error is permitted: 100 per second.
const INTERVAL: Duration = Duration::from_millis(10);

/// Limits the rate of ICMP errors (RFC 4443 §2.4 (f), RFC 1812 §4.3.2.8).
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorBudget {
    left: u32,
    /// The time up to which the budget has been refilled.
    since: Timestamp,
}

impl ErrorBudget {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { left: BURST, since: now }
    }

    /// Returns whether an error may be sent now, and counts it if so.
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        while self.left < BURST && now.saturating_since(self.since) >= INTERVAL {
            self.left = self.left.saturating_add(1);
            self.since += INTERVAL;
        }
        if self.left == BURST {
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_limited() {
        let at = |ms| Timestamp::from_origin(Duration::from_millis(ms));
        let mut budget = ErrorBudget::new(at(0));
        let mut taken = |now| (0..1000).filter(|_| budget.take(now)).count();
        assert_eq!(taken(at(0)), 50);
        assert_eq!(taken(at(9)), 0);
        assert_eq!(taken(at(10)), 1);
        assert_eq!(taken(at(25)), 1);
        assert_eq!(taken(at(30)), 1);
        assert_eq!(taken(at(1_000_000)), 50);
    }
}
