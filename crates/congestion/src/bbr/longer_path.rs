//! Detects that the path may have become longer, and confirms it immediately with a ProbeRTT.
//!
//! When the RTT rises sharply, the window is only a small part of the new bandwidth-delay product.
//! Each delivery rate sample is then that window per round trip, so the bandwidth filter forgets
//! the real rate within two cycles. The draft keeps the lower RTT for 10 s. It notes that where
//! such a change "can be predicted or detected, initiating a ProbeRTT immediately could conceivably
//! speed up the convergence" ("ProbeRTT Design Rationale").
//!
//! A sender that only observes cannot distinguish a longer path from a slower bottleneck: in both
//! cases the same window takes longer. ProbeRTT distinguishes them. If the delay is caused by a
//! queue that the flow itself built, the RTT falls with the amount in flight; if it is caused by
//! the path, the RTT stays the same. A queue built by other flows does not shrink either, but it
//! grows gradually as those flows send, whereas a path changes between two packets. Without such a
//! jump, no search starts and no longer RTT is adopted early.

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::Bbr;
use super::gain::Gain;
use super::sample::Sample;
use super::state::BbrState;
use crate::inspect::{Inspect, StateValue, Visit};

/// Flows whose model is right keep at most this many times their bandwidth-delay product in flight,
/// so their queues raise the RTT to at most this many times the minimum.
const LONGEST: Gain = BbrState::ProbeUp.window_gain();
/// ProbeRTT has not shortened the RTT if at least this fraction of it remains: midway between half
/// (half of the data in flight was removed from the bottleneck's queue) and all of it.
const STAYED: Gain = Gain(75);

/// The flow's own queue does not explain the RTT if the known bandwidth could have delivered more
/// than this multiple of the data in flight within the RTT, unless the bandwidth fell by a third.
const UNEXPLAINED: Gain = Gain(150);

/// [`LONGEST`] minus 100 %, that is, only the part caused by queueing.
const LONGEST_QUEUE: Gain = Gain(125);

/// A round with fewer samples than this is not conclusive (N_RTT_SAMPLE of RFC 9406).
const SAMPLES: u32 = 8;

/// The round-trip times considered in the search for a longer path.
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct LongerPath {
    /// The minimum round-trip time of this round.
    least: Option<Duration>,
    /// The maximum round-trip time of this round.
    greatest: Duration,
    samples: u32,
    /// Whether every sample of this round was too long to be explained by queues.
    is_longer: bool,
    /// The minimum round-trip time of the last round.
    last_round: Option<Duration>,
    /// Whether the current ACK ended a round in which every RTT sample was too long to be explained
    /// by queues.
    is_suspected: bool,
    /// When the newest packet of the last sample was sent, and the RTT of that sample.
    last: Option<(Timestamp, Duration)>,
    /// Whether the RTT rose abruptly from one sample to the next and has stayed high since.
    has_jumped: bool,
    /// Whether the last ProbeRTT was started by this search, before one was due.
    was_probed: bool,
    probe: Probe,
}

/// One ProbeRTT: the bytes in flight before it, and the round-trip times before and during it.
#[derive(Clone, Debug, Default, Pack)]
struct Probe {
    /// The bytes in flight when the ProbeRTT began.
    in_flight_before: u64,
    /// The minimum RTT of the round before the ProbeRTT.
    before: Option<Duration>,
    /// The minimum RTT of packets sent with little in flight.
    least: Option<Duration>,
}

impl LongerPath {
    /// Records an RTT sample, and whether it is too long to be explained by queues.
    pub(super) fn note(&mut self, rtt: Duration, is_longer: bool, is_round_start: bool) {
        self.is_suspected = is_round_start && self.has_jumped && self.is_longer && self.is_steady();
        if is_round_start {
            self.last_round = self.least.take();
            self.greatest = Duration::ZERO;
            self.samples = 0;
            self.is_longer = true;
        }
        self.is_longer &= is_longer;
        self.least = Some(least(self.least, rtt));
        self.greatest = self.greatest.max(rtt);
        self.samples = self.samples.saturating_add(1);
    }

    /// Detects a jump of the RTT. A path changes between two packets, whereas a queue grows over
    /// time. Even if other flows send at twice the bottleneck's rate, their queue delays packets by
    /// no more than the time that has passed.
    pub(super) fn note_jump(&mut self, sent_at: Timestamp, rtt: Duration, minimum: Duration) {
        if let Some((sent_before, rtt_before)) = self.last {
            let grown = sent_at.saturating_since(sent_before) + LONGEST_QUEUE.of_time(minimum);
            self.has_jumped |= rtt > rtt_before.saturating_add(grown);
        }
        self.has_jumped &= rtt > LONGEST.of_time(minimum);
        self.last = Some((sent_at, rtt));
    }

