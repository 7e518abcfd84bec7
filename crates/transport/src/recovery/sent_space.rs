#[cfg(any(test, debug_assertions))]
mod caches;

use std::collections::{BTreeSet, VecDeque};

use clearway_congestion::{DeliverySnapshot, SendIndex};
use clearway_units::Timestamp;
use clearway_units::packed::{Pack, Packer, Unpacker};
use clearway_wire::{PacketNumber, TransportErrorCode};

use super::checked::{add, broken, subtract};
use super::packet::{LedgerPacket, PacketState, StagedPacket};
use crate::TransportError;
use crate::space_id::SpaceState;
use crate::token::Token;
use clearway_units::memory::release_empty_set;

/// Maximum number of remembered packets that do not count as in flight (ACK-only packets) and are
/// not settled; the newest are kept. Nothing is retransmitted for older ones.
const MAX_ACKS_REMEMBERED: usize = 1 << 10;

/// Maximum number of remembered packets: 150 MB in flight.
const MAX_PACKETS: usize = 1 << 17;

/// Maximum memory for packets and their tokens, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The fraction of the packet and memory limits that is reserved for packets that neither the
/// window nor the pacer limits: probes, and responses to them.
const RESERVED_PARTS: usize = 16;

/// Once this many packets are remembered, settled ones are removed so that packets limited by the
/// window do not run out of room.
const CROWDED_PACKETS: usize = MAX_PACKETS / 4 * 3;
/// Like [`CROWDED_PACKETS`], in bytes.
const CROWDED_BYTES: usize = MAX_BYTES / 4 * 3;

/// Maximum number of settled packets that may remain between unsettled ones before they are
/// removed.
const MAX_SETTLED: usize = 1 << 10;

/// Error: more packets were sent than can be remembered, and the peer acknowledges none of them.
const TOO_MANY_UNACKNOWLEDGED: TransportError = broken("too many sent packets are unacknowledged");

/// Maximum number of lost packets remembered in case they arrive after all.
pub(super) const MAX_LOST_REMEMBERED: usize = 1 << 14;

/// Maximum number of skipped packet numbers remembered: enough for every one that a peer could
/// still plausibly acknowledge.
const MAX_SKIPPED_REMEMBERED: usize = 32;

/// Error: the peer acknowledged a packet that was never sent (see also RFC 9000 §21.4).
const NEVER_SENT: TransportError = TransportError::rule(
    TransportErrorCode::PROTOCOL_VIOLATION,
    "an acknowledged packet was never sent",
    "RFC 9000 §13.1",
);

/// The sent packets of one packet number space, by number. While there are few settled packets
/// between others, no packet is missing, and a packet's position follows from its number. Once
/// there are many, the settled packets are removed and the others are found by search.
///
/// The number of packets is bounded: packets limited by the window wait while there is no room
/// ([`has_room`](Self::has_room)), and other packets get an error.
///
/// Packets are sent in order of their numbers and the clock does not go backwards, so packets that
/// are declared lost are older than all outstanding ones: everything below `first_outstanding` is
/// settled, and loss detection never looks there again.
#[derive(Debug)]
pub(super) struct SentSpace {
    packets: VecDeque<LedgerPacket>,
    /// The number that the next packet will get.
    next: u64,
    tokens: VecDeque<Token>,
    /// The number of tokens that have left the ring buffer.
    token_base: u64,
    /// No packet below this number is staged or outstanding.
    first_outstanding: u64,
    /// All numbers from this one on are unsent.
    sent_end: u64,
    /// The numbers of the packets that are `Lost` and still remembered.
    lost: BTreeSet<u64>,
    /// The numbers of the newest packets that do not count as in flight, ascending. Some may be
    /// settled.
    acks: VecDeque<u64>,
    /// The newest skipped numbers, ascending.
    skipped: VecDeque<u64>,
    largest_acknowledged: Option<PacketNumber>,
    largest_acknowledged_sent_at: Option<Timestamp>,
    ack_eliciting_outstanding: u64,
    in_flight_outstanding: u64,
    other_outstanding: u64,
    /// The next probe takes its tokens from this packet or a later one.
    probe_cursor: u64,
    is_discarded: bool,
    /// The number of packet lookups.
    #[cfg(test)]
    pub(super) lookups: core::sync::atomic::AtomicU64,
}

