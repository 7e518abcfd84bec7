//! ProbeBW: the cycle DOWN, CRUISE, REFILL, UP (draft, "ProbeBW Algorithm Details").

use clearway_units::{Rate, Timestamp};

use super::Bbr;
use super::cycle::Feedback;
use super::gain::Gain;
use super::sample::Sample;
use super::state::BbrState;

/// The maximum number of rounds between two probes, so that a Reno flow on the same path gets its
/// share.
const RENO_ROUNDS: u64 = 63;

impl Bbr {
    /// Enters ProbeBW_DOWN, which sends at less than the path's delivery rate to empty the queue.
    pub(super) fn start_probe_down(&mut self, now: Timestamp, total_delivered: u64) {
        self.latest.reset();
        self.long_term.end_probe();
        self.rounds.since_probe_up = self.random.below(2);
        self.cycle.begin(now, &mut self.random);
        self.rounds.begin(total_delivered);
        self.state = BbrState::ProbeDown;
    }

    /// Enters ProbeBW_CRUISE, which sends at the path's delivery rate.
    pub(super) fn start_probe_cruise(&mut self) {
        self.state = BbrState::ProbeCruise;
    }

    /// Enters ProbeBW_REFILL, which discards the bounds set by this cycle's losses and fills the
    /// pipe for a round.
    pub(super) fn start_probe_refill(&mut self, total_delivered: u64) {
        self.short_term.reset();
        self.long_term.begin_probe();
        self.cycle.was_precautionary = false;
        self.cycle.feedback = Feedback::Refilling;
        self.rounds.begin(total_delivered);
        self.state = BbrState::ProbeRefill;
    }

    /// Enters ProbeBW_UP, which sends faster than the path has delivered so far.
    fn start_probe_up(&mut self, total_delivered: u64, rate: Rate) {
        self.cycle.feedback = Feedback::ProbeStarting;
        self.rounds.begin(total_delivered);
        self.full_pipe.reset(rate);
        self.state = BbrState::ProbeUp;
        self.long_term.raise_slope(self.window.bytes(), self.size());
    }

    /// Moves to the next phase of ProbeBW if it is time (UpdateProbeBWCyclePhase).
    pub(super) fn update_probe_bandwidth(&mut self, sample: &Sample) {
        if !self.full_pipe.was_reached || self.adapt_long_term_model(sample) {
            return;
        }
        match self.state {
            BbrState::ProbeDown if self.is_time_to_probe(sample.now) => {
                self.start_probe_refill(sample.total_delivered);
            }
            BbrState::ProbeDown if self.is_time_to_cruise(sample) => self.start_probe_cruise(),
            BbrState::ProbeCruise if self.is_time_to_probe(sample.now) => {
                self.start_probe_refill(sample.total_delivered);
            }
            BbrState::ProbeRefill if self.rounds.is_start => {
                self.cycle.is_probe_sample = true;
                self.start_probe_up(sample.total_delivered, sample.rate);
            }
            BbrState::ProbeUp => self.check_probe_up_done(sample),
            _ => {}
        }
    }

    fn check_probe_up_done(&mut self, sample: &Sample) {
        if self.is_time_to_go_down(sample) {
            self.cycle.was_too_high = false;
            self.start_probe_down(sample.now, sample.total_delivered);
        }
    }

    /// Adapts the long-term bound (AdaptLongTermModel). Returns whether this changed the state.
    fn adapt_long_term_model(&mut self, sample: &Sample) -> bool {
        if self.cycle.feedback == Feedback::ProbeStarting && self.rounds.is_start {
            self.cycle.feedback = Feedback::Probe;
        }
        if self.cycle.feedback == Feedback::ProbeStopping
            && self.rounds.is_start
            && self.conclude_probe(sample)
        {
            return true;
        }
        self.raise_long_term_bound(sample);
        false
    }

    /// Concludes a probe, one round after its end, when none of its ACKs can still arrive. A probe
    /// that was ended early as a precaution and did no harm is immediately followed by one without
    /// the precaution.
    fn conclude_probe(&mut self, sample: &Sample) -> bool {
        self.cycle.is_probe_sample = false;
        self.cycle.feedback = Feedback::None;
        if !self.state.is_probing_bandwidth() {
            return false;
        }
        if !sample.is_application_limited {
            self.bandwidth.advance();
        }
        let goes_on = self.cycle.was_precautionary && !self.cycle.was_too_high;
        if goes_on {
            self.start_probe_refill(sample.total_delivered);
        }
        goes_on
    }

    /// Returns whether it is time for a bandwidth probe (IsTimeToProbeBW).
    fn is_time_to_probe(&self, now: Timestamp) -> bool {
        let reno_rounds = (self.target_in_flight() / self.size()).min(RENO_ROUNDS);
        self.cycle.has_waited(now) || self.rounds.since_probe_up >= reno_rounds
    }

    /// Returns whether there is headroom and no queue (IsTimeToCruise). Whether there is a queue is
    /// known once a packet sent in this phase is acknowledged, unless neither the window nor the
    /// pacer limits sending.
    fn is_time_to_cruise(&self, sample: &Sample) -> bool {
        if self.cycle.feedback == Feedback::ProbeStopping && sample.growing > 0 {
            return false;
        }
        let has_headroom = self.bound_with_headroom().is_none_or(|it| sample.in_flight <= it);
        has_headroom && sample.in_flight <= self.in_flight_for(self.bandwidth.maximum(), Gain::ONE)
    }

    /// Returns whether to end ProbeBW_UP (IsTimeToGoDown).
    pub(super) fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.cycle.was_too_high && self.has_reached_long_term_bound(sample) {
            self.cycle.was_precautionary = true;
            return true;
        }
        if self.is_at_long_term_bound(sample) {
            // The bound limits the rate, so a plateau is not evidence about the path.
            self.full_pipe.reset(sample.rate);
            return false;
        }
        self.full_pipe.is_reached
    }

    /// Returns whether the bytes in flight came within less than a datagram of the bound.
    fn has_reached_long_term_bound(&self, sample: &Sample) -> bool {
        let reached = sample.prior_in_flight.saturating_add(self.size());
        self.long_term.bound.is_some_and(|bound| reached > bound)
    }
}
