//! BBR's response to packets declared lost, CE marks and persistent congestion (draft, "Updating
//! the Model Upon Packet Loss").

use super::Bbr;
use super::gain::Gain;
use super::long_term::is_too_high;
use super::state::BbrState;
use crate::inspect::{Inspect, StateValue, Visit};
use crate::{Acknowledgement, CongestionResponse, SendIndex, SentPacket};
use clearway_units::packed::Pack;

/// A loss episode, bounded by a send index (law 3).
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct LossEpisode {
    boundary: SendIndex,
    /// Whether no packet sent after the episode began has been acknowledged yet.
    pub(super) is_open: bool,
}

impl LossEpisode {
    fn begin(&mut self, next_index: SendIndex) {
        self.boundary = next_index;
        self.is_open = true;
    }

    /// Closes the episode because its losses were spurious.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }

    /// Returns whether `event` ends the episode; if so, closes it.
    pub(super) fn is_ended_by(&mut self, event: &Acknowledgement<'_>) -> bool {
        let ends = self.is_open && event.acked.iter().any(|packet| packet.index >= self.boundary);
        self.is_open &= !ends;
        ends
    }

    /// Returns whether `event` reports congestion that this episode does not already respond to.
    fn is_new(&self, event: &Acknowledgement<'_>) -> bool {
        let is_marked = event.newly_ce_marked > 0 && event.largest_acked >= Some(self.boundary);
        is_marked || event.lost.iter().any(|packet| packet.index >= self.boundary)
    }
}

/// The losses among the data that was in flight when a packet was sent.
#[derive(Clone, Copy, Debug)]
struct LossSample {
    /// Bytes in flight when the packet was sent, including the packet (RS.tx_in_flight).
    in_flight: u64,
    /// Bytes lost since the packet was sent, including the packet (RS.lost).
    lost: u64,
    /// The packet's size.
    bytes: u64,
    is_application_limited: bool,
}

impl LossSample {
    /// Returns the bytes in flight at which the losses exceeded the threshold (InflightAtLoss).
    fn in_flight_at_loss(&self) -> u64 {
        let in_flight = self.in_flight.saturating_sub(self.bytes);
        let lost = self.lost.saturating_sub(self.bytes);
        // `threshold` (in hundredths) x (in_flight + prefix) = 100 x (lost + prefix), solved for
        // the prefix.
        let threshold = i128::from(Gain::LOSS_THRESHOLD.0);
        let excess = threshold * i128::from(in_flight) - 100 * i128::from(lost);
        let prefix = excess / (100 - threshold);
        u64::try_from(i128::from(in_flight) + prefix).unwrap_or(0)
    }
}

impl Bbr {
    /// Responds to the losses and marks of `event`, before its acknowledgments are processed.
    pub(super) fn respond_to_congestion(
        &mut self,
        event: &Acknowledgement<'_>,
    ) -> CongestionResponse {
        let mut response = CongestionResponse::None;
        if self.episode.is_new(event) {
            response = self.begin_episode(event);
        }
        let mut earlier_lost = event
            .lost
            .iter()
            .fold(event.total_lost, |total, packet| total.saturating_sub(packet.bytes));
        for packet in event.lost {
            earlier_lost = earlier_lost.saturating_add(packet.bytes);
            self.handle_lost_packet(event, packet, earlier_lost);
        }
        if event.newly_ce_marked > 0 {
            self.handle_marks(event);
        }
        if event.persistent_congestion {
            if self.episode.boundary != event.next_index {
                response = self.begin_episode(event);
            }
            self.collapse(event);
        }
        response
    }

    fn begin_episode(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        self.save_state();
        self.episode.begin(event.next_index);
        self.congestion_events = self.congestion_events.saturating_add(1);
        CongestionResponse::Reduced
    }

    /// Handles a lost packet (HandleLostPacket). `total_lost` is the total number of bytes lost,
    /// including this packet.
    fn handle_lost_packet(
        &mut self,
        event: &Acknowledgement<'_>,
        packet: &SentPacket,
        total_lost: u64,
    ) {
        self.latest.note_loss(event.total_delivered);
        self.latest.note_lost_packet(packet);
        self.judge(
            event,
            LossSample {
                in_flight: packet.delivery.in_flight,
                lost: total_lost.saturating_sub(packet.delivery.lost),
                bytes: packet.bytes,
                is_application_limited: self.is_application_limited(packet),
            },
        );
    }

    /// Responds to CE marks. The draft does not define a response, but the sender MUST treat them
    /// as congestion: each counts as a datagram lost in this round. It is unknown which packets
    /// were marked; the newest acknowledged one represents them. The response is never undone,
    /// because the network itself signaled congestion.
    fn handle_marks(&mut self, event: &Acknowledgement<'_>) {
        self.undo.forget();
        self.latest.note_loss(event.total_delivered);
        self.latest.note_marks(event.newly_ce_marked.saturating_mul(self.size()));
        let Some(newest) = event.acked.last() else { return };
        let lost = event.total_lost.saturating_sub(newest.delivery.lost);
        let lost = lost.saturating_add(self.latest.marked);
        self.judge(
            event,
            LossSample {
                in_flight: newest.delivery.in_flight,
                lost,
                bytes: newest.bytes,
                is_application_limited: self.is_application_limited(newest),
            },
        );
    }

    /// Ends a probe whose packets' loss rate exceeds the threshold (HandleInflightTooHigh).
    /// Responds once per probe.
    fn judge(&mut self, event: &Acknowledgement<'_>, sample: LossSample) {
        if !self.cycle.is_probe_sample || !is_too_high(sample.lost, sample.in_flight) {
            return;
        }
        self.cycle.was_too_high = true;
        self.cycle.is_probe_sample = false;
        if !sample.is_application_limited {
            let least = Gain::BETA.of(self.target_in_flight());
            self.long_term.bound = Some(sample.in_flight_at_loss().max(least));
        }
        if self.state == BbrState::ProbeUp {
            self.undo.note_transition(BbrState::ProbeUp);
            self.start_probe_down(event.now, event.total_delivered);
        }
    }

    /// Responds to persistent congestion (OnEnterRTO, RFC 9002 §7.6): the window is one datagram
    /// more than the bytes in flight, and at least the minimum window. The model is kept (row 112),
    /// and the window is restored when a packet sent after the collapse is acknowledged.
    fn collapse(&mut self, event: &Acknowledgement<'_>) {
        let window = event.bytes_in_flight.saturating_add(self.size());
        self.window.set(window, self.minimum_window(), self.maximum_window());
    }
}

impl Inspect for LossEpisode {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { boundary, is_open } = *self;
        visit("recovery_boundary", StateValue::Index(boundary));
        visit("is_in_recovery", StateValue::Flag(is_open));
    }
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
