use std::collections::VecDeque;

use super::QueuedDatagram;

/// A first-in, first-out queue of datagrams with ascending numbers.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    places: VecDeque<FifoSlot>,
    packets: usize,
    bytes: u64,
}

#[derive(Debug)]
struct FifoSlot {
    waiting: QueuedDatagram,
    /// Whether the slot's datagram was removed from the middle of the queue. The head of the queue
    /// is never an empty slot.
    is_empty: bool,
}

impl Fifo {
    pub(super) const fn packets(&self) -> usize {
        self.packets
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn front(&self) -> Option<&QueuedDatagram> {
        self.places.front().map(|place| &place.waiting)
    }

    pub(super) fn push(&mut self, waiting: QueuedDatagram) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(waiting.bytes);
        self.places.push_back(FifoSlot { waiting, is_empty: false });
    }

    pub(super) fn pop(&mut self) -> Option<QueuedDatagram> {
        let place = self.places.pop_front()?;
        self.forget(&place.waiting);
        self.trim();
        Some(place.waiting)
    }

    /// Removes datagram `number`, if it is in the queue.
    pub(super) fn remove(&mut self, number: u64) -> Option<QueuedDatagram> {
        let index = self.places.binary_search_by_key(&number, |place| place.waiting.number).ok()?;
        let place = self.places.get_mut(index).filter(|place| !place.is_empty)?;
        place.is_empty = true;
        let waiting = place.waiting;
        self.forget(&waiting);
        self.trim();
        Some(waiting)
    }

    fn forget(&mut self, waiting: &QueuedDatagram) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(waiting.bytes);
    }

    fn trim(&mut self) {
        while self.places.front().is_some_and(|place| place.is_empty) {
            self.places.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use clearway_units::Timestamp;

    use super::*;
    use crate::Ecn;

    fn fifo(count: u64) -> Fifo {
        let mut fifo = Fifo::default();
        for number in 0..count {
            let entered = Timestamp::ORIGIN;
            fifo.push(QueuedDatagram { slot: 0, number, bytes: 10, entered, ecn: Ecn::NotEct });
        }
        fifo
    }

    fn numbers(fifo: &mut Fifo) -> Vec<u64> {
        core::iter::from_fn(|| fifo.pop()).map(|waiting| waiting.number).collect()
    }

    #[test]
    fn a_removed_datagram_leaves_no_trace() {
        let mut fifo = fifo(6);
        assert_eq!(fifo.remove(1).map(|waiting| waiting.number), Some(1));
        assert_eq!(fifo.remove(1), None);
        assert!(fifo.remove(0).is_some());
        assert_eq!(fifo.front().map(|waiting| waiting.number), Some(2));
        assert!(fifo.remove(4).is_some());
        assert_eq!(fifo.remove(9), None);
        assert_eq!((fifo.packets(), fifo.bytes()), (3, 30));
        assert_eq!(numbers(&mut fifo), [2, 3, 5]);
        assert_eq!((fifo.packets(), fifo.bytes()), (0, 0));
        assert_eq!(fifo.front(), None);
    }

    #[test]
    fn an_empty_tail_is_no_head() {
        let mut fifo = fifo(3);
        assert!(fifo.remove(2).is_some());
        assert!(fifo.remove(1).is_some());
        assert_eq!(numbers(&mut fifo), [0]);
        assert!(fifo.front().is_none());
    }
}
