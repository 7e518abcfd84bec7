//! One direction of a link: what becomes of each datagram that enters it.

use core::time::Duration;

use clearway_units::{Random, Timestamp};

use crate::bottleneck::Bottleneck;
use crate::counters::{WayCounters, increment};
use crate::loss::{LossState, capped};
use crate::{Conditions, Datagram, DropReason, Ecn, Way};

/// The most that one direction holds, in bytes of payload plus a little for each datagram. What comes
/// on top is dropped ([`DropReason::Pipe`]), whatever the queue's own limit is.
pub const PIPE_LIMIT: usize = 64 << 20;

/// What a datagram costs beside its payload.
const DATAGRAM_COST: usize = 128;
/// What remembering a place in the queue costs.
const QUEUE_PLACE_COST: usize = 16;

/// A datagram that passes.
#[derive(Debug)]
pub(crate) struct Passing {
    pub(crate) datagram: Datagram,
    pub(crate) at: Timestamp,
    pub(crate) number: u64,
    pub(crate) copy: Option<Datagram>,
}

#[derive(Debug)]
pub(crate) struct Direction {
    conditions: Conditions,
    bottleneck: Bottleneck,
    loss: Vec<LossState>,
    sources: Sources,
    /// Datagrams that have entered.
    entered: u64,
    /// Bytes of payload that were not dropped on entry.
    passed_bytes: u64,
    /// When the last datagram that keeps its order comes out, before ticks.
    last_out: Timestamp,
    corrupt_run: u32,
    /// Bytes and costs of what is in the pipe.
    held: usize,
    highest_delivered: u64,
}

/// One source for each impairment that draws; each loss rule has its own.
#[derive(Debug)]
struct Sources {
    jitter: Random,
    reorder: Random,
    duplicate: Random,
    corrupt: Random,
}

/// What was drawn for one datagram.
struct Draws {
    lost: Option<DropReason>,
    jitter: u64,
    is_held_back: bool,
    is_duplicated: bool,
    /// Which byte is changed, and which of its bits.
    corruption: Option<(usize, u8)>,
}

impl Direction {
    pub(crate) fn new(mut conditions: Conditions, mut random: Random) -> Self {
        let sources = Sources {
            jitter: random.fork(),
            reorder: random.fork(),
            duplicate: random.fork(),
            corrupt: random.fork(),
        };
        conditions.delay_steps.sort_by_key(|step| step.after);
        let rules = core::mem::take(&mut conditions.loss);
        let loss = rules.into_iter().map(|rule| LossState::new(rule, random.fork())).collect();
        Self {
            bottleneck: Bottleneck::new(&conditions),
            conditions,
            loss,
            sources,
            entered: 0,
            passed_bytes: 0,
            last_out: Timestamp::ORIGIN,
            corrupt_run: 0,
            held: 0,
            highest_delivered: 0,
        }
    }

    /// Decides what becomes of a datagram that enters at `now`; the first of the link did at `first`.
    pub(crate) fn enter(
        &mut self,
        now: Timestamp,
        first: Timestamp,
        mut datagram: Datagram,
        counters: &mut WayCounters,
    ) -> Result<Passing, DropReason> {
        let length = datagram.payload.len();
        self.entered = self.entered.saturating_add(1);
        let draws = self.draw(now, first, length);

        if self.conditions.bleach && datagram.ecn != Ecn::NotEct {
            datagram.ecn = Ecn::NotEct;
            increment(&mut counters.bleached);
        }
        if self.conditions.mtu.is_some_and(|mtu| length > mtu) {
            return Err(DropReason::TooLarge);
        }
        if !self.has_room(now, length) {
            return Err(DropReason::Pipe);
        }
        let passage = self.bottleneck.admit(now, first, length).ok_or(DropReason::Queue)?;
        if let Some(reason) = draws.lost {
            return Err(reason);
        }
        let is_marked = self.conditions.mark_above.is_some_and(|limit| passage.waits > limit);
        if is_marked && datagram.ecn.is_markable() {
            datagram.ecn = Ecn::Ce;
            increment(&mut counters.marked);
        }
        if let Some((position, flip)) = draws.corruption
            && let Some(byte) = datagram.payload.get_mut(position)
        {
            *byte ^= flip;
            increment(&mut counters.corrupted);
        }
        self.hold(length);
        let mut copy = None;
        if draws.is_duplicated && self.has_room(now, length) {
            copy = Some(datagram.clone());
            self.hold(length);
            increment(&mut counters.duplicated);
        }
        self.passed_bytes =
            self.passed_bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        let at = self.time_out(passage.leaves, first, &draws);
        Ok(Passing { datagram, at, number: self.entered, copy })
    }

