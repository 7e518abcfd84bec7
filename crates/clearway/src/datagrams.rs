//! Unreliable datagrams between tasks and the transport (RFC 9221).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use clearway_transport::{
    self as transport, Connection, DatagramId, DatagramOutcome, DatagramStatistics,
};

use crate::bridge::{AppState, Effects, Signal};

/// Number of bytes charged for a queued datagram in addition to its payload; the same as in the
/// transport.
pub(crate) const OVERHEAD: u64 = 64;
/// Maximum number of datagram outcomes to queue for a task; when it is exceeded, the oldest are
/// dropped.
const MAX_OUTCOMES: usize = 1 << 14;
/// Maximum number of sent datagrams whose transport ID is remembered until they are acknowledged.
const MAX_REMEMBERED: usize = 1 << 15;

/// Limits of a datagram queue. Zero until the connection is established.
#[derive(Clone, Copy, Default)]
struct Limits {
    /// Limit on the sum of the queued payloads, plus [`OVERHEAD`] for each datagram.
    bytes: u64,
    datagrams: usize,
}

/// A queue of datagrams.
struct Queue<T> {
    queue: VecDeque<(T, Bytes)>,
    cost: u64,
    limits: Limits,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), cost: 0, limits: Limits::default() }
    }
}

impl<T> Queue<T> {
    fn has_room_for(&self, data: &Bytes) -> bool {
        self.queue.len() < self.limits.datagrams
            && self.cost + data.len() as u64 + OVERHEAD <= self.limits.bytes
    }

    fn push(&mut self, tag: T, data: Bytes) {
        self.cost += data.len() as u64 + OVERHEAD;
        self.queue.push_back((tag, data));
    }

    fn pop(&mut self) -> Option<(T, Bytes)> {
        let (tag, data) = self.queue.pop_front()?;
        self.cost -= data.len() as u64 + OVERHEAD;
        Some((tag, data))
    }
}

/// The unreliable datagrams of a connection, as tasks and the shard see them.
#[derive(Default)]
pub(crate) struct Datagrams {
    /// Datagrams that tasks have sent but the transport has not accepted yet.
    outgoing: Queue<DatagramId>,
    incoming: Queue<()>,
    next_id: u64,
    /// Free space in the transport's queue, in bytes of payload, as of the last batch.
    transport_room: u64,
    drops_oldest: bool,
    notices: bool,
    /// Whether this endpoint accepts datagrams.
    are_accepted: bool,
    /// Size in bytes of the smallest payload that a task is waiting to send.
    awaited_room: Option<u64>,
    /// The largest allowed datagram payload in bytes, as of the last batch.
    pub(crate) max_payload: Option<usize>,
    /// Whether a task has rejected a datagram because it is too large for the path.
    pub(crate) wants_larger: bool,
    outcomes: VecDeque<(DatagramId, DatagramOutcome)>,
    /// Maps transport IDs to the tasks' datagram IDs, if outcomes are reported.
    known: BTreeMap<DatagramId, DatagramId>,
    /// The transport's datagram counters, as of the last batch.
    statistics: DatagramStatistics,
    /// Datagrams dropped from these queues: received datagrams that were not read in time, and
    /// outgoing ones that, before the transport accepted them, were replaced by newer ones or
    /// became too large because the path MTU decreased.
    dropped: DatagramStatistics,
}

impl Datagrams {
    /// Queues a task's datagram. Returns its ID, or `None` if there is no room.
    pub(crate) fn send<F: AppState>(
        &mut self,
        data: Bytes,
        effects: &mut Effects<F>,
    ) -> Option<DatagramId> {
        if !self.can_ever_hold(data.len() as u64) {
            return None;
        }
        while self.drops_oldest && !self.outgoing.has_room_for(&data) {
            let Some((id, _)) = self.outgoing.pop() else { break };
            self.dropped.displaced += 1;
            self.report(id, DatagramOutcome::Displaced, effects);
        }
        if !self.has_room_for(&data) {
            return None;
        }
        let id = DatagramId(self.next_id);
        self.next_id += 1;
        self.outgoing.push(id, data);
        Some(id)
    }

