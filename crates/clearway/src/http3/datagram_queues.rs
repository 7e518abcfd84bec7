//! Queues for an exchange's HTTP datagrams between tasks and the shard.

use std::collections::VecDeque;

use bytes::Bytes;
use clearway_http3::DatagramError;

use crate::bridge::{AppState, Effects, Held, Total, WakerSlot};
use crate::datagrams::OVERHEAD;

/// Maximum number of datagram bytes to buffer per exchange and direction; each datagram counts as
/// its payload plus [`OVERHEAD`]. The senders inside of a tunnel send bursts as large as their
/// congestion windows, which must fit: 2 MiB is the bandwidth-delay product of 160 Mbit/s and 100 ms.
const BUFFER: usize = 2 << 20;

/// Maximum number of datagram bytes to buffer for all exchanges of a connection, in both directions
/// together. A peer that sends datagrams for many requests that nobody reads can use no more.
const CONNECTION_BUFFER: usize = 8 << 20;

/// Datagrams in one direction of an exchange. When the queue is full, or those of the connection
/// are, its oldest datagrams are dropped, since the newest are the most likely to be useful.
pub(super) struct Queue {
    datagrams: VecDeque<Bytes>,
    held: Held,
    /// Number of bytes in all queues of the connection.
    total: Total,
    pub(super) dropped: u64,
}

impl Queue {
    /// Creates an empty queue whose bytes count toward `total`.
    fn new(total: &Total) -> Self {
        let (datagrams, held) = (VecDeque::new(), Held::counted(total));
        Self { datagrams, held, total: total.clone(), dropped: 0 }
    }

    pub(super) fn push(&mut self, data: Bytes) {
        self.held.add(cost_of(&data));
        self.datagrams.push_back(data);
        while self.is_over_limit() && self.pop().is_some() {
            self.count_dropped();
        }
    }

    fn is_over_limit(&self) -> bool {
        self.held.bytes() > BUFFER || self.total.bytes() > CONNECTION_BUFFER
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let data = self.datagrams.pop_front()?;
        self.held.remove(cost_of(&data));
        Some(data)
    }

    /// Moves at most `limit` of the oldest datagrams to the back of `taken`. Returns their number.
    pub(super) fn take(&mut self, taken: &mut VecDeque<Bytes>, limit: usize) -> usize {
        let count = self.datagrams.len().min(limit);
        let cost = self.datagrams.iter().take(count).map(cost_of).fold(0, usize::saturating_add);
        self.held.remove(cost);
        taken.extend(self.datagrams.drain(..count));
        count
    }

    pub(super) fn count_dropped(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }
}

fn cost_of(data: &Bytes) -> usize {
    data.len().saturating_add(OVERHEAD as usize)
}

/// The datagrams of one exchange.
#[derive(Default)]
pub(super) struct ExchangeDatagrams {
    /// The largest payload that can be sent, as last reported by the shard.
    pub(super) maximum: Option<usize>,
    /// State for exchanges that use datagrams.
    pub(super) used: Option<Box<Used>>,
}

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

impl Used {
    fn new(total: &Total) -> Self {
        Self {
            outgoing: Queue::new(total),
            incoming: Queue::new(total),
            task: WakerSlot::default(),
            wants_larger: false,
            failed: None,
        }
    }
}

impl ExchangeDatagrams {
    /// Returns the state of an exchange that uses datagrams. The queued bytes count toward `total`.
    pub(super) fn used(&mut self, total: &Total) -> &mut Used {
        self.used.get_or_insert_with(|| Box::new(Used::new(total)))
    }

    /// Queues a received datagram.
    pub(super) fn receive<F: AppState>(
        &mut self,
        data: Bytes,
        total: &Total,
        effects: &mut Effects<F>,
    ) {
        let used = self.used(total);
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
        if let Some(used) = &mut self.used {
            used.outgoing.count_dropped();
        }
    }

    /// Returns whether a task has rejected a datagram that is too large since the last call.
    pub(super) fn take_wants_larger(&mut self) -> bool {
        self.used.as_mut().is_some_and(|used| core::mem::take(&mut used.wants_larger))
    }

