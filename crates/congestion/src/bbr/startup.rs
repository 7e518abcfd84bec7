//! Startup: the rate doubles each round, until the pipe is full.

use super::Bbr;
use super::long_term::is_too_high;
use super::sample::Sample;
use super::state::BbrState;

/// BBRStartupFullLossCnt: the number of lost packet ranges in a round that indicates more than
/// noise.
const LOST_RANGES: u64 = 6;

impl Bbr {
    /// Enters Startup (EnterStartup).
    pub(super) fn start_startup(&mut self) {
        self.state = BbrState::Startup;
    }

    /// Leaves Startup once the pipe is full (CheckStartupDone).
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_loss(sample);
        if self.state == BbrState::Startup && self.full_pipe.was_reached {
            self.start_drain();
        }
    }

    /// Treats the pipe as full if a loss round lost too much (CheckStartupHighLoss). A loss round
    /// begins with the first loss, so at its end recovery has lasted a full round. Losses also make
    /// an application-limited sender leave Startup.
    fn check_startup_loss(&mut self, sample: &Sample) {
        if !self.latest.round_started {
            return;
        }
        let ranges = self.latest.take_lost_ranges();
        let lost = sample.lost.saturating_add(self.latest.marked);
        let is_full = self.state == BbrState::Startup
            && !self.full_pipe.was_reached
            && ranges >= LOST_RANGES
            && is_too_high(lost, sample.sent_in_flight());
        if is_full {
            self.undo.note_transition(BbrState::Startup);
            self.full_pipe.set_reached();
            self.long_term.bound = Some(self.bandwidth_delay_product().max(self.latest.in_flight));
        }
    }
}