    /// Returns the largest payload that fits, in bytes.
    pub(crate) fn send_space(&self) -> u64 {
        if self.drops_oldest {
            return self.outgoing.limits.bytes.saturating_sub(OVERHEAD);
        }
        self.transport_room.saturating_sub(self.outgoing.cost)
    }

    /// Returns whether `data` can be sent now.
    pub(crate) fn has_room_for(&self, data: &Bytes) -> bool {
        let is_within = self.drops_oldest || data.len() as u64 <= self.send_space();
        is_within && self.outgoing.has_room_for(data)
    }

    /// Returns whether a datagram of `length` bytes fits into an empty queue.
    pub(crate) fn can_ever_hold(&self, length: u64) -> bool {
        length + OVERHEAD <= self.outgoing.limits.bytes
    }

    /// Registers a task that waits to send a payload of `length` bytes. Returns whether the shard
    /// must be woken for it.
    pub(crate) fn await_room(&mut self, length: u64) -> bool {
        let is_new = self.awaited_room.is_none_or(|awaited| length < awaited);
        if is_new {
            self.awaited_room = Some(length);
        }
        is_new
    }

    /// Returns whether datagrams from the peer are accepted.
    pub(crate) fn are_accepted(&self) -> bool {
        self.are_accepted
    }

    /// Returns whether datagram outcomes are reported.
    pub(crate) fn are_reported(&self) -> bool {
        self.notices
    }

    /// Removes and returns the oldest received datagram.
    pub(crate) fn receive(&mut self) -> Option<Bytes> {
        self.incoming.pop().map(|((), data)| data)
    }

    /// Removes and returns the oldest outcome.
    pub(crate) fn next_outcome(&mut self) -> Option<(DatagramId, DatagramOutcome)> {
        self.outcomes.pop_front()
    }

    /// Returns the current values of the counters.
    pub(crate) fn statistics(&self) -> DatagramStatistics {
        DatagramStatistics {
            dropped: self.statistics.dropped + self.dropped.dropped,
            displaced: self.statistics.displaced + self.dropped.displaced,
            outgrown: self.statistics.outgrown + self.dropped.outgrown,
            queued: self.statistics.queued + self.outgoing.queue.len() as u64,
            ..self.statistics
        }
    }

    /// Applies the connection's settings once it is usable, either for early data or because it is
    /// established.
    pub(crate) fn establish(&mut self, connection: &Connection) {
        self.max_payload = connection.max_datagram_payload();
        self.transport_room = connection.datagram_send_buffer_space() as u64;
        let config = connection.config();
        self.outgoing.limits = Limits {
            bytes: config.datagram_send_buffer(),
            datagrams: config.datagram_send_limit(),
        };
        self.incoming.limits = Limits {
            bytes: config.datagram_receive_buffer(),
            datagrams: config.datagram_receive_limit(),
        };
        self.drops_oldest = config.datagram_drops_oldest();
        self.notices = config.datagram_notices();
        self.are_accepted = config.max_datagram_frame_size().is_some();
    }

    fn report<F: AppState>(
        &mut self,
        id: DatagramId,
        outcome: DatagramOutcome,
        effects: &mut Effects<F>,
    ) {
        if !self.notices {
            return;
        }
        effects.signal(Signal::DatagramOutcomes);
        if self.outcomes.len() >= MAX_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((id, outcome));
    }

    /// Records the outcome of a datagram that the transport reports.
    pub(crate) fn on_settled<F: AppState>(
        &mut self,
        id: DatagramId,
        outcome: DatagramOutcome,
        effects: &mut Effects<F>,
    ) {
        let Some(known) = self.known.get(&id).copied() else { return };
        // A datagram reported lost may still be acknowledged.
        if outcome != DatagramOutcome::Lost {
            self.known.remove(&id);
        }
        self.report(known, outcome, effects);
    }

