//! When to answer a loss, and when the losses of one cut are repaired (RFC 9002 §7.3.2).

use crate::{Acknowledgement, SendIndex};

/// The recovery boundary (law 3): a send index, fixed until the next episode. It is never a time, and
/// nothing but a new episode moves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Episode {
    /// Packets before this were sent before the last cut.
    boundary: Option<SendIndex>,
    /// No packet sent after the cut has been acknowledged yet.
    is_open: bool,
}

impl Episode {
    /// Whether `event` brings congestion that the last cut did not answer: a loss, or a mark, of what
    /// was sent after it.
    pub(crate) fn is_new_congestion(&self, event: &Acknowledgement<'_>) -> bool {
        let is_lost = event.lost.iter().any(|packet| self.is_after(packet.index));
        // Which packets were marked is not said; the largest acknowledged one stands for them.
        let is_marked = event.newly_ce_marked > 0
            && event.largest_acked.is_some_and(|index| self.is_after(index));
        is_lost || is_marked
    }

    /// Whether a packet was sent after the last cut.
    pub(crate) fn is_after(&self, index: SendIndex) -> bool {
        self.boundary.is_none_or(|boundary| index >= boundary)
    }

    /// A cut was made: what is sent from `next_index` on belongs to the time after it.
    pub(crate) fn begin(&mut self, next_index: SendIndex) {
        self.boundary = Some(next_index);
        self.is_open = true;
    }

    /// Ends the episode if a packet sent after the cut was acknowledged.
    pub(crate) fn on_acked(&mut self, event: &Acknowledgement<'_>) {
        if event.acked.iter().any(|packet| self.is_after(packet.index)) {
            self.is_open = false;
        }
    }

    /// The cut was taken back, or replaced by a collapse.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether the losses of the last cut are still being repaired.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Bytes that `event` acknowledged and that may make the window grow: those sent after the cut.
    pub(crate) fn growing_bytes(&self, event: &Acknowledgement<'_>) -> u64 {
        let grows = event.acked.iter().filter(|packet| self.is_after(packet.index));
        grows.fold(0, |sum, packet| sum.saturating_add(packet.bytes))
    }
}
