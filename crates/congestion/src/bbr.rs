//! BBR version 3 (draft-ietf-ccwg-bbr-06).
//!
//! The controller keeps a model of the path (its maximum delivery rate and minimum round-trip time)
//! and derives the pacing rate and the congestion window from it. Names follow the draft; its
//! "Infinity" is `None` here.
//!
//! # Where this departs from the draft's pseudocode, and why
//!
//! - **The first round-trip time initializes the pacing rate.** The draft's first rate assumes 1 ms
//!   and can only rise, so a long path would never be paced in Startup (row 121). Before the first
//!   sample there is no rate at all here: the initial window may be sent in one burst (RFC 9002
//!   §7.7).
//! - **The pacer releases at least one datagram per smoothed round-trip time** ([`pacing`]). After
//!   a series of long silences the measured rate may be one packet in many seconds; without this
//!   floor, the next sample would take as long again. A round-trip time includes the packet's own
//!   transmission time, so one packet per round trip never exceeds the path's rate.
//! - **A loss episode is defined as in RFC 9002 §7.3.2:** it begins with the loss of a packet sent
//!   after the previous episode began, and the state for an undo is saved then, not at the first
//!   loss of each round. The pseudocode, taken literally, overwrites what it saved: entering
//!   ProbeBW_DOWN ends the loss round, and the next lost packet of the same event saves the state
//!   again, now already reduced.
//! - **Persistent congestion takes the place of the retransmission timeout.** QUIC's probe timeout
//!   does not declare anything lost.
//! - **A precautionary probe ends when the in-flight data *reached* the long-term bound**, so the
//!   amount in flight before the ACK is compared. After the ACK it is always less, because the
//!   window is held at the bound. Drain and ProbeBW_DOWN end by the amount in flight after the ACK,
//!   as in the draft (row 106).
//! - **ProbeRTT runs every 5 s, but not more often than once in five round trips** ([`model`]). It
//!   lasts at least one round trip, at half of the path's capacity. The draft intends it to cost 2
//!   % of throughput, assuming the 200 ms that it takes on short paths. With a round trip of 2 s it
//!   took half of the time; above 5 s every round trip was a ProbeRTT, and Startup never grew. Up
//!   to a round trip of 1 s, the draft's interval, by which flows coordinate, is unchanged.
//! - **A round-trip time within one datagram's transmission time of BBR.min_rtt confirms it**
//!   ([`model`]): the next ProbeRTT then follows after five seconds, but at most ten after the
//!   last. The draft wants natural periods without a queue to make ProbeRTT unnecessary, but counts
//!   only a strictly lower sample, and if the minimum came from the ACK of a small packet, data
//!   packets never yield a lower one. A flow that is alone empties the queue in every ProbeBW_DOWN
//!   and would pay the 2 % of ProbeRTT without benefit. The search every ten seconds
//!   (BBR.MinRTTFilterLen) remains, because a queue of other flows looks like the path if its
//!   length does not change for that long.
//! - **A suspected longer path is probed immediately** ([`longer_path`]), with a ProbeRTT, as the
//!   draft suggests for a detected change, and the result is adopted when that ProbeRTT ends. The
//!   draft keeps the shorter round-trip time for 10 s (the two ProbeRTT intervals of its filter),
//!   and by then the bandwidth filter has forgotten the rate.
//! - **If the path reorders packets, the mean delay that this causes is added to BBR.min_rtt** in
//!   every bandwidth-delay product ([`jitter`]). If packets have individual delays, the minimum is
//!   that of the fastest packet, and twice the product (BBR.max_inflight) may be far less than the
//!   path holds: 5 kB of 75 kB with a minimum of 1 ms and a mean of 30 ms (`reordering-adapts`: 2
//!   MB took 4.3 s instead of 1.4). A queue does not reorder, so it adds nothing.
//! - **A plateau is judged by the largest sample of each round**, not by the sample that ends the
//!   round ([`full_pipe`]). During a probe the rate grows by 1.25 x 0.99 per one and a half rounds
//!   (the age of a sample): by 1.15 per round, and by 1.53 over the three rounds that are compared.
//!   Jitter of a fifth of the round trip changes single samples by as much in either direction: a
//!   high baseline and three low samples then look like growth of less than 1.25. Probes ended
//!   after 3 to 9 rounds on paths that carried a thousand times more, and the next probe was as
//!   many rounds away as datagrams fit in the path. Linux's BBR version 3 lets any sample of a
//!   round show growth. Because growth is judged at the end of a round, a plateau still takes three
//!   full rounds.
//! - **A bandwidth probe that ProbeRTT interrupts continues after it**, from ProbeBW_REFILL, if it
//!   met no excess loss and the sender did not go idle. The draft goes to ProbeBW_CRUISE for two to
//!   three seconds. ProbeRTT is due every five seconds: if a probe that has far to go takes as long
//!   (at 100 ms and more), half of the time would be spent at a fraction of the path's rate. REFILL
//!   sends as fast as CRUISE would in that round.
//! - **ProbeBW_DOWN lasts until a packet that was sent in it is acknowledged**, if the window or
//!   the pacer limits sending. The draft ends it as soon as the data in flight fits in the path. If
//!   flow control lets the path run empty in Startup, the small amount then sent at nearly three
//!   times the rate ends up in the queue, which CRUISE never empties.
//! - **The bandwidth filter advances only past cycles with samples**: two advances without a sample
//!   would discard the estimate.
//! - **The window grows only while it is used** (RFC 9002 §7.8): the draft lets every ACK raise it
//!   up to what the model allows, even for an application that sends little.
//! - **CE marks count as losses** of one datagram each in every signal ([`loss`]); the draft
//!   requires a response but leaves it open.

