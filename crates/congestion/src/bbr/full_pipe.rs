//! Whether sending faster still makes the network deliver faster (draft, "Exiting Acceleration Based
//! on Bandwidth Plateau").

use clearway_units::Rate;

use super::gain::Gain;
use super::sample::Sample;

/// A round in which the rate grew by less than to this does not count as growth.
const GROWTH: Gain = Gain(125);
/// So many rounds without growth fill the pipe.
const ROUNDS: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct FullPipe {
    /// BBR.full_bw.
    baseline: Rate,
    /// BBR.full_bw_count.
    pub(super) rounds: u32,
    /// BBR.full_bw_now: since this was last reset.
    pub(super) is_reached: bool,
    /// BBR.full_bw_reached: ever.
    pub(super) was_reached: bool,
}

impl FullPipe {
    /// CheckFullBWReached.
    pub(super) fn update(&mut self, sample: &Sample, is_round_start: bool) {
        if self.is_reached || !is_round_start || sample.is_application_limited {
            return;
        }
        if sample.rate >= GROWTH.of_rate(self.baseline) {
            self.reset(sample.rate);
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds >= ROUNDS {
            self.set_reached();
        }
    }

    /// ResetFullBW: looks for a plateau anew, above `baseline`.
    pub(super) fn reset(&mut self, baseline: Rate) {
        self.baseline = baseline;
        self.rounds = 0;
        self.is_reached = false;
    }

    pub(super) fn set_reached(&mut self) {
        self.is_reached = true;
        self.was_reached = true;
    }
}
