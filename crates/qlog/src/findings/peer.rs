//! Detects problems that the peer causes.

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, keep_worst, text};
use crate::read::{Blocked, Event, EventKind, Frame, PacketType};

/// A client probes after its first timeout of 1 s (RFC 9002 §6.2.2), and again 2 s later if that
/// probe is lost. If a server is blocked for longer, its client does not probe.
const AMPLIFICATION: Duration = Duration::from_secs(5);

/// Detects a server that cannot send because its client's address is not validated (RFC 9000 §8.1).
#[derive(Clone, Debug, Default)]
pub(super) struct Amplification {
    since: Option<Duration>,
    /// The number of bytes received, and the number sent, before the address was validated.
    received: u64,
    sent: u64,
    is_validated: bool,
    worst: Option<(Duration, Duration)>,
    total: Duration,
}

impl Amplification {
    fn note(&mut self, event: &Event, state: &State) {
        match &event.kind {
            EventKind::PacketReceived(packet) => {
                self.received = self.received.saturating_add(packet.length.unwrap_or_default());
                self.is_validated |=
                    matches!(packet.packet_type, PacketType::Handshake | PacketType::OneRtt);
            }
            EventKind::PacketDropped { length, .. } => {
                self.received = self.received.saturating_add(length.unwrap_or_default());
            }
            EventKind::PacketSent(packet) => {
                self.sent = self.sent.saturating_add(packet.length.unwrap_or_default());
            }
            _ => {}
        }
        self.is_validated |= state.is_server == Some(false);
    }

    fn is_blocked(&self, state: &State) -> bool {
        if state.knows_blocked {
            return state.blocked == Some(Blocked::Amplification);
        }
        let allowed = self.received.saturating_mul(3);
        !self.is_validated && self.received > 0 && self.sent.saturating_add(1200) > allowed
    }

    fn end(&mut self, now: Duration) {
        let Some(since) = self.since.take() else { return };
        let length = now.saturating_sub(since);
        if length < AMPLIFICATION {
            return;
        }
        self.total = self.total.saturating_add(length);
        keep_worst(&mut self.worst, (since, now), |(begin, end)| end.saturating_sub(*begin));
    }
}

impl Detector for Amplification {
    fn on_event(&mut self, event: &Event, state: &State) {
        self.note(event, state);
        if self.is_blocked(state) && !state.is_closed {
            self.since.get_or_insert(state.now);
        } else {
            self.end(state.now);
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.end(state.now);
        let Some((begin, end)) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::AmplificationStall,
            severity: self.total.as_secs_f64(),
            begin,
            end,
            headline: format!(
                "Server blocked by the anti-amplification limit for {}",
                text::time(end.saturating_sub(begin))
            ),
            metrics: vec![
                ("longest stall", text::time(end.saturating_sub(begin))),
                ("total duration", text::time(self.total)),
            ],
        }]
    }
}

/// The minimum number of packets from the peer without an ACK frame, and the minimum duration, for
/// a finding.
const PACKETS: u64 = 8;
const STARVED: Duration = Duration::from_secs(1);

/// Detects a peer that sends packets but does not send acknowledgments.
#[derive(Clone, Debug, Default)]
pub(super) struct AckStarvation {
    since: Option<Duration>,
    packets: u64,
    worst: Option<(Duration, Duration, u64)>,
    total: Duration,
}

impl AckStarvation {
    fn end(&mut self, now: Duration, state: &State) {
        let packets = core::mem::take(&mut self.packets);
        let Some(since) = self.since.take() else { return };
        let length = now.saturating_sub(since);
        let patience = STARVED.max(state.patience().saturating_mul(2));
        if packets < PACKETS || length < patience {
            return;
        }
        self.total = self.total.saturating_add(length);
        let stretch = (since, now, packets);
        keep_worst(&mut self.worst, stretch, |(begin, end, _)| end.saturating_sub(*begin));
    }
}

