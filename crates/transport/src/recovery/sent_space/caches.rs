//! Consistency checks of a space's indexes against its packets.

use super::super::packet::{LedgerPacket, PacketState};
use super::SentSpace;

impl SentSpace {
    /// Checks that every count, index and boundary agrees with the packets.
    ///
    /// # Panics
    /// If a value does not agree, which is a bug in this crate.
    pub(in super::super) fn check_caches(&self) {
        let outstanding =
            || self.packets.iter().filter(|packet| packet.state == PacketState::Outstanding);
        let count = |counts: fn(&LedgerPacket) -> bool| {
            outstanding().filter(|packet| counts(packet)).count() as u64
        };
        let in_flight = count(|packet| packet.in_flight && !packet.is_off_path);
        assert_eq!(self.in_flight_outstanding, in_flight, "packets in flight");
        assert_eq!(self.other_outstanding, count(|_| true).saturating_sub(in_flight), "others");
        let awaited = count(LedgerPacket::arms_timer);
        assert_eq!(self.ack_eliciting_outstanding, awaited, "packets that arm the timer");
        let lost = self.packets.iter().filter(|packet| packet.is_lost());
        assert!(lost.map(|packet| packet.number).eq(self.lost.iter().copied()), "lost packets");
        let mut acks = outstanding().filter(|packet| !packet.in_flight);
        assert!(acks.all(|packet| self.acks.contains(&packet.number)), "packets of ACK frames");
        assert!(self.acks.iter().is_sorted() && self.skipped.iter().is_sorted());
        self.check_order();
        self.check_tokens();
    }

    fn check_order(&self) {
        let is_ascending =
            self.packets.iter().is_sorted_by(|before, after| before.number < after.number);
        assert!(is_ascending, "packets are in the order of their numbers");
        for packet in &self.packets {
            let LedgerPacket { number, state, .. } = *packet;
            let is_unsettled = matches!(state, PacketState::Staged | PacketState::Outstanding);
            assert!(number < self.next, "{number} was assigned");
            assert!(!is_unsettled || number >= self.first_outstanding, "{number} is not settled");
            let is_unsent = matches!(state, PacketState::Staged | PacketState::Skipped);
            assert!(is_unsent || number < self.sent_end, "{number} was sent");
            if let PacketState::Acknowledged { settled_to } = state {
                let largest = self.largest_acknowledged.map(clearway_wire::PacketNumber::get);
                assert!(largest >= Some(number), "{number} was acknowledged");
                self.check_settled(number, settled_to);
            }
        }
    }

    /// Checks that no packet from `from` to `to` (exclusive) awaits an acknowledgment.
    fn check_settled(&self, from: u64, to: u64) {
        let within = self.packets.iter().filter(|packet| (from..to).contains(&packet.number));
        for packet in within {
            let state = packet.state;
            let is_settled = matches!(
                state,
                PacketState::Acknowledged { .. }
                    | PacketState::Abandoned
                    | PacketState::Lost { .. }
            );
            assert!(
                is_settled,
                "the skip from {from} to {to} misses packet {}, which is {state:?}",
                packet.number
            );
        }
    }

    /// Checks that the packets' tokens are contiguous.
    fn check_tokens(&self) {
        let mut next = self.token_base;
        for packet in self.packets.iter().filter(|packet| packet.token_count > 0) {
            assert_eq!(packet.first_token, next, "the first token of packet {}", packet.number);
            next = next.saturating_add(u64::from(packet.token_count));
        }
        assert_eq!(next, self.next_token(), "the end of the token range");
    }
}
