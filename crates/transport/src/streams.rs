//! Streams (RFC 9000 §2, §3, §4): sending and receiving the application's bytes.
//!
//! [`Streams`] holds all streams of one connection. Its methods are in four files: `application.rs`
//! (open, write, read), `receive.rs` (received frames), `transmit.rs` (frames to send) and
//! `delivery.rs` (sent frames that were acknowledged or lost). Each method changes one stream and
//! then calls [`Streams::settle`], the only place that decides which queues the stream belongs to.
//! So a queue never contains a stream that has nothing to do in it, and never lacks a stream that
//! does (law 8).

mod application;
#[cfg(any(test, debug_assertions))]
mod caches;
mod delivery;
mod events;
mod flow;
mod kept;
mod limits;
mod outcome;
mod packing;
mod range_set;
mod reassembly;
mod receive;
mod receiving_part;
mod scheduler;
mod sending_part;
mod spare;
mod state;
mod table;
mod transmit;
mod writers;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::LazyLock;

use bytes::BytesMut;
use clearway_wire::{Direction, StreamId, TransportParameters, VarInt};

pub(crate) use self::outcome::FlowControlBlock;
pub use self::outcome::{
    ReadError, ReadOutcome, ResetAtError, SendCredits, StreamCounts, StreamEvent, StreamProgress,
    StreamsStatistics, UnknownStream, WriteError,
};

use self::events::{Events, PerDirection};
use self::flow::{ConnectionFlow, ReceiveWindow, SendCredit};
use self::kept::Kept;
use self::limits::{LocalStreams, RemoteStreams};
use self::scheduler::Scheduler;
use self::spare::Spare;
use self::table::{Stream, Table};
use self::writers::Writers;
use crate::Side;
use clearway_units::memory::{OnDemand, Unused};
use clearway_units::packed::Pack;

/// The limits on the peer's streams and on the bytes buffered for it, advertised in the transport
/// parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamsConfig {
    /// Maximum number of concurrent bidirectional streams opened by the peer.
    pub(crate) max_concurrent_bidirectional: u64,
    /// Maximum number of concurrent unidirectional streams opened by the peer.
    pub(crate) max_concurrent_unidirectional: u64,
    /// A stream's initial receive window, in bytes.
    pub(crate) initial_stream_receive_window: u64,
    /// A stream's largest receive window, in bytes.
    pub(crate) max_stream_receive_window: u64,
    /// The connection's initial receive window, in bytes.
    pub(crate) initial_connection_receive_window: u64,
    /// The connection's largest receive window, in bytes.
    pub(crate) max_connection_receive_window: u64,
    /// Maximum number of written bytes that are kept until they are acknowledged, in total over all
    /// streams of one priority and of higher ones: see [`Streams::on_congestion_window`]. A stream
    /// may always keep the smaller of this and [`STREAM_SEND_SHARE`] bytes, so that streams whose
    /// peer does not read cannot block the others.
    pub(crate) send_buffer: u64,
}

/// The number of written bytes that a stream may keep even when other streams have filled the send
/// buffer.
pub(crate) const STREAM_SEND_SHARE: u64 = 64 << 10;

/// The cost of a stream besides its data in [`Streams::held`], in bytes: its state and its queue
/// entries.
const STREAM_STATE: u64 = 512;

/// The number of congestion windows of written bytes that are kept: one in flight, one that follows
/// it while a lost packet delays the first, one to send while the application reacts to `Writable`,
/// and one for window growth.
const WINDOWS_KEPT: u64 = 4;

/// The size below which the send buffer does not shrink with the window, in bytes, so that a
/// connection that has just started, or has lost many packets, does not wake its writers for a few
/// packets.
const LEAST_SEND_BUFFER: u64 = 256 << 10;

/// The maximum free buffer space that a blocked writer waits for, in bytes, so that it is not woken
/// for every packet.
const MAX_WAKING_ROOM: u64 = 16 << 10;

/// The peer's initial limits on a stream's data, by initiator and direction.
#[derive(Clone, Copy, Debug, Default, Pack)]
struct PeerLimits {
    are_known: bool,
    opened_here: PerDirection<u64>,
    opened_by_peer: u64,
}

