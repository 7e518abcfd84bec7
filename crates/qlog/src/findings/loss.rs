//! Detects spurious losses (S17, S14).

use core::time::Duration;

use super::state::State;
use super::{Detector, Finding, FindingId, text};
use crate::read::{Event, EventKind};

/// The minimum number of packets that were declared lost too early, for a finding. They must also
/// make up one percent of the packets sent.
const EARLY: u64 = 8;
/// The minimum number of packets that were declared lost but arrived, for a finding. They must also
/// make up one percent of the packets sent and half of all losses.
const SPURIOUS: u64 = 32;

/// Counts losses that turn out to be spurious.
#[derive(Clone, Debug, Default)]
pub(super) struct Spurious {
    spurious: Count,
    early: Count,
    /// The spurious losses that the stack itself logs (quic-go).
    stated: Count,
    /// The number of congestion events, and the number of those that were undone, if the trace has
    /// these numbers.
    events: Option<(u64, u64)>,
    cuts: Cuts,
}

/// Window reductions in response to losses, and those that were undone, as inferred from the
/// window.
#[derive(Clone, Copy, Debug, Default)]
struct Cuts {
    made: u64,
    undone: u64,
    /// The latest reduction, unless it was undone.
    present: Option<Cut>,
    /// Bytes acknowledged since the window last changed.
    acknowledged: u64,
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The time of the loss that caused the reduction.
    loss: Duration,
    /// The window before the reduction.
    before: u64,
}

impl Cuts {
    fn update(&mut self, state: &State) {
        for packet in &state.step.acknowledged {
            self.acknowledged = self.acknowledged.saturating_add(packet.length);
        }
        let (Some(before), Some(after)) =
            (state.step.window_before, state.metrics.congestion_window)
        else {
            return;
        };
        let acknowledged = core::mem::take(&mut self.acknowledged);
        let answers = |loss: &Duration| {
            state.now.saturating_sub(*loss) <= state.rtt().unwrap_or_default()
                && self.present.is_none_or(|cut| cut.loss < *loss)
        };
        if after < before {
            if let Some(loss) = state.last_loss.filter(answers) {
                self.made = self.made.saturating_add(1);
                self.present = Some(Cut { loss, before });
            }
        } else if let Some(cut) = self.present
            && after >= cut.before
        {
            // The window grows by at most one datagram per round trip or half of the acknowledged bytes
            // (RFC 9438 §4.4).
            let most = if after == cut.before { 0 } else { acknowledged / 2 };
            if after.saturating_sub(before) <= most.saturating_add(state.datagram()) {
                return;
            }
            self.undone = self.undone.saturating_add(1);
            self.present = None;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u64,
    bytes: u64,
    first: Option<Duration>,
    last: Duration,
}

impl Count {
    fn note(&mut self, now: Duration, length: u64) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(length);
        self.first.get_or_insert(now);
        self.last = now;
    }
}

impl Detector for Spurious {
    fn on_event(&mut self, event: &Event, state: &State) {
        for packet in &state.step.acknowledged {
            if let Some((_, is_early)) = packet.lost {
                self.spurious.note(state.now, packet.length);
                if is_early {
                    self.early.note(state.now, packet.length);
                }
            }
        }
        self.cuts.update(state);
        match event.kind {
            EventKind::SpuriousLoss { .. } => self.stated.note(state.now, state.datagram()),
            EventKind::CongestionEvents { events, undone } => self.events = Some((events, undone)),
            _ => {}
        }
    }

    fn finish(self: Box<Self>, state: &State) -> Vec<Finding> {
        let mut findings = Vec::new();
        let sent = state.ledger.sent_in_all;
        let is_a_hundredth = |count: &Count| count.packets.saturating_mul(100) >= sent;
        if let Some(first) = self.early.first
            && self.early.packets >= EARLY
            && is_a_hundredth(&self.early)
        {
            findings.push(Finding {
                id: FindingId::LossDeclaredEarly,
                severity: self.early.packets as f64 * state.rtt().unwrap_or_default().as_secs_f64(),
                begin: first,
                end: self.early.last,
                headline: format!(
                    "{} packets declared lost too early, then acknowledged",
                    text::count(self.early.packets)
                ),
                metrics: vec![
                    ("packets", text::count(self.early.packets)),
                    ("share of all packets sent", text::percent(self.early.packets, sent)),
                ],
            });
        }
        let all =
            if self.stated.packets > self.spurious.packets { self.stated } else { self.spurious };
        // A reduction that was undone has cost only a retransmission, and some of the reductions
        // that were not undone may be due to real losses. If there was no reduction, as with BBR,
        // the cost was also only retransmissions.
        let (cuts, undone) = self.events.unwrap_or((self.cuts.made, self.cuts.undone));
        let was_undone = undone.saturating_mul(2) >= cuts;
        if let Some(first) = all.first
            && all.packets >= SPURIOUS
            && is_a_hundredth(&all)
            && all.packets.saturating_mul(2) >= state.lost
            && !was_undone
            && !state.is_model_based
        {
            findings.push(Finding {
                id: FindingId::SpuriousLoss,
                severity: all.packets as f64 * state.rtt().unwrap_or_default().as_secs_f64() / 4.0,
                begin: first,
                end: all.last,
                headline: format!(
                    "{} of {} packets declared lost were only reordered",
                    text::count(all.packets),
                    text::count(state.lost)
                ),
                metrics: vec![
                    ("packets declared lost", text::count(state.lost)),
                    ("acknowledged afterwards", text::count(all.packets)),
                    ("retransmitted unnecessarily", text::bytes(all.bytes)),
                    ("window reductions", text::count(cuts)),
                    ("reductions undone", text::count(undone)),
                ],
            });
        }
        findings
    }
}
