//! Queues for an exchange's HTTP datagrams between tasks and the shard.

use std::collections::VecDeque;

use bytes::Bytes;
use clearway_http3::DatagramError;

use crate::bridge::{AppState, Effects, WakerSlot};
use crate::datagrams::OVERHEAD;

/// Maximum number of datagram bytes to buffer per exchange and direction; each datagram counts as
/// its payload plus [`OVERHEAD`].
const BUFFER: usize = 256 << 10;

/// Datagrams in one direction of an exchange. When the queue is full, the oldest datagrams are
/// dropped, since the newest are the most likely to be useful.
#[derive(Default)]
pub(super) struct Queue {
    datagrams: VecDeque<Bytes>,
    cost: usize,
    pub(super) dropped: u64,
}

impl Queue {
    pub(super) fn push(&mut self, data: Bytes) {
        self.cost = self.cost.saturating_add(data.len().saturating_add(OVERHEAD as usize));
        self.datagrams.push_back(data);
        while self.cost > BUFFER && self.pop().is_some() {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let data = self.datagrams.pop_front()?;
        self.cost = self.cost.saturating_sub(data.len().saturating_add(OVERHEAD as usize));
        Some(data)
    }
}

/// The datagrams of one exchange.
#[derive(Default)]
pub(super) struct ExchangeDatagrams {
    /// The largest payload that can be sent, as last reported by the shard.
    pub(super) maximum: Option<usize>,
    /// State for exchanges that use datagrams.
    pub(super) used: Option<Box<Used>>,
}

#[derive(Default)]
pub(super) struct Used {
    pub(super) outgoing: Queue,
    pub(super) incoming: Queue,
    /// The task that waits for a datagram.
    pub(super) task: WakerSlot,
    /// Whether a task has rejected a datagram because it is too large for the path.
    pub(super) wants_larger: bool,
    /// The reason why no datagrams can be sent at all.
    pub(super) failed: Option<DatagramError>,
}

impl ExchangeDatagrams {
    pub(super) fn used(&mut self) -> &mut Used {
        self.used.get_or_insert_default()
    }

    /// Queues a received datagram.
    pub(super) fn receive<F: AppState>(&mut self, data: Bytes, effects: &mut Effects<F>) {
        let used = self.used();
        used.incoming.push(data);
        used.task.wake(effects);
    }

    /// Wakes the waiting task, since no more datagrams will arrive.
    pub(super) fn end<F: AppState>(&mut self, effects: &mut Effects<F>) {
        if let Some(used) = &mut self.used {
            used.task.wake(effects);
        }
    }

    /// Removes and returns the next datagram to send.
    pub(super) fn next_outgoing(&mut self) -> Option<Bytes> {
        self.used.as_mut()?.outgoing.pop()
    }

    /// Counts a datagram that the transport did not accept.
    pub(super) fn count_dropped(&mut self) {
        let outgoing = &mut self.used().outgoing;
        outgoing.dropped = outgoing.dropped.saturating_add(1);
    }

    /// Returns whether a task has rejected a datagram that is too large since the last call.
    pub(super) fn take_wants_larger(&mut self) -> bool {
        self.used.as_mut().is_some_and(|used| core::mem::take(&mut used.wants_larger))
    }

    /// Records that no datagrams can be sent because of `error`.
    pub(super) fn fail(&mut self, error: DatagramError) {
        self.used().failed = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_datagrams_are_dropped() {
        let mut queue = Queue::default();
        for number in 0..10_000u32 {
            queue.push(Bytes::copy_from_slice(&number.to_be_bytes()));
        }
        assert!(queue.cost <= BUFFER);
        let kept = queue.datagrams.len() as u64;
        assert_eq!(kept + queue.dropped, 10_000);
        assert_eq!(queue.pop().unwrap(), (queue.dropped as u32).to_be_bytes()[..]);
        while queue.pop().is_some() {}
        assert_eq!(queue.cost, 0);
        // A datagram that is larger than the entire buffer is dropped too.
        queue.push(Bytes::from(vec![0; BUFFER]));
        assert_eq!((queue.datagrams.len(), queue.cost), (0, 0));
    }
}
