//! The slowest place of a direction: a queue, and a wire of a given rate behind it.

use std::collections::VecDeque;

use clearway_units::{Rate, Timestamp};
use core::time::Duration;

use crate::{Conditions, QueueLimit, Step};

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// How a datagram gets through the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Passage {
    /// How long it waits in the queue.
    pub(crate) waits: Duration,
    /// When its last byte is on the wire.
    pub(crate) leaves: Timestamp,
}

/// Service times are known on entry, because the queue is first in, first out and all rates are known
/// in advance. So the queue is only remembered as far as its limit needs it.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    rate: RateSchedule,
    limit: QueueLimit,
    overhead: u64,
    /// When the last datagram that was let in leaves.
    free_at: Timestamp,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
}

#[derive(Debug)]
struct Waiting {
    /// When it leaves the queue for the wire.
    starts: Timestamp,
    bytes: u64,
}

impl Bottleneck {
    pub(crate) fn new(conditions: &Conditions) -> Self {
        Self {
            rate: RateSchedule::new(conditions.rate, conditions.rate_steps.clone()),
            limit: conditions.queue,
            overhead: u64::from(conditions.overhead),
            free_at: Timestamp::ORIGIN,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// How many datagrams wait at `now`.
    pub(crate) fn waiting(&mut self, now: Timestamp) -> usize {
        while let Some(head) = self.waiting.front()
            && head.starts <= now
        {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(head.bytes);
            self.waiting.pop_front();
        }
        self.waiting.len()
    }

    /// Lets a datagram of `payload` bytes in; `None` if the queue is full.
    pub(crate) fn admit(
        &mut self,
        now: Timestamp,
        first: Timestamp,
        payload: usize,
    ) -> Option<Passage> {
        let bytes = u64::try_from(payload).unwrap_or(u64::MAX).saturating_add(self.overhead);
        let waiting = self.waiting(now);
        let starts = self.free_at.max(now);
        if starts > now {
            let total = self.waiting_bytes.saturating_add(bytes);
            if self.limit.packets.is_some_and(|limit| waiting >= limit)
                || self.limit.bytes.is_some_and(|limit| total > limit)
            {
                return None;
            }
            self.waiting.push_back(Waiting { starts, bytes });
            self.waiting_bytes = total;
        }
        self.free_at = self.rate.finish(starts, first, bytes);
        Some(Passage { waits: starts.saturating_since(now), leaves: self.free_at })
    }
}

/// A rate that changes at known times. Asked about starts that never go back.
#[derive(Debug)]
struct RateSchedule {
    /// `None` takes no time.
    current: Option<Rate>,
    steps: VecDeque<Step<Option<Rate>>>,
}

impl RateSchedule {
    fn new(rate: Option<Rate>, mut steps: Vec<Step<Option<Rate>>>) -> Self {
        steps.sort_by_key(|step| step.after);
        Self { current: rate, steps: steps.into() }
    }

    /// When `bytes` that start at `start` are through, if the first datagram entered at `first`.
    fn finish(&mut self, start: Timestamp, first: Timestamp, bytes: u64) -> Timestamp {
        // In bytes times nanoseconds per second, so that no rounding adds up over the steps.
        let mut left = u128::from(bytes).saturating_mul(NANOSECONDS_PER_SECOND);
        let mut at = start;
        loop {
            let step = loop {
                match self.steps.front() {
                    Some(step) if first + step.after <= at => self.current = step.value,
                    next => break next.map(|step| first + step.after),
                }
                self.steps.pop_front();
            };
            let Some(rate) = self.current else { return at };
            let rate = u128::from(rate.bytes_per_second());
            let finish = match rate {
                0 => Timestamp::FAR_FUTURE,
                _ => at + nanoseconds(left.div_ceil(rate)),
            };
            match step {
                Some(step) if step < finish => {
                    let passed = rate.saturating_mul(step.saturating_since(at).as_nanos());
                    left = left.saturating_sub(passed);
                    at = step;
                }
                _ => return finish,
            }
        }
    }
}

fn nanoseconds(count: u128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
