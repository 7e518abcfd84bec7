//! The queue in front of the bottleneck, and the disciplines that manage it.

mod codel;
mod dual_pi2;
mod fifo;

use clearway_units::Timestamp;

pub use codel::CoDel;
pub use dual_pi2::DualPi2;

use crate::{Ecn, QueueLimit};
use codel::CoDelQueue;
use dual_pi2::DualPi2Queue;
use fifo::Fifo;

/// The discipline that decides which datagram leaves the queue next, and which datagrams are marked
/// or dropped.
///
/// Every discipline drops datagrams that arrive when
/// [`Conditions::queue`](crate::Conditions::queue) is full.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub enum Discipline {
    /// First in, first out, without marking or early drops.
    #[default]
    DropTail,
    /// Controlled Delay (RFC 8289).
    CoDel(CoDel),
    /// The dual queue for classic and low-latency traffic (RFC 9332).
    DualPi2(DualPi2),
}

/// A datagram in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueuedDatagram {
    pub(crate) slot: usize,
    pub(crate) number: u64,
    /// The datagram's size, including the overhead of lower layers.
    pub(crate) bytes: u64,
    pub(crate) entered: Timestamp,
    pub(crate) ecn: Ecn,
}

/// The discipline's decision about the datagram at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueVerdict {
    /// The datagram is put on the wire.
    Send,
    /// The datagram is marked CE and put on the wire.
    Mark,
    /// The datagram is dropped, and the next one is considered.
    Drop,
}

#[derive(Debug)]
pub(crate) struct Queue {
    limit: QueueLimit,
    order: Order,
}

#[derive(Debug)]
enum Order {
    DropTail(Fifo),
    CoDel(CoDelQueue),
    DualPi2(Box<DualPi2Queue>),
}

impl Queue {
    pub(crate) fn new(discipline: Discipline, limit: QueueLimit) -> Self {
        let order = match discipline {
            Discipline::DropTail => Order::DropTail(Fifo::default()),
            Discipline::CoDel(parameters) => Order::CoDel(CoDelQueue::new(parameters)),
            Discipline::DualPi2(parameters) => {
                Order::DualPi2(Box::new(DualPi2Queue::new(parameters)))
            }
        };
        Self { limit, order }
    }

    /// Returns the number of waiting datagrams.
    pub(crate) fn packets(&self) -> usize {
        match &self.order {
            Order::DropTail(fifo) => fifo.packets(),
            Order::CoDel(queue) => queue.fifo.packets(),
            Order::DualPi2(queue) => queue.packets(),
        }
    }

    /// Returns the number of waiting bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.order {
            Order::DropTail(fifo) => fifo.bytes(),
            Order::CoDel(queue) => queue.fifo.bytes(),
            Order::DualPi2(queue) => queue.bytes(),
        }
    }

    /// Returns whether a datagram of `bytes` may be added.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.limit.has_room(self.packets(), self.bytes(), bytes)
    }

    pub(crate) fn push(&mut self, now: Timestamp, waiting: QueuedDatagram) {
        match &mut self.order {
            Order::DropTail(fifo) => fifo.push(waiting),
            Order::CoDel(queue) => queue.fifo.push(waiting),
            Order::DualPi2(queue) => queue.push(now, waiting),
        }
    }

    /// Removes and returns the datagram to be served at `now`, with the discipline's verdict. The
    /// caller calls this again after [`QueueVerdict::Drop`].
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<(QueuedDatagram, QueueVerdict)> {
        match &mut self.order {
            Order::DropTail(fifo) => fifo.pop().map(|waiting| (waiting, QueueVerdict::Send)),
            Order::CoDel(queue) => queue.pop(now),
            Order::DualPi2(queue) => queue.pop(now),
        }
    }

    /// Returns the lowest datagram number in the queue.
    pub(crate) fn oldest(&self) -> Option<u64> {
        match &self.order {
            Order::DropTail(fifo) => fifo.front().map(|waiting| waiting.number),
            Order::CoDel(queue) => queue.fifo.front().map(|waiting| waiting.number),
            Order::DualPi2(queue) => queue.oldest(),
        }
    }

    /// Removes datagram `number`, if it is in the queue.
    pub(crate) fn remove(&mut self, number: u64) -> Option<QueuedDatagram> {
        match &mut self.order {
            Order::DropTail(fifo) => fifo.remove(number),
            Order::CoDel(queue) => queue.fifo.remove(number),
            Order::DualPi2(queue) => queue.remove(number),
        }
    }
}
