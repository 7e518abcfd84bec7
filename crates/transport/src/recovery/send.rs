use core::time::Duration;

use clearway_congestion::SendLimit;
use clearway_units::{Rate, Timestamp};
use clearway_wire::{PacketNumber, TransportErrorCode};

use super::Recovery;
use super::packet::StagedPacket;
use crate::ecn::{EcnCodepoint, EcnState};
use crate::observer::{LossTrigger, LostPacket};
use crate::token::Token;
use crate::{SpaceId, TransportError};

/// Minimum number of packets between skipped packet numbers. About one number is skipped per this
/// many windows.
const MIN_SKIP_SPAN: u64 = 32;

/// The number of packets in a row that are not ack-eliciting after which the next should be (RFC
/// 9000 §13.2.4).
const MAX_ACKS_IN_A_ROW: u32 = 32;

/// The initial window of a path with 1200-byte datagrams, in bytes (RFC 9002 §7.2).
const WINDOW_ELSEWHERE: u64 = 12_000;

/// The probe timeout of a path without an RTT estimate (RFC 9002 §6.2.2).
const TIMEOUT_ELSEWHERE: Duration = Duration::from_millis(999);

/// A datagram size is used only if the window has room for this many datagrams of it: the largest
/// minimum window of any controller, that of BBR.
const LEAST_DATAGRAMS: u64 = 4;

impl Recovery {
    /// Returns the number for the next packet of `space`, which stays the same until a packet with
    /// it is staged. In the Application space numbers are skipped occasionally (RFC 9000 §21.4).
    ///
    /// # Errors
    /// Returns an error if all packet numbers are used up (RFC 9000 §12.3).
    pub(crate) fn next_packet_number(
        &mut self,
        space: SpaceId,
    ) -> Result<PacketNumber, TransportError> {
        if space == SpaceId::Application && self.ledger.space(space).next_number() == self.next_skip
        {
            self.ledger.space_mut(space).skip();
            self.choose_next_skip();
        }
        PacketNumber::new(self.ledger.space(space).next_number()).ok_or_else(|| {
            let violation = "all packet numbers are used up";
            TransportError::rule(TransportErrorCode::INTERNAL_ERROR, violation, "RFC 9000 §12.3")
        })
    }

    /// Chooses the next number to skip. The gap grows with the window, so that about one number is
    /// missing in every window or two.
    pub(super) fn choose_next_skip(&mut self) {
        if !self.config.skip_packet_numbers {
            return;
        }
        let window = self.path.controller.window();
        let span = window.checked_div(self.max_datagram_size).unwrap_or(0).max(MIN_SKIP_SPAN);
        let gap = span.saturating_add(self.random.below(span));
        let next = self.ledger.space(SpaceId::Application).next_number();
        self.next_skip = next.saturating_add(gap);
    }

    /// Checks whether the window and the pacer allow another datagram, including the packets that
    /// are staged. PTO probes and packets that do not count as in flight need no permission (RFC
    /// 9002 §7, §7.5, §7.7).
    ///
    /// # Errors
    /// Returns the limit that blocks sending.
    pub(crate) fn may_send(&mut self, now: Timestamp) -> Result<(), SendLimit> {
        let size = self.max_datagram_size;
        let has_room = SpaceId::ALL.into_iter().all(|space| self.ledger.space(space).has_room());
        if self.window_room() < size || !has_room {
            return Err(SendLimit::Window);
        }
        let (rate, staged) = (self.pacing_rate(), self.ledger.bytes_staged());
        let released = self.path.pacer.release(now, rate, size.saturating_add(staged));
        released.map_err(SendLimit::Pacer)
    }

    /// Returns whether a datagram of `bytes` may be sent that validates a path other than the
    /// current one. The window, the pacer and the probe timer of the current path do not apply,
    /// since that path may be dead (RFC 9000 §8.2.2, §9.4). All other paths share the initial
    /// window of one path (RFC 9002 §7.2). When it is full and nothing has been acknowledged for
    /// the probe timeout of an unknown path, one more datagram is allowed, like a probe (§7.5).
    pub(crate) fn may_send_elsewhere(&self, now: Timestamp, bytes: u64) -> bool {
        let has_window = self.ledger.bytes_elsewhere().saturating_add(bytes) <= WINDOW_ELSEWHERE;
        let is_late = self.sent_elsewhere_at + TIMEOUT_ELSEWHERE <= now;
        self.ledger.space(SpaceId::Application).has_room() && (has_window || is_late)
    }