mod cycle;
mod drain;
mod full_pipe;
mod gain;
mod jitter;
mod latest;
mod long_term;
mod longer_path;
mod loss;
mod model;
mod pacing;
mod probe_bandwidth;
mod probe_rtt;
mod rounds;
mod sample;
mod short_term;
mod startup;
mod state;
#[cfg(test)]
#[path = "bbr_tests.rs"]
mod tests;
mod undo;
mod window;

use core::time::Duration;

use clearway_units::packed::{Pack, Packer};
use clearway_units::{Random, Rate};

use self::cycle::Cycle;
use self::full_pipe::FullPipe;
use self::jitter::Jitter;
use self::latest::Latest;
use self::long_term::LongTerm;
use self::longer_path::LongerPath;
use self::loss::LossEpisode;
use self::model::{Aggregation, Bandwidth, MinimumRtt};
use self::pacing::Pacing;
use self::probe_rtt::ProbeRtt;
use self::rounds::Rounds;
use self::sample::Sample;
use self::short_term::ShortTerm;
use self::state::BbrState;
use self::undo::Undo;
use self::window::Window;
use crate::inspect::{Inspect, StateValue, Visit};
use crate::{
    Acknowledgement, CongestionResponse, Controller, ControllerParameters, Metric, Phase, Quantity,
    RttSnapshot, SentPacket, Snapshot, SpuriousLoss, Suppressor, Suppressors, UnpackController,
};

/// BBR version 3 as draft-ietf-ccwg-bbr-06 describes it.
#[derive(Clone, Debug, Pack)]
pub struct Bbr {
    parameters: ControllerParameters,
    random: Random,
    state: BbrState,
    rounds: Rounds,
    bandwidth: Bandwidth,
    /// BBR.bw: the bandwidth after all bounds. Zero before the first sample.
    rate: Rate,
    minimum_rtt: MinimumRtt,
    longer_path: LongerPath,
    jitter: Jitter,
    aggregation: Aggregation,
    full_pipe: FullPipe,
    latest: Latest,
    short_term: ShortTerm,
    long_term: LongTerm,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    episode: LossEpisode,
    undo: Undo,
    window: Window,
    pacing: Pacing,
    /// Whether the flow is restarting after an idle period (BBR.idle_restart).
    is_restarting: bool,
    suppressors: Suppressors,
    congestion_events: u64,
    undone_events: u64,
}

