//! The pacer, the same for every controller (RFC 9002 §7.7).

use core::time::Duration;

use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::Pack;
use clearway_units::{Rate, ReleaseTime, Timestamp};

/// The number of datagrams that may be sent without pacing: the initial window (RFC 9002 §7.7).
const BURST_DATAGRAMS: u64 = 10;
/// The bucket size of a sender that sends continuously and is limited by its window: enough for the
/// response to an ACK for every second datagram.
const BUSY_DATAGRAMS: u64 = 2;
/// The typical granularity of timers: a burst always covers at least this time at the given rate.
const BURST_TIME: Duration = Duration::from_millis(1);
/// The maximum burst in bytes, unless ten datagrams are larger: a few system calls, and 0.2 ms at
/// 10 Gbit/s.
const MAXIMUM_BURST: u64 = 256 << 10;
/// The minimum time that a sender waits for credit: waking it earlier costs more than sending so
/// little data is worth (row 93). Credit that accrues in the meantime is kept.
const SHORTEST_WAIT: Duration = Duration::from_micros(100);
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Spreads packets over the round trip with a token bucket that fills at the rate and is emptied by
/// sending.
///
/// In any time `w`, at most `rate x w` plus one [`burst`](Self::burst) is released. A full burst is
/// available to a sender that had nothing in flight, or that was woken later than requested. A
/// sender that was limited by its window in the meantime gets two datagrams, or a millisecond's
/// worth at the rate: a queue on the path need not hold more (scenario `wan-matrix`, where the
/// queue holds one datagram and bursts kept the window at its minimum).
///
/// The level is stored in bytes times 10^9, so that nothing is lost to rounding, no matter how
/// often it is queried.
#[derive(Clone, Debug, Pack)]
pub struct Pacer {
    max_datagram_size: u64,
    /// The level of the bucket, in units of 10^-9 bytes.
    level: u64,
    capacity: u64,
    filled_at: Timestamp,
    rate: Option<Rate>,
    /// Whether a full burst may accrue: nothing has been sent since data began to wait for this
    /// pacer, or since nothing was in flight.
    may_save: bool,
}

impl Pacer {
    /// Creates a pacer with a full bucket.
    pub fn new(now: Timestamp, max_datagram_size: u64) -> Self {
        let mut pacer = Self {
            max_datagram_size,
            level: 0,
            capacity: 0,
            filled_at: now,
            rate: None,
            may_save: true,
        };
        pacer.set_capacity();
        pacer.level = pacer.capacity;
        pacer
    }

    /// Changes the datagram size.
    pub fn set_max_datagram_size(&mut self, now: Timestamp, max_datagram_size: u64) {
        self.fill(now);
        self.max_datagram_size = max_datagram_size;
        self.set_capacity();
    }

    /// Returns the bytes that may be sent in a burst: ten datagrams, or, if that is more, a
    /// millisecond's worth at the current rate, up to 256 KiB.
    pub fn burst(&self) -> u64 {
        self.at_once(BURST_DATAGRAMS)
    }

    fn at_once(&self, datagrams: u64) -> u64 {
        let by_rate = self.rate.map_or(0, |rate| rate.bytes_in(BURST_TIME));
        let least = self.max_datagram_size.saturating_mul(datagrams);
        by_rate.min(MAXIMUM_BURST).max(least)
    }

    fn set_capacity(&mut self) {
        self.capacity = scaled(self.burst());
        self.level = self.level.min(self.capacity);
    }

