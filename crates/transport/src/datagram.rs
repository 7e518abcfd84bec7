//! Unreliable datagrams (RFC 9221): the send queue, the receive queue, and the outcomes of sent
//! datagrams.

use core::fmt;
use std::collections::VecDeque;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use clearway_wire::{Frame, TransportErrorCode, TransportParameters, frame};

use crate::TransportError;
use crate::contents::PacketContents;
use crate::event::{DatagramId, DatagramOutcome};
use crate::token::Token;
use clearway_units::memory::{OnDemand, Unused};

/// The number of bytes that a datagram counts in addition to its payload, so that the byte limit
/// also bounds the number of empty datagrams.
const OVERHEAD: u64 = 64;

/// Received datagrams are copied into chunks of this size to avoid an allocation for each.
const CHUNK: usize = 16 << 10;

/// The reason why a datagram cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DatagramError {
    /// The peer does not accept datagrams.
    Unsupported,
    /// The payload is larger than the peer or the path allows.
    TooLarge {
        /// The largest payload that can be sent now.
        maximum: usize,
    },
    /// Too many datagrams are waiting to be sent.
    QueueFull,
    /// The connection is closed or draining.
    ConnectionClosed,
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the peer does not accept datagrams"),
            Self::TooLarge { maximum } => {
                write!(f, "a datagram can contain at most {maximum} bytes")
            }
            Self::QueueFull => f.write_str("the send queue for datagrams is full"),
            Self::ConnectionClosed => f.write_str("the connection is closed"),
        }
    }
}

impl core::error::Error for DatagramError {}

/// Datagram counts over a connection's lifetime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramStatistics {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams sent and acknowledged, including those that had been declared lost.
    pub acknowledged: u64,
    /// Datagrams sent and declared lost, including those that were acknowledged later.
    pub lost: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams received and dropped because the application did not read them in time.
    pub dropped: u64,
    /// Datagrams dropped before they were sent because they no longer fit the path MTU (RFC 8899
    /// §4.4).
    pub outgrown: u64,
    /// Datagrams dropped before they were sent because newer ones displaced them in the queue.
    pub displaced: u64,
    /// Datagrams currently waiting to be sent.
    pub queued: u64,
}

/// Limits on accepted and queued datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DatagramsConfig {
    /// The largest DATAGRAM frame to accept, in bytes, as in the transport parameter; 0 accepts
    /// none.
    pub(crate) max_frame_size: u64,
    /// The limits of the queue of received datagrams.
    pub(crate) receive: QueueLimits,
    /// The limits of the queue of datagrams to send.
    pub(crate) send: QueueLimits,
    /// Whether a datagram to send displaces the oldest ones if there is no room for it.
    pub(crate) drops_oldest: bool,
    /// Whether the outcome of each datagram is reported.
    pub(crate) notices: bool,
}

/// The capacity of a datagram queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueLimits {
    /// The maximum total size of the payloads plus 64 bytes per datagram, in bytes.
    pub(crate) bytes: u64,
    /// The maximum number of datagrams.
    pub(crate) datagrams: usize,
}

/// The datagrams of one connection.
#[derive(Debug)]
pub(crate) struct Datagrams {
    config: DatagramsConfig,
    /// The largest frame that the peer accepts; 0 until known.
    peer_max_frame_size: u64,
    /// The number of bytes that a packet has for frames.
    packet_room: usize,
    queues: OnDemand<Queues>,
    next_id: u64,
    /// The cost of the smallest datagram for which the application is waiting for space in the send
    /// queue.
    awaited_room: Option<u64>,
    /// Whether there are received datagrams of which the application has not been notified.
    has_unreported: bool,
}

/// The datagram queues and their statistics.
#[derive(Debug, Default)]
struct Queues {
    /// Datagrams to send. Their numbers are consecutive except for dropped datagrams.
    outgoing: DatagramQueue<(DatagramId, Bytes)>,
    incoming: DatagramQueue<Bytes>,
    /// Outcomes that have not been reported yet.
    outcomes: VecDeque<(DatagramId, DatagramOutcome)>,
    chunk: BytesMut,
    statistics: DatagramStatistics,
}

