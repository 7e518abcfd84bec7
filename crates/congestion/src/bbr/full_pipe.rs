//! Detects when sending faster no longer makes the network deliver faster (draft, "Exiting
//! Acceleration Based on Bandwidth Plateau").
//!
//! A round is judged by its largest sample, whereas the draft uses the sample that ended it: see
//! the top of [`bbr`](super).

use clearway_units::Rate;
use clearway_units::packed::Pack;

use super::gain::Gain;
use super::sample::Sample;
use crate::inspect::{Inspect, StateValue, Visit};

/// The minimum multiple of the baseline at which a round's rate counts as growth.
const GROWTH: Gain = Gain(125);
/// The number of rounds without growth after which the pipe is considered full.
const ROUNDS: u32 = 3;

#[derive(Clone, Debug, Default, Pack)]
pub(super) struct FullPipe {
    /// The rate that growth is compared with (BBR.full_bw).
    baseline: Rate,
    /// The highest rate of the current round.
    greatest: Rate,
    /// The number of rounds without growth (BBR.full_bw_count).
    pub(super) rounds: u32,
    /// Whether the pipe was full since the last reset (BBR.full_bw_now).
    pub(super) is_reached: bool,
    /// Whether the pipe was ever full (BBR.full_bw_reached).
    pub(super) was_reached: bool,
}

impl FullPipe {
    /// Updates whether the pipe is full (CheckFullBWReached).
    pub(super) fn update(&mut self, sample: &Sample, is_round_start: bool) {
        if self.is_reached || sample.is_application_limited {
            return;
        }
        self.greatest = self.greatest.max(sample.rate);
        if is_round_start {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let rate = core::mem::take(&mut self.greatest);
        if rate >= GROWTH.of_rate(self.baseline) {
            self.reset(rate);
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds >= ROUNDS {
            self.set_reached();
        }
    }

    /// Restarts the search for a plateau, above `baseline` (ResetFullBW).
    pub(super) fn reset(&mut self, baseline: Rate) {
        self.baseline = baseline;
        self.greatest = Rate::ZERO;
        self.rounds = 0;
        self.is_reached = false;
    }

    pub(super) fn set_reached(&mut self) {
        self.is_reached = true;
        self.was_reached = true;
    }
}

impl Inspect for FullPipe {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { baseline, greatest, rounds, is_reached, was_reached } = *self;
        visit("full_bw", StateValue::Rate(baseline));
        visit("full_bw_greatest", StateValue::Rate(greatest));
        visit("full_bw_count", StateValue::Count(u64::from(rounds)));
        visit("full_bw_now", StateValue::Flag(is_reached));
        visit("full_bw_reached", StateValue::Flag(was_reached));
    }
}

#[cfg(test)]
#[path = "full_pipe_tests.rs"]
mod tests;
