//! The bounds of RFC 9937, recomputed from the sent and delivered bytes.

use super::target;
use crate::{Acknowledgement, Snapshot};

/// One recovery episode in the sender's own ledger; all values are in bytes.
#[derive(Debug)]
pub(super) struct Recovery {
    /// Whether losses started the episode; after a CE mark alone, the full reduction applies
    /// immediately.
    is_gradual: bool,
    flight_at_start: u64,
    delivered: u64,
    sent: u64,
    /// The bytes that may be sent in addition to the delivered bytes: the retransmission at the
    /// start, a datagram per safe ACK, probes, and the minimum window.
    beyond: u64,
}

impl Recovery {
    pub(super) fn new(event: &Acknowledgement<'_>, minimum_window: u64) -> Self {
        let flight_at_start = event.prior_in_flight.max(1);
        let beyond = minimum_window + minimum_window / 2;
        let is_gradual = !event.lost.is_empty();
        Self { is_gradual, flight_at_start, delivered: 0, sent: 0, beyond }
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    pub(super) fn on_probe(&mut self, bytes: u64) {
        self.beyond += bytes;
    }

    /// Checks the state after an event of the episode.
    pub(super) fn check(
        &mut self,
        after: &Snapshot,
        event: &Acknowledgement<'_>,
        maximum_window: u64,
    ) {
        let (in_flight, threshold) = (event.bytes_in_flight, target(after));
        if !self.is_gradual {
            assert_eq!(after.window, threshold, "RFC 9002 §7.3.2: immediately");
            return;
        }
        let datagram = after.minimum_window / 2;
        let delivered: u64 = event.acked.iter().map(|packet| packet.bytes).sum();
        self.delivered += delivered;
        if event.lost.is_empty() && event.newly_ce_marked == 0 && delivered > 0 {
            self.beyond += datagram;
        }
        let room = after.window.saturating_sub(in_flight);
        let share = self.share(threshold);
        let bound = self.delivered.max(share) + self.beyond;
        assert!(self.sent + room <= bound, "RFC 9937: {room} {self:?} {after:?}");
        let first = if self.sent == 0 { datagram } else { 0 };
        let least = after.minimum_window.saturating_sub(in_flight);
        if in_flight > threshold {
            assert!(room <= share.saturating_sub(self.sent).max(first), "§6.2: {self:?}");
        } else {
            assert!(room <= (threshold - in_flight).max(first).max(least), "§6.2: {self:?}");
            assert!(
                room >= delivered.min(threshold - in_flight),
                "PRR allows sending as much as was delivered"
            );
        }
        let first = first.min(maximum_window.saturating_sub(in_flight));
        assert!(room >= first.max(least), "L1: {self:?} {after:?}");
    }

    fn share(&self, threshold: u64) -> u64 {
        let product = u128::from(self.delivered) * u128::from(threshold);
        product.div_ceil(u128::from(self.flight_at_start)) as u64
    }
}
