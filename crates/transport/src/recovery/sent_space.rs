use std::collections::VecDeque;

use clearway_congestion::{DeliverySnapshot, SendIndex};
use clearway_units::Timestamp;
use clearway_wire::{PacketNumber, TransportErrorCode};

use super::ledger::{LedgerPacket, PacketState, StagedPacket, add, broken, subtract};
use crate::TransportError;
use crate::token::Token;

/// Packets that do not count in flight and whose fate is unknown: so many at most. Nothing but the
/// peer's acknowledgements removes them, so a peer that never acknowledges could make them grow.
const MAX_UNACKNOWLEDGED_ACKS: u64 = 1 << 17;

/// Lost packets that are remembered in case they arrive after all: so many at most.
pub(super) const MAX_LOST_REMEMBERED: usize = 1 << 14;

/// Skipped packet numbers that are remembered: enough for every one that a peer could still be
/// tempted to acknowledge.
const MAX_SKIPPED_REMEMBERED: usize = 32;

/// The peer acknowledged what was not sent (RFC 9000 §13.1, §21.4).
const NEVER_SENT: TransportError = TransportError::new(
    TransportErrorCode::PROTOCOL_VIOLATION,
    "a packet number was acknowledged that was never sent",
);

/// The sent packets of one packet number space: a ring without holes, indexed by packet number.
///
/// Packets are sent in the order of their numbers and the clock does not go back, so whatever is
/// declared lost is older than all that is outstanding: everything below `first_outstanding` is
/// settled, and loss detection never looks there again.
#[derive(Debug)]
pub(super) struct SentSpace {
    packets: VecDeque<LedgerPacket>,
    /// The number of the ring's first packet.
    base: u64,
    tokens: VecDeque<Token>,
    /// How many tokens have left the ring.
    token_base: u64,
    /// No packet below is staged or outstanding.
    first_outstanding: u64,
    /// All numbers from here on are unsent.
    sent_end: u64,
    /// Numbers of the packets that are `Lost` and still in the ring, ascending.
    lost: VecDeque<u64>,
    /// Some of `lost` were acknowledged since.
    must_sweep: bool,
    /// The newest skipped numbers, ascending.
    skipped: VecDeque<u64>,
    largest_acknowledged: Option<PacketNumber>,
    largest_acknowledged_sent_at: Option<Timestamp>,
    ack_eliciting_outstanding: u64,
    in_flight_outstanding: u64,
    other_outstanding: u64,
    /// The next probe takes its tokens from this packet or a later one.
    probe_cursor: u64,
    /// Packets from here on were sent after the run of probe timeouts began.
    probe_end: u64,
    is_discarded: bool,
}

