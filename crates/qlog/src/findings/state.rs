//! The current state of the connection, which is derived from the events only here. Detectors read
//! it, and keep only data that is specific to them.

use core::time::Duration;

use super::flow::FlowControl;
use super::ledger::{Acknowledged, Ledger};
use super::rounds::{Round, Rounds};
use crate::read::{
    Blocked, CongestionState, Event, EventKind, Frame, Lost, Metrics, Packet, PacketSpace,
    Parameters, RecoveryParameters,
};

/// The datagram size that every path must support, in bytes (RFC 9000 §14).
pub(super) const LEAST_DATAGRAM: u64 = 1200;
/// The default max_ack_delay (RFC 9000 §18.2).
const DEFAULT_MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// The initial round-trip time, before the first sample (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);
/// The recommended timer granularity (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);
/// The largest minimum window of any controller, in datagrams: BBR's.
const FLOOR_DATAGRAMS: u64 = 4;

/// The effects of an event.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// The packet-timed round that ended with the event, if any.
    pub(super) round: Option<Round>,
    /// The number of packets that were declared lost with the event, excluding MTU probes.
    pub(super) lost: u64,
    /// The packets that were acknowledged for the first time.
    pub(super) acknowledged: Vec<Acknowledged>,
    /// Whether an ACK frame was received, even if it acknowledges nothing new.
    pub(super) had_ack: bool,
    /// The congestion window before the event, if the event changed it.
    pub(super) window_before: Option<u64>,
}

/// The known state of the connection.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) now: Duration,
    pub(super) step: Step,
    /// The latest metrics in the trace.
    pub(super) metrics: Metrics,
    pub(super) congestion_state: CongestionState,
    /// Whether the controller is model-based, such as BBR.
    pub(super) is_model_based: bool,
    /// The reason that sending is blocked, if the trace logs such reasons.
    pub(super) blocked: Option<Blocked>,
    pub(super) knows_blocked: bool,
    pub(super) ledger: Ledger,
    pub(super) rounds: Rounds,
    pub(super) flow: FlowControl,
    /// The total number of packets that were declared lost, and the time of the last loss.
    pub(super) lost: u64,
    pub(super) last_loss: Option<Duration>,
    /// Whether the trace contains losses at all.
    pub(super) knows_losses: bool,
    /// The number of ECN-CE marks that the peer has reported.
    pub(super) ce: u64,
    pub(super) last_ce: Option<Duration>,
    pub(super) last_sent: Option<Duration>,
    pub(super) last_received: Option<Duration>,
    /// The number of received packets that were dropped.
    pub(super) dropped: u64,
    pub(super) last_key_update: Option<Duration>,
    pub(super) handshake_is_confirmed: bool,
    pub(super) local: Parameters,
    pub(super) remote: Parameters,
    pub(super) parameters: RecoveryParameters,
    pub(super) is_closed: bool,
    /// Whether this endpoint is the server, which is the case if the first packet was received.
    pub(super) is_server: Option<bool>,
    /// The conditions that suppress window growth, if the trace logs them.
    pub(super) suppressors: Vec<(Box<str>, u64)>,
    largest_sent: u64,
    /// The shortest round-trip time that was logged.
    shortest_rtt: Option<Duration>,
    smallest_window: Option<u64>,
    lost_total: Option<u64>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            now: Duration::ZERO,
            step: Step::default(),
            metrics: Metrics::default(),
            congestion_state: CongestionState::Unknown,
            is_model_based: false,
            blocked: None,
            knows_blocked: false,
            ledger: Ledger::default(),
            rounds: Rounds::default(),
            flow: FlowControl::default(),
            lost: 0,
            last_loss: None,
            knows_losses: false,
            ce: 0,
            last_ce: None,
            last_sent: None,
            last_received: None,
            dropped: 0,
            last_key_update: None,
            handshake_is_confirmed: false,
            local: Parameters::default(),
            remote: Parameters::default(),
            parameters: RecoveryParameters::default(),
            is_closed: false,
            is_server: None,
            suppressors: Vec::new(),
            largest_sent: 0,
            shortest_rtt: None,
            smallest_window: None,
            lost_total: None,
        }
    }
}