impl Unused for Queues {
    fn unused() -> &'static Self {
        static UNUSED: LazyLock<Queues> = LazyLock::new(Queues::default);
        &UNUSED
    }
}

/// A queue of datagrams and its total cost.
#[derive(Debug)]
struct DatagramQueue<T> {
    datagrams: VecDeque<T>,
    cost: u64,
}

/// An element of a queue.
trait Payload {
    fn payload(&self) -> &Bytes;
}

impl Payload for Bytes {
    fn payload(&self) -> &Bytes {
        self
    }
}

impl Payload for (DatagramId, Bytes) {
    fn payload(&self) -> &Bytes {
        &self.1
    }
}

fn cost_of(payload: &Bytes) -> u64 {
    (payload.len() as u64).saturating_add(OVERHEAD)
}

impl<T> Default for DatagramQueue<T> {
    fn default() -> Self {
        Self { datagrams: VecDeque::new(), cost: 0 }
    }
}

impl<T: Payload> DatagramQueue<T> {
    fn push(&mut self, datagram: T) {
        self.cost = self.cost.saturating_add(cost_of(datagram.payload()));
        self.datagrams.push_back(datagram);
    }

    fn pop(&mut self) -> Option<T> {
        let datagram = self.datagrams.pop_front()?;
        self.cost = self.cost.saturating_sub(cost_of(datagram.payload()));
        Some(datagram)
    }

    /// Checks that the stored cost is the sum of the datagrams' costs.
    #[cfg(any(test, debug_assertions))]
    fn check_caches(&self) {
        let costs = self.datagrams.iter().map(|datagram| cost_of(datagram.payload()));
        assert_eq!(self.cost, costs.fold(0, u64::saturating_add), "the cost of the datagrams");
    }

    /// Returns whether another datagram of `cost` fits within `limits`.
    fn has_room(&self, cost: u64, limits: QueueLimits) -> bool {
        self.datagrams.len() < limits.datagrams && self.cost.saturating_add(cost) <= limits.bytes
    }
}

impl Datagrams {
    /// Creates the state of a new connection, whose packets have `packet_room` bytes for frames.
    pub(crate) fn new(config: DatagramsConfig, packet_room: usize) -> Self {
        Self {
            config,
            peer_max_frame_size: 0,
            packet_room,
            queues: OnDemand::default(),
            next_id: 0,
            awaited_room: None,
            has_unreported: false,
        }
    }

    /// Frees unused capacity.
    pub(crate) fn compact(&mut self) {
        let Some(queues) = self.queues.used() else { return };
        queues.outgoing.datagrams.shrink_to_fit();
        queues.incoming.datagrams.shrink_to_fit();
        queues.outcomes.shrink_to_fit();
        queues.chunk = BytesMut::new();
        let is_empty = queues.outgoing.datagrams.is_empty() && queues.incoming.datagrams.is_empty();
        if is_empty
            && queues.outcomes.is_empty()
            && queues.statistics == DatagramStatistics::default()
        {
            self.queues.release();
        }
    }

    /// Sets the peer's limit (RFC 9221 §3).
    pub(crate) fn set_peer_parameters(&mut self, parameters: &TransportParameters) {
        self.peer_max_frame_size = parameters.max_datagram_frame_size.get();
    }

    /// Sets the number of bytes that packets have for frames. Datagrams that no longer fit are
    /// dropped, since they cannot be fragmented (RFC 9221 §5).
    pub(crate) fn set_packet_room(&mut self, packet_room: usize) {
        let has_shrunk = packet_room < self.packet_room;
        self.packet_room = packet_room;
        let Some(maximum) = self.max_payload().filter(|_| has_shrunk) else { return };
        for _ in 0..self.queues.outgoing.datagrams.len() {
            let Some((id, data)) = self.queues.outgoing.pop() else { break };
            if data.len() <= maximum {
                self.queues.outgoing.push((id, data));
            } else {
                self.queues.statistics.outgrown = self.queues.statistics.outgrown.saturating_add(1);
                self.report(id, DatagramOutcome::Outgrown);
            }
        }
    }

