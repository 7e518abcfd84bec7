use clearway_congestion::{DeliverySnapshot, SendIndex};
use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::checked::{add, broken, subtract};
use super::packet::{LedgerPacket, PacketState, StagedPacket};
use super::sent_space::SentSpace;
use crate::space_id::SpaceStates;
use crate::token::Token;
use crate::{SpaceId, TransportError};

/// Counts and bytes of packets that count as in flight, by outcome. ACK-only packets are not
/// included.
///
/// `sent = acknowledged + (lost - spurious) + discarded + outstanding` always holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub struct PacketCounts {
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes of the packets sent.
    pub bytes_sent: u64,
    /// Packets acknowledged, including those that had been declared lost before.
    pub packets_acknowledged: u64,
    /// Bytes of the packets acknowledged.
    pub bytes_acknowledged: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Bytes of the packets declared lost.
    pub bytes_lost: u64,
    /// Packets that were declared lost and acknowledged later.
    pub packets_spuriously_lost: u64,
    /// Bytes of the packets that were declared lost and acknowledged later.
    pub bytes_spuriously_lost: u64,
    /// Packets that were outstanding when their keys were discarded, or that were abandoned.
    pub packets_discarded: u64,
    /// Bytes of the packets that were discarded or abandoned.
    pub bytes_discarded: u64,
}