impl SentSpace {
    pub(super) fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            base: 0,
            tokens: VecDeque::new(),
            token_base: 0,
            first_outstanding: 0,
            sent_end: 0,
            lost: VecDeque::new(),
            must_sweep: false,
            skipped: VecDeque::new(),
            largest_acknowledged: None,
            largest_acknowledged_sent_at: None,
            ack_eliciting_outstanding: 0,
            in_flight_outstanding: 0,
            other_outstanding: 0,
            probe_cursor: 0,
            probe_end: 0,
            is_discarded: false,
        }
    }

    /// The number that the next packet will get.
    pub(super) fn next_number(&self) -> u64 {
        self.base.saturating_add(self.packets.len() as u64)
    }

    /// All packets that are remembered, oldest first.
    pub(super) fn packets(&self) -> impl Iterator<Item = &LedgerPacket> {
        self.packets.iter()
    }

    pub(super) fn packet(&self, number: u64) -> Option<&LedgerPacket> {
        self.packets.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub(super) fn packet_mut(&mut self, number: u64) -> Option<&mut LedgerPacket> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    pub(super) fn largest_acknowledged(&self) -> Option<PacketNumber> {
        self.largest_acknowledged
    }

    /// When the packet with the largest acknowledged number was sent.
    pub(super) fn largest_acknowledged_sent_at(&self) -> Option<Timestamp> {
        self.largest_acknowledged_sent_at
    }

    pub(super) fn ack_eliciting_outstanding(&self) -> u64 {
        self.ack_eliciting_outstanding
    }

    pub(super) fn is_discarded(&self) -> bool {
        self.is_discarded
    }

    /// Whether something is outstanding that arms the probe timer: ack-eliciting packets, and those
    /// that only padding puts in flight, which would otherwise fill the window for ever.
    pub(super) fn awaits_acknowledgement(&self) -> bool {
        self.ack_eliciting_outstanding > 0 || self.in_flight_outstanding > 0
    }

    pub(super) fn first_outstanding(&self) -> u64 {
        self.first_outstanding
    }

    pub(super) fn settle_below(&mut self, number: u64) {
        self.first_outstanding = self.first_outstanding.max(number);
    }

    /// Whether all numbers from `first` up to `last` were sent.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION: one was not, so that the peer cannot have received it.
    pub(super) fn check_sent(&self, first: u64, last: u64) -> Result<(), TransportError> {
        if last >= self.sent_end || self.skipped_within(first, last) > 0 {
            return Err(NEVER_SENT);
        }
        Ok(())
    }

    /// How many of the numbers from `first` up to `last` were skipped.
    pub(super) fn skipped_within(&self, first: u64, last: u64) -> u64 {
        let from = self.skipped.partition_point(|number| *number < first);
        let to = self.skipped.partition_point(|number| *number <= last);
        to.saturating_sub(from) as u64
    }

    /// The tokens of `packet`, oldest first.
    pub(super) fn tokens_of(&self, packet: &LedgerPacket) -> impl Iterator<Item = Token> {
        let start = packet.first_token.checked_sub(self.token_base);
        let start = start.and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
        self.tokens.iter().skip(start).take(packet.token_count as usize).copied()
    }

    /// Leaves the next number out.
    pub(super) fn skip(&mut self) {
        let number = self.next_number();
        self.packets.push_back(LedgerPacket {
            state: PacketState::Skipped,
            ack_eliciting: false,
            in_flight: false,
            is_probe_of_path: false,
            path: 0,
            loss_event: 0,
            token_count: 0,
            first_token: self.next_token(),
            bytes: 0,
            index: SendIndex::default(),
            sent_at: Timestamp::ORIGIN,
            lost_at: Timestamp::ORIGIN,
            delivery: DeliverySnapshot::default(),
        });
        if self.skipped.len() == MAX_SKIPPED_REMEMBERED {
            self.skipped.pop_front();
        }
        self.skipped.push_back(number);
    }

    fn next_token(&self) -> u64 {
        self.token_base.saturating_add(self.tokens.len() as u64)
    }

    pub(super) fn stage(
        &mut self,
        staged: &StagedPacket,
        path: u32,
        tokens: &mut Vec<Token>,
    ) -> Result<(), TransportError> {
        if self.is_discarded {
            return Err(broken("a packet was built although its keys are discarded"));
        }
        if staged.number.get() != self.next_number() {
            return Err(broken("a packet was built with a number that is not the next"));
        }
        if self.other_outstanding >= MAX_UNACKNOWLEDGED_ACKS {
            return Err(broken("too many ACKs were sent and none was acknowledged"));
        }
        let token_count = u32::try_from(tokens.len())
            .map_err(|_| broken("a packet has more tokens than can be counted"))?;
        let first_token = self.next_token();
        self.tokens.extend(tokens.drain(..));
        self.packets.push_back(LedgerPacket {
            state: PacketState::Staged,
            ack_eliciting: staged.ack_eliciting,
            in_flight: staged.in_flight,
            is_probe_of_path: staged.is_probe_of_path,
            path,
            loss_event: 0,
            token_count,
            first_token,
            bytes: staged.bytes,
            index: SendIndex::default(),
            sent_at: Timestamp::ORIGIN,
            lost_at: Timestamp::ORIGIN,
            delivery: DeliverySnapshot::default(),
        });
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        number: u64,
        index: SendIndex,
        now: Timestamp,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        if self.is_discarded {
            return Ok(None);
        }
        let packet = self.packet_mut(number).ok_or(broken("a packet was sent but never built"))?;
        if packet.state != PacketState::Staged {
            return Err(broken("a packet was sent twice"));
        }
        packet.state = PacketState::Outstanding;
        packet.index = index;
        packet.sent_at = now;
        let packet = *packet;
        self.sent_end = self.sent_end.max(number.saturating_add(1));
        add(self.outstanding_of(&packet), 1)?;
        if packet.ack_eliciting {
            add(&mut self.ack_eliciting_outstanding, 1)?;
        }
        Ok(Some(packet))
    }

    fn outstanding_of(&mut self, packet: &LedgerPacket) -> &mut u64 {
        if packet.in_flight { &mut self.in_flight_outstanding } else { &mut self.other_outstanding }
    }

    fn leave_outstanding(&mut self, packet: &LedgerPacket) -> Result<(), TransportError> {
        subtract(self.outstanding_of(packet), 1)?;
        if packet.ack_eliciting {
            subtract(&mut self.ack_eliciting_outstanding, 1)?;
        }
        Ok(())
    }

    /// Marks a packet acknowledged; returns it as it was, if it was outstanding or lost.
    pub(super) fn acknowledge(
        &mut self,
        number: u64,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        let Some(packet) = self.packet_mut(number) else { return Ok(None) };
        let before = *packet;
        match before.state {
            PacketState::Acknowledged | PacketState::Abandoned => return Ok(None),
            PacketState::Staged | PacketState::Skipped => return Err(NEVER_SENT),
            PacketState::Outstanding => {
                packet.state = PacketState::Acknowledged;
                self.leave_outstanding(&before)?;
            }
            PacketState::Lost => {
                packet.state = PacketState::Acknowledged;
                self.must_sweep = true;
            }
        }
        if self.largest_acknowledged.is_none_or(|largest| largest.get() < number) {
            self.largest_acknowledged = PacketNumber::new(number);
            self.largest_acknowledged_sent_at = Some(before.sent_at);
        }
        Ok(Some(before))
    }

    pub(super) fn declare_lost(
        &mut self,
        number: u64,
        now: Timestamp,
        loss_event: u64,
    ) -> Result<LedgerPacket, TransportError> {
        let packet = self.packet_mut(number).ok_or(broken("an unknown packet was lost"))?;
        if packet.state != PacketState::Outstanding {
            return Err(broken("a packet was lost that was not outstanding"));
        }
        let before = *packet;
        packet.state = PacketState::Lost;
        packet.lost_at = now;
        packet.loss_event = loss_event;
        self.leave_outstanding(&before)?;
        self.lost.push_back(number);
        Ok(before)
    }

    /// Takes back packet `number` if it is outstanding; returns it as it was.
    pub(super) fn abandon(&mut self, number: u64) -> Result<Option<LedgerPacket>, TransportError> {
        let packet = self.packet_mut(number);
        let Some(packet) = packet.filter(|p| p.state == PacketState::Outstanding) else {
            return Ok(None);
        };
        packet.state = PacketState::Abandoned;
        let packet = *packet;
        self.leave_outstanding(&packet)?;
        Ok(Some(packet))
    }

    /// The numbers of the packets that may be outstanding.
    pub(super) fn unsettled(&self) -> core::ops::Range<u64> {
        self.first_outstanding..self.sent_end
    }

    /// The numbers from `first` up to `last` that an acknowledgement could change: lost ones that
    /// are remembered, and everything that is not settled. Work is proportional to what is found.
    pub(super) fn unsettled_within(&self, first: u64, last: u64) -> impl Iterator<Item = u64> {
        let from = self.lost.partition_point(|number| *number < first);
        let lost = self.lost.iter().skip(from).copied().take_while(move |number| *number <= last);
        let newest = self.next_number().saturating_sub(1).min(last);
        lost.chain(first.max(self.first_outstanding)..=newest)
    }

    /// Drops from the ring what is settled: acknowledged, skipped, or lost at `lost_before` or
    /// earlier.
    pub(super) fn forget(&mut self, lost_before: Option<Timestamp>) {
        while let Some(oldest) = self.packets.front() {
            let is_settled = match oldest.state {
                PacketState::Acknowledged | PacketState::Abandoned | PacketState::Skipped => true,
                PacketState::Lost => {
                    lost_before.is_some_and(|time| oldest.lost_at <= time)
                        || self.lost.len() > MAX_LOST_REMEMBERED
                }
                PacketState::Staged | PacketState::Outstanding => false,
            };
            // The numbers of a space continue where the ring ends, so the last one may leave too.
            if !is_settled {
                break;
            }
            self.pop_oldest();
        }
        self.first_outstanding = self.first_outstanding.max(self.base);
    }

    fn pop_oldest(&mut self) {
        let Some(oldest) = self.packets.pop_front() else { return };
        let tokens = self.tokens.len().min(oldest.token_count as usize);
        self.tokens.drain(..tokens);
        self.token_base = self.token_base.saturating_add(tokens as u64);
        if self.lost.front() == Some(&self.base) {
            self.lost.pop_front();
        }
        self.base = self.base.saturating_add(1);
    }

    /// Takes lost packets that were acknowledged after all from among the lost, if there were any.
    pub(super) fn sweep_lost(&mut self) {
        if !core::mem::take(&mut self.must_sweep) {
            return;
        }
        let mut lost = core::mem::take(&mut self.lost);
        lost.retain(|number| {
            self.packet(*number).is_some_and(|packet| packet.state == PacketState::Lost)
        });
        self.lost = lost;
    }

    /// A probe timeout expired: from here on [`probe_tokens`](Self::probe_tokens) has something to
    /// offer, if anything that can be repeated is outstanding. Returns for how many probes, up to
    /// two.
    ///
    /// No packet is offered again before all others that were outstanding when the run of timeouts
    /// began have been, and copies that probes carried are not offered at all in that run.
    pub(super) fn begin_probing(&mut self) -> usize {
        if self.repeatable(self.probe_cursor).next().is_none() {
            self.probe_cursor = self.first_outstanding;
            if self.repeatable(self.probe_cursor).next().is_none() {
                self.probe_end = self.next_number();
            }
        }
        self.repeatable(self.probe_cursor).take(2).count()
    }

    /// The peer is heard: the next probe timeout begins a new run.
    pub(super) fn end_probing(&mut self) {
        self.probe_cursor = 0;
        self.probe_end = 0;
    }

    /// Outstanding packets of the current run, from number `from` on, that carry something that can
    /// be sent again.
    fn repeatable(&self, from: u64) -> impl Iterator<Item = u64> {
        (from.max(self.first_outstanding)..self.probe_end).filter(|number| {
            self.packet(*number).is_some_and(|packet| {
                packet.state == PacketState::Outstanding
                    && self.tokens_of(packet).any(|token| can_be_repeated(&token))
            })
        })
    }

    /// Appends to `out` copies of the tokens of the oldest packet that no probe of this run offered
    /// yet. Returns whether there was one. What cannot be sent again (ACKs, datagrams) is left out.
    pub(super) fn probe_tokens(&mut self, out: &mut Vec<Token>) -> bool {
        let Some(number) = self.repeatable(self.probe_cursor).next() else { return false };
        if let Some(packet) = self.packet(number) {
            out.extend(self.tokens_of(packet).filter(can_be_repeated));
        }
        self.probe_cursor = number.saturating_add(1);
        true
    }

    pub(super) fn discard(&mut self) {
        // The next number stays what it is; nothing was sent that anybody may still ask about.
        *self = Self { base: self.next_number(), is_discarded: true, ..Self::new() };
    }
}

fn can_be_repeated(token: &Token) -> bool {
    !matches!(token, Token::Ack { .. } | Token::Datagram { .. })
}
