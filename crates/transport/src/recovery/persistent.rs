use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::packet::LedgerPacket;

/// How many probe timeouts the losses have to span (RFC 9002 §7.6.1).
const THRESHOLD: u32 = 3;

/// Looks for persistent congestion among the packets that one ACK declares lost (RFC 9002 §7.6).
///
/// When a silence ends, the first ACK declares everything lost that was sent in it, so one ACK's
/// losses are enough to look at.
#[derive(Debug, Pack)]
pub(super) struct PersistentCongestion {
    /// Packets sent before there was a sample of the round-trip time prove nothing.
    first_sample_at: Option<Timestamp>,
    /// Packets below were part of a period that was declared already.
    boundary: SendIndex,
    /// When the first ack-eliciting packet was sent of the run of lost packets that is being followed:
    /// nothing that was sent since was acknowledged.
    run_began_at: Option<Timestamp>,
    acknowledged_elsewhere: Option<Timestamp>,
    longest: Duration,
    total: u64,
}

impl PersistentCongestion {
    pub(super) fn new() -> Self {
        Self {
            first_sample_at: None,
            boundary: SendIndex::default(),
            run_began_at: None,
            acknowledged_elsewhere: None,
            longest: Duration::ZERO,
            total: 0,
        }
    }

    /// How often it was declared.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The round-trip time was sampled at `now`.
    pub(super) fn on_rtt_sample(&mut self, now: Timestamp) {
        self.first_sample_at = self.first_sample_at.or(Some(now));
    }

    /// Starts to look at the losses of one event. What was sent before `acknowledged_elsewhere`, when
    /// a packet of another space was sent that was acknowledged, is no evidence.
    pub(super) fn begin(&mut self, acknowledged_elsewhere: Option<Timestamp>) {
        self.acknowledged_elsewhere = acknowledged_elsewhere;
        self.run_began_at = None;
        self.longest = Duration::ZERO;
    }

    /// `packet` was declared lost. Called in the order of sending.
    pub(super) fn on_lost(&mut self, packet: &LedgerPacket) {
        let is_evidence = packet.ack_eliciting
            && !packet.is_exempt
            && packet.index >= self.boundary
            && self.first_sample_at.is_some_and(|first| packet.sent_at > first)
            && Some(packet.sent_at) > self.acknowledged_elsewhere;
        if is_evidence {
            let first = *self.run_began_at.get_or_insert(packet.sent_at);
            self.longest = self.longest.max(packet.sent_at.saturating_since(first));
        }
    }

    /// A packet was acknowledged that was sent between those named before and those named from here
    /// on.
    pub(super) fn interrupt(&mut self) {
        self.run_began_at = None;
    }

    /// Whether the losses of this event span three times `pto_base`. `next` is the index of the next packet: packets that
    /// were sent before are not evidence a second time.
    pub(super) fn conclude(&mut self, pto_base: Duration, next: SendIndex) -> bool {
        let is_persistent = self.longest > pto_base.saturating_mul(THRESHOLD);
        if is_persistent {
            self.boundary = next;
            self.total = self.total.saturating_add(1);
        }
        is_persistent
    }
}

#[cfg(test)]
#[path = "persistent_tests.rs"]
mod tests;