    /// Returns how many full-size datagrams [`may_send`](Self::may_send) allows in a row if each
    /// of them is staged, at most `most`.
    pub(crate) fn permitted_datagrams(&mut self, now: Timestamp, most: usize) -> usize {
        let (size, staged) = (self.max_datagram_size.max(1), self.ledger.bytes_staged());
        let rate = self.pacing_rate();
        let released = self.path.pacer.released(now, rate).saturating_sub(staged);
        let room = self.window_room().min(released).checked_div(size).unwrap_or(0);
        let is_full = !SpaceId::ALL.into_iter().all(|space| self.ledger.space(space).has_room());
        if is_full { 0 } else { usize::try_from(room).unwrap_or(most).min(most) }
    }

    /// Returns whether an MTU probe of `bytes` may be sent, which is the case whenever any datagram
    /// may be sent. The probe may take the bytes in flight beyond the window, which RFC 8899 §3
    /// allows for one probe per round trip (item 7). The probe is at most a quarter of the window,
    /// so that it is small compared with the data, and the window never has to grow because the
    /// minimum of two or four datagrams grows with their size; and it is at most a burst.
    pub(crate) fn may_probe_mtu(&mut self, now: Timestamp, bytes: u64) -> bool {
        self.has_window_for(bytes) && bytes <= self.path.pacer.burst() && self.may_send(now).is_ok()
    }

    /// Returns whether several datagrams of `bytes` fit in the window.
    pub(crate) fn has_window_for(&self, bytes: u64) -> bool {
        bytes.saturating_mul(LEAST_DATAGRAMS) <= self.path.controller.window()
    }

    /// Returns the bytes that the window allows beyond those in flight and staged; zero if the
    /// window has shrunk below them.
    fn window_room(&self) -> u64 {
        let window = self.path.controller.window();
        window
            .checked_sub(self.ledger.bytes_in_flight())
            .and_then(|room| room.checked_sub(self.ledger.bytes_staged()))
            .unwrap_or(0)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.path.controller.pacing_rate(self.path.rtt.snapshot(false).as_ref())
    }

    /// Records a packet that was built, with its `tokens`, which are drained. It does not count as
    /// in flight before [`transmitted`](Self::transmitted).
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the number is not the assigned one, the keys are discarded, or the
    /// ledger is full of unacknowledged packets.
    pub(crate) fn stage(
        &mut self,
        space: SpaceId,
        packet: StagedPacket,
        tokens: &mut Vec<Token>,
    ) -> Result<(), TransportError> {
        self.ledger.stage(space, &packet, tokens)?;
        if packet.is_marked {
            self.ecn.on_staged();
        }
        self.batch.staged.push((space, packet.number));
        Ok(())
    }

    /// Records that all staged packets were sent at `now` (law 2).
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn transmitted(&mut self, now: Timestamp) -> Result<(), TransportError> {
        // Packets are in sending order, so time must not go backwards.
        let now = now.max(self.last_sent_at);
        self.last_sent_at = now;
        let mut staged = core::mem::take(&mut self.batch.staged);
        for (space, number) in staged.drain(..) {
            self.commit(space, number, now)?;
        }
        self.batch.staged = staged;
        Ok(())
    }

