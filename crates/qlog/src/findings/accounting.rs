//! Detects bytes in flight that are inconsistent with the packets that were sent.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{CongestionState, Event, EventKind, PacketSpace};

/// The minimum number of packets sent beyond the window for a finding.
const PACKETS: u64 = 32;

/// Detects packets that are sent although the window is already exceeded (S2).
#[derive(Clone, Debug, Default)]
pub(super) struct AboveWindow {
    last_cut: Option<Duration>,
    count: u64,
    first: Option<Duration>,
    last: Duration,
    most: (u64, u64),
}

impl Detector for AboveWindow {
    fn on_event(&mut self, event: &Event, state: &State) {
        let (Some(window), Some(in_flight)) =
            (state.metrics.congestion_window, state.metrics.bytes_in_flight)
        else {
            return;
        };
        if state.step.window_before.is_some_and(|before| before > window) {
            self.last_cut = Some(state.now);
        }
        let EventKind::PacketSent(packet) = &event.kind else { return };
        let is_ordinary = packet.is_ack_eliciting()
            && packet.packet_type.space() == Some(PacketSpace::Application)
            && !packet.is_probe
            && !packet.is_mtu_probe
            && state.metrics.pto_count.unwrap_or_default() == 0
            && state.congestion_state != CongestionState::Recovery;
        // After a window reduction, proportional rate reduction and queued packets may exceed the
        // window for a while.
        let since = state.last_loss.max(self.last_cut).max(state.last_ce);
        let patience = state.rtt().unwrap_or_default().saturating_mul(3);
        let is_calm = since.is_none_or(|since| state.now.saturating_sub(since) > patience);
        let limit = window.saturating_add(state.datagram().saturating_mul(2));
        if !is_ordinary || !is_calm || in_flight <= limit || state.rtt().is_none() {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.first.get_or_insert(state.now);
        self.last = state.now;
        if in_flight.saturating_sub(window) > self.most.0.saturating_sub(self.most.1) {
            self.most = (in_flight, window);
        }
    }

    fn finish(self: Box<Self>, _state: &State) -> Vec<Finding> {
        let Some(first) = self.first.filter(|_| self.count >= PACKETS) else { return Vec::new() };
        vec![Finding {
            id: FindingId::AboveWindow,
            severity: self.last.saturating_sub(first).as_secs_f64() / 4.0,
            begin: first,
            end: self.last,
            headline: format!(
                "{} packets sent although the congestion window was full",
                text::count(self.count)
            ),
            metrics: vec![
                ("packets", text::count(self.count)),
                ("bytes in flight at the largest excess", text::bytes(self.most.0)),
                ("congestion window at that time", text::bytes(self.most.1)),
            ],
        }]
    }
}

/// The minimum number of consecutive rounds, and their minimum duration, for a finding.
const ROUNDS: u64 = 64;
const TIME: Duration = Duration::from_secs(1);

/// Detects bytes that are counted as in flight but are not (S1).
#[derive(Clone, Debug, Default)]
pub(super) struct GhostBytes {
    /// The smallest excess of the counted bytes in this round.
    least: Option<u64>,
    present: Option<(Duration, Duration, u64, u64)>,
    worst: Option<(Duration, Duration, u64, u64)>,
}

impl GhostBytes {
    fn end_stretch(&mut self) {
        let is_too_long = |(begin, end, rounds, _): &(Duration, Duration, u64, u64)| {
            *rounds >= ROUNDS && end.saturating_sub(*begin) >= TIME
        };
        if let Some(stretch) = self.present.take().filter(is_too_long) {
            keep_worst(&mut self.worst, stretch, |(_, _, rounds, _)| *rounds);
        }
    }
}

impl Detector for GhostBytes {
    fn on_event(&mut self, event: &Event, state: &State) {
        if let EventKind::Metrics(metrics) = &event.kind
            && let (Some(stated), Some(known)) = (metrics.bytes_in_flight, state.ledger.bytes())
            && state.handshake_is_confirmed
        {
            let excess = stated.saturating_sub(known);
            self.least = Some(self.least.map_or(excess, |least| least.min(excess)));
        }
        let Some(round) = &state.step.round else { return };
        let least = self.least.take();
        match least.filter(|least| *least >= state.datagram().saturating_mul(2)) {
            Some(least) => {
                let stretch = self.present.get_or_insert((round.began, round.ended, 0, least));
                stretch.1 = round.ended;
                stretch.2 = stretch.2.saturating_add(1);
                stretch.3 = stretch.3.min(least);
            }
            None => self.end_stretch(),
        }
    }

    fn finish(mut self: Box<Self>, _state: &State) -> Vec<Finding> {
        self.end_stretch();
        let Some((begin, end, rounds, least)) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::GhostBytes,
            severity: end.saturating_sub(begin).as_secs_f64() / 4.0,
            begin,
            end,
            headline: format!(
                "Bytes in flight overstated by at least {} for {}",
                text::bytes(least),
                text::time(end.saturating_sub(begin))
            ),
            metrics: vec![
                ("duration", text::time(end.saturating_sub(begin))),
                ("round trips", text::count(rounds)),
                ("smallest excess", text::bytes(least)),
            ],
        }]
    }
}
