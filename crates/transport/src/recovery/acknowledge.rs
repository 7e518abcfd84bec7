use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::Timestamp;
use clearway_wire::PacketNumber;
use clearway_wire::frame::Ack;

use super::ecn::Feedback;
use super::loss::EventFacts;
use super::packet::{LedgerPacket, PacketState};
use super::reordering::Overtaken;
use super::{PtoContext, Recovery};
use crate::observer::LossThresholds;
use crate::{SpaceId, TransportError};

/// The smallest RTT sample; a clock may be coarser than the actual round trip.
const FINEST_RTT: Duration = Duration::from_micros(1);

/// Lost packets are remembered for this many probe timeouts, in case they are acknowledged later.
const LOST_REMEMBERED_PTOS: u32 = 3;

/// The result of an ACK frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AckOutcome {
    /// Whether the frame newly acknowledged any packet.
    pub(crate) newly_acked_any: bool,
    /// Whether the frame yielded an RTT sample.
    pub(crate) has_rtt_sample: bool,
}

/// The packets that an ACK frame newly acknowledged.
#[derive(Default)]
struct NewlyAcknowledged {
    any: bool,
    /// Whether any of the packets is ack-eliciting and had not been declared lost. The
    /// acknowledgment of a lost packet shows when that packet arrived, not the round-trip time of a
    /// later one that is not ack-eliciting.
    ack_eliciting: bool,
    /// The packet whose number is the frame's Largest Acknowledged, if it was outstanding when the
    /// frame arrived.
    largest: Option<LedgerPacket>,
    /// The number of ECN-marked packets sent on the current path.
    marked: u64,
    /// The number of ECN-marked packets sent on earlier paths.
    marked_elsewhere: u64,
    /// The newest ECN-marked packet of the current path.
    newest_marked: Option<SendIndex>,
}

impl NewlyAcknowledged {
    /// Counts `packet` if it is ECN-marked. `is_current`: it was sent on the current path.
    fn note_mark(&mut self, packet: &LedgerPacket, is_current: bool) {
        match packet.is_marked {
            false => {}
            true if is_current => {
                self.marked = self.marked.saturating_add(1);
                self.newest_marked = self.newest_marked.max(Some(packet.index));
            }
            true => self.marked_elsewhere = self.marked_elsewhere.saturating_add(1),
        }
    }
}

