use core::time::Duration;

use clearway_units::{Rate, Timestamp};

/// Smallest capacity of a bucket in bytes: enough for a UDP payload of the largest size.
const MIN_CAPACITY: u64 = 65_536;

/// A token bucket: limits a rate, and permits short bursts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBucket {
    rate: Option<Rate>,
    capacity: u64,
    /// Number of bytes that may be taken at `since`.
    tokens: u64,
    /// The time up to which tokens have been added.
    since: Timestamp,
}

impl TokenBucket {
    /// Creates a full bucket. Its capacity is the number of bytes that the rate transfers in
    /// `burst`, but at least 64 KiB. Without a rate, there is no limit.
    pub fn new(rate: Option<Rate>, burst: Duration, now: Timestamp) -> Self {
        let capacity = rate.map_or(u64::MAX, |rate| rate.bytes_in(burst)).max(MIN_CAPACITY);
        Self { rate, capacity, tokens: capacity, since: now }
    }

    /// Takes `bytes`, and returns whether they are permitted. If not, nothing is taken.
    pub fn take(&mut self, bytes: u64, now: Timestamp) -> bool {
        if self.rate.is_none() {
            return true;
        }
        self.refill(now);
        match self.tokens.checked_sub(bytes) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }

    /// Returns whether `bytes` could be taken.
    pub fn has(&mut self, bytes: u64, now: Timestamp) -> bool {
        self.refill(now);
        self.rate.is_none() || self.tokens >= bytes
    }

    /// Returns when `bytes` can be taken; `None` if never, because they exceed the capacity.
    pub fn available_at(&mut self, bytes: u64, now: Timestamp) -> Option<Timestamp> {
        if self.has(bytes, now) {
            return Some(now);
        }
        if bytes > self.capacity {
            return None;
        }
        let missing = bytes.saturating_sub(self.tokens);
        self.rate?.time_for(missing).map(|wait| self.since + wait)
    }

    /// Returns whether the whole capacity is available.
    pub fn is_full(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.rate.is_none() || self.tokens == self.capacity
    }

    fn refill(&mut self, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        let added = rate.bytes_in(now.saturating_since(self.since));
        if added == 0 {
            // The time stays on the account: many short intervals add up.
            return;
        }
        self.tokens = self.tokens.saturating_add(added).min(self.capacity);
        self.since = match rate.time_for(added) {
            // Rounded up to a nanosecond, so at most one is lost.
            Some(used) if self.tokens < self.capacity => (self.since + used).min(now),
            _ => now,
        };
    }
}
