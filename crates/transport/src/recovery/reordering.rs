use core::time::Duration;

use super::rtt::{Rtt, nine_eighths, weighted};
use super::sent_space::MAX_LOST_REMEMBERED;
use crate::observer::LossThresholds;
use clearway_units::packed::Pack;

/// Raised thresholds are kept for this many rounds with losses and without reordering
/// (RFC 8985 §6.2, step 4: RACK.reo_wnd_persist).
const PERSISTENCE: u32 = 16;

/// The largest packet threshold. A packet that is overtaken by more packets than this is no longer
/// tracked.
const MAX_PACKET_THRESHOLD: u64 = MAX_LOST_REMEMBERED as u64;

/// The reordering tolerated on one path before a packet is declared lost.
///
/// RFC 9002 §6.1.1 and §6.1.2 allow raising both thresholds where reordering is observed. A packet
/// that is acknowledged after it was declared lost was overtaken by more packets, or by more time,
/// than was tolerated. From then on the packet threshold is the number of packets by which it was
/// overtaken, plus one, and the time threshold is 9/8 of the maximum of the usual round-trip times
/// and this packet's. Both are kept while they prevent spurious losses and for some time after
/// that, like the reordering window of RFC 8985 §6.2. That window grows by one step for each round
/// with such a packet, because TCP cannot measure how late it was; with ACK frames QUIC can.
///
/// Without spurious losses, both thresholds keep their initial values.
#[derive(Debug, Pack)]
pub(super) struct Reordering {
    least_packets: u64,
    packets: u64,
    /// The longest round-trip time of a packet that was spuriously declared lost.
    longest: Duration,
    /// The smoothed round-trip time of overtaken packets. The path's estimate is based on the
    /// packets that arrived first.
    smoothed: Option<Duration>,
    /// The number of rounds with losses until both thresholds fall back.
    persists: u32,
    /// The last round with losses that was counted.
    counted: Option<u64>,
}

/// The extent to which an acknowledged packet was overtaken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Overtaken {
    /// The distance to the largest packet number acknowledged earlier, not counting skipped packet
    /// numbers.
    pub(super) packets: u64,
    /// The time from sending the packet to its acknowledgment.
    pub(super) elapsed: Duration,
}

impl Reordering {
    /// Creates the state before any reordering: packets that are overtaken by `least_packets` are
    /// lost.
    pub(super) fn new(least_packets: u64) -> Self {
        Self {
            least_packets,
            packets: least_packets,
            longest: Duration::ZERO,
            smoothed: None,
            persists: 0,
            counted: None,
        }
    }

    /// Returns the current loss thresholds. `max_ack_delay` is the peer's.
    ///
    /// The time threshold is limited to the larger of the probe timeout and two round trips: those
    /// of the overtaken packets if they take longer than the packets that overtook them.
    pub(super) fn thresholds(&self, rtt: &Rtt, max_ack_delay: Duration) -> LossThresholds {
        if self.longest.is_zero() {
            let time = rtt.time_threshold(Duration::ZERO);
            return LossThresholds { packets: self.packets, time };
        }
        let smoothed = rtt.smoothed_or_assumed().max(self.smoothed.unwrap_or_default());
        let limit = rtt.pto_base(max_ack_delay).max(smoothed.saturating_mul(2));
        let time = rtt.time_threshold(nine_eighths(self.longest).min(limit));
        LossThresholds { packets: self.packets, time }
    }

    /// Returns whether the time threshold is limited by the round trips of overtaken packets, not
    /// by those of the path.
    pub(super) fn is_wide(&self, rtt: &Rtt) -> bool {
        !self.longest.is_zero()
            && self.smoothed.is_some_and(|smoothed| smoothed > rtt.smoothed_or_assumed())
    }

    /// Returns how many later packets may overtake one before it is declared lost.
    pub(super) fn packet_threshold(&self) -> u64 {
        self.packets
    }

    /// Handles the acknowledgment of a packet that had been declared lost while `before` applied.
    pub(super) fn on_spurious_loss(
        &mut self,
        overtaken: Overtaken,
        rtt: &Rtt,
        before: LossThresholds,
    ) {
        self.persists = PERSISTENCE;
        self.smooth(overtaken, rtt);
        if overtaken.packets >= before.packets {
            self.packets = overtaken.packets.saturating_add(1).min(MAX_PACKET_THRESHOLD);
        }
        if overtaken.elapsed >= before.time {
            self.longest = self.longest.max(overtaken.elapsed);
        }
    }

    /// Handles the late acknowledgment of a reordered packet. If the initial thresholds would have
    /// declared it lost, the adapted ones are still needed.
    pub(super) fn on_overtaken(&mut self, overtaken: Overtaken, rtt: &Rtt) {
        self.smooth(overtaken, rtt);
        let is_of_use = overtaken.packets >= self.least_packets
            || overtaken.elapsed >= rtt.time_threshold(Duration::ZERO);
        if self.persists > 0 && is_of_use {
            self.persists = PERSISTENCE;
        }
    }

    fn smooth(&mut self, overtaken: Overtaken, rtt: &Rtt) {
        let before = self.smoothed.unwrap_or_else(|| rtt.smoothed_or_assumed());
        self.smoothed = Some(weighted(before, overtaken.elapsed, 8));
    }

    /// Records that a packet was declared lost in `round`.
    pub(super) fn on_lost(&mut self, round: u64) {
        if self.persists == 0 || self.counted == Some(round) {
            return;
        }
        self.counted = Some(round);
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            *self = Self::new(self.least_packets);
        }
    }
}

#[cfg(test)]
#[path = "reordering_tests.rs"]
mod tests;
