//! Tracks an endpoint's sent packets and their fate, based only on observed packets.

use std::collections::VecDeque;

use clearway_transport::SpaceId;
use clearway_units::Timestamp;

/// The number of later packets in the same space after which a lost packet is forgotten; until then
/// it may still arrive.
const LOST_REMEMBERED: usize = 1 << 14;

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::checker) enum Fate {
    Outstanding,
    Delivered,
    Lost,
    /// The packet's keys were discarded.
    Discarded,
    /// The packet number was skipped.
    Skipped,
}

/// A packet sent by an endpoint.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Packet {
    /// The packet's position in send order, across all spaces.
    pub(in crate::checker) index: u64,
    pub(in crate::checker) sent_at: Timestamp,
    /// The time at which the peer received the packet; [`Timestamp::FAR_FUTURE`] before that.
    pub(in crate::checker) arrived_at: Timestamp,
    pub(in crate::checker) bytes: u64,
    /// The path on which the packet was sent.
    pub(in crate::checker) path: u32,
    /// The report before which the packet was declared lost.
    pub(in crate::checker) loss_event: u64,
    pub(in crate::checker) fate: Fate,
    pub(in crate::checker) is_ack_eliciting: bool,
    pub(in crate::checker) is_in_flight: bool,
    /// Whether the packet's loss is not a congestion signal, because it is a path or MTU probe, or
    /// was sent to an address that the peer had left by the time it was lost (RFC 9000 §9.4,
    /// §14.4).
    pub(in crate::checker) is_exempt: bool,
    /// Whether the packet is an MTU probe.
    pub(in crate::checker) is_mtu_probe: bool,
    /// Whether the packet validates a path other than the current one, and counts as in flight
    /// there.
    pub(in crate::checker) is_off_path: bool,
    /// Whether the packet's datagram entered the network with an ECN mark.
    pub(in crate::checker) is_marked: bool,
    /// The number of packets sent earlier in the same space that do not count as in flight.
    pub(in crate::checker) acks_before: u64,
    /// Whether the packet contains more than stream data.
    pub(in crate::checker) concerns_receiver: bool,
}

/// The minimum number of the newest packets in each space that a sender remembers even though they
/// do not count as in flight. It may forget older ones, since nothing depends on their arrival.
const ACKS_REMEMBERED: u64 = 1 << 10;

/// A received packet, according to the records of its apparent sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::checker) enum Arrival {
    /// The packet was never sent.
    Unknown,
    /// The packet was sent.
    Sent,
    /// The packet was sent, is ack-eliciting, and contains only stream data without the end of a
    /// stream.
    Data,
}

impl Packet {
    const SKIPPED: Self = Self {
        index: 0,
        sent_at: Timestamp::ORIGIN,
        arrived_at: Timestamp::FAR_FUTURE,
        bytes: 0,
        path: 0,
        loss_event: 0,
        fate: Fate::Skipped,
        is_ack_eliciting: false,
        is_in_flight: false,
        is_exempt: false,
        is_mtu_probe: false,
        is_off_path: false,
        is_marked: false,
        acks_before: 0,
        concerns_receiver: true,
    };

    /// Returns whether the packet's loss is a congestion signal on path `path`.
    pub(in crate::checker) fn counts(&self, path: u32) -> bool {
        self.is_in_flight && !self.is_exempt && self.is_on(path)
    }

    /// Returns whether the packet was sent on path `path`, which was current at that time.
    pub(in crate::checker) fn is_on(&self, path: u32) -> bool {
        !self.is_off_path && self.path == path
    }

    /// Returns whether the current path's probe timer waits for this packet's acknowledgment. Path
    /// validation has a separate timer.
    fn arms_timer(&self) -> bool {
        self.is_ack_eliciting && !self.is_off_path
    }

    /// Returns whether the sender may have forgotten this packet, after sending `acks_sent` packets
    /// that do not count as in flight.
    pub(in crate::checker) fn is_forgotten(&self, acks_sent: u64) -> bool {
        !self.is_in_flight && acks_sent - self.acks_before > ACKS_REMEMBERED
    }
}

