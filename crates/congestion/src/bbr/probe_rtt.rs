//! ProbeRTT: keeps little data in flight for a while, so that the round-trip time is measured
//! without a queue (draft, "ProbeRTT Logic").

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::Bbr;
use super::cycle::Feedback;
use super::sample::Sample;
use super::state::BbrState;
use crate::inspect::{Inspect, StateValue, Visit};
use crate::{SendIndex, SentPacket};

/// The minimum duration of ProbeRTT (BBR.ProbeRTTDuration).
const LEAST_DURATION: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Default, Pack)]
pub(super) struct ProbeRtt {
    /// When the bytes in flight fell to ProbeRTT's window. BBR.probe_rtt_done_stamp is 200 ms
    /// later.
    pub(super) reached_at: Option<Timestamp>,
    /// Whether a round has passed since the bytes in flight fell to ProbeRTT's window
    /// (BBR.probe_rtt_round_done).
    is_round_done: bool,
    /// Whether ProbeRTT interrupted a bandwidth probe.
    interrupted_probe: bool,
    /// The first packet whose samples are too low, and the number of delivered bytes at which
    /// samples are usable again (MarkConnectionAppLimited).
    marked: Option<(SendIndex, u64)>,
}

impl ProbeRtt {
    /// Marks packets sent since ProbeRTT began, and the `in_flight` bytes sent with them, as not
    /// representative of the bandwidth.
    fn mark(&mut self, sample: &Sample) {
        let until = sample.total_delivered.saturating_add(sample.in_flight).max(1);
        let from = self.marked.map_or(sample.next_index, |(from, _)| from);
        self.marked = Some((from, until));
    }

    /// Returns whether `packet` was sent while ProbeRTT limited the sender.
    pub(super) fn has_marked(&self, packet: &SentPacket) -> bool {
        self.marked
            .is_some_and(|(from, until)| packet.index >= from && packet.delivery.delivered <= until)
    }
}

impl Bbr {
    /// Returns whether `packet` was sent while application-limited or limited by ProbeRTT
    /// (P.is_app_limited).
    pub(super) fn is_application_limited(&self, packet: &SentPacket) -> bool {
        packet.delivery.is_application_limited || self.probe_rtt.has_marked(packet)
    }

    /// Enters ProbeRTT if it is due, or continues it (CheckProbeRTT).
    pub(super) fn check_probe_rtt(&mut self, sample: &Sample) {
        let is_due = self.minimum_rtt.is_due;
        let is_wanted = (is_due || self.longer_path.wants_probe()) && !self.is_restarting;
        if self.state != BbrState::ProbeRtt && is_wanted {
            self.longer_path.begin_probe(sample.prior_in_flight, is_due);
            self.start_probe_rtt(sample.total_delivered);
        }
        if self.state == BbrState::ProbeRtt {
            self.handle_probe_rtt(sample);
        }
        if sample.delivered > 0 {
            self.is_restarting = false;
        }
    }

    /// Enters ProbeRTT (EnterProbeRTT).
    fn start_probe_rtt(&mut self, total_delivered: u64) {
        self.window.save(self.episode.is_open);
        let interrupted_probe = matches!(self.state, BbrState::ProbeRefill | BbrState::ProbeUp);
        self.probe_rtt = ProbeRtt { interrupted_probe, ..ProbeRtt::default() };
        self.state = BbrState::ProbeRtt;
        self.cycle.feedback = Feedback::ProbeStopping;
        self.rounds.begin(total_delivered);
    }

    /// Continues ProbeRTT (HandleProbeRTT).
    fn handle_probe_rtt(&mut self, sample: &Sample) {
        self.probe_rtt.mark(sample);
        if self.probe_rtt.reached_at.is_none() {
            if sample.in_flight <= self.probe_rtt_window() {
                self.probe_rtt.reached_at = Some(sample.now);
                self.probe_rtt.is_round_done = false;
                self.rounds.begin(sample.total_delivered);
            }
            return;
        }
        self.probe_rtt.is_round_done |= self.rounds.is_start;
        if self.probe_rtt.is_round_done {
            self.longer_path.note_probe(sample.rtt);
        }
        if self.probe_rtt.is_round_done {
            self.check_probe_rtt_done(sample.now, sample.total_delivered);
        }
    }

    /// Leaves ProbeRTT if its time has passed (CheckProbeRTTDone).
    pub(super) fn check_probe_rtt_done(&mut self, now: Timestamp, total_delivered: u64) {
        let Some(reached_at) = self.probe_rtt.reached_at else { return };
        if now <= reached_at + LEAST_DURATION {
            return;
        }
        let longer = self.longer_rtt();
        self.minimum_rtt.schedule(now);
        if let Some(rtt) = longer {
            self.minimum_rtt.adopt(now, rtt);
        }
        self.window.restore();
        self.short_term.reset();
        if !self.full_pipe.was_reached {
            self.start_startup();
        } else if self.continues_probe() {
            self.start_probe_refill(total_delivered);
        } else {
            self.start_probe_down(now, total_delivered);
            self.start_probe_cruise();
        }
    }

    /// Returns whether a bandwidth probe that had not found a bound was interrupted, and there is
    /// data to continue it.
    fn continues_probe(&self) -> bool {
        self.probe_rtt.interrupted_probe && !self.cycle.was_too_high && !self.is_restarting
    }
}

impl Inspect for ProbeRtt {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { reached_at, is_round_done, interrupted_probe, marked } = *self;
        visit("probe_rtt_reached_at", StateValue::optional(reached_at, StateValue::Time));
        visit("probe_rtt_round_done", StateValue::Flag(is_round_done));
        visit("broke_off_probe", StateValue::Flag(interrupted_probe));
        let (from, until) = (marked.map(|(from, _)| from), marked.map(|(_, until)| until));
        visit("marked_from", StateValue::optional(from, StateValue::Index));
        visit("marked_until", StateValue::optional(until, StateValue::Delivered));
    }
}
