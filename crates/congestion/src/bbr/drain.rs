//! Drain: empties the queue that Startup filled.

use super::Bbr;
use super::gain::Gain;
use super::sample::Sample;
use super::state::BbrState;

/// The maximum number of rounds in Drain. Without it, Drain would never end if the bandwidth was
/// overestimated, because the data in flight would not drop to the estimate.
const MAXIMUM_ROUNDS: u64 = 3;

impl Bbr {
    /// Enters Drain (EnterDrain).
    pub(super) fn start_drain(&mut self) {
        self.state = BbrState::Drain;
        self.cycle.drain_began_in = self.rounds.count;
    }

    /// Leaves Drain once the data in flight fits in the path (CheckDrainDone).
    pub(super) fn check_drain_done(&mut self, sample: &Sample) {
        if self.state != BbrState::Drain {
            return;
        }
        let last = self.cycle.drain_began_in.saturating_add(MAXIMUM_ROUNDS);
        if sample.in_flight <= self.in_flight_for(self.rate, Gain::ONE) || self.rounds.count > last
        {
            self.start_probe_down(sample.now, sample.total_delivered);
        }
    }
}
