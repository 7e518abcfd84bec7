//! The path after the bottleneck, which determines when a datagram is delivered.

use core::time::Duration;

use clearway_units::{Random, Timestamp};

use crate::freeze::FreezesState;
use crate::inside::Travel;
use crate::{Conditions, Jitter, Step};

/// The delays, ordering, freezes and ticks of one direction.
#[derive(Debug)]
pub(crate) struct TravelTimes {
    delay: Duration,
    delay_steps: Vec<Step<Duration>>,
    jitter: Jitter,
    tick: u64,
    freezes: Option<FreezesState>,
    /// Flows with their own delays, by number.
    flows: Vec<(u32, Duration)>,
    /// Delivery time of the last in-order datagram, before freezes and ticks are applied: one entry
    /// for each flow with its own delay, and a final entry for all other flows.
    last_out: Vec<Timestamp>,
}

impl TravelTimes {
    pub(crate) fn new(
        conditions: &mut Conditions,
        mut flows: Vec<(u32, Duration)>,
        random: &mut Random,
    ) -> Self {
        let mut delay_steps = core::mem::take(&mut conditions.delay_steps);
        delay_steps.sort_by_key(|step| step.after);
        flows.sort_by_key(|(flow, _)| *flow);
        flows.dedup_by_key(|(flow, _)| *flow);
        Self {
            delay: conditions.delay,
            delay_steps,
            jitter: conditions.jitter,
            tick: conditions.tick.map_or(0, nanoseconds),
            freezes: conditions.freezes.map(|freezes| FreezesState::new(freezes, random)),
            last_out: vec![Timestamp::ORIGIN; flows.len().saturating_add(1)],
            flows,
        }
    }

    /// Returns the time at which a datagram of `flow` that leaves the bottleneck at `leaves` is
    /// delivered.
    pub(crate) fn time_out(
        &mut self,
        (leaves, first): (Timestamp, Timestamp),
        flow: u32,
        travel: Travel,
    ) -> Timestamp {
        if leaves == Timestamp::FAR_FUTURE {
            return leaves;
        }
        let (class, extra) = self.class(flow);
        let delay = nanoseconds(self.delay_at(first, leaves)).saturating_add(nanoseconds(extra));
        let varied =
            delay.saturating_add(travel.jitter).saturating_sub(nanoseconds(self.jitter.range));
        let mut at = leaves + Duration::from_nanos(varied);
        if let Some(by) = travel.held_back {
            at += by;
        } else if !self.jitter.reorder_by_jitter
            && let Some(last_out) = self.last_out.get_mut(class)
        {
            at = at.max(*last_out);
            *last_out = at;
        }
        if let Some(freezes) = &mut self.freezes {
            at = freezes.release(first, at);
        }
        self.rounded(at)
    }

    /// Returns a time before which no datagram that leaves the bottleneck at `leaves` or later is
    /// delivered.
    pub(crate) fn earliest_out(&self, leaves: Timestamp) -> Timestamp {
        let delays = self.delay_steps.iter().map(|step| step.value);
        let least = delays.fold(self.delay, Duration::min);
        self.rounded(leaves + least.saturating_sub(self.jitter.range))
    }

    /// Returns the delay of `flow` for datagrams that leave the bottleneck at `at`, without jitter,
    /// reordering, freezes and ticks.
    pub(crate) fn base_delay(&self, first: Timestamp, flow: u32, at: Timestamp) -> Duration {
        let (_, extra) = self.class(flow);
        self.delay_at(first, at).saturating_add(extra)
    }

    fn delay_at(&self, first: Timestamp, at: Timestamp) -> Duration {
        let past = self.delay_steps.partition_point(|step| first + step.after <= at);
        let step = past.checked_sub(1).and_then(|last| self.delay_steps.get(last));
        step.map_or(self.delay, |step| step.value)
    }

    /// Returns the index of the group within which `flow` preserves order, and the flow's
    /// additional delay.
    fn class(&self, flow: u32) -> (usize, Duration) {
        let place = self.flows.binary_search_by_key(&flow, |(flow, _)| *flow).ok();
        match place.and_then(|place| Some((place, self.flows.get(place)?.1))) {
            Some(own) => own,
            None => (self.flows.len(), Duration::ZERO),
        }
    }

    fn rounded(&self, at: Timestamp) -> Timestamp {
        if self.tick == 0 {
            return at;
        }
        match at.as_nanos().checked_next_multiple_of(self.tick) {
            Some(rounded) => Timestamp::from_nanos(rounded),
            None => Timestamp::FAR_FUTURE,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