    /// Records that no datagrams can be sent because of `error`.
    pub(super) fn fail(&mut self, error: DatagramError) {
        if let Some(used) = &mut self.used {
            used.failed = Some(error);
        }
    }

    /// Frees the unused capacity of the queues, since the connection is idle.
    pub(super) fn compact(&mut self) {
        if let Some(used) = &mut self.used {
            used.outgoing.datagrams.shrink_to_fit();
            used.incoming.datagrams.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_datagrams_are_dropped() {
        let total = Total::default();
        let mut queue = Queue::new(&total);
        for number in 0..100_000u32 {
            queue.push(Bytes::copy_from_slice(&number.to_be_bytes()));
        }
        assert!(queue.held.bytes() <= BUFFER);
        assert_eq!(total.bytes(), queue.held.bytes());
        let kept = queue.datagrams.len() as u64;
        assert_eq!(kept + queue.dropped, 100_000);
        assert_eq!(queue.pop().unwrap(), (queue.dropped as u32).to_be_bytes()[..]);
        while queue.pop().is_some() {}
        assert_eq!(total.bytes(), 0);
        // A datagram that is larger than the entire buffer is dropped too.
        queue.push(Bytes::from(vec![0; BUFFER]));
        assert_eq!((queue.datagrams.len(), total.bytes()), (0, 0));
    }

    #[test]
    fn the_queues_of_a_connection_are_bounded_together() {
        let total = Total::default();
        let mut queues: Vec<_> = (0..10).map(|_| Queue::new(&total)).collect();
        for queue in &mut queues {
            (0..4).for_each(|_| queue.push(Bytes::from(vec![0; 500_000])));
            assert!(total.bytes() <= CONNECTION_BUFFER);
        }
        let dropped: Vec<_> = queues.iter().map(|queue| queue.dropped).collect();
        assert_eq!(dropped, [0, 0, 0, 0, 4, 4, 4, 4, 4, 4]);
        // A queue that is read makes room for the others.
        drop(queues.remove(0));
        (0..4).for_each(|_| queues[8].push(Bytes::from(vec![0; 500_000])));
        assert_eq!(queues[8].dropped, 4);
    }

    #[test]
    fn a_burst_of_a_congestion_window_fits() {
        // 100 Mbit/s with a round-trip time of 100 ms.
        const WINDOW: usize = 100_000_000 / 8 / 10;
        let mut queue = Queue::new(&Total::default());
        for _ in 0..WINDOW / 1200 {
            queue.push(Bytes::from_static(&[0; 1201]));
        }
        assert_eq!(queue.dropped, 0);
    }

    #[test]
    fn idle_exchanges_keep_no_capacity() {
        let mut datagrams = ExchangeDatagrams::default();
        let used = datagrams.used(&Total::default());
        for queue in [&mut used.outgoing, &mut used.incoming] {
            (0..100).for_each(|_| queue.push(Bytes::new()));
            while queue.pop().is_some() {}
        }
        datagrams.compact();
        let used = datagrams.used.unwrap();
        assert_eq!(
            (used.outgoing.datagrams.capacity(), used.incoming.datagrams.capacity()),
            (0, 0)
        );
    }

    #[test]
    fn batches_are_taken_in_order() {
        let total = Total::default();
        let mut queue = Queue::new(&total);
        (0..5u8).for_each(|number| queue.push(Bytes::from(vec![number; 10])));
        let (all, mut taken) = (total.bytes(), VecDeque::new());
        assert_eq!(queue.take(&mut taken, 3), 3);
        assert_eq!(total.bytes(), all / 5 * 2);
        assert_eq!((queue.take(&mut taken, 3), queue.take(&mut taken, 3)), (2, 0));
        assert!(taken.iter().map(|data| data[0]).eq(0..5));
        queue.push(Bytes::from_static(b"left"));
        drop(queue);
        assert_eq!(total.bytes(), 0);
    }
}
