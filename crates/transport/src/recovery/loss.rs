use clearway_congestion::{Acknowledgement, CongestionResponse, SpuriousLoss};
use clearway_units::Timestamp;
use clearway_wire::PacketNumber;

use super::Recovery;
use super::checked::subtract;
use super::packet::PacketState;
use crate::observer::{LossThresholds, LossTrigger, LostPacket};
use crate::{SpaceId, TransportError};

/// Facts about an event other than the packets in the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventFacts {
    pub(super) now: Timestamp,
    pub(super) prior_in_flight: u64,
    pub(super) prior_round: u64,
    pub(super) rtt_is_new: bool,
    pub(super) persistent_congestion: bool,
}

impl Recovery {
    /// Detects the lost packets of `space`, by number and by time (RFC 9002 §6.1), and sets the
    /// time when the next one will be lost. Only packets sent before an acknowledged one can be
    /// lost.
    pub(super) fn detect_losses(
        &mut self,
        space: SpaceId,
        now: Timestamp,
    ) -> Result<(), TransportError> {
        *self.loss_times.get_mut(space) = None;
        let sent = self.ledger.space(space);
        let Some(largest) = sent.largest_acknowledged() else { return Ok(()) };
        let largest = largest.get();
        let thresholds = self.loss_thresholds();
        let tolerated_from = self.tolerated_from(space, largest, thresholds.packets);
        let mut number = sent.first_outstanding();
        while number < largest {
            let Some(packet) = self.ledger.space(space).packet(number) else {
                // Its outcome is final and it was removed, most likely because it was acknowledged.
                self.path.persistent.interrupt();
                number = number.saturating_add(1);
                continue;
            };
            match packet.state {
                PacketState::Outstanding => {
                    let late_at = packet.sent_at + thresholds.time;
                    // A packet that does not count as in flight needs no loss timer.
                    if number >= tolerated_from && late_at > now && packet.in_flight {
                        *self.loss_times.get_mut(space) = Some(late_at);
                        break;
                    }
                    let trigger = if number < tolerated_from {
                        LossTrigger::ReorderingThreshold
                    } else {
                        LossTrigger::TimeThreshold
                    };
                    self.lose(space, number, now, trigger, thresholds)?;
                }
                PacketState::Acknowledged { .. } => self.path.persistent.interrupt(),
                PacketState::Staged
                | PacketState::Lost { .. }
                | PacketState::Abandoned
                | PacketState::Skipped => {}
            }
            number = number.saturating_add(1);
        }
        self.ledger.space_mut(space).settle_below(number);
        Ok(())
    }

    /// Returns the loss thresholds that apply now.
    pub(super) fn loss_thresholds(&self) -> LossThresholds {
        self.path.reordering.thresholds(&self.path.rtt, self.max_ack_delay)
    }

    /// Returns the first packet number not yet lost by the packet threshold. Skipped numbers do not
    /// count as packets that overtook another.
    fn tolerated_from(&self, space: SpaceId, largest: u64, threshold: u64) -> u64 {
        let from = largest.saturating_add(1).saturating_sub(threshold);
        let skipped = self.ledger.space(space).skipped_within(from, largest);
        from.saturating_sub(skipped)
    }

    fn lose(
        &mut self,
        space: SpaceId,
        number: u64,
        now: Timestamp,
        trigger: LossTrigger,
        thresholds: LossThresholds,
    ) -> Result<(), TransportError> {
        let packet = self.ledger.declare_lost(space, number, now, self.event)?;
        let tokens = self.ledger.space(space).tokens_of(&packet);
        self.batch.lost_tokens.extend(tokens.map(|token| (space, token)));
        if let Some(number) = PacketNumber::new(number) {
            let bytes = packet.bytes;
            self.batch.lost_packets.push(LostPacket { space, number, bytes, trigger, thresholds });
        }
        if packet.in_flight && !packet.is_exempt && self.ledger.is_current(&packet) {
            if packet.is_marked {
                self.ecn.on_lost(packet.index);
            }
            self.batch.lost.push(packet.as_sent());
            self.path.sampler.on_lost(packet.bytes);
            self.path.persistent.on_lost(&packet);
            self.path.black_hole.on_lost(&packet);
            self.path.reordering.on_lost(self.path.rounds.current());
        }
        Ok(())
    }

    /// Reports an event to the controller in one call, and empties the batch.
    pub(super) fn notify_controller(&mut self, facts: EventFacts) -> Result<(), TransportError> {
        self.report_spurious_losses(facts.now)?;
        self.ecn.conclude(self.path.largest_acknowledged);
        // Marks are reported with an acknowledgment, whose packets show which round trip they
        // belong to.
        let newly_ce_marked = if self.batch.acked.is_empty() { 0 } else { self.ecn.take_marks() };
        let path = &mut self.path;
        let round = path.rounds.current();
        if !self.batch.acked.is_empty() || !self.batch.lost.is_empty() {
            let rtt = path.rtt.snapshot(facts.rtt_is_new);
            let rate_sample = path.sampler.sample(rtt.map(|rtt| rtt.minimum));
            path.last_rate_sample = rate_sample.or(path.last_rate_sample);
            let held = path.limitation.take(facts.now, facts.prior_round, round);
            let response = path.controller.on_acknowledgement(&Acknowledgement {
                now: facts.now,
                acked: &self.batch.acked,
                lost: &self.batch.lost,
                next_index: self.ledger.next_index(),
                largest_acked: path.largest_acknowledged,
                rtt,
                prior_in_flight: facts.prior_in_flight,
                bytes_in_flight: self.ledger.bytes_in_flight(),
                persistent_congestion: facts.persistent_congestion,
                newly_ce_marked,
                rate_sample,
                total_delivered: path.sampler.delivered(),
                total_lost: path.sampler.lost(),
                round,
                was_limited: held.was_limited,
                was_window_limited: held.was_window_limited,
                limited_time: held.limited_time,
            });
            if response == CongestionResponse::Reduced || facts.persistent_congestion {
                path.episode_began = self.event;
                path.still_lost = 0;
            }
            path.still_lost = path.still_lost.saturating_add(self.batch.lost.len() as u64);
            path.pacer.on_rate(facts.now, path.controller.pacing_rate(rtt.as_ref()));
            if self.ledger.bytes_in_flight() == 0 && path.controller.bursts_after_idle() {
                path.pacer.on_quiet(facts.now);
            }
        }
        let smoothed = path.rtt.smoothed_or_assumed();
        path.is_black_hole |= path.black_hole.conclude(smoothed, self.ledger.next_index());
        self.event = self.event.saturating_add(1);
        self.batch.acked.clear();
        self.batch.lost.clear();
        Ok(())
    }

    /// Reports spurious losses of the last loss episode. Those of earlier episodes are not
    /// reported, because the response to them can no longer be undone.
    fn report_spurious_losses(&mut self, now: Timestamp) -> Result<(), TransportError> {
        let path = &mut self.path;
        for (packet, loss_event) in self.batch.spurious.drain(..) {
            if loss_event < path.episode_began {
                continue;
            }
            subtract(&mut path.still_lost, 1)?;
            let still_lost = path.still_lost;
            let total_delivered = path.sampler.delivered();
            path.controller.on_spurious_loss(&SpuriousLoss {
                now,
                packet,
                still_lost,
                total_delivered,
            });
        }
        Ok(())
    }
}