    /// Returns the largest payload that can be sent now; `None` if the peer does not accept
    /// datagrams.
    pub(crate) fn max_payload(&self) -> Option<usize> {
        if self.peer_max_frame_size == 0 {
            return None;
        }
        let frame = usize::try_from(self.peer_max_frame_size).unwrap_or(usize::MAX);
        let frame = frame.min(self.packet_room);
        // The Length field counts toward the limit; a shorter payload may shorten that field, too.
        let header = frame::Datagram::header_len(Some(frame));
        Some(frame.saturating_sub(header))
    }

    /// Queues a datagram to be sent once, and returns its number.
    pub(crate) fn send(&mut self, data: Bytes) -> Result<DatagramId, DatagramError> {
        let maximum = self.max_payload().ok_or(DatagramError::Unsupported)?;
        if data.len() > maximum {
            return Err(DatagramError::TooLarge { maximum });
        }
        let (cost, limits) = (cost_of(&data), self.config.send);
        if cost > limits.bytes {
            return Err(DatagramError::QueueFull);
        }
        while self.config.drops_oldest && !self.queues.outgoing.has_room(cost, limits) {
            let Some((id, _)) = self.queues.outgoing.pop() else { break };
            self.queues.statistics.displaced = self.queues.statistics.displaced.saturating_add(1);
            self.report(id, DatagramOutcome::Displaced);
        }
        if !self.queues.outgoing.has_room(cost, limits) {
            self.await_room(cost);
            return Err(DatagramError::QueueFull);
        }
        let id = DatagramId(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        self.queues.outgoing.push((id, data));
        Ok(id)
    }

    /// Returns the total size of the queued datagrams in both directions, in bytes, including the
    /// overhead of each datagram.
    pub(crate) fn held(&self) -> u64 {
        self.queues.outgoing.cost.saturating_add(self.queues.incoming.cost)
    }

    /// Returns the largest payload that fits in the send queue, in bytes, regardless of the path; 0
    /// if there is no room.
    pub(crate) fn send_space(&self) -> usize {
        let limits = self.config.send;
        if !self.queues.outgoing.has_room(OVERHEAD, limits) {
            return 0;
        }
        let taken = self.queues.outgoing.cost.saturating_add(OVERHEAD);
        usize::try_from(limits.bytes.saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    /// Registers that the application is waiting for space for a payload of `bytes`:
    /// [`Self::take_room`] returns true once there is enough.
    pub(crate) fn await_room_for(&mut self, bytes: usize) {
        self.await_room((bytes as u64).saturating_add(OVERHEAD).min(self.config.send.bytes));
    }

    /// Registers that a datagram of `cost` is waiting for space in the send queue. If several are
    /// waiting, space for the smallest is enough.
    fn await_room(&mut self, cost: u64) {
        self.awaited_room = Some(self.awaited_room.map_or(cost, |awaited| awaited.min(cost)));
    }

    /// Returns whether the send queue has space again after a datagram was rejected: half of the
    /// queue is empty, and that datagram fits.
    pub(crate) fn has_awaited_room(&self) -> bool {
        let limits = self.config.send;
        self.awaited_room.is_some_and(|cost| {
            self.queues.outgoing.cost <= limits.bytes / 2
                && self.queues.outgoing.datagrams.len() <= limits.datagrams / 2
                && self.queues.outgoing.has_room(cost, limits)
        })
    }

    /// Like [`Self::has_awaited_room`], but returns true only once.
    pub(crate) fn take_room(&mut self) -> bool {
        let has_room = self.has_awaited_room();
        if has_room {
            self.awaited_room = None;
        }
        has_room
    }

    /// Returns whether there is something to report to the application.
    pub(crate) fn has_events(&self) -> bool {
        self.has_unreported || self.has_awaited_room() || !self.queues.outcomes.is_empty()
    }

    fn report(&mut self, id: DatagramId, outcome: DatagramOutcome) {
        if self.config.notices {
            self.queues.outcomes.push_back((id, outcome));
        }
    }

    /// Returns the oldest outcome that has not been reported yet.
    pub(crate) fn next_outcome(&mut self) -> Option<(DatagramId, DatagramOutcome)> {
        self.queues.used()?.outcomes.pop_front()
    }

    /// Returns whether a datagram is waiting to be sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.queues.outgoing.datagrams.is_empty()
    }

    /// Returns the payload length of the next datagram to be sent.
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.queues.outgoing.datagrams.front().map(|(_, data)| data.len())
    }

    /// Writes the datagrams that fit, oldest first.
    pub(crate) fn write_frames(&mut self, contents: &mut PacketContents<'_, '_>) {
        while let Some((id, data)) = self.queues.outgoing.datagrams.front() {
            let datagram = Frame::Datagram(frame::Datagram { data });
            if contents.push(&datagram, Some(Token::Datagram { id: id.0 })).is_err() {
                return;
            }
            self.queues.statistics.sent = self.queues.statistics.sent.saturating_add(1);
            self.queues.outgoing.pop();
        }
    }

    /// Handles the loss of a datagram, which is not retransmitted (RFC 9221 §5.2).
    pub(crate) fn on_lost(&mut self, id: u64) {
        self.queues.statistics.lost = self.queues.statistics.lost.saturating_add(1);
        self.report(DatagramId(id), DatagramOutcome::Lost);
    }

    /// Handles the acknowledgment of a datagram, which may have been declared lost before.
    pub(crate) fn on_acked(&mut self, id: u64) {
        self.queues.statistics.acknowledged = self.queues.statistics.acknowledged.saturating_add(1);
        self.report(DatagramId(id), DatagramOutcome::Acknowledged);
    }

    /// Processes a DATAGRAM frame. If the application leaves too many datagrams unread, the oldest
    /// are dropped, because the newest are most likely more useful.
    pub(crate) fn on_datagram(
        &mut self,
        frame: &frame::Datagram<'_>,
    ) -> Result<(), TransportError> {
        let least_frame = frame::Datagram::header_len(None).saturating_add(frame.data.len());
        if least_frame as u64 > self.config.max_frame_size {
            return Err(TransportError::rule(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "a datagram exceeds max_datagram_frame_size",
                "RFC 9221 §3",
            ));
        }
        self.queues.statistics.received = self.queues.statistics.received.saturating_add(1);
        if self.queues.chunk.capacity() < frame.data.len() {
            self.queues.chunk.reserve(frame.data.len().max(CHUNK));
        }
        self.queues.chunk.extend_from_slice(frame.data);
        let data = self.queues.chunk.split().freeze();
        let (cost, limits) = (cost_of(&data), self.config.receive);
        while !self.queues.incoming.has_room(cost, limits) && self.queues.incoming.pop().is_some() {
            self.queues.statistics.dropped = self.queues.statistics.dropped.saturating_add(1);
        }
        if !self.queues.incoming.has_room(cost, limits) {
            self.queues.statistics.dropped = self.queues.statistics.dropped.saturating_add(1);
            return Ok(());
        }
        self.queues.incoming.push(data);
        self.has_unreported = true;
        Ok(())
    }

    /// Checks that the cached values agree with the queues.
    ///
    /// # Panics
    /// If a cached value does not agree, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check_caches(&self) {
        let Queues { outgoing, incoming, statistics, .. } = &*self.queues;
        outgoing.check_caches();
        incoming.check_caches();
        let outcomes = [statistics.sent, statistics.outgrown, statistics.displaced];
        let left = outcomes.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let waiting = outgoing.datagrams.len() as u64;
        assert_eq!(self.next_id, left.saturating_add(waiting), "each has one outcome");
    }

    /// Returns the number of queued datagrams in both directions.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn waiting(&self) -> usize {
        let Queues { outgoing, incoming, .. } = &*self.queues;
        outgoing.datagrams.len().saturating_add(incoming.datagrams.len())
    }

    /// Returns whether datagrams were received since the last call.
    pub(crate) fn take_unreported(&mut self) -> bool {
        core::mem::take(&mut self.has_unreported)
    }

    /// Returns the oldest received datagram.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.queues.used()?.incoming.pop()
    }

    /// Returns the counts so far.
    pub(crate) fn statistics(&self) -> DatagramStatistics {
        DatagramStatistics {
            queued: self.queues.outgoing.datagrams.len() as u64,
            ..self.queues.statistics
        }
    }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
