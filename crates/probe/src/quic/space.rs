use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use clearway_units::Timestamp;

use super::packet::Packet;
use super::reassembly::Reassembly;

/// Maximum number of ranges of received packet numbers.
const MAX_RANGES: usize = 64;
/// A packet is declared lost if a packet whose number is this much larger has been acknowledged
/// (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;
/// Maximum number of times that the same frames are sent.
const MAX_ATTEMPTS: u32 = 8;

/// Encoded frames that wait to be sent in a packet.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    /// The values for the header, and the frames as they will be recorded.
    pub(super) packet: Packet,
    pub(super) payload: Vec<u8>,
    /// Number of times that the payload has been sent.
    pub(super) attempts: u32,
}

/// A packet that was sent but not acknowledged.
#[derive(Debug)]
struct Sent {
    at: Timestamp,
    outgoing: Outgoing,
}

/// A packet number space (RFC 9000 §12.3).
#[derive(Debug, Default)]
pub(super) struct Space {
    /// The next packet number.
    pub(super) next: u64,
    /// The received packet numbers as inclusive ranges, the highest last.
    received: Vec<(u64, u64)>,
    pub(super) ack_due: bool,
    sent: BTreeMap<u64, Sent>,
    pub(super) largest_acked: Option<u64>,
    /// Packets that wait to be sent.
    pub(super) queue: VecDeque<Outgoing>,
    pub(super) crypto: Reassembly,
    /// The offset at which the next CRYPTO data begins.
    pub(super) crypto_sent: u64,
    /// Number of probe timeouts since the last acknowledgment.
    timeouts: u32,
}

impl Space {
    /// Records a received packet number. Returns whether it is new.
    pub(super) fn on_received(&mut self, number: u64) -> bool {
        if self.received.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
            return false;
        }
        self.received.push((number, number));
        self.received.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.received.len());
        for (first, last) in self.received.drain(..) {
            match merged.last_mut() {
                Some(before) if before.1.saturating_add(1) >= first => {
                    before.1 = before.1.max(last)
                }
                _ => merged.push((first, last)),
            }
        }
        let surplus = merged.len().saturating_sub(MAX_RANGES);
        merged.drain(..surplus);
        self.received = merged;
        true
    }

    pub(super) fn largest_received(&self) -> Option<u64> {
        self.received.last().map(|(_, last)| *last)
    }

    /// Returns the received packet numbers in descending ranges, for an ACK frame.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.received.iter().rev().copied()
    }

    /// Returns the number of packets in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn on_sent(&mut self, number: u64, at: Timestamp, outgoing: Outgoing) {
        self.sent.insert(number, Sent { at, outgoing });
    }

    /// Processes an acknowledgment of `first..=last`. Returns the time at which the packet `last` was sent, if it
    /// was in flight.
    pub(super) fn on_acked(&mut self, first: u64, last: u64) -> Option<Timestamp> {
        let numbers: Vec<u64> = self.sent.range(first..=last).map(|(number, _)| *number).collect();
        let mut sent_at = None;
        for number in numbers {
            self.timeouts = 0;
            let sent = self.sent.remove(&number);
            if number == last {
                sent_at = sent.map(|sent| sent.at);
            }
        }
        self.largest_acked = self.largest_acked.max(Some(last));
        sent_at
    }

    /// Queues the frames of packets that are declared lost because later packets were acknowledged.
    pub(super) fn detect_losses(&mut self) {
        let Some(largest) = self.largest_acked else { return };
        let before = largest.saturating_sub(PACKET_THRESHOLD.saturating_sub(1));
        let later = self.sent.split_off(&before);
        let lost = core::mem::replace(&mut self.sent, later);
        lost.into_values().rev().for_each(|sent| self.requeue(sent.outgoing));
    }

    /// Queues the frames of all packets in flight.
    pub(super) fn requeue_all(&mut self) {
        let all = core::mem::take(&mut self.sent);
        all.into_values().rev().for_each(|sent| self.requeue(sent.outgoing));
    }

    fn requeue(&mut self, outgoing: Outgoing) {
        if !outgoing.packet.once && outgoing.attempts < MAX_ATTEMPTS {
            // A packet number is used once.
            let packet = Packet { number: None, ..outgoing.packet };
            self.queue.push_front(Outgoing { packet, ..outgoing });
        }
    }

    /// Returns the time at which unacknowledged packets must be retransmitted.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Timestamp> {
        let last = self.sent.values().map(|sent| sent.at).max()?;
        Some(last + timeout.saturating_mul(1_u32.checked_shl(self.timeouts.min(6)).unwrap_or(1)))
    }

    pub(super) fn on_timeout(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
        self.requeue_all();
    }

    /// Discards everything that was sent or queued, when the keys are discarded.
    pub(super) fn discard(&mut self) {
        self.sent.clear();
        self.queue.clear();
        self.ack_due = false;
    }

    /// Returns whether no packets wait to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_cover_what_was_received(numbers in prop::collection::vec(0_u64..100, 1..60)) {
            let mut space = Space::default();
            for number in &numbers {
                space.on_received(*number);
            }
            let ranges: Vec<_> = space.ranges().collect();
            for number in 0..100 {
                let is_covered = ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
                prop_assert_eq!(is_covered, numbers.contains(&number));
            }
            prop_assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0));
        }
    }

    #[test]
    fn lost_frames_are_queued_again() {
        let mut space = Space::default();
        for number in 0..5 {
            let outgoing =
                Outgoing { packet: Packet::default(), payload: vec![number as u8], attempts: 1 };
            space.on_sent(number, Timestamp::ORIGIN, outgoing);
        }
        space.on_acked(4, 4);
        space.detect_losses();
        let lost: Vec<_> = space.queue.iter().map(|outgoing| outgoing.payload[0]).collect();
        assert_eq!((lost, space.in_flight()), (vec![0, 1], 2));
        space.on_timeout();
        assert_eq!(space.queue.len(), 4);
    }
}
