//! Packet-timed round trips (draft, "BBR.round_count").

use super::sample::Sample;
use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::Pack;

/// Counts rounds. BBR has its own count because a new round begins with each phase.
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Rounds {
    /// The number of rounds so far (BBR.round_count).
    pub(super) count: u64,
    /// Whether the current ACK ended a round (BBR.round_start).
    pub(super) is_start: bool,
    /// The number of rounds since the last bandwidth probe (BBR.rounds_since_probe_up).
    pub(super) since_probe_up: u64,
    /// The total delivered bytes at which the round ends (BBR.next_round_delivered).
    ends_at: u64,
}

impl Rounds {
    pub(super) fn update(&mut self, sample: &Sample) {
        self.is_start = sample.prior_delivered() >= self.ends_at;
        if self.is_start {
            self.begin(sample.total_delivered);
            self.count = self.count.saturating_add(1);
            self.since_probe_up = self.since_probe_up.saturating_add(1);
        }
    }

    /// Starts a round, which lasts until a packet sent after `total_delivered` bytes have been
    /// delivered is acknowledged (StartRound).
    pub(super) fn begin(&mut self, total_delivered: u64) {
        self.ends_at = total_delivered;
    }
}

impl Inspect for Rounds {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { count, is_start, since_probe_up, ends_at } = *self;
        visit("round_count", StateValue::Count(count));
        visit("round_start", StateValue::Flag(is_start));
        visit("rounds_since_probe_up", StateValue::Count(since_probe_up));
        visit("next_round_delivered", StateValue::Delivered(ends_at));
    }
}