/// Packs only ACK frame tokens: there must be [no others](SentSpace::has_only_acks).
impl Pack for SentSpace {
    fn pack(&self, into: &mut Packer) {
        self.packets.pack(into);
        self.next.pack(into);
        self.tokens.iter().filter_map(acknowledged).collect::<Vec<u64>>().pack(into);
        self.token_base.pack(into);
        self.first_outstanding.pack(into);
        self.sent_end.pack(into);
        self.lost.pack(into);
        self.acks.pack(into);
        self.skipped.pack(into);
        self.largest_acknowledged.map(PacketNumber::get).pack(into);
        self.largest_acknowledged_sent_at.pack(into);
        self.ack_eliciting_outstanding.pack(into);
        self.in_flight_outstanding.pack(into);
        self.other_outstanding.pack(into);
        self.probe_cursor.pack(into);
        self.is_discarded.pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let number = |number| PacketNumber::new(number).unwrap_or(PacketNumber::MAX);
        let ack = |largest| Token::Ack { largest: number(largest) };
        Self {
            packets: Pack::unpack(from),
            next: Pack::unpack(from),
            tokens: Vec::<u64>::unpack(from).into_iter().map(ack).collect(),
            token_base: Pack::unpack(from),
            first_outstanding: Pack::unpack(from),
            sent_end: Pack::unpack(from),
            lost: Pack::unpack(from),
            acks: Pack::unpack(from),
            skipped: Pack::unpack(from),
            largest_acknowledged: Option::unpack(from).map(number),
            largest_acknowledged_sent_at: Pack::unpack(from),
            ack_eliciting_outstanding: Pack::unpack(from),
            in_flight_outstanding: Pack::unpack(from),
            other_outstanding: Pack::unpack(from),
            probe_cursor: Pack::unpack(from),
            is_discarded: Pack::unpack(from),
            #[cfg(test)]
            lookups: core::sync::atomic::AtomicU64::new(0),
        }
    }
}

/// Returns the Largest Acknowledged packet number of the ACK frame recorded in `token`.
fn acknowledged(token: &Token) -> Option<u64> {
    match token {
        Token::Ack { largest } => Some(largest.get()),
        _ => None,
    }
}

impl SpaceState for SentSpace {
    const ENDED: Self = Self::empty(true);

    fn ended() -> &'static Self {
        static ENDED: SentSpace = SentSpace::ENDED;
        &ENDED
    }
}

impl SentSpace {
    pub(super) const fn new() -> Self {
        Self::empty(false)
    }

