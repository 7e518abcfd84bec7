//! The effects of wire events since the last report.

use core::time::Duration;

use super::{Episode, Fate, Held, Packet};

/// The effects of wire events since the last report.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct Tally {
    /// ACK frames received that have not been reported on yet.
    pub(in crate::checker) pending: u32,
    /// Bytes in flight before the first of these events.
    pub(in crate::checker) prior_in_flight: Option<u64>,
    /// Bytes on the current path newly acknowledged that had not been declared lost.
    pub(in crate::checker) acked: u64,
    /// The part of `acked` that was sent after the last reduction.
    pub(in crate::checker) growing: u64,
    /// The latest acknowledged packet, in the order of sending.
    pub(in crate::checker) largest_acked: Option<u64>,
    /// The latest of those that had not been declared lost.
    pub(in crate::checker) largest_delivered: Option<u64>,
    /// Lost packets that count for congestion control, and their bytes.
    pub(in crate::checker) lost: u64,
    pub(in crate::checker) lost_bytes: u64,
    /// The latest of them.
    pub(in crate::checker) largest_lost: Option<u64>,
    /// CE marks that were reported on a validated path.
    pub(in crate::checker) ce_marks: u64,
    /// Packets that had been declared lost and were acknowledged after all, and their bytes.
    pub(in crate::checker) spurious: u64,
    pub(in crate::checker) spurious_bytes: u64,
    /// The number of those packets that were lost in the current recovery period.
    pub(in crate::checker) returned: u64,
    /// Bytes in flight whose keys were discarded after an ACK frame that was not reported on yet: a
    /// datagram may contain an ACK frame, and after it a frame that confirms the handshake.
    pub(in crate::checker) discarded: u64,
    /// The round-trip time of the latest ACK that yields a sample (RFC 9002 §5.1).
    pub(in crate::checker) rtt: Option<Duration>,
    /// The one-way delay of the packet that it was measured with, if known.
    pub(in crate::checker) one_way: Option<Duration>,
    /// Whether a packet of this round was acknowledged.
    pub(in crate::checker) ends_round: bool,
    /// The data that congestion control held back since packets were last acknowledged or lost.
    pub(in crate::checker) held: Held,
}

impl Tally {
    /// Returns whether any event happened that is reported to a controller.
    pub(in crate::checker) fn has_event(&self) -> bool {
        self.acked > 0 || self.lost > 0 || self.spurious > 0
    }

    /// Records the acknowledgment of a packet of the current path; `packet` is its state before.
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