impl State {
    /// Processes an event. After this call, its effects are in [`step`](Self::step).
    pub(super) fn update(&mut self, event: &Event) {
        self.now = event.at;
        self.step = Step::default();
        self.ledger.newly_lost.clear();
        match &event.kind {
            EventKind::PacketSent(packet) => self.on_sent(packet),
            EventKind::PacketReceived(packet) => self.on_received(packet),
            EventKind::PacketLost(lost) => self.on_lost(lost),
            EventKind::Metrics(metrics) => self.on_metrics(metrics),
            EventKind::CongestionState(state) => {
                self.is_model_based |= state.is_of_model();
                self.congestion_state = state.clone();
            }
            EventKind::Blocked(update) if update.stream.is_none() => {
                self.knows_blocked = true;
                self.blocked = update.reason;
            }
            EventKind::Parameters(parameters) => match parameters.is_local {
                Some(true) => self.local = **parameters,
                _ => {
                    self.remote = **parameters;
                    self.flow.on_parameters(parameters);
                }
            },
            EventKind::RecoveryParameters(parameters) => self.on_parameters(parameters),
            EventKind::ConnectionState(state) => {
                self.handshake_is_confirmed |=
                    matches!(&**state, "handshake_confirmed" | "confirmed");
                self.is_closed |= matches!(&**state, "closing" | "draining" | "closed");
            }
            EventKind::Closed(_) => self.is_closed = true,
            EventKind::PacketDropped { .. } => self.dropped = self.dropped.saturating_add(1),
            EventKind::KeyUpdated { .. } => self.last_key_update = Some(self.now),
            EventKind::Suppressors(suppressors) => self.suppressors.clone_from(suppressors),
            EventKind::StreamDataMoved {
                stream, offset, length, from_application: true, ..
            } => {
                self.flow.on_written(*stream, offset.saturating_add(*length));
            }
            _ => {}
        }
        self.end_rounds();
    }

    fn on_sent(&mut self, packet: &Packet) {
        self.flow.is_server = *self.is_server.get_or_insert(false);
        self.last_sent = Some(self.now);
        if packet.packet_type.space() == Some(PacketSpace::Application) && !packet.is_mtu_probe {
            self.largest_sent = self.largest_sent.max(packet.length.unwrap_or_default());
        }
        for frame in packet.frames.iter().flatten() {
            if let Frame::Stream { stream, offset, length, .. } = frame {
                self.flow.on_sent(*stream, offset.saturating_add(length.unwrap_or_default()));
            }
            self.handshake_is_confirmed |= *frame == Frame::HandshakeDone;
            self.is_closed |= matches!(frame, Frame::ConnectionClose(_));
        }
        self.ledger.on_sent(self.now, packet);
        self.rounds.on_sent(packet);
    }

