use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::packet::LedgerPacket;

/// The losses have to span this many probe timeouts (RFC 9002 §7.6.1).
const THRESHOLD: u32 = 3;

/// Detects persistent congestion among the packets that one ACK declares lost (RFC 9002 §7.6).
///
/// The first ACK after a silence declares everything lost that was sent during it, so the losses of
/// one ACK suffice.
#[derive(Debug, Pack)]
pub(super) struct PersistentCongestion {
    /// The time of the first RTT sample. Packets sent before that are not evidence.
    first_sample_at: Option<Timestamp>,
    /// Packets below this index were part of a period that was already declared persistent
    /// congestion.
    boundary: SendIndex,
    /// The send time of the first ack-eliciting packet of the current run of lost packets: nothing
    /// sent since then was acknowledged.
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

    /// Returns how often persistent congestion was declared.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Records an RTT sample at `now`.
    pub(super) fn on_rtt_sample(&mut self, now: Timestamp) {
        self.first_sample_at = self.first_sample_at.or(Some(now));
    }

    /// Starts to process the losses of one event. Packets sent before `acknowledged_elsewhere`, the
    /// time when an acknowledged packet of another space was sent, are not evidence.
    pub(super) fn begin(&mut self, acknowledged_elsewhere: Option<Timestamp>) {
        self.acknowledged_elsewhere = acknowledged_elsewhere;
        self.run_began_at = None;
        self.longest = Duration::ZERO;
    }

    /// Handles the loss of `packet`. Must be called in sending order.
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

    /// Ends the current run of lost packets: a packet sent between those reported before and those
    /// reported from now on was acknowledged.
    pub(super) fn interrupt(&mut self) {
        self.run_began_at = None;
    }

    /// Returns whether the losses of this event span three times `pto_base`. `next` is the index of
    /// the next packet: packets sent before it are not used as evidence again.
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
