//! The pacer, the same for every controller (RFC 9002 §7.7).

use core::time::Duration;

use clearway_units::{Rate, ReleaseTime, Timestamp};

/// A burst of this many datagrams needs no pacing: the initial window (RFC 9002 §7.7).
const BURST_DATAGRAMS: u64 = 10;
/// Timers are not finer than this, so a burst is never smaller than what the rate gives in it.
const BURST_TIME: Duration = Duration::from_millis(1);
/// What one call to the kernel takes; a burst is never larger.
const MAXIMUM_BURST: u64 = 64 << 10;
const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// Spreads packets over the round trip: a bucket that fills at the rate and is emptied by sending.
///
/// The level is kept in bytes times 10^9, so that nothing is rounded away however often it is asked.
#[derive(Debug)]
pub struct Pacer {
    max_datagram_size: u64,
    /// In units of 10^-9 bytes; negative is debt, from a batch that was larger than the bucket.
    level: i128,
    filled_at: Timestamp,
    rate: Option<Rate>,
}

impl Pacer {
    /// A full bucket.
    pub fn new(now: Timestamp, max_datagram_size: u64) -> Self {
        let mut pacer = Self { max_datagram_size, level: 0, filled_at: now, rate: None };
        pacer.level = pacer.capacity();
        pacer
    }

    /// Datagrams are of another size now.
    pub fn set_max_datagram_size(&mut self, now: Timestamp, max_datagram_size: u64) {
        self.fill(now);
        self.max_datagram_size = max_datagram_size;
        self.level = self.level.min(self.capacity());
    }

    fn burst(&self) -> u64 {
        let by_rate = self.rate.map_or(0, |rate| rate.bytes_in(BURST_TIME));
        let least = self.max_datagram_size.saturating_mul(BURST_DATAGRAMS);
        by_rate.min(MAXIMUM_BURST).max(least)
    }

    fn capacity(&self) -> i128 {
        scaled(self.burst())
    }

    fn fill(&mut self, now: Timestamp) {
        let Some(elapsed) = now.checked_since(self.filled_at) else { return };
        self.filled_at = now;
        let rate = self.rate.map_or(0, Rate::bytes_per_second);
        let gained = u128::from(rate).saturating_mul(elapsed.as_nanos());
        let gained = i128::try_from(gained).unwrap_or(i128::MAX);
        self.level = self.level.saturating_add(gained).min(self.capacity());
    }

    /// Whether `bytes` may be sent at `now`, or from when on. Without a rate there is no pacing.
    ///
    /// A packet larger than the bucket may go when the bucket is full.
    ///
    /// # Errors
    /// The time at which the same question will be answered with yes.
    pub fn release(
        &mut self,
        now: Timestamp,
        rate: Option<Rate>,
        bytes: u64,
    ) -> Result<(), ReleaseTime> {
        let Some(rate) = rate else { return Ok(()) };
        self.fill(now);
        self.rate = Some(rate);
        self.level = self.level.min(self.capacity());
        let needed = scaled(bytes).min(self.capacity());
        let missing = needed.saturating_sub(self.level);
        if missing <= 0 {
            return Ok(());
        }
        let per_second = u128::from(rate.bytes_per_second().max(1));
        // `level` is in bytes x 10^9 and the rate in bytes per 10^9 ns: the quotient is nanoseconds.
        let wait = missing.unsigned_abs().div_ceil(per_second);
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Err(ReleaseTime::at(now + wait))
    }

    /// `bytes` were handed to the network at `now`.
    pub fn on_sent(&mut self, now: Timestamp, bytes: u64) {
        self.fill(now);
        // Without a rate the bucket is not in use: it starts full when pacing begins.
        if self.rate.is_some() {
            let floor = self.capacity().saturating_neg();
            self.level = self.level.saturating_sub(scaled(bytes)).max(floor);
        }
    }
}

fn scaled(bytes: u64) -> i128 {
    i128::from(bytes).saturating_mul(NANOSECONDS_PER_SECOND as i128)
}

#[cfg(test)]
mod tests;