    /// Moves datagrams between tasks and the transport.
    pub(crate) fn exchange<F: AppState>(
        &mut self,
        connection: &mut Connection,
        effects: &mut Effects<F>,
    ) {
        self.take_received(connection, effects);
        self.hand_over(connection, effects);
        if std::mem::take(&mut self.wants_larger) {
            connection.want_larger_datagrams();
        }
        self.max_payload = connection.max_datagram_payload();
        self.transport_room = connection.datagram_send_buffer_space() as u64;
        self.statistics = connection.datagram_statistics();
        let Some(awaited) = self.awaited_room else { return };
        if self.send_space() >= awaited {
            self.awaited_room = None;
            effects.signal(Signal::DatagramRoom);
        } else {
            connection.await_datagram_room(usize::try_from(awaited).unwrap_or(usize::MAX));
        }
    }

    /// Frees the queues' unused memory, since the connection is idle.
    pub(crate) fn compact(&mut self) {
        self.outgoing.queue.shrink_to_fit();
        self.incoming.queue.shrink_to_fit();
        self.outcomes.shrink_to_fit();
    }

    fn take_received<F: AppState>(
        &mut self,
        connection: &mut Connection,
        effects: &mut Effects<F>,
    ) {
        while let Some(data) = connection.receive_datagram() {
            // If the queue is full, the oldest datagrams are dropped: the newest are the most
            // useful to a reader.
            while !self.incoming.has_room_for(&data) && self.incoming.pop().is_some() {
                self.dropped.dropped += 1;
            }
            if !self.incoming.has_room_for(&data) {
                self.dropped.dropped += 1;
                continue;
            }
            self.incoming.push((), data);
            effects.signal(Signal::Datagrams);
        }
    }

    /// Passes as many datagrams to the transport as it has room for; the rest remain queued.
    fn hand_over<F: AppState>(&mut self, connection: &mut Connection, effects: &mut Effects<F>) {
        while let Some((id, data)) = self.outgoing.queue.front() {
            let id = *id;
            match connection.send_datagram(data.clone()) {
                Ok(sent) => self.remember(sent, id),
                Err(
                    transport::DatagramError::QueueFull
                    | transport::DatagramError::ConnectionClosed,
                ) => return,
                // The path MTU has shrunk since the task sent the datagram.
                Err(_) => {
                    self.dropped.outgrown += 1;
                    self.report(id, DatagramOutcome::Outgrown, effects);
                }
            }
            self.outgoing.pop();
        }
    }

    fn remember(&mut self, sent: DatagramId, id: DatagramId) {
        if !self.notices {
            return;
        }
        if self.known.len() >= MAX_REMEMBERED {
            self.known.pop_first();
        }
        self.known.insert(sent, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Streams;

    #[test]
    fn only_a_smaller_datagram_needs_another_report_of_room() {
        let mut datagrams = Datagrams::default();
        let woken = [100, 100, 200, 99, 99].map(|length| datagrams.await_room(length));
        assert_eq!(woken, [true, false, false, true, false]);
    }

    #[test]
    fn the_newest_outcomes_are_kept() {
        let mut datagrams = Datagrams { notices: true, ..Datagrams::default() };
        let count = MAX_OUTCOMES as u64 + 10;
        let mut effects = Effects::<Streams>::default();
        for id in 0..count {
            datagrams.report(DatagramId(id), DatagramOutcome::Acknowledged, &mut effects);
        }
        let kept: Vec<_> = core::iter::from_fn(|| datagrams.next_outcome()).collect();
        assert_eq!(kept.len(), MAX_OUTCOMES);
        assert_eq!(kept.first().map(|(id, _)| *id), Some(DatagramId(10)));
        assert_eq!(kept.last().map(|(id, _)| *id), Some(DatagramId(count - 1)));
    }
}