/// The streams with pending work, and the bytes kept for them.
#[derive(Debug, Default)]
struct Queues {
    /// Written bytes that are not acknowledged.
    kept: Kept,
    /// Streams with control frames to send.
    control: VecDeque<usize>,
    /// Streams that can send without flow control credit: lost data, or a FIN without data.
    creditless: Scheduler,
    /// Streams with new data within their own limit.
    fresh: Scheduler,
    /// Streams whose application is waiting for space in the send buffer.
    writers: Writers,
    /// Streams whose application is waiting for flow control credit.
    credit: VecDeque<usize>,
    events: Events,
    /// The buffer in which short writes are collected.
    scratch: BytesMut,
    /// Memory of ended streams, for reuse.
    spare: Spare,
}

impl Unused for Queues {
    fn unused() -> &'static Self {
        static UNUSED: LazyLock<Queues> = LazyLock::new(Queues::default);
        &UNUSED
    }
}

impl Queues {
    fn compact(&mut self) {
        self.kept.compact();
        self.control.shrink_to_fit();
        self.creditless.compact();
        self.fresh.compact();
        self.writers.compact();
        self.credit.shrink_to_fit();
        self.events.compact();
        self.scratch = BytesMut::new();
        self.spare.compact();
    }

    fn is_empty(&self) -> bool {
        self.kept.total() == 0
            && self.control.is_empty()
            && self.creditless.is_empty()
            && self.fresh.is_empty()
            && self.writers.is_empty()
            && self.credit.is_empty()
            && self.events.is_empty()
    }
}

/// The receive windows of a stream, in bytes.
#[derive(Clone, Copy, Debug, Pack)]
struct StreamWindows {
    initial: u64,
    maximum: u64,
}

/// All streams of one connection.
#[derive(Debug)]
pub(crate) struct Streams {
    side: Side,
    windows: StreamWindows,
    /// The maximum number of written bytes that are kept, whatever the congestion window.
    max_send_buffer: u64,
    table: Table,
    local: PerDirection<LocalStreams>,
    remote: PerDirection<RemoteStreams>,
    peer: PeerLimits,
    flow: ConnectionFlow,
    queues: OnDemand<Queues>,
    /// The maximum number of bytes kept for streams of a stream's priority and higher.
    send_buffer: u64,
    /// Bytes that were written on all streams but never sent.
    unsent: u64,
    /// The number of streams blocked by their own limit.
    blocked: usize,
    /// The number of streams on which the application is waiting for data from the peer.
    awaited: usize,
    /// Whether the frames being received are in a 0-RTT packet.
    is_receiving_early: bool,
    statistics: StreamsStatistics,
}

impl Streams {
    /// Creates the streams of a new connection.
    pub(crate) fn new(side: Side, config: StreamsConfig) -> Self {
        let receive = ReceiveWindow::new(
            config.initial_connection_receive_window,
            config.max_connection_receive_window,
        );
        Self {
            side,
            windows: StreamWindows {
                initial: config.initial_stream_receive_window,
                maximum: config.max_stream_receive_window,
            },
            max_send_buffer: config.send_buffer,
            table: Table::default(),
            local: PerDirection::default(),
            remote: PerDirection::new(
                RemoteStreams::new(config.max_concurrent_bidirectional),
                RemoteStreams::new(config.max_concurrent_unidirectional),
            ),
            peer: PeerLimits::default(),
            flow: ConnectionFlow::new(receive),
            queues: OnDemand::default(),
            send_buffer: config.send_buffer.clamp(1, LEAST_SEND_BUFFER),
            unsent: 0,
            blocked: 0,
            awaited: 0,
            is_receiving_early: false,
            statistics: StreamsStatistics::default(),
        }
    }

    /// Sets the limits in the peer's transport parameters: the ones remembered for 0-RTT, then the
    /// ones from the handshake, which are no lower (RFC 9000 §7.4.1).
    pub(crate) fn set_peer_parameters(&mut self, parameters: &TransportParameters) {
        self.peer = PeerLimits {
            are_known: true,
            opened_here: PerDirection::new(
                parameters.initial_max_stream_data_bidi_remote.get(),
                parameters.initial_max_stream_data_uni.get(),
            ),
            opened_by_peer: parameters.initial_max_stream_data_bidi_local.get(),
        };
        self.flow.send.raise(parameters.initial_max_data.get());
        let keys: Vec<usize> = self.table.keys().collect();
        for key in keys {
            let id = self.table.get(key).map(|stream| stream.id);
            let limit = id.map_or(0, |id| self.initial_send_limit(id));
            if let Some(send) =
                self.table.get_mut(key).and_then(|stream| stream.send.as_deref_mut())
            {
                send.credit_mut().raise(limit);
            }
            self.settle(key);
        }
        for (direction, maximum) in [
            (Direction::Bidirectional, parameters.initial_max_streams_bidi),
            (Direction::Unidirectional, parameters.initial_max_streams_uni),
        ] {
            self.raise_stream_count(direction, maximum);
        }
        self.wake_for_credit();
    }