    fn on_received(&mut self, packet: &Packet) {
        self.flow.is_server = *self.is_server.get_or_insert(true);
        self.last_received = Some(self.now);
        for frame in packet.frames.iter().flatten() {
            match frame {
                Frame::Ack { ranges, ce, .. } => {
                    self.step.had_ack = true;
                    if let Some(ce) = ce.filter(|ce| *ce > self.ce) {
                        self.ce = ce;
                        self.last_ce = Some(self.now);
                    }
                    if let Some(space) = packet.packet_type.space() {
                        let acknowledged = &mut self.step.acknowledged;
                        self.ledger.on_ack(self.now, space, ranges, acknowledged);
                    }
                }
                Frame::MaxData { maximum } => self.flow.on_max_data(*maximum),
                Frame::MaxStreamData { stream, maximum } => {
                    self.flow.on_max_stream_data(*stream, *maximum);
                }
                Frame::HandshakeDone => self.handshake_is_confirmed = true,
                Frame::ConnectionClose(_) => self.is_closed = true,
                _ => {}
            }
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.knows_losses = true;
        self.ledger.on_lost(self.now, lost);
        if !lost.is_mtu_probe {
            self.note_losses(1);
        }
    }

    fn note_losses(&mut self, count: u64) {
        if count > 0 {
            self.step.lost = self.step.lost.saturating_add(count);
            self.lost = self.lost.saturating_add(count);
            self.last_loss = Some(self.now);
        }
    }

    fn on_metrics(&mut self, new: &Metrics) {
        let known = &mut self.metrics;
        if new.congestion_window.is_some() && new.congestion_window != known.congestion_window {
            self.step.window_before = known.congestion_window;
        }
        known.congestion_window = new.congestion_window.or(known.congestion_window);
        known.bytes_in_flight = new.bytes_in_flight.or(known.bytes_in_flight);
        known.packets_in_flight = new.packets_in_flight.or(known.packets_in_flight);
        known.slow_start_threshold = new.slow_start_threshold.or(known.slow_start_threshold);
        known.pacing_rate = new.pacing_rate.or(known.pacing_rate);
        known.minimum_rtt = new.minimum_rtt.or(known.minimum_rtt);
        known.smoothed_rtt = new.smoothed_rtt.or(known.smoothed_rtt);
        known.latest_rtt = new.latest_rtt.or(known.latest_rtt);
        if let Some(latest) = new.latest_rtt.filter(|latest| !latest.is_zero()) {
            self.shortest_rtt = Some(self.shortest_rtt.map_or(latest, |known| known.min(latest)));
        }
        known.rtt_variation = new.rtt_variation.or(known.rtt_variation);
        known.pto_count = new.pto_count.or(known.pto_count);
        known.is_application_limited = new.is_application_limited.or(known.is_application_limited);
        if let Some(window) = new.congestion_window.filter(|window| *window > 0) {
            self.smallest_window =
                Some(self.smallest_window.map_or(window, |least| least.min(window)));
        }
        if let Some(total) = new.lost_packets {
            let before = self.lost_total.replace(total).unwrap_or_default();
            // Losses that a stack logs both as events and as a count are counted only once.
            if !self.ledger.has_loss_events() {
                self.knows_losses = true;
                self.note_losses(total.saturating_sub(before));
            }
        }
        // The smoothed value is an estimate only after the first sample; before that, some stacks
        // log a default.
        if let Some(rtt) = new.smoothed_rtt.filter(|_| new.latest_rtt.is_some()) {
            self.ledger.set_rtt(self.now, rtt.max(new.latest_rtt.unwrap_or_default()));
        }
    }

    fn on_parameters(&mut self, new: &RecoveryParameters) {
        let known = &mut self.parameters;
        known.max_datagram_size = new.max_datagram_size.or(known.max_datagram_size);
        known.initial_window = new.initial_window.or(known.initial_window);
        known.minimum_window = new.minimum_window.or(known.minimum_window);
        known.reordering_threshold = new.reordering_threshold.or(known.reordering_threshold);
        known.time_threshold = new.time_threshold.or(known.time_threshold);
        if let Some(controller) = &new.controller {
            self.is_model_based |= controller.to_ascii_lowercase().contains("bbr");
            known.controller = Some(controller.clone());
        }
    }

    fn end_rounds(&mut self) {
        let is_held = matches!(self.blocked, Some(Blocked::CongestionControl | Blocked::Pacing))
            || self.window_is_full();
        let present = super::rounds::Present {
            now: self.now,
            is_held,
            is_waiting_for_data: self.blocked == Some(Blocked::Application),
            has_congestion: self.has_congestion(),
            window: self.metrics.congestion_window,
            rtt: self.metrics.latest_rtt.and(self.metrics.smoothed_rtt),
            knows_acks: self.ledger.knows_acks(),
        };
        self.step.round = self.rounds.update(&present, &self.step.acknowledged);
    }

    /// Returns whether the current event signaled congestion: a loss, or new ECN-CE marks reported
    /// by the peer.
    pub(super) fn has_congestion(&self) -> bool {
        self.step.lost > 0 || self.last_ce == Some(self.now)
    }

    /// Returns the minimum round-trip time: the value that the stack logs, or the shortest sample.
    pub(super) fn minimum_rtt(&self) -> Option<Duration> {
        self.metrics.minimum_rtt.filter(|least| !least.is_zero()).or(self.shortest_rtt)
    }

    /// Returns whether there is a standing queue: the round-trip time is at least twice the
    /// minimum.
    pub(super) fn has_standing_queue(&self) -> bool {
        let least = self.metrics.minimum_rtt.filter(|least| !least.is_zero());
        self.rtt().zip(least).is_some_and(|(rtt, least)| rtt >= least.saturating_mul(2))
    }

    /// Returns the effective idle timeout of both endpoints. `None` if there is none, or it is not
    /// known.
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        let announced = [self.local.max_idle_timeout, self.remote.max_idle_timeout];
        announced.into_iter().flatten().filter(|timeout| !timeout.is_zero()).min()
    }

