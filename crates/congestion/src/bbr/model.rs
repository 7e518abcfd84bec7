//! BBR's model of the path: bandwidth, round-trip time, and ACK aggregation.

use core::time::Duration;

use clearway_units::packed::Pack;
use clearway_units::{Rate, Timestamp};

use super::sample::Sample;
use crate::inspect::{Inspect, StateValue, Visit};

/// The lifetime of the minimum RTT, in intervals between two ProbeRTTs (BBR.MinRTTFilterLen).
const MINIMUM_RTT_LIFETIME: u32 = 2;
/// The minimum interval between two ProbeRTTs (BBR.ProbeRTTInterval).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// A ProbeRTT runs at most once in this many round trips; it takes at least one of them itself.
const PROBE_RTT_ROUND_TRIPS: u32 = 5;
/// The length of the max filter for ACK aggregation in rounds, once the pipe has been full
/// (BBR.ExtraAckedFilterLen).
pub(super) const AGGREGATION_ROUNDS: u64 = 10;

/// BBR.max_bw_filter: the highest delivery rate in this ProbeBW cycle and the previous one
/// (BBR.MaxBwFilterLen = 2). It counts cycles, not rounds or time, so that each window contains a
/// phase that sent faster than the estimate (row 114).
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Bandwidth {
    previous: Rate,
    current: Rate,
}

impl Bandwidth {
    /// Returns the maximum bandwidth (BBR.max_bw); zero before the first sample.
    pub(super) fn maximum(&self) -> Rate {
        self.previous.max(self.current)
    }

    /// Adds a sample. A sample taken while the sender was application-limited counts only if it
    /// shows that the estimate is too low.
    pub(super) fn update(&mut self, sample: &Sample) {
        if sample.rate >= self.maximum() || !sample.is_application_limited {
            self.current = self.current.max(sample.rate);
        }
    }

    /// Advances the filter at the end of a cycle (AdvanceMaxBwFilter). A cycle without samples is
    /// not counted.
    pub(super) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            self.previous = core::mem::take(&mut self.current);
        }
    }
}

/// The minimum round-trip time, and when to look for a lower one (draft, "ProbeRTT Logic").
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct MinimumRtt {
    /// The minimum RTT (BBR.min_rtt) and when it was measured.
    minimum: Option<(Duration, Timestamp)>,
    /// The recent minimum RTT (BBR.probe_rtt_min_delay) and when it was measured.
    recent: Option<(Duration, Timestamp)>,
    /// When a sample last showed that BBR.min_rtt still holds.
    confirmed_at: Timestamp,
    /// Whether a ProbeRTT is due (BBR.probe_rtt_expired).
    pub(super) is_due: bool,
}

impl MinimumRtt {
    /// Returns BBR.min_rtt; `None` before the first sample (law 7).
    pub(super) fn minimum(&self) -> Option<Duration> {
        self.minimum.map(|(rtt, _)| rtt)
    }

    /// Returns how long the recent minimum delay remains valid.
    fn interval(&self) -> Duration {
        let rounds = self.minimum().unwrap_or_default().saturating_mul(PROBE_RTT_ROUND_TRIPS);
        rounds.max(PROBE_RTT_INTERVAL)
    }

    /// Adds a sample of the round-trip time. A sample that is at most `resolution` longer than the
    /// minimum confirms it: the minimum stays valid for another lifetime, and the next search
    /// follows after an interval, but at most a lifetime after the last one. Such a sample never
    /// becomes the minimum itself.
    pub(super) fn update(&mut self, now: Timestamp, rtt: Duration, resolution: Duration) {
        let (delay, stamp) = self.recent.unwrap_or((rtt, now));
        // Whether a probe is due is decided before the minimum is refreshed (row 122).
        let interval = self.interval();
        let lifetime = interval.saturating_mul(MINIMUM_RTT_LIFETIME);
        self.is_due = now > self.confirmed_at.max(stamp) + interval || now > stamp + lifetime;
        if self.minimum().is_none_or(|minimum| rtt <= minimum.saturating_add(resolution)) {
            self.confirmed_at = now;
        }
        let recent = if self.is_due || rtt < delay { (rtt, now) } else { (delay, stamp) };
        self.recent = Some(recent);
        let (minimum, stamp) = self.minimum.unwrap_or(recent);
        let is_expired = now > self.confirmed_at.max(stamp) + lifetime;
        let is_better = recent.0 < minimum || is_expired;
        self.minimum = Some(if is_better { recent } else { (minimum, stamp) });
    }