impl Bbr {
    /// Creates a controller in Startup with the initial window (OnInit).
    pub fn new(parameters: &ControllerParameters) -> Self {
        let mut bbr = Self {
            parameters: *parameters,
            random: Random::from_number(parameters.seed),
            state: BbrState::Startup,
            rounds: Rounds::default(),
            bandwidth: Bandwidth::default(),
            rate: Rate::ZERO,
            minimum_rtt: MinimumRtt::default(),
            longer_path: LongerPath::default(),
            jitter: Jitter::default(),
            aggregation: Aggregation::default(),
            full_pipe: FullPipe::default(),
            latest: Latest::default(),
            short_term: ShortTerm::default(),
            long_term: LongTerm::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            episode: LossEpisode::default(),
            undo: Undo::default(),
            window: Window::new(parameters.initial_window()),
            pacing: Pacing::default(),
            is_restarting: false,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        };
        bbr.window.set(bbr.window.bytes(), bbr.minimum_window(), bbr.maximum_window());
        bbr
    }

    /// Returns the datagram size in bytes (C.SMSS).
    fn size(&self) -> u64 {
        self.parameters.max_datagram_size.max(1)
    }

    /// Updates the model and then the rate and window, in the order of the draft's
    /// UpdateModelAndState and UpdateControlParameters.
    fn update(&mut self, sample: &Sample) {
        self.pacing.begin(self.parameters.initial_window(), sample.rtt);
        self.latest.update(sample);
        self.update_congestion_signals(sample);
        self.update_aggregation(sample);
        self.full_pipe.update(sample, self.rounds.is_start);
        self.check_startup_done(sample);
        self.check_drain_done(sample);
        self.update_probe_bandwidth(sample);
        self.minimum_rtt.update(sample.now, sample.rtt, self.rtt_resolution());
        self.look_for_longer_path(sample);
        self.check_probe_rtt(sample);
        self.latest.advance(sample);
        self.rate = self.short_term.bounded_rate(self.bandwidth.maximum());
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_window(sample.growing, sample.total_delivered);
    }

    /// Returns the transmission time of one datagram at the bottleneck. The RTT of a packet queued
    /// behind another differs by this much from that of one that is not, and so does the RTT of a
    /// large packet from that of a small one: samples that are closer to each other do not indicate
    /// a queue, and change the bandwidth-delay product by at most one datagram.
    fn rtt_resolution(&self) -> Duration {
        self.bandwidth.maximum().time_for(self.size()).unwrap_or_default()
    }

    fn update_congestion_signals(&mut self, sample: &Sample) {
        self.rounds.update(sample);
        if self.rounds.is_start {
            self.jitter.end_round();
        }
        self.bandwidth.update(sample);
        if self.latest.round_started {
            self.adapt_short_term_bounds();
            self.latest.has_loss = false;
        }
    }

    fn update_aggregation(&mut self, sample: &Sample) {
        let rounds = if self.full_pipe.was_reached { model::AGGREGATION_ROUNDS } else { 1 };
        let limit = self.window.bytes();
        self.aggregation.update(sample, self.rate, limit, self.rounds.count, rounds);
    }

    /// Restarts from idle (HandleRestartFromIdle). `packet` is the first one sent with nothing in
    /// flight, after the sender had run out of data.
    fn restart_from_idle(&mut self, packet: &SentPacket) {
        self.is_restarting = true;
        self.aggregation.restart(packet.sent_at);
        if self.state.is_probing_bandwidth() {
            self.set_pacing_rate(gain::Gain::ONE);
        } else if self.state == BbrState::ProbeRtt {
            self.check_probe_rtt_done(packet.sent_at, packet.delivery.delivered);
        }
    }