    /// Handles the failure to send the last staged packet because its datagram exceeds the
    /// interface MTU. The packet is declared lost, which is not a congestion signal, and an
    /// acknowledgment of it is not accepted.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn refused(&mut self, now: Timestamp) -> Result<(), TransportError> {
        let last = self.batch.staged.last().copied();
        self.transmitted(now)?;
        let Some((space, number)) = last else { return Ok(()) };
        let Some(packet) = self.ledger.abandon(space, number.get())? else { return Ok(()) };
        let tokens = self.ledger.space(space).tokens_of(&packet);
        self.batch.lost_tokens.extend(tokens.map(|token| (space, token)));
        let (bytes, thresholds) = (packet.bytes, self.loss_thresholds());
        let trigger = LossTrigger::Refused;
        self.batch.lost_packets.push(LostPacket { space, number, bytes, trigger, thresholds });
        Ok(())
    }

    /// Handles the failure to send the staged packets. They are declared lost, which is not a
    /// congestion signal. The kernel may have sent some of them before it rejected the others, so
    /// they may still be acknowledged.
    ///
    /// # Errors
    /// Returns INTERNAL_ERROR if the ledger is inconsistent.
    pub(crate) fn unsent(&mut self, now: Timestamp) -> Result<(), TransportError> {
        let staged = self.batch.staged.clone();
        self.transmitted(now)?;
        let thresholds = self.loss_thresholds();
        for (space, number) in staged {
            let lost = self.ledger.declare_unsent(space, number.get(), now, self.event)?;
            let Some(packet) = lost else { continue };
            let tokens = self.ledger.space(space).tokens_of(&packet);
            self.batch.lost_tokens.extend(tokens.map(|token| (space, token)));
            let (bytes, trigger) = (packet.bytes, LossTrigger::Refused);
            self.batch.lost_packets.push(LostPacket { space, number, bytes, trigger, thresholds });
        }
        Ok(())
    }

    /// Returns the ECN codepoint of the next datagram. `is_probe`: it is sent because a probe
    /// timeout expired, or validates the path. `may_test`: the path may be tested.
    pub(crate) fn codepoint(
        &mut self,
        now: Timestamp,
        is_probe: bool,
        may_test: bool,
    ) -> EcnCodepoint {
        if self.ecn.state() == EcnState::Testing && !may_test {
            return EcnCodepoint::NotEct;
        }
        let probe_timeout = self.path.rtt.pto_base(self.max_ack_delay);
        self.ecn.codepoint(now, is_probe, probe_timeout)
    }

    /// Returns the ECN state of the current path.
    pub(crate) fn ecn_state(&self) -> EcnState {
        self.ecn.state()
    }

    fn commit(
        &mut self,
        space: SpaceId,
        number: PacketNumber,
        now: Timestamp,
    ) -> Result<(), TransportError> {
        let in_flight_before = self.ledger.bytes_in_flight();
        let Self { ledger, path, .. } = self;
        let sample = |bytes| {
            if path.limitation.take_application_limited(now) {
                path.sampler.on_application_limited(in_flight_before);
            }
            path.sampler.on_sent(now, bytes, in_flight_before)
        };
        let Some(packet) = ledger.commit(space, number.get(), now, sample)? else {
            return Ok(());
        };
        if packet.is_marked {
            self.ecn.on_sent(space, packet.index, now, self.ledger.is_current(&packet));
        }
        let acks_in_a_row = self.acks_in_a_row.get_mut(space);
        *acks_in_a_row = if packet.ack_eliciting { 0 } else { acks_in_a_row.saturating_add(1) };
        // Padding alone arms the timer only if nothing else does (RFC 9002 §6.2.1).
        let sent = self.ledger.space(space);
        let is_padding = packet.in_flight && sent.ack_eliciting_outstanding() == 0;
        if packet.is_off_path {
            self.sent_elsewhere_at = now;
        } else if packet.ack_eliciting || is_padding {
            self.timer.on_sent(space, now);
        }
        if packet.in_flight && self.ledger.is_current(&packet) {
            self.path.pacer.on_sent(now, packet.bytes);
            self.path.controller.on_sent(&packet.as_sent(), self.ledger.bytes_in_flight());
        }
        Ok(())
    }

    /// Records that an attempt to send ended because of `limit` (law 4). Call it after every
    /// attempt, once the datagrams that were built are transmitted.
    pub(crate) fn sending_stopped(&mut self, now: Timestamp, limit: SendLimit) {
        let size = self.max_datagram_size;
        if matches!(limit, SendLimit::Pacer(_)) {
            self.path.pacer.on_waiting();
        }
        let bytes = size.saturating_add(self.ledger.bytes_staged());
        let rate = self.pacing_rate();
        let has_room = !limit.is_congestion_control() && self.window_room() >= size;
        let released = has_room.then(|| self.path.pacer.release(now, rate, bytes));
        let round = self.path.rounds.current();
        self.path.limitation.on_stopped(now, limit, round, released == Some(Ok(())));
        if let Some(Err(release)) = released.filter(|_| limit != SendLimit::Batch) {
            self.path.limitation.on_waiting_for_data(release);
        }
        if self.path.limitation.is_application_limited {
            self.path.sampler.on_application_limited(self.ledger.bytes_in_flight());
        }
    }

    /// Returns when the pacer allows pending data to be sent; `None` unless data is waiting for the
    /// pacer.
    pub(crate) fn pacer_deadline(&self) -> Option<Timestamp> {
        self.path.limitation.pacer_deadline
    }

    /// Returns whether the next packet should be made ack-eliciting with a PING, because many
    /// packets before it were not. Otherwise this endpoint would never learn that its ACK frames
    /// were received, and would keep their ranges (RFC 9000 §13.2.4).
    pub(crate) fn should_elicit_acknowledgement(&self, space: SpaceId) -> bool {
        *self.acks_in_a_row.get(space) >= MAX_ACKS_IN_A_ROW
            && self.ledger.space(space).ack_eliciting_outstanding() == 0
    }
}
