//! Tallies the effects of observed events since the last report.

use core::time::Duration;

use super::{Episode, Fate, Held, Packet};

/// The effects of observed events since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct Tally {
    /// The number of received ACK frames that have not been reported on yet.
    pub(in crate::checker) pending: u32,
    /// Bytes in flight before the first event of the tally.
    pub(in crate::checker) prior_in_flight: Option<u64>,
    /// Newly acknowledged bytes on the current path that had not been declared lost.
    pub(in crate::checker) acked: u64,
    /// The part of `acked` that was sent after the last window reduction.
    pub(in crate::checker) growing: u64,
    /// The latest acknowledged packet, in send order.
    pub(in crate::checker) largest_acked: Option<u64>,
    /// The latest acknowledged packet that had not been declared lost.
    pub(in crate::checker) largest_delivered: Option<u64>,
    /// The number of lost packets that count for congestion control, and their bytes.
    pub(in crate::checker) lost: u64,
    pub(in crate::checker) lost_bytes: u64,
    /// The latest lost packet that counts for congestion control.
    pub(in crate::checker) largest_lost: Option<u64>,
    /// The number of CE marks reported on a validated path.
    pub(in crate::checker) ce_marks: u64,
    /// The number of packets that were declared lost but later acknowledged, and their bytes.
    pub(in crate::checker) spurious: u64,
    pub(in crate::checker) spurious_bytes: u64,
    /// The number of spurious losses that were declared in the current recovery period.
    pub(in crate::checker) returned: u64,
    /// Bytes in flight whose keys were discarded after an ACK frame that has not been reported on
    /// yet. A datagram may contain an ACK frame followed by a frame that confirms the handshake.
    pub(in crate::checker) discarded: u64,
    /// The RTT from the latest ACK that yields a sample (RFC 9002 §5.1).
    pub(in crate::checker) rtt: Option<Duration>,
    /// The one-way delay of the packet from which the RTT was measured, if known.
    pub(in crate::checker) one_way: Option<Duration>,
    /// Whether a packet sent in this round was acknowledged.
    pub(in crate::checker) ends_round: bool,
    /// Whether, and for how long, congestion control has limited sending since packets were last
    /// acknowledged or lost.
    pub(in crate::checker) held: Held,
}

impl Tally {
    /// Returns whether any event has occurred that is reported to a controller.
    pub(in crate::checker) fn has_event(&self) -> bool {
        self.acked > 0 || self.lost > 0 || self.spurious > 0
    }

    /// Records the acknowledgment of a packet on the current path; `packet` is its previous state.
    pub(in crate::checker) fn note(&mut self, packet: &Packet, episode: &Episode) {
        self.largest_acked = self.largest_acked.max(Some(packet.index));
        if packet.fate == Fate::Lost {
            if !packet.is_exempt {
                self.spurious += 1;
                self.spurious_bytes += packet.bytes;
                self.returned += u64::from(packet.loss_event >= episode.event);
            }
            return;
        }
        self.largest_delivered = self.largest_delivered.max(Some(packet.index));
        self.acked += packet.bytes;
        if packet.index >= episode.boundary {
            self.growing += packet.bytes;
        }
    }
}