    /// Handles the rejection of early data: nothing that was sent has arrived, and nothing may be
    /// sent until [`Self::set_peer_parameters`] sets the limits. Streams stay open, including those
    /// that the peer may not allow yet.
    pub(crate) fn restart(&mut self) {
        self.peer = PeerLimits::default();
        self.flow.send = SendCredit::new(0);
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            self.local.get_mut(direction).restart();
        }
        let keys: Vec<usize> = self.table.keys().collect();
        for key in keys {
            if let Some(send) =
                self.table.get_mut(key).and_then(|stream| stream.send.as_deref_mut())
            {
                send.restart();
            }
            self.settle(key);
        }
        let sending = self.table.all().filter_map(|stream| stream.send.as_deref());
        self.unsent = sending.fold(0, |sum, send| sum.saturating_add(send.unsent()));
    }

    /// Sets whether the frames that follow are in a 0-RTT packet.
    pub(crate) fn set_receiving_early(&mut self, is_early: bool) {
        self.is_receiving_early = is_early;
    }

    /// Returns whether data of this stream was received in a 0-RTT packet.
    pub(crate) fn has_early_data(&mut self, id: StreamId) -> bool {
        self.table.find_mut(id).is_some_and(|(_, stream)| stream.is_early)
    }

    /// Sets the smoothed round-trip time, which is used to tune receive windows.
    pub(crate) fn on_round_trip(&mut self, smoothed: Duration) {
        self.flow.round_trip = Some(smoothed);
    }

    /// Frees memory that only a busy connection needs, since the connection is idle.
    pub(crate) fn compact(&mut self) {
        self.table.compact();
        if let Some(queues) = self.queues.used() {
            queues.compact();
        }
        if self.queues.is_empty() {
            self.queues.release();
        }
    }

    /// Returns whether there are events for the application, possibly about streams that have ended
    /// since.
    pub(crate) fn has_events(&self) -> bool {
        !self.queues.events.is_empty()
    }

    /// Returns the next event for the application.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        loop {
            let event = self.queues.used()?.events.pop()?;
            let (StreamEvent::Readable(id) | StreamEvent::Writable(id)) = event else {
                return Some(event);
            };
            // The stream may have ended in the meantime.
            let Some((_, stream)) = self.table.find_mut(id) else { continue };
            match event {
                StreamEvent::Readable(_) => stream.queued.readable = false,
                _ => stream.queued.writable = false,
            }
            return Some(event);
        }
    }

    /// Returns whether the application is waiting for data that the peer has to send and may send.
    /// An application that does not read is not waiting.
    pub(crate) fn awaits_peer(&self) -> bool {
        let window = self.flow.receive_window();
        self.awaited > 0 && window.received() < window.limit()
    }

    /// Returns whether a bidirectional stream is open.
    pub(crate) fn has_bidirectional(&self) -> bool {
        self.table.has_bidirectional()
    }

    /// Returns the number of bytes that the peer makes the streams keep in memory: received data
    /// whose flow control credit has not been returned, including gaps; written data that is not
    /// acknowledged; and stream states.
    pub(crate) fn held(&self) -> u64 {
        let window = self.flow.receive_window();
        let received = window.received().saturating_sub(window.consumed());
        let states = (self.table.len() as u64).saturating_mul(STREAM_STATE);
        received.saturating_add(self.queues.kept.total()).saturating_add(states)
    }

    /// Limits the connection's receive window to `limit` bytes, or removes that limit: the window
    /// does not grow beyond it, and a larger one shrinks as data is read. Credit already granted to
    /// the peer stays valid.
    pub(crate) fn limit_receive_window(&mut self, limit: Option<u64>) {
        self.flow.limit_window(limit);
    }

    /// Sets the maximum size of the connection's receive window, which is at least `initial` bytes
    /// if the maximum permits it.
    pub(crate) fn set_max_receive_window(&mut self, maximum: u64, initial: u64) {
        self.flow.set_max_window(maximum, initial);
    }

    /// Sets how many streams of this type the peer may have open at the same time.
    pub(crate) fn set_max_concurrent(&mut self, direction: Direction, count: u64) {
        self.remote.get_mut(direction).set_concurrent(count);
    }

    /// Returns the number of streams of this type that were opened and may be opened.
    pub(crate) fn counts(&self, direction: Direction) -> StreamCounts {
        let (local, remote) = (self.local.get(direction), self.remote.get(direction));
        StreamCounts {
            opened: local.opened(),
            available: local.available(),
            opened_by_peer: remote.opened(),
            available_to_peer: remote.available(),
        }
    }

    /// Returns the counts so far.
    pub(crate) fn statistics(&self) -> StreamsStatistics {
        StreamsStatistics {
            open: self.table.len() as u64,
            bytes_received: self.flow.receive_window().received(),
            bytes_buffered: self.queues.kept.total(),
            ..self.statistics
        }
    }

    fn raise_stream_count(&mut self, direction: Direction, maximum: VarInt) {
        let exceeds = self.local.get(direction).exceeds_limit();
        if self.local.get_mut(direction).raise(maximum.get()) {
            self.queues.events.push_available(direction);
        }
        if exceeds {
            let keys: Vec<usize> = self.table.keys().collect();
            keys.into_iter().for_each(|key| self.settle(key));
        }
    }

    fn is_local(&self, id: StreamId) -> bool {
        id.initiator() == self.side.initiator()
    }

    /// Returns the peer's initial limit on the stream with `id`.
    fn initial_send_limit(&self, id: StreamId) -> u64 {
        if self.is_local(id) {
            *self.peer.opened_here.get(id.direction())
        } else {
            self.peer.opened_by_peer
        }
    }

    /// Creates the state of a newly opened stream.
    fn create(&mut self, id: StreamId) -> usize {
        let is_local = self.is_local(id);
        let is_bidirectional = id.direction() == Direction::Bidirectional;
        let limit = self.initial_send_limit(id);
        let window = ReceiveWindow::new(self.windows.initial, self.windows.maximum);
        let spare = &mut self.queues.spare;
        let send = (is_local || is_bidirectional).then(|| spare.sending_part(limit));
        let receive = (!is_local || is_bidirectional).then(|| spare.receiving_part(window));
        let opened = match is_local {
            true => &mut self.statistics.opened,
            false => &mut self.statistics.opened_by_peer,
        };
        *opened = opened.saturating_add(1);
        self.table.insert(Stream::new(id, send, receive, is_local))
    }

    /// Puts the stream with `key` into the queues that its state requires, and removes it if it has ended.
    fn settle(&mut self, key: usize) {
        let Self { side, table, local, .. } = self;
        let Some(stream) = table.get_mut(key) else { return };
        let id = stream.id;
        let may_send =
            id.initiator() != side.initiator() || local.get(id.direction()).permits(id.index());
        let was = stream.queued;
        let is = stream.queues(may_send);
        let is_done = stream.is_done();
        if is == was && !is_done {
            return;
        }
        stream.queued = is;
        let waiting = stream.waiting(key);
        let queues = &mut *self.queues;
        queues.creditless.set(waiting, was.creditless, is.creditless);
        queues.fresh.set(waiting, was.fresh, is.fresh);
        count(&mut self.blocked, was.blocked, is.blocked);
        count(&mut self.awaited, was.awaited, is.awaited);
        match (was.control, is.control) {
            (false, true) => queues.control.push_back(key),
            (true, false) => remove_key(&mut queues.control, key),
            _ => {}
        }
        if is_done {
            self.retire(key);
        }
    }

    /// Removes a stream whose sending and receiving parts have both ended. Later frames for it are
    /// ignored, and the peer may open another stream instead.
    fn retire(&mut self, key: usize) {
        let Some(stream) = self.table.remove(key) else { return };
        if stream.queued.writers {
            self.queues.writers.remove(stream.priority, key);
        }
        if stream.queued.credit {
            remove_key(&mut self.queues.credit, key);
        }
        if !self.is_local(stream.id) {
            self.remote.get_mut(stream.id.direction()).on_retired();
        }
        self.queues.spare.keep(stream.send, stream.receive);
    }
}

/// Updates `number` when a stream starts or stops being counted in it.
fn count(number: &mut usize, was: bool, is: bool) {
    match (was, is) {
        (false, true) => *number = number.saturating_add(1),
        (true, false) => *number = number.saturating_sub(1),
        _ => {}
    }
}

/// Removes `key` from `queue`. This is fast if it is the first entry, as it usually is.
fn remove_key(queue: &mut VecDeque<usize>, key: usize) {
    if queue.front() == Some(&key) {
        queue.pop_front();
    } else if let Some(place) = queue.iter().position(|other| *other == key) {
        queue.remove(place);
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