    /// Returns whether the samples of this round are conclusive. If jitter alone makes one RTT more
    /// than twice another, or if the round has few samples, a round of long samples may be a
    /// coincidence.
    fn is_steady(&self) -> bool {
        let is_even = |least: Duration| self.greatest <= least.saturating_mul(2);
        self.samples >= SAMPLES && self.least.is_some_and(is_even)
    }

    /// Returns whether to start a ProbeRTT before one is due. There is at most one early ProbeRTT
    /// per regular one, so a path on which other flows maintain a queue costs at most two per
    /// interval.
    pub(super) fn wants_probe(&self) -> bool {
        self.is_suspected && !self.was_probed
    }

    /// Begins ProbeRTT with `in_flight_before` bytes in flight, either because a ProbeRTT is due or
    /// because this search starts it.
    pub(super) fn begin_probe(&mut self, in_flight_before: u64, is_due: bool) {
        self.was_probed = !is_due;
        let before = self.last_round.or(self.least);
        self.probe = Probe { in_flight_before, before, least: None };
    }

    /// Records the round-trip time of a packet sent with little in flight.
    pub(super) fn note_probe(&mut self, rtt: Duration) {
        self.probe.least = Some(least(self.probe.least, rtt));
    }
}

fn least(known: Option<Duration>, rtt: Duration) -> Duration {
    known.map_or(rtt, |known| known.min(rtt))
}

impl Bbr {
    /// Processes an ACK; called for every ACK.
    pub(super) fn look_for_longer_path(&mut self, sample: &Sample) {
        if let Some(minimum) = self.minimum_rtt.minimum() {
            self.longer_path.note_jump(sample.newest.sent_at, sample.rtt, minimum);
        }
        let is_longer = self.is_longer(sample);
        self.longer_path.note(sample.rtt, is_longer, self.rounds.is_start);
    }

    /// Returns whether the packet took longer than explained by the data in flight with it, and by
    /// the queues of flows whose model is correct. In Startup the bandwidth is not known yet, and
    /// in Drain the queue of Startup is still being emptied.
    fn is_longer(&self, sample: &Sample) -> bool {
        let delivered = self.bandwidth.maximum().bytes_in(sample.rtt);
        self.full_pipe.was_reached
            && self.state != BbrState::Drain
            && !sample.is_application_limited
            && UNEXPLAINED.of(sample.sent_in_flight()) < delivered
            && self.is_beyond_queues(sample.rtt)
    }

    fn is_beyond_queues(&self, rtt: Duration) -> bool {
        self.minimum_rtt.minimum().is_some_and(|minimum| rtt > LONGEST.of_time(minimum))
    }

    /// Returns the round-trip time of the longer path that this ProbeRTT measured: at most half of
    /// the earlier data was in flight, and the round-trip time did not become much shorter.
    pub(super) fn longer_rtt(&self) -> Option<Duration> {
        let probe = &self.longer_path.probe;
        let measured = probe.least?;
        let was_cut = probe.in_flight_before >= self.probe_rtt_window().saturating_mul(2);
        let has_stayed = measured >= STAYED.of_time(probe.before?);
        (self.longer_path.has_jumped && was_cut && has_stayed && self.is_beyond_queues(measured))
            .then_some(measured)
    }
}

impl Inspect for LongerPath {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            least,
            greatest,
            samples,
            is_longer,
            last_round,
            is_suspected,
            last,
            has_jumped,
            was_probed,
            probe,
        } = self;
        let duration = |rtt: Option<Duration>| StateValue::optional(rtt, StateValue::Duration);
        visit("round_least_rtt", duration(*least));
        visit("round_greatest_rtt", StateValue::Duration(*greatest));
        visit("round_samples", StateValue::Count(u64::from(*samples)));
        visit("round_is_longer", StateValue::Flag(*is_longer));
        visit("last_round_least_rtt", duration(*last_round));
        visit("is_longer_path_suspected", StateValue::Flag(*is_suspected));
        visit("last_sample_sent_at", StateValue::optional(*last, |(at, _)| StateValue::Time(at)));
        visit("last_sample_rtt", duration(last.map(|(_, rtt)| rtt)));
        visit("rtt_has_jumped", StateValue::Flag(*has_jumped));
        visit("longer_path_was_probed", StateValue::Flag(*was_probed));
        let Probe { in_flight_before, before, least } = probe;
        visit("inflight_before_probe_rtt", StateValue::Bytes(*in_flight_before));
        visit("rtt_before_probe_rtt", duration(*before));
        visit("rtt_in_probe_rtt", duration(*least));
    }
}
