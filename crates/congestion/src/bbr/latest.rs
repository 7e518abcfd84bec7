//! The data that the path delivered in the last round, and whether that round had losses (draft,
//! "When Not Probing for Bandwidth").

use clearway_units::Rate;
use clearway_units::packed::Pack;

use super::sample::Sample;
use crate::inspect::{Inspect, StateValue, Visit};
use crate::{SendIndex, SentPacket};

#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Latest {
    /// The maximum delivery rate in this round (BBR.bw_latest).
    pub(super) rate: Rate,
    /// The maximum delivered amount in this round (BBR.inflight_latest).
    pub(super) in_flight: u64,
    /// Whether this round had losses (BBR.is_loss_in_round).
    pub(super) has_loss: bool,
    /// Whether the current ACK ended a loss round (BBR.loss_round_start).
    pub(super) round_started: bool,
    /// The total delivered bytes at which the loss round ends (BBR.loss_round_delivered).
    round_ends_at: u64,
    /// The number of discontiguous ranges of packets lost in this round.
    ranges: u64,
    last_lost: Option<SendIndex>,
    /// Bytes that were CE-marked in this round.
    pub(super) marked: u64,
}

impl Latest {
    /// Updates the signals near the start of an ACK (UpdateLatestDeliverySignals).
    pub(super) fn update(&mut self, sample: &Sample) {
        self.rate = self.rate.max(sample.rate);
        self.in_flight = self.in_flight.max(sample.delivered);
        self.round_started = sample.prior_delivered() >= self.round_ends_at;
        if self.round_started {
            self.round_ends_at = sample.total_delivered;
        }
    }

    /// Starts the next round's signals near the end of an ACK (AdvanceLatestDeliverySignals).
    pub(super) fn advance(&mut self, sample: &Sample) {
        if self.round_started {
            self.rate = sample.rate;
            self.in_flight = sample.delivered;
            self.marked = 0;
        }
    }

    /// Resets the signals (ResetCongestionSignals).
    pub(super) fn reset(&mut self) {
        self.has_loss = false;
        self.rate = Rate::ZERO;
        self.in_flight = 0;
        self.marked = 0;
    }

    /// Records a loss; the first one starts a loss round (NoteLoss).
    pub(super) fn note_loss(&mut self, total_delivered: u64) {
        if !self.has_loss {
            self.round_ends_at = total_delivered;
        }
        self.has_loss = true;
    }

    /// Records the loss of `packet`. A packet sent right after the previously lost packet belongs
    /// to the same range.
    pub(super) fn note_lost_packet(&mut self, packet: &SentPacket) {
        let follows =
            self.last_lost.is_some_and(|last| last.0.checked_add(1) == Some(packet.index.0));
        self.last_lost = Some(packet.index);
        if !follows {
            self.note_lost_range();
        }
    }

    /// Records that `bytes` bytes were CE-marked, which counts as one lost range.
    pub(super) fn note_marks(&mut self, bytes: u64) {
        self.marked = self.marked.saturating_add(bytes);
        self.note_lost_range();
    }

    fn note_lost_range(&mut self) {
        self.ranges = self.ranges.saturating_add(1);
    }

    /// Returns the number of ranges lost in the round that ended, and resets the count.
    pub(super) fn take_lost_ranges(&mut self) -> u64 {
        core::mem::take(&mut self.ranges)
    }
}

impl Inspect for Latest {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self {
            rate,
            in_flight,
            has_loss,
            round_started,
            round_ends_at,
            ranges,
            last_lost,
            marked,
        } = *self;
        visit("bw_latest", StateValue::Rate(rate));
        visit("inflight_latest", StateValue::Bytes(in_flight));
        visit("is_loss_in_round", StateValue::Flag(has_loss));
        visit("loss_round_start", StateValue::Flag(round_started));
        visit("loss_round_delivered", StateValue::Delivered(round_ends_at));
        visit("lost_ranges", StateValue::Count(ranges));
        visit("last_lost", StateValue::optional(last_lost, StateValue::Index));
        visit("marked", StateValue::Bytes(marked));
    }
}