/// The only record of what is in flight (law 2).
///
/// A packet enters with [`commit`](Self::commit) and leaves through exactly one of
/// [`acknowledge`](Self::acknowledge), [`declare_lost`](Self::declare_lost),
/// [`abandon`](Self::abandon) and [`discard`](Self::discard). Arithmetic does not saturate: an overflow or underflow is an error.
#[derive(Debug, Pack)]
pub(super) struct Ledger {
    spaces: SpaceStates<SentSpace>,
    /// Bytes in flight on the current path.
    bytes_in_flight: u64,
    /// Bytes in flight in datagrams that validate other paths.
    bytes_elsewhere: u64,
    /// Bytes of packets that were built but not yet sent and will count as in flight.
    bytes_staged: u64,
    path: u32,
    /// Packets before this index were sent to a former address of the peer.
    left_address_at: SendIndex,
    next_index: u64,
    counts: PacketCounts,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            spaces: SpaceStates::new(|_| SentSpace::new()),
            bytes_in_flight: 0,
            bytes_elsewhere: 0,
            bytes_staged: 0,
            path: 0,
            left_address_at: SendIndex::default(),
            next_index: 0,
            counts: PacketCounts::default(),
        }
    }

    pub(super) fn space(&self, space: SpaceId) -> &SentSpace {
        self.spaces.get(space)
    }

    pub(super) fn space_mut(&mut self, space: SpaceId) -> &mut SentSpace {
        self.spaces.get_mut(space)
    }

    pub(super) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Returns the bytes in flight in datagrams that validate paths other than the current one.
    pub(super) fn bytes_elsewhere(&self) -> u64 {
        self.bytes_elsewhere
    }

    pub(super) fn bytes_staged(&self) -> u64 {
        self.bytes_staged
    }

    pub(super) fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// Returns the index that the next packet will get.
    pub(super) fn next_index(&self) -> SendIndex {
        SendIndex(self.next_index)
    }

    /// Returns whether `packet` was sent on the current path.
    pub(super) fn is_current(&self, packet: &LedgerPacket) -> bool {
        packet.is_on(self.path)
    }

    /// Adds a packet that was built; it does not count as in flight yet.
    pub(super) fn stage(
        &mut self,
        space: SpaceId,
        staged: &StagedPacket,
        tokens: &mut Vec<Token>,
    ) -> Result<(), TransportError> {
        self.spaces.get_mut(space).stage(staged, self.path, tokens)?;
        if staged.in_flight {
            add(&mut self.bytes_staged, staged.bytes)?;
        }
        Ok(())
    }

    /// Records that packet `number` was sent at `now`: from here on it is in flight. Returns `None`
    /// if its keys were discarded in the meantime. If the packet counts as in flight on the current
    /// path, `sample` returns the state of the delivery-rate sampler for a packet of that many
    /// bytes.
    pub(super) fn commit(
        &mut self,
        space: SpaceId,
        number: u64,
        now: Timestamp,
        sample: impl FnOnce(u64) -> DeliverySnapshot,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        let (index, path) = (SendIndex(self.next_index), self.path);
        let enter = |packet: &mut LedgerPacket| {
            packet.index = index;
            packet.sent_at = now;
            if packet.in_flight && packet.is_on(path) {
                packet.delivery = sample(packet.bytes);
            }
        };
        let Some(packet) = self.spaces.get_mut(space).commit(number, enter)? else {
            return Ok(None);
        };
        add(&mut self.next_index, 1)?;
        if packet.in_flight {
            subtract(&mut self.bytes_staged, packet.bytes)?;
            add(&mut self.counts.packets_sent, 1)?;
            add(&mut self.counts.bytes_sent, packet.bytes)?;
            if let Some(bytes) = self.flight_of(&packet) {
                add(bytes, packet.bytes)?;
            }
        }
        Ok(Some(packet))
    }

    /// Marks packet `number` as acknowledged. Returns its previous state, if it was not
    /// acknowledged before.
    pub(super) fn acknowledge(
        &mut self,
        space: SpaceId,
        number: u64,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        let Some(packet) = self.spaces.get_mut(space).acknowledge(number)? else {
            return Ok(None);
        };
        if packet.in_flight {
            add(&mut self.counts.packets_acknowledged, 1)?;
            add(&mut self.counts.bytes_acknowledged, packet.bytes)?;
            if packet.is_lost() {
                add(&mut self.counts.packets_spuriously_lost, 1)?;
                add(&mut self.counts.bytes_spuriously_lost, packet.bytes)?;
            } else {
                self.leave_flight(&packet)?;
            }
        }
        Ok(Some(packet))
    }

    /// Declares packet `number` lost. Returns its previous state, except for whether its loss is a
    /// congestion signal.
    pub(super) fn declare_lost(
        &mut self,
        space: SpaceId,
        number: u64,
        now: Timestamp,
        loss_event: u64,
    ) -> Result<LedgerPacket, TransportError> {
        let left = self.left_address_at;
        let packet = self.spaces.get_mut(space).declare_lost(number, now, loss_event, left)?;
        if packet.in_flight {
            add(&mut self.counts.packets_lost, 1)?;
            add(&mut self.counts.bytes_lost, packet.bytes)?;
            self.leave_flight(&packet)?;
        }
        Ok(packet)
    }

    /// Declares packet `number` lost. It was committed but not sent after all, so its loss is not a
    /// congestion signal. Returns `None` if it is not outstanding.
    pub(super) fn declare_unsent(
        &mut self,
        space: SpaceId,
        number: u64,
        now: Timestamp,
        loss_event: u64,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        let packet = self.spaces.get(space).packet(number);
        if packet.is_none_or(|packet| packet.state != PacketState::Outstanding) {
            return Ok(None);
        }
        let left = core::mem::replace(&mut self.left_address_at, SendIndex(self.next_index));
        let packet = self.declare_lost(space, number, now, loss_event);
        self.left_address_at = left;
        packet.map(Some)
    }

    /// Checks that the byte sums and counts agree with the packets, and checks each space.
    ///
    /// # Panics
    /// If a value does not agree, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        let all = || SpaceId::ALL.into_iter().flat_map(|space| self.space(space).packets());
        let sum = |counts: &dyn Fn(&LedgerPacket) -> bool| {
            let counted = all().filter(|packet| packet.in_flight && counts(packet));
            counted.fold((0, 0), |(packets, bytes): (u64, u64), packet| {
                (packets.saturating_add(1), bytes.saturating_add(packet.bytes))
            })
        };
        let is_out = |packet: &LedgerPacket| packet.state == PacketState::Outstanding;
        let current = sum(&|packet| is_out(packet) && packet.is_on(self.path));
        assert_eq!(self.bytes_in_flight, current.1, "bytes in flight");
        let elsewhere = sum(&|packet| is_out(packet) && packet.is_off_path);
        assert_eq!(self.bytes_elsewhere, elsewhere.1, "bytes in flight elsewhere");
        let staged = sum(&|packet| packet.state == PacketState::Staged);
        assert_eq!(self.bytes_staged, staged.1, "bytes that were built");
        let (packets, bytes) = sum(&is_out);
        let counts = &self.counts;
        let outcomes = [
            (counts.packets_acknowledged, counts.bytes_acknowledged),
            (counts.packets_lost, counts.bytes_lost),
            (counts.packets_discarded, counts.bytes_discarded),
            (packets, bytes),
        ];
        let known = outcomes.iter().fold((0, 0), |(packets, bytes): (u64, u64), outcome| {
            (packets.saturating_add(outcome.0), bytes.saturating_add(outcome.1))
        });
        let spurious = (counts.packets_spuriously_lost, counts.bytes_spuriously_lost);
        let sent = (
            counts.packets_sent.saturating_add(spurious.0),
            counts.bytes_sent.saturating_add(spurious.1),
        );
        assert_eq!(sent, known, "every packet that was sent has one outcome");
        self.spaces.iter().for_each(|(_, space)| space.check_caches());
    }

    /// Returns how many packets are remembered.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn remembered(&self) -> usize {
        SpaceId::ALL.into_iter().map(|space| self.space(space).packets().count()).sum()
    }

    fn leave_flight(&mut self, packet: &LedgerPacket) -> Result<(), TransportError> {
        match self.flight_of(packet) {
            Some(bytes) => subtract(bytes, packet.bytes),
            None => Ok(()),
        }
    }

    /// Returns the sum that includes the bytes of `packet`; `None` if it was sent on an earlier
    /// path.
    fn flight_of(&mut self, packet: &LedgerPacket) -> Option<&mut u64> {
        match packet.is_off_path {
            true => Some(&mut self.bytes_elsewhere),
            false => packet.is_on(self.path).then_some(&mut self.bytes_in_flight),
        }
    }

    /// Abandons packet `number` if it is outstanding, and returns its previous state.
    pub(super) fn abandon(
        &mut self,
        space: SpaceId,
        number: u64,
    ) -> Result<Option<LedgerPacket>, TransportError> {
        let packet = self.spaces.get_mut(space).abandon(number)?;
        if let Some(packet) = packet.filter(|packet| packet.in_flight) {
            add(&mut self.counts.packets_discarded, 1)?;
            add(&mut self.counts.bytes_discarded, packet.bytes)?;
            self.leave_flight(&packet)?;
        }
        Ok(packet)
    }

    /// Removes the packets of `space`, whose keys were discarded, without a congestion signal (RFC
    /// 9002 §6.4).
    pub(super) fn discard(&mut self, space: SpaceId) -> Result<(), TransportError> {
        let path = self.path;
        for packet in self.spaces.get(space).packets().filter(|packet| packet.in_flight) {
            match packet.state {
                PacketState::Outstanding => {
                    add(&mut self.counts.packets_discarded, 1)?;
                    add(&mut self.counts.bytes_discarded, packet.bytes)?;
                    if packet.is_off_path {
                        subtract(&mut self.bytes_elsewhere, packet.bytes)?;
                    } else if packet.is_on(path) {
                        subtract(&mut self.bytes_in_flight, packet.bytes)?;
                    }
                }
                PacketState::Staged => subtract(&mut self.bytes_staged, packet.bytes)?,
                PacketState::Acknowledged { .. }
                | PacketState::Lost { .. }
                | PacketState::Abandoned
                | PacketState::Skipped => {}
            }
        }
        self.spaces.get_mut(space).discard();
        Ok(())
    }

    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        if self.spaces.iter().all(|(id, it)| id == SpaceId::Application || it.is_discarded()) {
            self.spaces.give_up_handshake();
        } else {
            self.spaces.get_mut(SpaceId::Initial).compact();
            self.spaces.get_mut(SpaceId::Handshake).compact();
        }
        self.spaces.get_mut(SpaceId::Application).compact();
    }

    /// Handles a change of the path: packets sent on other paths no longer count as in flight. They
    /// can still be acknowledged or declared lost, which is not reported to the new path's
    /// controller.
    pub(super) fn start_path(&mut self, generation: u32) -> Result<(), TransportError> {
        if generation <= self.path {
            return Err(broken("the path's generation did not increase"));
        }
        if self.sum_in_flight()? != self.bytes_in_flight {
            return Err(broken("bytes in flight differ from the sum of the packets in flight"));
        }
        self.path = generation;
        self.bytes_in_flight = 0;
        Ok(())
    }

    /// Records that the peer's port changed on the same path. Packets sent so far stay in flight;
    /// if they are lost, the change of their destination is the likely reason.
    pub(super) fn leave_address(&mut self) {
        self.left_address_at = self.next_index();
    }

    /// Returns the bytes in flight on the current path, counted packet by packet.
    pub(super) fn sum_in_flight(&self) -> Result<u64, TransportError> {
        let mut sum = 0;
        for (_, space) in self.spaces.iter() {
            for packet in space.packets() {
                let is_outstanding = packet.state == PacketState::Outstanding;
                if is_outstanding && packet.in_flight && self.is_current(packet) {
                    add(&mut sum, packet.bytes)?;
                }
            }
        }
        Ok(sum)
    }
}
