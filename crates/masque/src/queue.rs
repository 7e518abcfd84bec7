//! Bounded queues of datagrams.

use std::collections::VecDeque;

use bytes::Bytes;

/// The bounds of a queue of datagrams. Once one of them is reached, the oldest datagrams are
/// dropped.
///
/// Queues only bridge the time until a tunnel is open or its connection may send: RFC 9298 §6 and
/// RFC 9484 §10 advise against queueing for any other purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// Maximum number of datagrams.
    pub datagrams: usize,
    /// Maximum total length of the datagrams in bytes.
    pub bytes: usize,
}

impl Default for QueueLimits {
    /// 64 datagrams and 96 KiB: twice the initial congestion window of a QUIC connection for
    /// 1500-byte datagrams, and enough for one datagram of the largest size.
    fn default() -> Self {
        Self { datagrams: 64, bytes: 96 * 1024 }
    }
}

/// A queue of datagrams that drops the oldest ones when it is full.
#[derive(Clone, Debug)]
pub(crate) struct DatagramQueue {
    limits: QueueLimits,
    datagrams: VecDeque<Bytes>,
    bytes: usize,
}

impl DatagramQueue {
    pub(crate) const fn new(limits: QueueLimits) -> Self {
        Self { limits, datagrams: VecDeque::new(), bytes: 0 }
    }

    /// Appends a datagram. Returns how many were dropped, including this one if it cannot fit.
    pub(crate) fn push(&mut self, datagram: Bytes) -> u64 {
        if datagram.len() > self.limits.bytes || self.limits.datagrams == 0 {
            return 1;
        }
        let mut dropped = 0u64;
        while self.datagrams.len() >= self.limits.datagrams
            || self.bytes.saturating_add(datagram.len()) > self.limits.bytes
        {
            if self.pop().is_none() {
                break;
            }
            dropped = dropped.saturating_add(1);
        }
        self.bytes = self.bytes.saturating_add(datagram.len());
        self.datagrams.push_back(datagram);
        dropped
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let datagram = self.datagrams.pop_front()?;
        self.bytes = self.bytes.saturating_sub(datagram.len());
        Some(datagram)
    }

    pub(crate) fn len(&self) -> usize {
        self.datagrams.len()
    }

    pub(crate) fn clear(&mut self) {
        self.datagrams.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_by_number_and_by_length() {
        let mut queue = DatagramQueue::new(QueueLimits { datagrams: 2, bytes: 10 });
        let datagram = |length: u8| Bytes::from(vec![length; length.into()]);
        assert_eq!([1, 2, 3].map(|length| queue.push(datagram(length))), [0, 0, 1]);
        assert_eq!((queue.len(), queue.bytes), (2, 5));
        assert_eq!(queue.push(datagram(8)), 2);
        assert_eq!(queue.push(datagram(11)), 1);
        assert_eq!(queue.push(datagram(10)), 1);
        assert_eq!(queue.pop().map(|datagram| datagram.len()), Some(10));
        assert_eq!((queue.pop(), queue.bytes), (None, 0));
        let mut none = DatagramQueue::new(QueueLimits { datagrams: 0, bytes: 10 });
        assert_eq!(none.push(datagram(1)), 1);
        queue.push(datagram(1));
        queue.clear();
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }
}
