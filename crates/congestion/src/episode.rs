//! Decides when to respond to a loss, and determines when the losses that caused a cut have been
//! repaired (RFC 9002 §7.3.2).

use crate::inspect::{Inspect, StateValue, Visit};
use crate::{Acknowledgement, SendIndex};
use clearway_units::packed::Pack;

/// The recovery boundary (law 3): a send index, fixed until the next episode. It is never a time,
/// and only a new episode moves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub(crate) struct Episode {
    /// The index of the first packet sent after the last cut.
    boundary: SendIndex,
    /// The index of the first packet sent after the last collapse.
    collapsed: SendIndex,
    /// Whether no packet sent after the cut has been acknowledged yet.
    is_open: bool,
}

impl Episode {
    /// Returns whether `event` reports congestion that the last cut did not respond to: the loss or
    /// CE mark of a packet sent after it.
    pub(crate) fn is_new_congestion(&self, event: &Acknowledgement<'_>) -> bool {
        // It is unknown which packets were marked; the largest acknowledged one represents them.
        let is_marked = event.newly_ce_marked > 0
            && event.largest_acked.is_some_and(|index| index >= self.boundary);
        is_marked || event.lost.iter().any(|packet| packet.index >= self.boundary)
    }

    /// Returns whether `event` reports persistent congestion that the last collapse did not respond
    /// to (row 22).
    pub(crate) fn is_new_persistent_congestion(&self, event: &Acknowledgement<'_>) -> bool {
        event.persistent_congestion
            && event.lost.iter().any(|packet| packet.index >= self.collapsed)
    }

    /// Begins an episode with a cut: packets from `next_index` on are sent after it.
    pub(crate) fn begin(&mut self, next_index: SendIndex) {
        self.boundary = next_index;
        self.is_open = true;
    }

    /// Collapses the window: packets sent before carry no new information, and there is no recovery
    /// period (RFC 9002 §7.6.2, appendix B.8).
    pub(crate) fn collapse(&mut self, next_index: SendIndex) {
        self.boundary = next_index;
        self.collapsed = next_index;
        self.is_open = false;
    }

    /// Ends the episode if a packet sent after the cut was acknowledged.
    pub(crate) fn on_acked(&mut self, event: &Acknowledgement<'_>) {
        if event.acked.iter().any(|packet| packet.index >= self.boundary) {
            self.is_open = false;
        }
    }

    /// Closes the episode, since the cut was undone.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
    }

    /// Returns whether the losses of the last cut are still being repaired.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the acknowledged bytes that may make the window grow: those sent after the cut.
    pub(crate) fn growing_bytes(&self, event: &Acknowledgement<'_>) -> u64 {
        let grows = event.acked.iter().filter(|packet| packet.index >= self.boundary);
        grows.fold(0, |sum, packet| sum.saturating_add(packet.bytes))
    }
}

impl Inspect for Episode {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { boundary, collapsed, is_open } = *self;
        visit("recovery_boundary", StateValue::Index(boundary));
        visit("collapse_boundary", StateValue::Index(collapsed));
        visit("is_in_recovery", StateValue::Flag(is_open));
    }
}