impl Detector for AckStarvation {
    fn on_event(&mut self, event: &Event, state: &State) {
        let has_waiting = state.ledger.count() > 0 && state.handshake_is_confirmed;
        if state.step.had_ack || !has_waiting || state.is_closed {
            self.end(state.now, state);
        }
        if !has_waiting || state.is_closed {
            return;
        }
        self.since.get_or_insert(state.now);
        if let EventKind::PacketReceived(packet) = &event.kind
            && packet.frames.is_some()
            && !state.step.had_ack
        {
            self.packets = self.packets.saturating_add(1);
        }
    }

    fn finish(mut self: Box<Self>, state: &State) -> Vec<Finding> {
        self.end(state.now, state);
        let Some((begin, end, packets)) = self.worst else { return Vec::new() };
        vec![Finding {
            id: FindingId::AckStarvation,
            severity: self.total.as_secs_f64(),
            begin,
            end,
            headline: format!(
                "No ACK frame in {} packets from the peer for {}",
                text::count(packets),
                text::time(end.saturating_sub(begin))
            ),
            metrics: vec![
                ("longest time without an ACK frame", text::time(end.saturating_sub(begin))),
                ("packets from the peer in that time", text::count(packets)),
                ("total duration", text::time(self.total)),
            ],
        }]
    }
}

/// The minimum number of late ACKs for a finding, and their minimum share of all ACKs.
const LATE: u64 = 32;
const LATE_SHARE: f64 = 0.5;

/// Detects a peer that delays acknowledgments for longer than its max_ack_delay (S19).
#[derive(Clone, Debug, Default)]
pub(super) struct LateAcknowledgements {
    acks: u64,
    late: u64,
    first: Option<Duration>,
    last: Duration,
    longest: Duration,
    announced: Duration,
}

impl Detector for LateAcknowledgements {
    fn on_event(&mut self, event: &Event, state: &State) {
        let is_newest = state.step.acknowledged.iter().any(|packet| packet.is_newest);
        let EventKind::PacketReceived(packet) = &event.kind else { return };
        let Some(announced) = state.remote.max_ack_delay.filter(|_| is_newest) else { return };
        let newest = state.step.acknowledged.iter().map(|packet| packet.sent).max();
        let took = newest.map_or(Duration::ZERO, |sent| state.now.saturating_sub(sent));
        for frame in packet.frames.iter().flatten() {
            let Frame::Ack { delay: Some(delay), .. } = frame else { continue };
            self.acks = self.acks.saturating_add(1);
            // Twice the advertised delay, plus scheduling latency. A delay that is longer than the
            // whole round trip must have been advertised in another unit.
            let allowed = announced.saturating_mul(2).saturating_add(Duration::from_millis(20));
            if *delay <= allowed || *delay > took {
                continue;
            }
            self.late = self.late.saturating_add(1);
            self.first.get_or_insert(state.now);
            self.last = state.now;
            self.longest = self.longest.max(*delay);
            self.announced = announced;
        }
    }

    fn finish(self: Box<Self>, _state: &State) -> Vec<Finding> {
        let is_much = self.late >= LATE && self.late as f64 >= self.acks as f64 * LATE_SHARE;
        let Some(first) = self.first.filter(|_| is_much) else { return Vec::new() };
        vec![Finding {
            id: FindingId::LateAcknowledgements,
            severity: self.longest.as_secs_f64() * self.late as f64 / 4.0,
            begin: first,
            end: self.last,
            headline: format!(
                "{} of {} ACK frames delayed beyond max_ack_delay ({})",
                text::count(self.late),
                text::count(self.acks),
                text::time(self.announced)
            ),
            metrics: vec![
                ("ACK frames", text::count(self.acks)),
                ("delayed for too long", text::count(self.late)),
                ("max_ack_delay", text::time(self.announced)),
                ("longest ACK delay", text::time(self.longest)),
            ],
        }]
    }
}