/// One packet number space: a ring without gaps.
#[derive(Debug, Default)]
struct Space {
    packets: VecDeque<Packet>,
    /// The packet number of the ring's first packet.
    base: u64,
    /// The lowest packet number that may be outstanding.
    first_outstanding: u64,
    /// The numbers of lost packets, in ascending order.
    lost: VecDeque<u64>,
    ack_eliciting_outstanding: u64,
    /// The number of packets that do not count as in flight.
    acks_sent: u64,
    is_discarded: bool,
    /// The latest delivered packet in send order, even if it has been forgotten.
    last_delivered: Option<u64>,
    /// The largest acknowledged packet number.
    largest_acknowledged: Option<u64>,
}

impl Space {
    fn end(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    fn get(&self, number: u64) -> Option<&Packet> {
        self.packets.get(number.checked_sub(self.base)? as usize)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Packet> {
        self.packets.get_mut(number.checked_sub(self.base)? as usize)
    }

    /// Returns how many packets after `number` were sent, up to and including the newest
    /// acknowledged one, but at most `enough`. Skipped packet numbers do not count.
    fn overtaken_by(&self, number: u64, enough: u64) -> u64 {
        let largest = self.largest_acknowledged.unwrap_or(0);
        let later = (number + 1..=largest).filter_map(|number| self.get(number));
        later.filter(|packet| packet.fate != Fate::Skipped).take(enough as usize).count() as u64
    }

    /// Advances past settled packets, and drops records that are no longer needed.
    fn settle(&mut self) {
        while self.get(self.first_outstanding).is_some_and(|p| p.fate != Fate::Outstanding) {
            self.first_outstanding += 1;
        }
        while let Some(oldest) = self.packets.front() {
            let is_settled = match oldest.fate {
                Fate::Outstanding => false,
                Fate::Lost => self.packets.len() > LOST_REMEMBERED,
                Fate::Delivered | Fate::Discarded | Fate::Skipped => true,
            };
            if !is_settled {
                break;
            }
            if self.lost.front() == Some(&self.base) {
                self.lost.pop_front();
            }
            self.packets.pop_front();
            self.base += 1;
        }
        self.first_outstanding = self.first_outstanding.max(self.base);
    }
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Lost {
    pub(in crate::checker) packet: Packet,
    /// The number of packets in the same space that were sent after this packet, up to the newest
    /// acknowledged one; counting stops when a higher count would not matter.
    pub(in crate::checker) overtaken_by: u64,
}

/// Bytes that count as in flight, by fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::checker) struct Totals {
    pub(in crate::checker) sent: u64,
    /// Delivered bytes, including those that had been declared lost.
    pub(in crate::checker) delivered: u64,
    pub(in crate::checker) lost: u64,
    /// Bytes that were declared lost but delivered after all.
    pub(in crate::checker) spurious: u64,
    pub(in crate::checker) discarded: u64,
    pub(in crate::checker) outstanding: u64,
}

/// All packets that an endpoint has sent.
#[derive(Debug, Default)]
pub(in crate::checker) struct Ledger {
    spaces: [Space; 3],
    /// Bytes in flight on the current path.
    in_flight: u64,
    path: u32,
    /// The position in send order before which packets were sent to an address that the peer has
    /// left.
    left_address_at: u64,
    next_index: u64,
    totals: Totals,
}

impl Ledger {
    fn space_mut(&mut self, space: SpaceId) -> &mut Space {
        &mut self.spaces[space as usize]
    }

    /// Returns the bytes in flight on the current path, called F in the properties.
    pub(in crate::checker) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(in crate::checker) fn path(&self) -> u32 {
        self.path
    }

    /// Returns the next packet's position in send order.
    pub(in crate::checker) fn next_index(&self) -> u64 {
        self.next_index
    }

    pub(in crate::checker) fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns whether an ack-eliciting packet is unacknowledged.
    pub(in crate::checker) fn awaits_acknowledgement(&self) -> bool {
        self.spaces.iter().any(|space| space.ack_eliciting_outstanding > 0)
    }

    /// Returns whether an ack-eliciting packet of `space` is unacknowledged.
    pub(in crate::checker) fn awaits_acknowledgement_in(&self, space: SpaceId) -> bool {
        self.spaces[space as usize].ack_eliciting_outstanding > 0
    }

    /// Returns whether a packet of `space` was ever acknowledged.
    pub(in crate::checker) fn was_acknowledged_in(&self, space: SpaceId) -> bool {
        self.spaces[space as usize].largest_acknowledged.is_some()
    }

    /// Returns the position in send order of the latest delivered handshake packet.
    pub(in crate::checker) fn last_of_handshake(&self) -> Option<u64> {
        let [initial, handshake, _] = &self.spaces;
        initial.last_delivered.max(handshake.last_delivered)
    }

    /// Returns all packets that are remembered and were actually sent, in no particular order.
    pub(in crate::checker) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let all = self.spaces.iter().flat_map(|space| &space.packets);
        all.filter(|packet| packet.fate != Fate::Skipped)
    }

    /// Records that packet `number` was sent. Sets its index, path and fate.
    ///
    /// # Errors
    /// Returns an error if the packet number was used before.
    pub(in crate::checker) fn send(
        &mut self,
        space: SpaceId,
        number: u64,
        packet: Packet,
    ) -> Result<(), String> {
        let (index, path) = (self.next_index, self.path);
        let ring = self.space_mut(space);
        let Some(skipped) = number.checked_sub(ring.end()) else {
            return Err(format!("packet number {number} was used twice in {space:?}"));
        };
        for _ in 0..skipped {
            ring.packets.push_back(Packet::SKIPPED);
        }
        let acks_before = ring.acks_sent;
        ring.acks_sent += u64::from(!packet.is_in_flight);
        let fate = Fate::Outstanding;
        ring.packets.push_back(Packet { index, path, fate, acks_before, ..packet });
        ring.ack_eliciting_outstanding += u64::from(packet.arms_timer());
        self.next_index += 1;
        if packet.is_in_flight {
            if !packet.is_off_path {
                self.in_flight += packet.bytes;
            }
            self.totals.sent += packet.bytes;
            self.totals.outstanding += packet.bytes;
        }
        Ok(())
    }

    /// Returns how many packets that do not count as in flight were sent in `space`.
    pub(in crate::checker) fn acks_sent(&self, space: SpaceId) -> u64 {
        self.spaces[space as usize].acks_sent
    }

    /// Records that the datagram with packet `number` entered the network with an ECN mark. Returns
    /// the packet's position in send order.
    pub(in crate::checker) fn mark(&mut self, space: SpaceId, number: u64) -> Option<u64> {
        let packet = self.space_mut(space).get_mut(number)?;
        packet.is_marked = true;
        Some(packet.index)
    }

    /// Returns how many marked packets on the current path whose loss counts have neither arrived
    /// nor been discarded.
    pub(in crate::checker) fn marked_without_outcome(&self) -> u64 {
        let path = self.path;
        let is_open = |packet: &&Packet| {
            packet.is_marked
                && packet.counts(path)
                && matches!(packet.fate, Fate::Outstanding | Fate::Lost)
        };
        self.packets().filter(is_open).count() as u64
    }

    /// Returns the largest acknowledged packet number in `space`.
    pub(in crate::checker) fn largest_acknowledged(&self, space: SpaceId) -> Option<u64> {
        self.spaces[space as usize].largest_acknowledged
    }

    /// Records that the peer received packet `number`.
    pub(in crate::checker) fn arrive(
        &mut self,
        space: SpaceId,
        number: u64,
        now: Timestamp,
    ) -> Arrival {
        let ring = self.space_mut(space);
        let base = ring.base;
        match ring.get_mut(number) {
            Some(packet) if packet.fate != Fate::Skipped => {
                packet.arrived_at = packet.arrived_at.min(now);
                if packet.concerns_receiver { Arrival::Sent } else { Arrival::Data }
            }
            None if number < base => Arrival::Sent,
            _ => Arrival::Unknown,
        }
    }

    /// Acknowledges the packets from `first` up to `last`. Calls `visit` for each packet whose
    /// state changes, before the change.
    ///
    /// # Errors
    /// Returns an error if one of the packets was never sent.
    pub(in crate::checker) fn acknowledge(
        &mut self,
        space: SpaceId,
        first: u64,
        last: u64,
        mut visit: impl FnMut(u64, &Packet),
    ) -> Result<(), String> {
        let path = self.path;
        let ring = &mut self.spaces[space as usize];
        if ring.is_discarded {
            return Ok(());
        }
        if last >= ring.end() {
            return Err(format!("packet {last} of {space:?} was acknowledged but never sent"));
        }
        let from = ring.lost.partition_point(|number| *number < first);
        ring.largest_acknowledged = ring.largest_acknowledged.max(Some(last));
        let mut revived = false;
        for position in from..ring.lost.len() {
            let number = ring.lost[position];
            if number > last {
                break;
            }
            let Some(packet) = ring.get_mut(number) else { continue };
            visit(number, packet);
            packet.fate = Fate::Delivered;
            if packet.is_in_flight {
                let bytes = packet.bytes;
                self.totals.delivered += bytes;
                self.totals.spurious += bytes;
            }
            revived = true;
        }
        if revived {
            ring.lost.retain(|number| !(first..=last).contains(number));
        }
        for number in first.max(ring.first_outstanding)..=last {
            let Some(packet) = ring.get_mut(number) else { continue };
            match packet.fate {
                Fate::Outstanding => {
                    visit(number, packet);
                    packet.fate = Fate::Delivered;
                    let packet = *packet;
                    ring.last_delivered = ring.last_delivered.max(Some(packet.index));
                    ring.ack_eliciting_outstanding -= u64::from(packet.arms_timer());
                    if packet.is_in_flight {
                        self.totals.delivered += packet.bytes;
                        self.totals.outstanding -= packet.bytes;
                        if packet.is_on(path) {
                            self.in_flight -= packet.bytes;
                        }
                    }
                }
                Fate::Skipped => {
                    return Err(format!(
                        "packet {number} of {space:?} was acknowledged, but its number was skipped"
                    ));
                }
                Fate::Delivered | Fate::Lost | Fate::Discarded => {}
            }
        }
        ring.settle();
        Ok(())
    }

    /// Records that the loss of packet `number` is not a congestion signal.
    pub(in crate::checker) fn exempt(&mut self, space: SpaceId, number: u64) {
        if let Some(packet) = self.space_mut(space).get_mut(number) {
            packet.is_exempt = true;
        }
    }

    /// Records that packet `number` was declared lost, in report number `event`. Counts the packets
    /// that overtook it, up to `enough`.
    ///
    /// # Errors
    /// Returns an error if the packet was not outstanding.
    pub(in crate::checker) fn lose(
        &mut self,
        space: SpaceId,
        number: u64,
        event: u64,
        enough: u64,
    ) -> Result<Lost, String> {
        let (path, left_address_at) = (self.path, self.left_address_at);
        let ring = self.space_mut(space);
        let overtaken_by = ring.overtaken_by(number, enough);
        let Some(packet) = ring.get_mut(number).filter(|p| p.fate == Fate::Outstanding) else {
            return Err(format!(
                "packet {number} of {space:?} was declared lost but was not outstanding"
            ));
        };
        packet.is_exempt |= packet.index < left_address_at;
        packet.fate = Fate::Lost;
        packet.loss_event = event;
        let packet = *packet;
        let position = ring.lost.partition_point(|lost| *lost < number);
        ring.lost.insert(position, number);
        ring.ack_eliciting_outstanding -= u64::from(packet.arms_timer());
        ring.settle();
        if packet.is_in_flight {
            self.totals.lost += packet.bytes;
            self.totals.outstanding -= packet.bytes;
            if packet.is_on(path) {
                self.in_flight -= packet.bytes;
            }
        }
        Ok(Lost { packet, overtaken_by })
    }

    /// Discards the keys of `space`, so packets sent with them no longer count.
    pub(in crate::checker) fn discard(&mut self, space: SpaceId) {
        self.abandon(space);
        self.spaces[space as usize].is_discarded = true;
    }

    /// Records that outstanding packets in `space` will never be acknowledged; later packets may
    /// be.
    pub(in crate::checker) fn abandon(&mut self, space: SpaceId) {
        let path = self.path;
        let ring = &mut self.spaces[space as usize];
        for packet in ring.packets.iter_mut().filter(|p| p.fate == Fate::Outstanding) {
            packet.fate = Fate::Discarded;
            if packet.is_in_flight {
                self.totals.discarded += packet.bytes;
                self.totals.outstanding -= packet.bytes;
                if packet.is_on(path) {
                    self.in_flight -= packet.bytes;
                }
            }
        }
        ring.ack_eliciting_outstanding = 0;
    }

    /// Starts a new path, which later packets use.
    pub(in crate::checker) fn start_path(&mut self) {
        self.path += 1;
        self.in_flight = 0;
    }

    /// Records that the peer's address has changed.
    pub(in crate::checker) fn leave_address(&mut self) {
        self.left_address_at = self.next_index;
    }

    /// Returns whether every sent packet is accounted for exactly once.
    pub(in crate::checker) fn is_balanced(&self) -> bool {
        let Totals { sent, delivered, lost, spurious, discarded, outstanding } = self.totals;
        sent == delivered + (lost - spurious) + discarded + outstanding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId::Application;

    fn packet(bytes: u64) -> Packet {
        Packet { bytes, is_ack_eliciting: true, is_in_flight: true, ..Packet::SKIPPED }
    }

    fn ledger(numbers: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        for number in numbers {
            ledger.send(SPACE, *number, packet(100)).unwrap();
        }
        ledger
    }

    fn acknowledged(
        ledger: &mut Ledger,
        first: u64,
        last: u64,
    ) -> Result<Vec<(u64, Fate)>, String> {
        let mut seen = Vec::new();
        ledger
            .acknowledge(SPACE, first, last, |number, packet| seen.push((number, packet.fate)))?;
        Ok(seen)
    }

    #[test]
    fn every_packet_leaves_once() {
        let mut ledger = ledger(&[0, 1, 2, 4, 5]);
        assert_eq!(ledger.in_flight(), 500);
        assert_eq!(acknowledged(&mut ledger, 1, 2).unwrap().len(), 2);
        assert_eq!(acknowledged(&mut ledger, 0, 2).unwrap(), [(0, Fate::Outstanding)]);
        assert!(ledger.lose(SPACE, 1, 0, 3).is_err());
        ledger.lose(SPACE, 4, 1, 3).unwrap();
        assert!(ledger.lose(SPACE, 4, 1, 3).is_err());
        assert_eq!(ledger.in_flight(), 100);
        assert_eq!(
            acknowledged(&mut ledger, 4, 5).unwrap(),
            [(4, Fate::Lost), (5, Fate::Outstanding)]
        );
        assert_eq!(ledger.in_flight(), 0);
        assert!(ledger.is_balanced());
        assert!(!ledger.awaits_acknowledgement());
    }

    #[test]
    fn packets_that_overtook_a_lost_one_are_counted() {
        // Packet number 3 was skipped.
        let mut ledger = ledger(&[0, 1, 2, 4, 5, 6]);
        acknowledged(&mut ledger, 5, 5).unwrap();
        assert_eq!(ledger.lose(SPACE, 2, 0, 3).unwrap().overtaken_by, 2);
        assert_eq!(ledger.lose(SPACE, 0, 0, 3).unwrap().overtaken_by, 3);
        assert_eq!(ledger.lose(SPACE, 6, 0, 3).unwrap().overtaken_by, 0);
    }

    #[test]
    fn what_was_not_sent_cannot_be_acknowledged() {
        let mut ledger = ledger(&[0, 1, 3]);
        assert!(acknowledged(&mut ledger, 3, 4).is_err());
        assert!(acknowledged(&mut ledger, 1, 3).is_err(), "2 was left out");
        assert!(ledger.send(SPACE, 3, packet(1)).is_err(), "3 was used");
    }

    #[test]
    fn arrivals_are_of_what_was_sent() {
        let mut ledger = ledger(&[0, 2]);
        let at = Timestamp::from_nanos(5);
        assert_eq!(ledger.arrive(SPACE, 0, at), Arrival::Sent);
        assert_eq!(ledger.arrive(SPACE, 1, at), Arrival::Unknown);
        assert_eq!(ledger.arrive(SPACE, 3, at), Arrival::Unknown);
    }

    #[test]
    fn discarded_and_moved_packets_are_not_in_flight() {
        let mut ledger = ledger(&[0, 1]);
        ledger.send(SpaceId::Initial, 0, packet(50)).unwrap();
        ledger.abandon(SpaceId::Initial);
        assert_eq!(ledger.in_flight(), 200);
        ledger.send(SpaceId::Initial, 1, packet(60)).unwrap();
        assert_eq!(ledger.in_flight(), 260);
        ledger.discard(SpaceId::Initial);
        assert_eq!(ledger.in_flight(), 200);
        ledger.start_path();
        assert_eq!(ledger.in_flight(), 0);
        ledger.send(SPACE, 2, packet(70)).unwrap();
        acknowledged(&mut ledger, 0, 1).unwrap();
        assert_eq!(ledger.in_flight(), 70);
        assert!(ledger.is_balanced());
    }
}