    fn set_rate(&mut self, rate: Rate) {
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            self.set_capacity();
        }
    }

    fn fill(&mut self, now: Timestamp) {
        let Some(elapsed) = now.checked_since(self.filled_at) else { return };
        self.filled_at = now;
        if let Some(rate) = self.rate {
            let capacity =
                if self.may_save { self.capacity } else { scaled(self.at_once(BUSY_DATAGRAMS)) };
            // Credit that accrued earlier is not taken away.
            let capacity = capacity.max(self.level);
            self.level = self.level.saturating_add(gained(rate, elapsed)).min(capacity);
        }
    }

    /// Called when nothing is in flight at `now`: the next transmission may begin with a burst.
    pub fn on_quiet(&mut self, now: Timestamp) {
        self.fill(now);
        self.may_save = true;
    }

    /// Sets the controller's rate from `now` on. Earlier time accrued at the previous rate, whether
    /// or not the pacer was queried in the meantime.
    pub fn on_rate(&mut self, now: Timestamp, rate: Option<Rate>) {
        // Without a rate, the bucket was unused, so it is full.
        if let Some(rate) = rate.filter(|rate| self.rate.is_some_and(|before| before != *rate)) {
            self.fill(now);
            self.set_rate(rate);
        }
    }

    /// Checks whether `bytes` may be sent at `now`. Without a rate there is no pacing.
    ///
    /// `bytes` must include bytes that were released earlier but not yet [sent](Self::on_sent).
    ///
    /// # Errors
    /// Returns the time at which this many bytes will have accrued: the same call then succeeds, if
    /// the rate has not fallen and the sender [waits](Self::on_waiting). At most one
    /// [`burst`](Self::burst) is released at a time.
    pub fn release(
        &mut self,
        now: Timestamp,
        rate: Option<Rate>,
        bytes: u64,
    ) -> Result<(), ReleaseTime> {
        let Some(rate) = rate else { return Ok(()) };
        // Past time accrues at the rate that applied then.
        self.fill(now);
        self.set_rate(rate);
        let missing = scaled(bytes).saturating_sub(self.level);
        if missing == 0 {
            return Ok(());
        }
        // A wait may fill at most a quarter of the bucket, or it would overflow.
        let useful = gained(rate, SHORTEST_WAIT).min(self.capacity / 4);
        // The level is in bytes x 10^9 and the rate in bytes per 10^9 ns: the quotient is
        // nanoseconds.
        let per_second = rate.bytes_per_second().max(1);
        let wait = missing.max(useful).div_ceil(per_second);
        Err(ReleaseTime::at(now + Duration::from_nanos(wait)))
    }

    /// Returns how many bytes [`release`](Self::release) allows at `now`; `u64::MAX` without a
    /// rate.
    pub fn released(&mut self, now: Timestamp, rate: Option<Rate>) -> u64 {
        let Some(rate) = rate else { return u64::MAX };
        self.fill(now);
        self.set_rate(rate);
        unscaled(self.level)
    }

    /// Records that data waits for the time that [`release`](Self::release) returned. If the sender
    /// is woken later than that, it may catch up.
    pub fn on_waiting(&mut self) {
        self.may_save = true;
    }

    /// Records that `bytes` were handed to the network at `now`.
    ///
    /// Data sent without a release, such as a probe, empties the bucket at most. The level is never
    /// negative, so the next wait stays within a round trip even at a rate of one datagram per
    /// round trip.
    pub fn on_sent(&mut self, now: Timestamp, bytes: u64) {
        self.fill(now);
        self.may_save = false;
        // Without a rate the bucket is unused: it starts full when pacing begins.
        if self.rate.is_some() {
            self.level = self.level.saturating_sub(scaled(bytes));
        }
    }
}

/// Converts bytes to the units of the level, saturating at eighteen billion bytes.
const fn scaled(bytes: u64) -> u64 {
    bytes.saturating_mul(NANOSECONDS_PER_SECOND)
}

/// Returns the whole bytes in a level.
const fn unscaled(level: u64) -> u64 {
    level / NANOSECONDS_PER_SECOND
}

/// Returns the amount that accrues at `rate` in `elapsed`, in the units of the level, saturating.
fn gained(rate: Rate, elapsed: Duration) -> u64 {
    let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    rate.bytes_per_second().saturating_mul(elapsed)
}

impl Inspect for Pacer {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { max_datagram_size: _, level, capacity, filled_at, rate, may_save } = *self;
        visit("pacer_level", StateValue::Count(level));
        visit("pacer_capacity", StateValue::Count(capacity));
        visit("pacer_filled_at", StateValue::Time(filled_at));
        visit("pacer_rate", StateValue::optional(rate, StateValue::Rate));
        visit("may_save", StateValue::Flag(may_save));
    }
}

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
