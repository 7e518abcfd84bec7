//! BBR's position in its cycle of bandwidth probes.

use core::time::Duration;

use crate::inspect::{Inspect, StateValue, Visit};
use clearway_units::packed::Pack;
use clearway_units::{Random, Timestamp};

/// The minimum time between two probes.
const LEAST_WAIT: Duration = Duration::from_secs(2);
/// The upper limit of the random time that is added to the minimum.
const RANDOM_WAIT_NANOSECONDS: u64 = 1_000_000_000;

/// BBR.ack_phase: what the current ACKs show about the last probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub(super) enum Feedback {
    #[default]
    None,
    Refilling,
    ProbeStarting,
    Probe,
    ProbeStopping,
}

impl Feedback {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Refilling => "refilling",
            Self::ProbeStarting => "probe_starting",
            Self::Probe => "probe",
            Self::ProbeStopping => "probe_stopping",
        }
    }
}

#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Cycle {
    pub(super) feedback: Feedback,
    /// Whether current ACKs are for packets sent by a bandwidth probe (BBR.is_bw_probe_sample).
    pub(super) is_probe_sample: bool,
    /// Whether the last probe lost too much (BBR.prev_probe_too_high).
    pub(super) was_too_high: bool,
    /// Whether the last probe was ended early as a precaution (BBR.prev_probe_precautionary).
    pub(super) was_precautionary: bool,
    /// The round in which Drain began (BBR.drain_start_round).
    pub(super) drain_began_in: u64,
    /// When this cycle began (BBR.cycle_stamp).
    pub(super) began_at: Timestamp,
    /// The time until the next probe (BBR.bw_probe_wait).
    wait: Duration,
}

impl Cycle {
    /// Begins a cycle with ProbeBW_DOWN; the next probe follows after 2 to 3 seconds.
    pub(super) fn begin(&mut self, now: Timestamp, random: &mut Random) {
        let more = Duration::from_nanos(random.below(RANDOM_WAIT_NANOSECONDS));
        self.wait = LEAST_WAIT.saturating_add(more);
        self.began_at = now;
        self.feedback = Feedback::ProbeStopping;
    }

    /// Returns whether it is time for the next probe (HasElapsedInPhase).
    pub(super) fn has_waited(&self, now: Timestamp) -> bool {
        now > self.began_at + self.wait
    }
}

impl Inspect for Cycle {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            feedback,
            is_probe_sample,
            was_too_high,
            was_precautionary,
            drain_began_in,
            began_at,
            wait,
        } = *self;
        visit("ack_phase", StateValue::Word(feedback.name()));
        visit("is_bw_probe_sample", StateValue::Flag(is_probe_sample));
        visit("prev_probe_too_high", StateValue::Flag(was_too_high));
        visit("prev_probe_precautionary", StateValue::Flag(was_precautionary));
        visit("drain_start_round", StateValue::Count(drain_began_in));
        visit("cycle_stamp", StateValue::Time(began_at));
        visit("bw_probe_wait", StateValue::Duration(wait));
    }
}
