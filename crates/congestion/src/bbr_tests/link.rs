//! The network's effects on the packets of [`Path`](super::path::Path).

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeSet;

use clearway_units::{Random, Rate, Timestamp};

/// Drops packets for which the token bucket has no tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policer {
    pub(super) rate: Rate,
    pub(super) burst: u64,
    pub(super) tokens: u64,
    pub(super) filled_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Link {
    rate: Option<Rate>,
    /// The one-way delay.
    pub(super) delay: Duration,
    /// The capacity of the bottleneck's queue, in bytes.
    pub(super) buffer: u64,
    pub(super) loss: f64,
    pub(super) acknowledgement_loss: f64,
    pub(super) policer: Option<Policer>,
    /// The interval of ACK aggregation: ACKs arrive only at multiples of it.
    pub(super) aggregation: Option<Duration>,
    /// The number of packets per ACK; after 25 ms, an ACK is sent for fewer packets.
    pub(super) acknowledge_every: u64,
    /// A range of packets, and the duration by which they are delayed.
    pub(super) late: Option<(Range<u64>, Duration)>,
    /// The interval, in packets, between delayed packets of the range.
    pub(super) late_every: u64,
    /// The upper limit of the random delay of each packet.
    pub(super) jitter: Duration,
    /// Whether jitter reorders packets.
    pub(super) jitter_reorders: bool,
    /// The number of bytes queued at the bottleneck above which packets are CE-marked.
    pub(super) marks_above: u64,
    pub(super) marked: BTreeSet<u64>,
    /// The packets that are dropped.
    pub(super) dropped: Range<u64>,
    pub(super) random: Random,
    busy_until: Timestamp,
    latest_arrival: Timestamp,
    unanswered: u64,
}

impl Link {
    pub(super) fn new(rate: Option<Rate>, delay: Duration, buffer: u64, seed: u64) -> Self {
        Self {
            rate,
            delay,
            buffer,
            loss: 0.0,
            acknowledgement_loss: 0.0,
            policer: None,
            aggregation: None,
            acknowledge_every: 1,
            late: None,
            late_every: 1,
            jitter: Duration::ZERO,
            jitter_reorders: false,
            marks_above: u64::MAX,
            marked: BTreeSet::new(),
            dropped: 0..0,
            random: Random::from_number(seed),
            busy_until: Timestamp::ORIGIN,
            latest_arrival: Timestamp::ORIGIN,
            unanswered: 0,
        }
    }

    /// Changes the bottleneck's rate; waiting data is sent at the new rate.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate) {
        let waiting = self.waiting(now);
        self.rate = Some(rate);
        self.busy_until = now + rate.time_for(waiting).unwrap();
    }

    fn waiting(&self, now: Timestamp) -> u64 {
        self.rate.map_or(0, |rate| rate.bytes_in(self.busy_until.saturating_since(now)))
    }

    /// Returns when packet `index`, sent at `now`, arrives; `None` if it is lost.
    pub(super) fn carry(&mut self, now: Timestamp, index: u64, bytes: u64) -> Option<Timestamp> {
        let is_lost = self.loss > 0.0 && self.random.chance(self.loss);
        if is_lost || self.dropped.contains(&index) || !self.police(now, bytes) {
            return None;
        }
        let mut departs = now;
        if let Some(rate) = self.rate {
            if self.waiting(now) + bytes > self.buffer {
                return None;
            }
            if self.waiting(now) > self.marks_above {
                self.marked.insert(index);
            }
            self.busy_until = self.busy_until.max(now) + rate.time_for(bytes).unwrap();
            departs = self.busy_until;
        }
        let is_late =
            |of: &Range<u64>| of.contains(&index) && index.is_multiple_of(self.late_every);
        let late = self.late.as_ref().filter(|(indexes, _)| is_late(indexes));
        let late = late.map_or(Duration::ZERO, |(_, time)| *time);
        Some(self.disturb(departs + self.delay) + late)
    }

    /// Returns the arrival time with jitter of a packet that would arrive at `at` without it.
    fn disturb(&mut self, at: Timestamp) -> Timestamp {
        if self.jitter == Duration::ZERO {
            return at;
        }
        let more = Duration::from_nanos(self.random.below(self.jitter.as_nanos() as u64));
        if self.jitter_reorders {
            return at + more;
        }
        self.latest_arrival = self.latest_arrival.max(at + more);
        self.latest_arrival
    }

    fn police(&mut self, now: Timestamp, bytes: u64) -> bool {
        let Some(policer) = &mut self.policer else { return true };
        let gained = policer.rate.bytes_in(now.saturating_since(policer.filled_at));
        policer.tokens = (policer.tokens + gained).min(policer.burst);
        policer.filled_at = now;
        let passes = policer.tokens >= bytes;
        policer.tokens -= if passes { bytes } else { 0 };
        passes
    }

    /// Returns when the ACK for data that arrived at `now` arrives; `None` if it is lost.
    pub(super) fn answer(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.acknowledgement_loss > 0.0 && self.random.chance(self.acknowledgement_loss) {
            return None;
        }
        self.unanswered += 1;
        let is_due = self.unanswered >= self.acknowledge_every;
        let wait = if is_due { Duration::ZERO } else { Duration::from_millis(25) };
        self.unanswered *= u64::from(!is_due);
        let at = now + wait + self.delay;
        Some(match self.aggregation {
            Some(slot) => {
                let slot = slot.as_nanos() as u64;
                Timestamp::from_nanos(at.as_nanos().div_ceil(slot) * slot)
            }
            None => at,
        })
    }
}
