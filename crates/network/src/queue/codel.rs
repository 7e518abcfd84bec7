use core::time::Duration;

use clearway_units::Timestamp;

use super::fifo::Fifo;
use super::{QueueVerdict, QueuedDatagram};

/// Controlled Delay: drops (or marks) at the head of the queue when datagrams have waited longer
/// than `target` for at least an `interval`, and increasingly often while this lasts (RFC 8289,
/// Section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoDel {
    /// The acceptable standing delay: 5 ms (RFC 8289, Section 4.4).
    pub target: Duration,
    /// Approximately the longest round-trip time through the queue: 100 ms (RFC 8289, Section 4.3).
    pub interval: Duration,
    /// Whether ECN-capable datagrams are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CoDel {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: false }
    }
}

/// A datagram with no more than this many bytes behind it in the queue is never dropped: one
/// datagram of the link's MTU (RFC 8289, Section 5.3).
const LARGEST_PACKET: u64 = 1500;

/// The number of intervals for which a dropping state is remembered (RFC 8289, Section 5.5).
const REMEMBERED_INTERVALS: u32 = 16;

#[derive(Debug)]
pub(super) struct CoDelQueue {
    pub(super) fifo: Fifo,
    parameters: CoDel,
    /// The time at which the sojourn time will have been above the target for an entire interval.
    first_above: Option<Timestamp>,
    is_dropping: bool,
    /// The number of drops since the dropping state was last entered.
    count: u32,
    /// The value of `count` when the dropping state was last entered.
    last_count: u32,
    /// The time at which the next drop is due, or was due when the state ended.
    drop_next: Timestamp,
}

impl CoDelQueue {
    pub(super) fn new(parameters: CoDel) -> Self {
        Self {
            fifo: Fifo::default(),
            parameters,
            first_above: None,
            is_dropping: false,
            count: 0,
            last_count: 0,
            drop_next: Timestamp::ORIGIN,
        }
    }

    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(QueuedDatagram, QueueVerdict)> {
        let Some(waiting) = self.fifo.pop() else {
            self.first_above = None;
            self.is_dropping = false;
            return None;
        };
        if !self.may_drop(now, &waiting) {
            self.is_dropping = false;
            return Some((waiting, QueueVerdict::Send));
        }
        if !self.is_dropping {
            self.enter(now);
        } else if now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            self.drop_next += self.spacing();
        } else {
            return Some((waiting, QueueVerdict::Send));
        }
        let is_marked = self.parameters.ecn && waiting.ecn.is_markable();
        Some((waiting, if is_marked { QueueVerdict::Mark } else { QueueVerdict::Drop }))
    }

    /// Returns whether the delay has been above the target for an interval, based on `waiting`,
    /// which has just left the queue.
    fn may_drop(&mut self, now: Timestamp, waiting: &QueuedDatagram) -> bool {
        let sojourn = now.saturating_since(waiting.entered);
        if sojourn < self.parameters.target || self.fifo.bytes() <= LARGEST_PACKET {
            self.first_above = None;
            return false;
        }
        let due = *self.first_above.get_or_insert(now + self.parameters.interval);
        now >= due
    }

    /// Enters the dropping state, at about the previous drop rate if the last dropping state was
    /// recent.
    fn enter(&mut self, now: Timestamp) {
        self.is_dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let memory = self.parameters.interval.saturating_mul(REMEMBERED_INTERVALS);
        let is_recent = now.saturating_since(self.drop_next) < memory;
        self.count = if is_recent { delta.max(1) } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + self.spacing();
    }

    /// Returns the interval divided by the square root of the count (RFC 8289, Section 5.4).
    fn spacing(&self) -> Duration {
        let interval = self.parameters.interval.as_nanos() as f64;
        Duration::from_nanos((interval / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
#[path = "codel_tests.rs"]
mod tests;