    /// Everything random about the next datagram, drawn whether or not it matters in the end.
    fn draw(&mut self, now: Timestamp, first: Timestamp, length: usize) -> Draws {
        let mut lost = None;
        for rule in &mut self.loss {
            let reason = rule.takes(now, first, self.entered);
            lost = lost.or(reason);
        }
        let range = nanoseconds(self.conditions.jitter.range);
        let jitter = match range {
            0 => 0,
            _ => self.sources.jitter.below(range.saturating_mul(2).saturating_add(1)),
        };
        let corrupt = &self.conditions.corrupt;
        let random = &mut self.sources.corrupt;
        let maximum_run = corrupt.maximum_run.unwrap_or(u32::MAX);
        let corruption = capped(corrupt.probability, maximum_run, &mut self.corrupt_run, random)
            .then(|| {
                let reach = corrupt.within.map_or(length, |within| within.min(length));
                let position = random.below(u64::try_from(reach).unwrap_or(u64::MAX));
                // Never zero: a corrupt byte is a different byte.
                let flip = random.below(u64::from(u8::MAX)).saturating_add(1);
                (usize::try_from(position).unwrap_or(0), u8::try_from(flip).unwrap_or(u8::MAX))
            });
        Draws {
            lost,
            jitter,
            is_held_back: self.conditions.reorder.probability.happens(&mut self.sources.reorder),
            is_duplicated: self.conditions.duplicate.happens(&mut self.sources.duplicate),
            corruption,
        }
    }

    /// When a datagram comes out that leaves the bottleneck at `leaves`.
    fn time_out(&mut self, leaves: Timestamp, first: Timestamp, draws: &Draws) -> Timestamp {
        if leaves == Timestamp::FAR_FUTURE {
            return leaves;
        }
        let steps = &self.conditions.delay_steps;
        let past = steps.partition_point(|step| first + step.after <= leaves);
        let step = past.checked_sub(1).and_then(|last| steps.get(last));
        let delay = nanoseconds(step.map_or(self.conditions.delay, |step| step.value));
        let jitter = self.conditions.jitter;
        let varied = delay.saturating_add(draws.jitter).saturating_sub(nanoseconds(jitter.range));
        let mut at = leaves + Duration::from_nanos(varied);
        if draws.is_held_back {
            at += self.conditions.reorder.by;
        } else if !jitter.reorder_by_jitter {
            at = at.max(self.last_out);
            self.last_out = at;
        }
        match self.conditions.tick.map(nanoseconds) {
            None | Some(0) => at,
            Some(tick) => match at.as_nanos().checked_next_multiple_of(tick) {
                Some(rounded) => Timestamp::from_nanos(rounded),
                None => Timestamp::FAR_FUTURE,
            },
        }
    }

    fn has_room(&mut self, now: Timestamp, length: usize) -> bool {
        let queue = self.bottleneck.waiting(now).saturating_mul(QUEUE_PLACE_COST);
        let cost = length.saturating_add(DATAGRAM_COST);
        self.held.saturating_add(queue).saturating_add(cost) <= PIPE_LIMIT
    }

    fn hold(&mut self, length: usize) {
        self.held = self.held.saturating_add(length).saturating_add(DATAGRAM_COST);
    }

    /// A datagram of `length` bytes has come out or was dropped at the end.
    pub(crate) fn release(&mut self, length: usize) {
        self.held = self.held.saturating_sub(length).saturating_sub(DATAGRAM_COST);
    }

    /// The datagram `number` was delivered; whether one that entered later was delivered before.
    pub(crate) fn on_delivered(&mut self, number: u64) -> bool {
        let is_overtaken = number < self.highest_delivered;
        self.highest_delivered = self.highest_delivered.max(number);
        is_overtaken
    }

    /// Bytes of payload that have passed so far.
    pub(crate) const fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// Tells the windows of this direction what has passed in the direction `way`.
    pub(crate) fn on_passed(&mut self, now: Timestamp, way: Way, total: u64) {
        for rule in &mut self.loss {
            rule.on_passed(now, way, total);
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