    /// Returns whether nothing has been received for as long as the idle timeout.
    pub(super) fn was_silent_for_idle_timeout(&self) -> bool {
        let silence = self.last_received.map(|last| self.now.saturating_sub(last));
        self.idle_timeout().zip(silence).is_some_and(|(timeout, silence)| silence >= timeout)
    }

    /// Returns whether the window leaves no room for another datagram.
    pub(super) fn window_is_full(&self) -> bool {
        match (self.metrics.bytes_in_flight, self.metrics.congestion_window) {
            (Some(in_flight), Some(window)) => {
                window > 0 && in_flight.saturating_add(self.datagram()) > window
            }
            _ => false,
        }
    }

    /// Returns the size of full datagrams in bytes.
    pub(super) fn datagram(&self) -> u64 {
        let sent = self.largest_sent;
        self.parameters.max_datagram_size.unwrap_or(sent).max(sent).max(LEAST_DATAGRAM)
    }

    /// Returns the minimum congestion window: the value that the stack logs, or else the smallest
    /// window so far, if it is only a few datagrams.
    pub(super) fn floor(&self) -> Option<u64> {
        if let Some(known) = self.parameters.minimum_window {
            return Some(known);
        }
        let most = self.datagram().saturating_mul(FLOOR_DATAGRAMS);
        self.smallest_window.filter(|least| *least <= most)
    }

    /// Returns whether the window is at its floor.
    pub(super) fn is_at_floor(&self) -> bool {
        match (self.metrics.congestion_window, self.floor()) {
            (Some(window), Some(floor)) => window > 0 && window <= floor,
            _ => false,
        }
    }

    /// Returns whether the window allows no more datagrams than its floor. For a loss-based
    /// controller, which ultimately grows by whole datagrams, this is equivalent to being at the
    /// floor. BBR may have reasons to be just above it.
    pub(super) fn holds_no_more_than_floor(&self) -> bool {
        if self.is_model_based {
            return self.is_at_floor();
        }
        match (self.metrics.congestion_window, self.floor()) {
            (Some(window), Some(floor)) => {
                window > 0 && window < floor.saturating_add(self.datagram())
            }
            _ => false,
        }
    }

    /// Returns the smoothed round-trip time. `None` before the first sample.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.metrics.latest_rtt.and(self.metrics.smoothed_rtt).filter(|rtt| !rtt.is_zero())
    }

    /// Returns the probe timeout without backoff (RFC 9002 §6.2.1).
    pub(super) fn probe_timeout(&self) -> Duration {
        let Some(smoothed) = self.rtt() else { return INITIAL_RTT.saturating_mul(3) };
        let variation = self.metrics.rtt_variation.unwrap_or(smoothed.div_f64(2.0));
        let delay = self.remote.max_ack_delay.unwrap_or(DEFAULT_MAX_ACK_DELAY);
        smoothed.saturating_add(variation.saturating_mul(4).max(GRANULARITY)).saturating_add(delay)
    }

    /// Returns the time that an immediate action of a stack may appear to take: four round trips,
    /// but at least 100 ms, so that operating system timers and pacing over a round trip do not
    /// matter.
    pub(super) fn patience(&self) -> Duration {
        let rtt =
            self.rtt().unwrap_or(INITIAL_RTT).max(self.metrics.latest_rtt.unwrap_or_default());
        rtt.saturating_mul(4).max(Duration::from_millis(100))
    }
}