impl Recovery {
    /// Processes an ACK frame (RFC 9002 §5, §6, §7). `ack_delay` is the delay that the peer
    /// reports, already scaled.
    ///
    /// Afterwards, [`take_acked`](Self::take_acked) and [`take_lost`](Self::take_lost) return the
    /// tokens that were acknowledged and lost.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if the frame acknowledges a packet that was not sent,
    /// INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn on_ack(
        &mut self,
        space: SpaceId,
        now: Timestamp,
        ack: &Ack<'_>,
        ack_delay: Duration,
        context: &PtoContext,
    ) -> Result<AckOutcome, TransportError> {
        if self.ledger.space(space).is_discarded() {
            return Ok(AckOutcome::default());
        }
        self.read_ranges(space, ack)?;
        self.max_ack_delay = context.max_ack_delay;
        let prior_in_flight = self.ledger.bytes_in_flight();
        let prior_round = self.path.rounds.current();
        let prior_largest = self.ledger.space(space).largest_acknowledged();
        let newly = self.acknowledge_ranges(space, now, ack)?;
        if !newly.any {
            return Ok(AckOutcome::default());
        }
        self.ecn.on_ack(
            space,
            &Feedback {
                counts: ack.ecn,
                largest: ack.largest.get(),
                raises_largest: prior_largest < Some(ack.largest),
                marked: newly.marked,
                marked_elsewhere: newly.marked_elsewhere,
                newest_marked: newly.newest_marked,
                round: self.path.rounds.current(),
            },
        );
        let rtt_is_new = self.sample_rtt(space, now, &newly, ack_delay, context);
        self.path.persistent.begin(self.acknowledged_elsewhere(space));
        self.detect_losses(space, now)?;
        let persistent_congestion = self.conclude_persistent_congestion(context);
        self.notify_controller(EventFacts {
            now,
            prior_in_flight,
            prior_round,
            rtt_is_new,
            persistent_congestion,
        })?;
        self.on_progress(space, now, context);
        self.settle_timer(space);
        Ok(AckOutcome { newly_acked_any: true, has_rtt_sample: rtt_is_new })
    }

    /// Checks, before anything changes, that all packets that `ack` acknowledges were sent, and
    /// stores its ranges in ascending order.
    fn read_ranges(&mut self, space: SpaceId, ack: &Ack<'_>) -> Result<(), TransportError> {
        let sent = self.ledger.space(space);
        self.batch.ranges.clear();
        for range in ack.ranges() {
            let (first, last) = (range.start().get(), range.end().get());
            sent.check_sent(first, last)?;
            self.batch.ranges.push((first, last));
        }
        self.batch.ranges.reverse();
        Ok(())
    }

    fn acknowledge_ranges(
        &mut self,
        space: SpaceId,
        now: Timestamp,
        ack: &Ack<'_>,
    ) -> Result<NewlyAcknowledged, TransportError> {
        let mut newly = NewlyAcknowledged::default();
        let thresholds = self.loss_thresholds();
        let sent = self.ledger.space(space);
        let prior_largest = sent.largest_acknowledged().map(PacketNumber::get);
        let mut numbers = core::mem::take(&mut self.batch.numbers);
        numbers.clear();
        for (first, last) in &self.batch.ranges {
            sent.unsettled_within(*first, *last, &mut numbers);
        }
        for number in numbers.iter().copied() {
            let Some(packet) = self.ledger.acknowledge(space, number)? else { continue };
            newly.any = true;
            newly.ack_eliciting |= packet.ack_eliciting && packet.state == PacketState::Outstanding;
            newly.note_mark(&packet, self.ledger.is_current(&packet));
            if number == ack.largest.get() && packet.state == PacketState::Outstanding {
                newly.largest = Some(packet);
            }
            self.note_acknowledged(space, now, &packet);
            if let Some(largest) = prior_largest.filter(|largest| number < *largest) {
                let sent = self.ledger.space(space);
                let packets = largest
                    .saturating_sub(number)
                    .saturating_sub(sent.skipped_within(number, largest));
                self.note_overtaken(now, &packet, packets, thresholds);
            }
        }
        self.batch.numbers = numbers;
        let sent = self.ledger.space_mut(space);
        for (first, last) in &self.batch.ranges {
            sent.note_settled(*first, *last);
        }
        sent.note_largest_acknowledged(ack.largest);
        Ok(newly)
    }

    /// Reports the acknowledgment of `packet`. For a packet of an earlier path, reports only its
    /// tokens.
    fn note_acknowledged(&mut self, space: SpaceId, now: Timestamp, packet: &LedgerPacket) {
        for token in self.ledger.space(space).tokens_of(packet) {
            let last = self.batch.acked_tokens.last_mut().filter(|(before, _)| *before == space);
            if !last.is_some_and(|(_, last)| last.join(&token)) {
                self.batch.acked_tokens.push((space, token));
            }
        }
        if !packet.in_flight || !self.ledger.is_current(packet) {
            return;
        }
        let path = &mut self.path;
        let sent = packet.as_sent();
        if !packet.is_exempt {
            path.black_hole.on_acknowledged(packet);
        }
        path.sampler.on_delivered(now, &sent);
        path.rounds.on_acknowledged(packet.index, self.ledger.next_index());
        path.largest_acknowledged = path.largest_acknowledged.max(Some(packet.index));
        match packet.state {
            PacketState::Lost { event, .. } if !packet.is_exempt => {
                self.batch.spurious.push((sent, event));
            }
            PacketState::Lost { .. } => {}
            _ => self.batch.acked.push(sent),
        }
    }

    /// Records that `packets` later packets had overtaken the acknowledged `packet`, while
    /// `thresholds` applied.
    fn note_overtaken(
        &mut self,
        now: Timestamp,
        packet: &LedgerPacket,
        packets: u64,
        thresholds: LossThresholds,
    ) {
        if !packet.in_flight || packet.is_exempt || !self.ledger.is_current(packet) {
            return;
        }
        let path = &mut self.path;
        let overtaken = Overtaken { packets, elapsed: now.saturating_since(packet.sent_at) };
        if packet.is_lost() {
            path.reordering.on_spurious_loss(overtaken, &path.rtt, thresholds);
        } else {
            path.reordering.on_overtaken(overtaken, &path.rtt);
        }
    }

    /// RFC 9002 §5.1: a sample requires that the largest acknowledged packet number is newly
    /// acknowledged and that some newly acknowledged packet is ack-eliciting. Packets of an earlier
    /// path and probes of another path yield no sample of this path (RFC 9000 §9.4).
    fn sample_rtt(
        &mut self,
        space: SpaceId,
        now: Timestamp,
        newly: &NewlyAcknowledged,
        ack_delay: Duration,
        context: &PtoContext,
    ) -> bool {
        let largest = newly.largest.filter(|packet| self.ledger.is_current(packet));
        let elapsed = largest.and_then(|packet| now.checked_since(packet.sent_at));
        let Some(elapsed) = elapsed.filter(|_| newly.ack_eliciting) else { return false };
        // Initial packets are acknowledged without delay (RFC 9002 §5.3).
        let ack_delay = if space == SpaceId::Initial { Duration::ZERO } else { ack_delay };
        // After the handshake, the peer's max_ack_delay limits the delay (RFC 9002 §5.3).
        let ack_delay = match context.handshake_confirmed {
            true => ack_delay.min(context.max_ack_delay),
            false => ack_delay,
        };
        let growth = self.path.rtt.on_sample(elapsed.max(FINEST_RTT), ack_delay);
        self.batch.rtt_growth = growth.filter(|_| space == SpaceId::Application);
        self.path.persistent.on_rtt_sample(now);
        true
    }

    /// Returns when the newest acknowledged packet of the other spaces was sent.
    fn acknowledged_elsewhere(&self, space: SpaceId) -> Option<Timestamp> {
        SpaceId::ALL
            .into_iter()
            .filter(|other| *other != space)
            .filter_map(|other| self.ledger.space(other).largest_acknowledged_sent_at())
            .max()
    }

    fn conclude_persistent_congestion(&mut self, context: &PtoContext) -> bool {
        // The period includes max_ack_delay in every space (RFC 9002 §7.6.1).
        let pto_base = self.path.rtt.pto_base(context.max_ack_delay);
        let is_persistent = self.path.persistent.conclude(pto_base, self.ledger.next_index());
        if is_persistent {
            self.path.rtt.restart_minimum();
        }
        is_persistent
    }

    fn on_progress(&mut self, space: SpaceId, now: Timestamp, context: &PtoContext) {
        // RFC 9002 §6.2.1: a client that the server may not have validated keeps its backoff, to
        // avoid a burst of probes to a server that cannot answer.
        if context.peer_completed_address_validation || !context.is_client {
            self.timer.reset(now);
        } else {
            self.timer.on_progress(now);
        }
        self.ledger.space_mut(space).end_probing();
        self.forget(space, now);
    }

    /// Updates the probe timer after packets of `space` were acknowledged or lost. The timer of
    /// those packets must not continue for padded ACK frames that were sent later.
    pub(super) fn settle_timer(&mut self, space: SpaceId) {
        if self.ledger.space(space).ack_eliciting_outstanding() == 0 {
            self.timer.leave_padding(space);
        }
    }

    /// Removes packets whose outcome is final.
    pub(super) fn forget(&mut self, space: SpaceId, now: Timestamp) {
        let remembered = self.lost_remembered();
        self.ledger.space_mut(space).forget(now.checked_sub(remembered));
    }

    /// Returns how long a lost packet is remembered.
    pub(super) fn lost_remembered(&self) -> Duration {
        self.path.rtt.pto_base(Duration::ZERO).saturating_mul(LOST_REMEMBERED_PTOS)
    }

    /// Returns when all lost packets of the Application space are forgotten; `None` if there are
    /// none.
    pub(crate) fn forgets_at(&self) -> Option<Timestamp> {
        let last = self.ledger.space(SpaceId::Application).last_lost_at();
        last.map(|last| last + self.lost_remembered())
    }
}
