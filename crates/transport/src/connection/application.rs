//! What an application does: open, read, write, reset, close.

use bytes::Bytes;
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use super::Connection;
use crate::datagram::DatagramError;
use crate::event::Event;
use crate::streams::{
    ReadError, ReadOutcome, StreamEvent, StreamProgress, UnknownStream, WriteError,
};

impl Connection {
    /// Opens a stream. `None` while the peer's limit is in the way; [`Event::StreamsAvailable`]
    /// follows.
    pub fn open(&mut self, direction: Direction) -> Option<StreamId> {
        if self.is_closed() { None } else { self.streams.open(direction) }
    }

    /// Takes a stream that the peer opened.
    pub fn accept(&mut self, direction: Direction) -> Option<StreamId> {
        self.streams.accept(direction)
    }

    /// Gives `data` to a stream and returns how many bytes it took. When that is not all,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, stream_id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.streams.write(stream_id, data)
    }

    /// Like [`write`](Self::write), copying.
    pub fn write_slice(&mut self, stream_id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.streams.write_slice(stream_id, data)
    }

    /// What the peer has done on a stream until now; `None` if there is no such stream or it is over.
    pub fn stream_progress(&mut self, stream_id: StreamId) -> Option<StreamProgress> {
        self.streams.progress(stream_id)
    }

    /// Ends a stream after what was written.
    pub fn finish(&mut self, stream_id: StreamId) -> Result<(), WriteError> {
        self.streams.finish(stream_id)
    }

    /// Gives a stream up: what was not yet delivered may never be.
    pub fn reset(&mut self, stream_id: StreamId, error_code: VarInt) -> Result<(), UnknownStream> {
        self.streams.reset(stream_id, error_code)
    }

    /// Asks the peer not to send more on a stream, and forgets what came.
    pub fn stop_sending(
        &mut self,
        now: Timestamp,
        stream_id: StreamId,
        error_code: VarInt,
    ) -> Result<(), UnknownStream> {
        self.streams.stop_sending(now, stream_id, error_code)
    }

    /// Reads at most `max` bytes of a stream, in order, without copying.
    pub fn read(
        &mut self,
        now: Timestamp,
        stream_id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        self.streams.read(now, stream_id, max)
    }

    /// As [`read`](Self::read), for an application that keeps what it takes before it uses it: the bytes
    /// still count against the receive windows of the stream and the connection (RFC 9000 §4.1) until
    /// they are [given back](Self::give_back). A stream that has come to its end counts among those that
    /// the peer may have open (§4.6) until [`read`](Self::read) finds the end too.
    pub fn read_ahead(
        &mut self,
        stream_id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        self.streams.read_ahead(stream_id, max)
    }

    /// The application error code with which the peer has reset a stream, if it has (RFC 9000 §19.4).
    /// The reset counts as read then (§3.2), and the stream's receiving part is over. `Ok(None)` if there
    /// was none: no data is taken, so that this can be asked while data is left unread.
    ///
    /// # Errors
    /// As [`read`](Self::read), of a stream that cannot be read.
    pub fn received_reset(&mut self, stream_id: StreamId) -> Result<Option<VarInt>, UnknownStream> {
        self.streams.received_reset(stream_id)
    }

    /// Permits the peer as many bytes more as were [read ahead](Self::read_ahead) and are now used. More
    /// than that is never given back.
    pub fn give_back(
        &mut self,
        now: Timestamp,
        stream_id: StreamId,
        bytes: u64,
    ) -> Result<(), UnknownStream> {
        self.streams.give_back(now, stream_id, bytes)
    }

    /// The receive windows of a stream and of the connection, in bytes. Whoever keeps less than a part of
    /// both from being given back does not hold the peer up.
    pub fn receive_windows(&mut self, stream_id: StreamId) -> Option<(u64, u64)> {
        self.streams.receive_windows(stream_id)
    }

    /// Sends a stream's data before that of streams of a lower priority; all begin with 0. Streams of
    /// one priority take turns if they are incremental, as all begin, and otherwise go one after
    /// another (RFC 9218 §10).
    pub fn set_priority(
        &mut self,
        stream_id: StreamId,
        priority: i32,
        is_incremental: bool,
    ) -> Result<(), UnknownStream> {
        self.streams.set_priority(stream_id, priority, is_incremental)
    }

    /// Sends `data` at most once, without order (RFC 9221).
    pub fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramError> {
        self.datagrams.send(data)
    }

    /// Takes a received unreliable datagram.
    pub fn receive_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.next()
    }

    /// Sends a PING: the peer will answer with an acknowledgement.
    pub fn ping(&mut self) {
        self.flags.ping_owed = true;
    }

    pub(super) fn next_part_event(&mut self) -> Option<Event> {
        if let Some(event) = self.streams.next_event() {
            return Some(match event {
                StreamEvent::Opened(direction) => Event::Opened(direction),
                StreamEvent::Readable(stream_id) => Event::Readable(stream_id),
                StreamEvent::Writable(stream_id) => Event::Writable(stream_id),
                StreamEvent::Stopped { id, code } => {
                    Event::Stopped { stream_id: id, error_code: code }
                }
                StreamEvent::ResetAcknowledged(stream_id) => Event::ResetAcknowledged(stream_id),
                StreamEvent::Finished(stream_id) => Event::Finished(stream_id),
                StreamEvent::StreamsAvailable(direction) => Event::StreamsAvailable(direction),
            });
        }
        self.datagrams.take_news().then_some(Event::DatagramReceived)
    }
}
