use core::time::Duration;

use clearway_units::Timestamp;

use super::black_hole::BlackHole;
use super::loss::EventFacts;
use super::reordering::Reordering;
use super::rtt::Rtt;
use super::{PathState, PtoContext, Recovery};
use crate::token::Token;
use crate::{SpaceId, TransportError};

/// kInitialRtt (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The result of a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expired {
    /// No timer expired.
    Nothing,
    /// The loss timer expired. [`Recovery::take_lost`] returns the lost tokens.
    Losses,
    /// The probe timer expired: `count` ack-eliciting packets have to be sent in `space`,
    /// regardless of the window and the pacer (RFC 9002 §6.2.4). [`Recovery::probe_tokens`] returns
    /// the tokens that they can carry.
    Probes {
        /// The packet number space.
        space: SpaceId,
        /// The number of packets: 1 or 2.
        count: usize,
    },
}

impl Recovery {
    /// Returns when the probe timer expires. It is not set while the loss timer is (RFC 9002
    /// §6.2.1). Whenever something is outstanding that the peer has to acknowledge, one of the two
    /// timers is set (law 8), unless a server may not send at all (RFC 9002 §6.2.2.1).
    pub(crate) fn probe_deadline(&self, context: &PtoContext) -> Option<Timestamp> {
        match self.loss_deadline(context) {
            Some(_) => None,
            None => self.next_probe(context).map(|(time, _)| time),
        }
    }

    /// Returns when the loss timer expires, if it is set. It is not set if it would expire after
    /// the probe timer: where reordering is large, the time threshold may exceed a probe timeout,
    /// and RFC 9002 §6.2.1 prefers the loss timer because it expires earlier.
    pub(crate) fn loss_deadline(&self, context: &PtoContext) -> Option<Timestamp> {
        let time = self.earliest_loss_time()?;
        let is_later = self.path.reordering.is_wide(&self.path.rtt)
            && self.next_probe(context).is_some_and(|(probe, _)| probe < time);
        (!is_later).then_some(time)
    }

    fn earliest_loss_time(&self) -> Option<Timestamp> {
        self.loss_times.iter().filter_map(|(_, time)| *time).min()
    }

    fn next_probe(&self, context: &PtoContext) -> Option<(Timestamp, SpaceId)> {
        self.timer.next(&self.path.rtt, context, |space| {
            self.ledger.space(space).awaits_acknowledgement()
        })
    }