    const fn empty(is_discarded: bool) -> Self {
        Self {
            packets: VecDeque::new(),
            next: 0,
            tokens: VecDeque::new(),
            token_base: 0,
            first_outstanding: 0,
            sent_end: 0,
            lost: BTreeSet::new(),
            acks: VecDeque::new(),
            skipped: VecDeque::new(),
            largest_acknowledged: None,
            largest_acknowledged_sent_at: None,
            ack_eliciting_outstanding: 0,
            in_flight_outstanding: 0,
            other_outstanding: 0,
            probe_cursor: 0,
            is_discarded,
            #[cfg(test)]
            lookups: core::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Returns the number that the next packet will get.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns all remembered packets, oldest first.
    pub(super) fn packets(&self) -> impl Iterator<Item = &LedgerPacket> {
        self.packets.iter()
    }

    pub(super) fn packet(&self, number: u64) -> Option<&LedgerPacket> {
        self.packets.get(self.position(number)?)
    }

    pub(super) fn packet_mut(&mut self, number: u64) -> Option<&mut LedgerPacket> {
        let position = self.position(number)?;
        self.packets.get_mut(position)
    }

    fn position(&self, number: u64) -> Option<usize> {
        let position = self.position_from(number);
        self.packets.get(position).is_some_and(|packet| packet.number == number).then_some(position)
    }

    /// Returns the position of the first packet whose number is at least `number`.
    fn position_from(&self, number: u64) -> usize {
        #[cfg(test)]
        self.lookups.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        let first = self.packets.front().map_or(self.next, |oldest| oldest.number);
        let Some(offset) = number.checked_sub(first) else { return 0 };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        match self.packets.get(offset) {
            Some(packet) if packet.number == number => offset,
            _ => self.packets.partition_point(|packet| packet.number < number),
        }
    }

    pub(super) fn largest_acknowledged(&self) -> Option<PacketNumber> {
        self.largest_acknowledged
    }

    /// Returns when the packet with the largest acknowledged number was sent.
    pub(super) fn largest_acknowledged_sent_at(&self) -> Option<Timestamp> {
        self.largest_acknowledged_sent_at
    }

    pub(super) fn ack_eliciting_outstanding(&self) -> u64 {
        self.ack_eliciting_outstanding
    }

    pub(super) fn is_discarded(&self) -> bool {
        self.is_discarded
    }

    /// Returns whether any outstanding packet arms the probe timer: ack-eliciting packets, and
    /// those that are in flight only because of padding, which would otherwise fill the window
    /// forever.
    pub(super) fn awaits_acknowledgement(&self) -> bool {
        self.ack_eliciting_outstanding > 0 || self.in_flight_outstanding > 0
    }

    pub(super) fn first_outstanding(&self) -> u64 {
        self.first_outstanding
    }

    pub(super) fn settle_below(&mut self, number: u64) {
        self.first_outstanding = self.first_outstanding.max(number);
    }

    /// Checks that all numbers from `first` to `last` (inclusive) were sent.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if one of them was not sent, so the peer did not receive it.
    pub(super) fn check_sent(&self, first: u64, last: u64) -> Result<(), TransportError> {
        if last >= self.sent_end || self.skipped_within(first, last) > 0 {
            return Err(NEVER_SENT);
        }
        Ok(())
    }

    /// Returns how many of the numbers from `first` to `last` (inclusive) were skipped.
    pub(super) fn skipped_within(&self, first: u64, last: u64) -> u64 {
        let from = self.skipped.partition_point(|number| *number < first);
        let to = self.skipped.partition_point(|number| *number <= last);
        to.saturating_sub(from) as u64
    }

    /// Returns the tokens of `packet`, oldest first.
    pub(super) fn tokens_of(&self, packet: &LedgerPacket) -> impl Iterator<Item = Token> {
        let start = packet.first_token.checked_sub(self.token_base);
        let start = start.and_then(|start| usize::try_from(start).ok()).unwrap_or(usize::MAX);
        self.tokens.iter().skip(start).take(packet.token_count as usize).copied()
    }

    /// Skips the next number.
    pub(super) fn skip(&mut self) {
        let number = self.next_number();
        self.enter(LedgerPacket {
            number,
            state: PacketState::Skipped,
            ack_eliciting: false,
            in_flight: false,
            is_exempt: false,
            is_off_path: false,
            is_marked: false,
            path: 0,
            token_count: 0,
            first_token: self.next_token(),
            bytes: 0,
            index: SendIndex::default(),
            sent_at: Timestamp::ORIGIN,
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
            return Err(broken("a packet was built although its keys were discarded"));
        }
        if staged.number.get() != self.next_number() {
            return Err(broken("a packet was built with an unexpected packet number"));
        }
        if self.is_beyond(MAX_PACKETS, MAX_BYTES) {
            return Err(TOO_MANY_UNACKNOWLEDGED);
        }
        let token_count = u32::try_from(tokens.len())
            .map_err(|_| broken("a packet has more tokens than can be counted"))?;
        let first_token = self.next_token();
        self.tokens.extend(tokens.drain(..));
        self.enter(LedgerPacket {
            number: staged.number.get(),
            state: PacketState::Staged,
            ack_eliciting: staged.ack_eliciting,
            in_flight: staged.in_flight,
            is_exempt: staged.is_probe_of_path,
            is_off_path: staged.is_off_path,
            is_marked: staged.is_marked,
            path,
            token_count,
            first_token,
            bytes: staged.bytes,
            index: SendIndex::default(),
            sent_at: Timestamp::ORIGIN,
            delivery: DeliverySnapshot::default(),
        });
        Ok(())
    }

    /// Returns whether there is room for a packet that is limited by the window.
    pub(super) fn has_room(&self) -> bool {
        let part = |whole: usize| whole.saturating_sub(whole / RESERVED_PARTS);
        !self.is_beyond(part(MAX_PACKETS), part(MAX_BYTES))
    }

    fn is_beyond(&self, packets: usize, bytes: usize) -> bool {
        self.packets.len() >= packets || self.bytes_remembered() >= bytes
    }

    /// Returns the memory used by packets and tokens, in bytes.
    pub(super) fn bytes_remembered(&self) -> usize {
        let packets = self.packets.len().saturating_mul(size_of::<LedgerPacket>());
        packets.saturating_add(self.tokens.len().saturating_mul(size_of::<Token>()))
    }

    fn enter(&mut self, packet: LedgerPacket) {
        self.next = packet.number.saturating_add(1);
        self.packets.push_back(packet);
    }

    /// Marks packet `number` as sent; `enter` updates it. Returns `None` if its keys were discarded
    /// in the meantime.
    pub(super) fn commit(
        &mut self,
        number: u64,
        enter: impl FnOnce(&mut LedgerPacket),
    ) -> Result<Option<LedgerPacket>, TransportError> {
        if self.is_discarded {
            return Ok(None);
        }
        let packet =
            self.packet_mut(number).ok_or_else(|| broken("a packet was sent but never built"))?;
        if packet.state != PacketState::Staged {
            return Err(broken("a packet was sent twice"));
        }
        packet.state = PacketState::Outstanding;
        enter(packet);
        let packet = *packet;
        self.sent_end = self.sent_end.max(number.saturating_add(1));
        add(self.outstanding_of(&packet), 1)?;
        if packet.arms_timer() {
            add(&mut self.ack_eliciting_outstanding, 1)?;
        }
        if !packet.in_flight {
            self.acks.push_back(number);
            self.forget_oldest_ack()?;
        }
        Ok(Some(packet))
    }

    /// Abandons the oldest packet that does not count as in flight, if there are too many.
    fn forget_oldest_ack(&mut self) -> Result<(), TransportError> {
        if self.acks.len() <= MAX_ACKS_REMEMBERED {
            return Ok(());
        }
        let Some(oldest) = self.acks.pop_front() else { return Ok(()) };
        self.abandon(oldest)?;
        self.take_out_settled();
        Ok(())
    }

    /// Removes settled packets between unsettled ones if they are more than half of all, or a
    /// sixteenth of the maximum. At most sixteen packets are visited for each one removed.
    fn take_out_settled(&mut self) {
        let outstanding = self.in_flight_outstanding.saturating_add(self.other_outstanding);
        let outstanding = usize::try_from(outstanding).unwrap_or(usize::MAX);
        let needed = outstanding.saturating_add(self.lost.len());
        let settled = self.packets.len().saturating_sub(needed);
        let is_crowded = self.is_beyond(CROWDED_PACKETS, CROWDED_BYTES)
            && settled > self.packets.len() / RESERVED_PARTS;
        if settled <= needed.saturating_add(MAX_SETTLED) && !is_crowded {
            return;
        }
        let mut packets = VecDeque::with_capacity(needed.saturating_add(MAX_SETTLED));
        let mut tokens = VecDeque::new();
        for mut packet in core::mem::take(&mut self.packets) {
            let is_needed = matches!(
                packet.state,
                PacketState::Staged | PacketState::Outstanding | PacketState::Lost { .. }
            );
            if is_needed {
                let first_token = self.token_base.saturating_add(tokens.len() as u64);
                tokens.extend(self.tokens_of(&packet));
                packet.first_token = first_token;
                packets.push_back(packet);
            }
        }
        self.packets = packets;
        self.tokens = tokens;
    }

    fn outstanding_of(&mut self, packet: &LedgerPacket) -> &mut u64 {
        match packet.in_flight && !packet.is_off_path {
            true => &mut self.in_flight_outstanding,
            false => &mut self.other_outstanding,
        }
    }

    fn leave_outstanding(&mut self, packet: &LedgerPacket) -> Result<(), TransportError> {
        subtract(self.outstanding_of(packet), 1)?;
        if packet.arms_timer() {
            subtract(&mut self.ack_eliciting_outstanding, 1)?;
        }
        Ok(())
    }

    /// Marks a packet as acknowledged. Returns its previous state if it was outstanding or lost.
    pub(super) fn acknowledge(
        &mut self,
        number: u64,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        let Some(packet) = self.packet_mut(number) else { return Ok(None) };
        let before = *packet;
        let acknowledged = PacketState::Acknowledged { settled_to: 0 };
        match before.state {
            PacketState::Acknowledged { .. } | PacketState::Abandoned => return Ok(None),
            PacketState::Staged | PacketState::Skipped => return Err(NEVER_SENT),
            PacketState::Outstanding => {
                packet.state = acknowledged;
                self.leave_outstanding(&before)?;
            }
            PacketState::Lost { .. } => {
                packet.state = acknowledged;
                self.lost.remove(&number);
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
        left_address_at: SendIndex,
    ) -> Result<LedgerPacket, TransportError> {
        let packet = self.packet_mut(number).ok_or_else(|| broken("an unknown packet was lost"))?;
        if packet.state != PacketState::Outstanding {
            return Err(broken("a packet that was not outstanding was declared lost"));
        }
        packet.is_exempt |= packet.index < left_address_at;
        let before = *packet;
        packet.state = PacketState::Lost { at: now, event: loss_event };
        self.leave_outstanding(&before)?;
        self.lost.insert(number);
        Ok(before)
    }

    /// Records that packet `number` was acknowledged, whether it is remembered or not.
    pub(super) fn note_largest_acknowledged(&mut self, number: PacketNumber) {
        self.largest_acknowledged = self.largest_acknowledged.max(Some(number));
    }

    /// Abandons packet `number` if it is outstanding, and returns its previous state.
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

    /// Returns the numbers of the packets that may be outstanding.
    pub(super) fn unsettled(&self) -> core::ops::Range<u64> {
        self.first_outstanding..self.sent_end
    }

    /// Appends to `numbers` the packets from `first` to `last` (inclusive) that an acknowledgment
    /// can change: remembered lost ones and unsettled ones. The work is proportional to their
    /// number.
    pub(super) fn unsettled_within(&self, first: u64, last: u64, numbers: &mut Vec<u64>) {
        numbers.extend(self.lost.range(first..=last));
        let mut position = self.position_from(first.max(self.first_outstanding));
        while let Some(packet) = self.packets.get(position).filter(|packet| packet.number <= last) {
            match packet.state {
                PacketState::Acknowledged { settled_to } if settled_to > packet.number => {
                    position = self.position_from(settled_to);
                    continue;
                }
                PacketState::Staged | PacketState::Outstanding | PacketState::Skipped => {
                    numbers.push(packet.number);
                }
                PacketState::Acknowledged { .. }
                | PacketState::Lost { .. }
                | PacketState::Abandoned => {}
            }
            position = position.saturating_add(1);
        }
    }

    /// Records that all packets from `first` to `last` (inclusive) were acknowledged, so that they
    /// need not be visited again.
    pub(super) fn note_settled(&mut self, first: u64, last: u64) {
        let position = self.position_from(first.max(self.first_outstanding));
        if let Some(packet) = self.packets.get_mut(position)
            && packet.number <= last
            && let PacketState::Acknowledged { settled_to } = &mut packet.state
        {
            *settled_to = last.saturating_add(1);
        }
    }

    /// Removes settled packets: those that were acknowledged or skipped, or were lost at
    /// `lost_before` or earlier.
    pub(super) fn forget(&mut self, lost_before: Option<Timestamp>) {
        while let Some(oldest) = self.packets.front() {
            let is_settled = match oldest.state {
                PacketState::Acknowledged { .. }
                | PacketState::Abandoned
                | PacketState::Skipped => true,
                PacketState::Lost { at, .. } => {
                    lost_before.is_some_and(|time| at <= time)
                        || self.lost.len() > MAX_LOST_REMEMBERED
                }
                PacketState::Staged | PacketState::Outstanding => false,
            };
            if !is_settled {
                break;
            }
            self.pop_oldest();
        }
        let oldest = self.packets.front().map_or(self.next, |oldest| oldest.number);
        self.first_outstanding = self.first_outstanding.max(oldest);
        self.take_out_settled();
    }

    fn pop_oldest(&mut self) {
        let Some(oldest) = self.packets.pop_front() else { return };
        let tokens = self.tokens.len().min(oldest.token_count as usize);
        self.tokens.drain(..tokens);
        self.token_base = self.token_base.saturating_add(tokens as u64);
        self.lost.remove(&oldest.number);
    }

    /// Starts to probe after a probe timeout: from now on [`probe_tokens`](Self::probe_tokens)
    /// returns tokens, if those of any outstanding packet can be retransmitted. Returns the number
    /// of probes for which there are tokens, at most two.
    ///
    /// No packet is used again before all other outstanding ones, including those that were sent
    /// since the first of several consecutive timeouts. The copies in probes are ordinary packets,
    /// which follow everything sent before them.
    pub(super) fn begin_probing(&mut self) -> usize {
        if self.repeatable(self.probe_cursor).next().is_none() {
            self.probe_cursor = self.first_outstanding;
        }
        self.repeatable(self.probe_cursor).take(2).count()
    }

    /// Ends a run of timeouts, after a packet from the peer: the next run begins with the oldest
    /// packet.
    pub(super) fn end_probing(&mut self) {
        self.probe_cursor = 0;
    }

    /// Returns the outstanding packets, from number `from` on, whose contents can be retransmitted.
    fn repeatable(&self, from: u64) -> impl Iterator<Item = u64> {
        (from.max(self.first_outstanding)..self.next).filter(|number| {
            self.packet(*number).is_some_and(|packet| {
                packet.state == PacketState::Outstanding
                    && self.tokens_of(packet).any(|token| can_be_repeated(&token))
            })
        })
    }

    /// Returns when the oldest outstanding packet that a probe can repeat was sent.
    pub(super) fn oldest_sent_at(&self) -> Option<Timestamp> {
        let number = self.repeatable(0).next()?;
        self.packet(number).map(|packet| packet.sent_at)
    }

    /// Appends to `out` copies of the tokens of the oldest packet that no probe of this run has
    /// used yet. Returns whether there was one. Contents that cannot be retransmitted (ACKs,
    /// datagrams) are omitted.
    pub(super) fn probe_tokens(&mut self, out: &mut Vec<Token>) -> bool {
        let Some(number) = self.repeatable(self.probe_cursor).next() else { return false };
        if let Some(packet) = self.packet(number) {
            out.extend(self.tokens_of(packet).filter(can_be_repeated));
        }
        self.probe_cursor = number.saturating_add(1);
        true
    }

    /// Returns whether all remembered packets carried only ACK frames.
    pub(super) fn has_only_acks(&self) -> bool {
        self.tokens.iter().all(|token| acknowledged(token).is_some())
    }

    /// Returns when the last of the remembered lost packets was declared lost.
    pub(super) fn last_lost_at(&self) -> Option<Timestamp> {
        match self.packet(*self.lost.last()?)?.state {
            PacketState::Lost { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        self.packets.shrink_to_fit();
        self.tokens.shrink_to_fit();
        self.acks.shrink_to_fit();
        self.skipped.shrink_to_fit();
        release_empty_set(&mut self.lost);
    }

    pub(super) fn discard(&mut self) {
        // The next number stays the same. Sent packets can no longer be looked up, but what was
        // acknowledged here still disproves persistent congestion in the other spaces.
        *self = Self {
            next: self.next,
            is_discarded: true,
            largest_acknowledged_sent_at: self.largest_acknowledged_sent_at,
            ..Self::new()
        };
    }
}

fn can_be_repeated(token: &Token) -> bool {
    !matches!(token, Token::Ack { .. } | Token::Datagram { .. } | Token::MtuProbe(_))
}