    /// Adopts the round-trip time that ProbeRTT measured on a path that has become longer.
    pub(super) fn adopt(&mut self, now: Timestamp, rtt: Duration) {
        self.minimum = Some((rtt, now));
        self.recent = self.minimum;
        self.confirmed_at = now;
    }

    /// Schedules the next ProbeRTT an interval after `now`, the end of the previous one.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        if let Some((_, stamp)) = &mut self.recent {
            *stamp = now;
        }
    }
}

/// The degree of ACK aggregation: the bytes acknowledged in excess of what the bandwidth explains
/// (BBR.extra_acked).
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Aggregation {
    began_at: Timestamp,
    delivered: u64,
    /// The largest excess of each of the latest rounds, paired with the round number.
    excess: [(u64, u64); AGGREGATION_ROUNDS as usize],
    maximum: u64,
}

impl Aggregation {
    /// Adds the excess of a sample (UpdateACKAggregation), limited to `limit` and remembered for
    /// `rounds` rounds.
    pub(super) fn update(
        &mut self,
        sample: &Sample,
        rate: Rate,
        limit: u64,
        round: u64,
        rounds: u64,
    ) {
        let mut expected = rate.bytes_in(sample.now.saturating_since(self.began_at));
        if self.delivered <= expected {
            self.restart(sample.now);
            self.delivered = 0;
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(sample.newly_acked);
        let excess = self.delivered.saturating_sub(expected).min(limit);
        let slot = &mut self.excess[(round % AGGREGATION_ROUNDS) as usize];
        *slot = if slot.0 == round { (round, slot.1.max(excess)) } else { (round, excess) };
        let recent = self.excess.iter().filter(|(of, _)| of.saturating_add(rounds) > round);
        self.maximum = recent.map(|(_, excess)| *excess).max().unwrap_or(0);
    }

    /// Restarts the interval over which delivery is compared with the bandwidth at `now`.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.began_at = now;
    }

    /// Returns BBR.extra_acked in bytes.
    pub(super) fn maximum(&self) -> u64 {
        self.maximum
    }
}

impl Inspect for Bandwidth {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { previous, current } = *self;
        visit("max_bw_previous", StateValue::Rate(previous));
        visit("max_bw_current", StateValue::Rate(current));
    }
}

impl Inspect for MinimumRtt {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { minimum, recent, confirmed_at, is_due } = *self;
        for (name, stamp, measured) in [
            ("min_rtt", "min_rtt_stamp", minimum),
            ("probe_rtt_min_delay", "probe_rtt_min_stamp", recent),
        ] {
            visit(name, StateValue::optional(measured, |(rtt, _)| StateValue::Duration(rtt)));
            visit(stamp, StateValue::optional(measured, |(_, at)| StateValue::Time(at)));
        }
        visit("min_rtt_confirmed_at", StateValue::Time(confirmed_at));
        visit("probe_rtt_expired", StateValue::Flag(is_due));
    }
}

impl Inspect for Aggregation {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { began_at, delivered, excess, maximum } = self;
        visit("extra_acked_interval_start", StateValue::Time(*began_at));
        visit("extra_acked_delivered", StateValue::Bytes(*delivered));
        for (round, excess) in excess {
            visit("excess_round", StateValue::Count(*round));
            visit("excess", StateValue::Bytes(*excess));
        }
        visit("extra_acked", StateValue::Bytes(*maximum));
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
