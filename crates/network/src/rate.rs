//! A rate that changes at known times.

use core::time::Duration;

use clearway_units::{Rate, Timestamp};

use crate::Step;

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// The steps of a rate over time. Transmissions must be passed to it in order of their start times.
#[derive(Debug)]
pub(crate) struct RateSchedule {
    /// The rate before the first step; `None` means that transmission takes no time.
    initial: Option<Rate>,
    steps: Vec<Step<Option<Rate>>>,
    /// The number of steps that had started when the last transmission started.
    past: usize,
}

impl RateSchedule {
    pub(crate) fn new(rate: Option<Rate>, mut steps: Vec<Step<Option<Rate>>>) -> Self {
        steps.sort_by_key(|step| step.after);
        Self { initial: rate, steps, past: 0 }
    }

    /// Returns whether every transmission takes no time.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.initial.is_none() && self.steps.iter().all(|step| step.value.is_none())
    }

    /// Returns the rate at `at`, given that the first datagram entered at `first`.
    pub(crate) fn rate(&self, first: Timestamp, at: Timestamp) -> Option<Rate> {
        self.behind(self.steps.partition_point(|step| first + step.after <= at))
    }

    /// Returns the rate after `past` steps have started.
    fn behind(&self, past: usize) -> Option<Rate> {
        let step = past.checked_sub(1).and_then(|last| self.steps.get(last));
        step.map_or(self.initial, |step| step.value)
    }

    /// Returns the time at which a transmission of `bytes` that starts at `start` ends, given that
    /// the first datagram entered at `first`.
    pub(crate) fn finish(&mut self, start: Timestamp, first: Timestamp, bytes: u64) -> Timestamp {
        // The remainder is in bytes times nanoseconds per second, so that rounding errors do not
        // accumulate over the steps.
        let mut left = u128::from(bytes).saturating_mul(NANOSECONDS_PER_SECOND);
        let mut at = start;
        loop {
            while self.steps.get(self.past).is_some_and(|step| first + step.after <= at) {
                self.past = self.past.saturating_add(1);
            }
            let next = self.steps.get(self.past).map(|step| first + step.after);
            let Some(rate) = self.behind(self.past) else { return at };
            let rate = u128::from(rate.bytes_per_second());
            let finish = match rate {
                0 => Timestamp::FAR_FUTURE,
                _ => at + nanoseconds(left.div_ceil(rate)),
            };
            match next {
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