    /// Handles the timers that have expired.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn on_deadline(
        &mut self,
        now: Timestamp,
        context: &PtoContext,
    ) -> Result<Expired, TransportError> {
        if let Some(loss_time) = self.loss_deadline(context) {
            if loss_time > now {
                return Ok(Expired::Nothing);
            }
            self.on_loss_time(now)?;
            return Ok(Expired::Losses);
        }
        match self.next_probe(context) {
            Some((time, space)) if time <= now => {
                self.note_wait(space, now);
                self.timer.on_expired(space, now);
                let count = self.ledger.space_mut(space).begin_probing().max(1);
                self.path.black_hole.on_timeout(now);
                Ok(Expired::Probes { space, count })
            }
            _ => Ok(Expired::Nothing),
        }
    }

    /// Handles a 1-RTT packet from the peer that is ack-eliciting and contains an ACK frame, and
    /// has a higher number than all packets before, though the frame may acknowledge nothing new.
    /// It shows that the path works, so outstanding packets need not wait for the full backoff.
    /// After this the deadline may be in the past.
    ///
    /// RFC 9002 §6.2.1: "The PTO backoff factor is reset when an acknowledgment is received". The
    /// example of §A.7 does so only for new acknowledgments, and so does this endpoint. For other
    /// acknowledgments, this endpoint does less: the current timer expires as if there were no
    /// backoff, and later timers keep the backoff that they would have had, where a reset would
    /// leave only one doubling. So the probe is one that an expired timer sends, of at most two
    /// datagrams. It is sent no earlier than a full probe timeout after the previous one, and only
    /// after a new packet from the peer, whose own timeouts grow. The peer answers with an ACK,
    /// which ends the exchange: two endpoints that do this do not keep each other sending.
    pub(crate) fn on_peer_activity(&mut self, now: Timestamp, context: &PtoContext) {
        let space = SpaceId::Application;
        if context.handshake_confirmed && self.ledger.space(space).awaits_acknowledgement() {
            self.timer.expire_early(now, &self.path.rtt, context);
        }
    }

    /// Records that the oldest outstanding packet of `space` is still unacknowledged, which gives a
    /// lower bound on the round-trip time before there is a sample.
    fn note_wait(&mut self, space: SpaceId, now: Timestamp) {
        let sent_at = self.ledger.space(space).oldest_sent_at();
        let waited = sent_at.map(|sent_at| now.saturating_since(sent_at));
        let growth = waited.and_then(|waited| self.path.rtt.growth(waited));
        self.batch.rtt_growth = growth.filter(|_| space == SpaceId::Application);
    }

    fn on_loss_time(&mut self, now: Timestamp) -> Result<(), TransportError> {
        let prior_in_flight = self.ledger.bytes_in_flight();
        // Only an ACK can establish persistent congestion (RFC 9002 §7.6.2).
        self.path.persistent.begin(None);
        for space in SpaceId::ALL {
            if self.loss_times.get(space).is_some_and(|time| time <= now) {
                self.detect_losses(space, now)?;
                self.settle_timer(space);
                self.forget(space, now);
            }
        }
        // Each space's losses are in order; the merged list need not be.
        self.batch.lost.sort_unstable_by_key(|packet| packet.index);
        self.notify_controller(EventFacts {
            now,
            prior_in_flight,
            prior_round: self.path.rounds.current(),
            rtt_is_new: false,
            persistent_congestion: false,
        })
    }

    /// Starts to offer the outstanding tokens of `space` to probes. Returns the number of probes
    /// for which there are tokens, at most two.
    pub(crate) fn begin_probing(&mut self, space: SpaceId) -> usize {
        self.ledger.space_mut(space).begin_probing()
    }

    /// Appends to `tokens` copies of the tokens of the oldest outstanding packet that no probe has
    /// used yet, to be retransmitted in a probe. This does not declare the packet lost. Returns
    /// whether there was one; if not, a PING suffices.
    pub(crate) fn probe_tokens(&mut self, space: SpaceId, tokens: &mut Vec<Token>) -> bool {
        self.ledger.space_mut(space).probe_tokens(tokens)
    }

    /// Removes the packets of `space`, whose keys were discarded (RFC 9002 §6.4).
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn discard_space(
        &mut self,
        space: SpaceId,
        now: Timestamp,
    ) -> Result<(), TransportError> {
        self.ledger.discard(space)?;
        *self.loss_times.get_mut(space) = None;
        *self.acks_in_a_row.get_mut(space) = 0;
        self.timer.reset(now);
        Ok(())
    }

    /// Abandons the outstanding packets of `space`, which the peer cannot have accepted: it answered with a Retry, or it
    /// rejected 0-RTT (RFC 9000 §17.2.5.3, RFC 9001 §4.6.2). [`take_lost`](Self::take_lost) returns their tokens; nothing
    /// is reported to congestion control.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn abandon_outstanding(
        &mut self,
        space: SpaceId,
        now: Timestamp,
    ) -> Result<(), TransportError> {
        let unsettled = self.ledger.space(space).unsettled();
        for number in unsettled.clone() {
            if let Some(packet) = self.ledger.abandon(space, number)? {
                let tokens = self.ledger.space(space).tokens_of(&packet);
                self.batch.lost_tokens.extend(tokens.map(|token| (space, token)));
            }
        }
        let sent = self.ledger.space_mut(space);
        sent.settle_below(unsettled.end);
        sent.end_probing();
        self.forget(space, now);
        *self.loss_times.get_mut(space) = None;
        self.timer.reset(now);
        Ok(())
    }

    /// Handles a change of the path (RFC 9000 §9.4): congestion control, the pacer and the
    /// round-trip time are reset. Outstanding packets remain outstanding, but do not count as in
    /// flight on this path.
    /// `generation` must be larger than that of any earlier path; the first path has 0.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the generation did not increase or the ledger is inconsistent.
    pub(crate) fn on_new_path(
        &mut self,
        generation: u32,
        now: Timestamp,
        max_datagram_size: u64,
    ) -> Result<(), TransportError> {
        self.ledger.start_path(generation)?;
        let ledger = &self.ledger;
        self.ecn.start_path(|space| ledger.space(space).next_number());
        self.max_datagram_size = max_datagram_size;
        let parameters = self.config.controller_parameters(max_datagram_size, &mut self.random);
        // Nothing is known about the new path. An old path slower than the initial RTT of RFC 9002
        // §6.2.2 must not delay the probes on the new one, but timers configured for fast networks
        // start with the RTT of the old path.
        let known = self.path.rtt.smoothed_or_assumed().min(INITIAL_RTT);
        let assumed = self.config.initial_rtt.max(known);
        let next = self.ledger.next_index();
        let reordering = Reordering::new(self.config.packet_threshold);
        self.path = PathState::new(
            now,
            &*self.factory,
            &parameters,
            Rtt::new(assumed),
            (reordering, BlackHole::new(self.config.base_datagram_size)),
            next,
            self.event,
        );
        self.timer.reset(now);
        Ok(())
    }

    /// Ends the backoff of the probe timer because this host can send again: the timer may have
    /// expired for packets that never left the host.
    pub(crate) fn end_backoff(&mut self, now: Timestamp) {
        self.timer.reset(now);
    }

    /// Handles a change of the peer's port, most likely a NAT rebinding. The path is the same (RFC
    /// 9000 §9.4), so its state is kept. The loss of packets that were sent to the old port is not
    /// a congestion signal, and the probe timer's backoff, which grew while nothing reached the old
    /// port, ends.
    pub(crate) fn on_new_port(&mut self, now: Timestamp) {
        self.ledger.leave_address();
        self.timer.reset(now);
    }
}