    /// Records what restricts the window and the rate after `event` (law 5).
    fn note_suppressors(&mut self, event: &Acknowledgement<'_>) {
        let is_short = self.short_term.is_bound(self.bandwidth.maximum(), self.window.bytes());
        let is_cruising = matches!(self.state, BbrState::ProbeCruise | BbrState::ProbeRefill);
        for (suppressor, holds) in [
            (Suppressor::NotLimited, !event.was_limited),
            (Suppressor::MaximumWindow, self.window.bytes() >= self.maximum_window()),
            (Suppressor::Draining, matches!(self.state, BbrState::Drain | BbrState::ProbeDown)),
            (Suppressor::Cruising, is_cruising),
            (Suppressor::ProbeRtt, self.state == BbrState::ProbeRtt),
            (Suppressor::ShortTermBound, is_short),
            (Suppressor::LongTermBound, self.is_long_term_bound()),
        ] {
            self.suppressors.set(suppressor, holds, event.round);
        }
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    /// Returns false: the queue should stay short (draft, "Restarting From Idle").
    fn bursts_after_idle(&self) -> bool {
        false
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        if bytes_in_flight <= packet.bytes && self.is_application_limited(packet) {
            self.restart_from_idle(packet);
        }
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        if self.episode.is_ended_by(event) {
            self.window.restore();
        }
        let response = self.respond_to_congestion(event);
        self.jitter.note(event);
        match Sample::of(event) {
            Some(mut sample) => {
                sample.is_application_limited |= self.probe_rtt.has_marked(&sample.newest);
                self.update(&sample);
            }
            None => self.set_window(0, event.total_delivered),
        }
        self.note_suppressors(event);
        response
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.jitter.note_packet(event.now, event.packet.index);
        if event.still_lost == 0 {
            self.undo_losses(event);
        }
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.parameters.max_datagram_size = max_datagram_size.max(1);
        if !self.window.is_touched() {
            self.window = Window::new(self.parameters.initial_window());
        }
        self.window.set(self.window.bytes(), self.minimum_window(), self.maximum_window());
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.pacing.rate(self.size(), rtt)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.window.bytes(),
            slow_start_threshold: None,
            minimum_window: self.minimum_window(),
            phase: Phase::Other(self.state.name()),
            suppressors: self.suppressors,
            congestion_events: self.congestion_events,
            undone_events: self.undone_events,
        }
    }

    /// Metrics use the draft's names, without "BBR."; values that are Infinity in the draft are not
    /// reported. `reordering_delay` is not in the draft: it is the mean delay due to reordering,
    /// which is added to `min_rtt` (see its module `jitter`).
    fn metrics(&self, tell: &mut dyn FnMut(Metric)) {
        let known = |rate: Rate| Some(rate).filter(|rate| *rate > Rate::ZERO);
        let reordering_delay = Some(self.jitter.delay()).filter(|delay| !delay.is_zero());
        for (name, quantity) in [
            ("max_bw", known(self.bandwidth.maximum()).map(Quantity::Rate)),
            ("bw", known(self.rate).map(Quantity::Rate)),
            ("bw_shortterm", self.short_term.rate.map(Quantity::Rate)),
            ("min_rtt", self.minimum_rtt.minimum().map(Quantity::Time)),
            ("reordering_delay", reordering_delay.map(Quantity::Time)),
            ("inflight_longterm", self.long_term.bound.map(Quantity::Bytes)),
            ("inflight_shortterm", self.short_term.in_flight.map(Quantity::Bytes)),
            ("extra_acked", Some(Quantity::Bytes(self.aggregation.maximum()))),
        ] {
            if let Some(quantity) = quantity {
                tell(Metric { name, quantity });
            }
        }
    }

    fn pack(&self, into: &mut Packer) -> Option<UnpackController> {
        Pack::pack(self, into);
        Some(|from| Box::new(Self::unpack(from)))
    }
}

impl Inspect for Bbr {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            parameters: _,
            // Random numbers drawn later do not matter; the wait already drawn is part of the
            // cycle.
            random: _,
            state,
            rounds,
            bandwidth,
            rate,
            minimum_rtt,
            longer_path,
            jitter,
            aggregation,
            full_pipe,
            latest,
            short_term,
            long_term,
            cycle,
            probe_rtt,
            episode,
            undo: _,
            window,
            pacing: Pacing { rate: pacing_rate },
            is_restarting,
            suppressors: _,
            congestion_events: _,
            undone_events: _,
        } = self;
        visit("state", StateValue::Word(state.name()));
        rounds.inspect(visit);
        bandwidth.inspect(visit);
        visit("bw", StateValue::Rate(*rate));
        minimum_rtt.inspect(visit);
        longer_path.inspect(visit);
        jitter.inspect(visit);
        aggregation.inspect(visit);
        full_pipe.inspect(visit);
        latest.inspect(visit);
        short_term.inspect(visit);
        long_term.inspect(visit);
        cycle.inspect(visit);
        probe_rtt.inspect(visit);
        episode.inspect(visit);
        window.inspect(visit);
        visit("pacing_rate", StateValue::optional(*pacing_rate, StateValue::Rate));
        visit("idle_restart", StateValue::Flag(*is_restarting));
    }
}
