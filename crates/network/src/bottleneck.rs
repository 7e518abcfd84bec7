//! The bottleneck of one direction: a queue followed by a wire with a given rate.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::{Rate, Timestamp};

use crate::ack_filter::AckFilterState;
use crate::queue::{Queue, QueueVerdict, QueuedDatagram};
use crate::rate::RateSchedule;
use crate::trace::TraceState;
use crate::{Conditions, DropReason};

/// The outcome for a datagram that was admitted to the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// The datagram's last byte is on the wire.
    Passed {
        slot: usize,
        at: Timestamp,
        /// The datagram's queueing delay.
        waited: Duration,
        /// Whether the queue marked the datagram.
        is_marked: bool,
    },
    /// The datagram was dropped from the queue.
    Dropped { slot: usize, at: Timestamp, reason: DropReason },
}

#[derive(Debug)]
pub(crate) struct Bottleneck {
    wire: Wire,
    queue: Queue,
    ack_filter: Option<AckFilterState>,
    serving: Option<Serving>,
    /// Queue drops that have not been returned yet.
    dropped: VecDeque<Exit>,
}

/// The model that determines transmission times on the wire.
#[derive(Debug)]
enum Wire {
    Rate(RateSchedule),
    Trace(Box<TraceState>),
}

/// The datagram that is on the wire.
#[derive(Debug)]
struct Serving {
    slot: usize,
    until: Timestamp,
    waited: Duration,
    is_marked: bool,
}

impl Bottleneck {
    /// Creates the bottleneck; `None` if the conditions do not include one.
    pub(crate) fn new(conditions: &mut Conditions) -> Option<Self> {
        let wire = match conditions.trace.take() {
            Some(trace) => Wire::Trace(Box::new(TraceState::new(trace))),
            None => {
                let steps = core::mem::take(&mut conditions.rate_steps);
                let rate = RateSchedule::new(conditions.rate, steps);
                if rate.is_unlimited() {
                    return None;
                }
                Wire::Rate(rate)
            }
        };
        Some(Self {
            wire,
            queue: Queue::new(conditions.discipline, conditions.queue),
            ack_filter: conditions.ack_filter.map(AckFilterState::new),
            serving: None,
            dropped: VecDeque::new(),
        })
    }

    /// Returns the queue of waiting datagrams.
    pub(crate) const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the rate at `at`, given that the first datagram entered at `first`. For a trace,
    /// returns the mean rate.
    pub(crate) fn rate(&self, first: Timestamp, at: Timestamp) -> Option<Rate> {
        match &self.wire {
            Wire::Rate(rate) => rate.rate(first, at),
            Wire::Trace(trace) => Some(trace.mean_rate()),
        }
    }

    /// Returns whether a datagram of `bytes` can be admitted now.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.serving.is_none() || self.queue.has_room(bytes)
    }

    /// Admits a datagram, given its flow and payload length. The caller must have processed all
    /// exits up to `now`.
    pub(crate) fn admit(
        &mut self,
        (now, first): (Timestamp, Timestamp),
        waiting: QueuedDatagram,
        (flow, length): (u32, usize),
    ) {
        if self.serving.is_some()
            && let Some(filter) = &mut self.ack_filter
        {
            let queue = &mut self.queue;
            let removed =
                filter.on_waiting((flow, waiting.number, length), |number| queue.remove(number));
            filter.prune(queue.oldest().unwrap_or(waiting.number));
            if let Some(removed) = removed {
                let reason = DropReason::AckFilter;
                self.dropped.push_back(Exit::Dropped { slot: removed.slot, at: now, reason });
            }
        }
        self.queue.push(now, waiting);
        if self.serving.is_none() {
            self.serve(now, first);
        }
    }

    /// Returns the time at which the datagram on the wire leaves it.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.serving.as_ref().map(|serving| serving.until)
    }

    /// Returns the next exit up to `now`, in order of time.
    pub(crate) fn exit(&mut self, now: Timestamp, first: Timestamp) -> Option<Exit> {
        if let Some(dropped) = self.dropped.pop_front() {
            return Some(dropped);
        }
        let is_due =
            |serving: &mut Serving| serving.until <= now && serving.until < Timestamp::FAR_FUTURE;
        let Serving { slot, until: at, waited, is_marked } = self.serving.take_if(is_due)?;
        self.serve(at, first);
        Some(Exit::Passed { slot, at, waited, is_marked })
    }

    /// Puts the next datagram on the wire.
    fn serve(&mut self, at: Timestamp, first: Timestamp) {
        while let Some((waiting, verdict)) = self.queue.pop(at) {
            if verdict == QueueVerdict::Drop {
                let reason = DropReason::QueueManagement;
                self.dropped.push_back(Exit::Dropped { slot: waiting.slot, at, reason });
                continue;
            }
            let until = match &mut self.wire {
                Wire::Rate(rate) => rate.finish(at, first, waiting.bytes),
                Wire::Trace(trace) => trace.finish(at, first, waiting.bytes),
            };
            self.serving = Some(Serving {
                slot: waiting.slot,
                until,
                waited: at.saturating_since(waiting.entered),
                is_marked: verdict == QueueVerdict::Mark,
            });
            return;
        }
    }
}

#[cfg(test)]
#[path = "bottleneck_tests.rs"]
mod tests;
