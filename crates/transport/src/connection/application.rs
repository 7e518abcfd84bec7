//! The application's methods, which open, read, write and reset streams and exchange datagrams.

use bytes::Bytes;
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use super::Connection;
use crate::datagram::DatagramError;
use crate::event::{DatagramId, Event};
use crate::streams::{
    ReadError, ReadOutcome, ResetAtError, SendCredits, StreamCounts, StreamEvent, StreamProgress,
    UnknownStream, WriteError,
};

impl Connection {
    /// Opens a stream. Returns `None` while the peer's stream limit does not allow it;
    /// [`Event::StreamsAvailable`] follows.
    pub fn open(&mut self, direction: Direction) -> Option<StreamId> {
        if self.is_closed() { None } else { self.streams.get_mut().open(direction) }
    }

    /// Accepts a stream opened by the peer.
    pub fn accept(&mut self, direction: Direction) -> Option<StreamId> {
        self.streams.get_mut().accept(direction)
    }

    /// Writes `data` to a stream and returns the number of bytes accepted. If not all were,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, stream_id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.streams.get_mut().write(stream_id, data)
    }

    /// Writes two parts in order, like [`write`](Self::write). If both are accepted completely and
    /// `end` is set, the stream then ends as with [`finish`](Self::finish).
    pub fn write_parts(
        &mut self,
        stream_id: StreamId,
        data: [Bytes; 2],
        end: bool,
    ) -> Result<usize, WriteError> {
        self.streams.get_mut().write_parts(stream_id, data, end)
    }

    /// Like [`write`](Self::write), but copies `data`.
    pub fn write_slice(&mut self, stream_id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        self.streams.get_mut().write_slice(stream_id, data)
    }

    /// Returns the peer's progress on a stream; `None` if there is no such stream or it has ended.
    pub fn stream_progress(&mut self, stream_id: StreamId) -> Option<StreamProgress> {
        self.streams.get_mut().progress(stream_id)
    }

    /// Returns how many more bytes may be written to a stream within the peer's flow control
    /// limits. An application that produces data only when there is credit buffers little for peers
    /// that do not read.
    ///
    /// # Errors
    /// Returns the same errors as [`write`](Self::write).
    pub fn send_credit(&mut self, stream_id: StreamId) -> Result<SendCredits, WriteError> {
        self.streams.get_mut().send_credit(stream_id)
    }

    /// Requests an [`Event::Writable`] when there may be more [credit](Self::send_credit): the peer
    /// has raised one of its limits, or nothing more can be written.
    ///
    /// # Errors
    /// Returns the same errors as [`write`](Self::write).
    pub fn await_credit(&mut self, stream_id: StreamId) -> Result<(), WriteError> {
        self.streams.get_mut().await_credit(stream_id)
    }

    /// Returns approximately how many bytes the peer makes this connection buffer: received data
    /// that has not been read, gaps included; written data that has not been acknowledged;
    /// unreliable datagrams in both directions; and stream state. The fixed size of a connection is
    /// not counted. While the connection is [idle](Self::is_compacted), stream state is unpacked
    /// for this.
    pub fn held_bytes(&self) -> u64 {
        self.streams.get().held().saturating_add(self.datagrams.held())
    }

    /// Limits the receive window of the connection (RFC 9000 §4.1) to its initial size, or restores
    /// the [maximum](crate::TransportConfig::max_connection_receive_window). While limited, it does
    /// not grow, and a window that has grown shrinks as data is read. Credit already granted to the
    /// peer stays valid.
    pub fn limit_receive_window(&mut self, is_limited: bool) {
        let limit = is_limited.then_some(self.config.initial_connection_receive_window);
        self.streams.get_mut().limit_receive_window(limit);
    }

    /// Sets the maximum receive window of this connection (RFC 9000 §4.1), in bytes, instead of
    /// [`max_connection_receive_window`](crate::TransportConfigBuilder::max_connection_receive_window).
    /// A larger window shrinks as data is read; credit already granted to the peer stays valid. With
    /// 0, the peer can only use up that credit.
    pub fn set_max_receive_window(&mut self, bytes: u64) {
        let initial = self.config.initial_connection_receive_window;
        self.streams.get_mut().set_max_receive_window(bytes, initial);
    }

    /// Sets the maximum number of bytes of this connection that were written but not acknowledged,
    /// instead of [`send_buffer`](crate::TransportConfigBuilder::send_buffer). Data that exceeds a
    /// lower maximum is still sent.
    pub fn set_send_buffer(&mut self, bytes: u64) {
        let window = self.recovery.get().window();
        self.streams.get_mut().set_max_send_buffer(bytes, window);
    }

    /// Sets how many streams of this direction the peer may have open at the same time (RFC 9000
    /// §4.6), at most 2^60. A higher number is sent to the peer with the next packet. A lower number
    /// takes effect as streams end: those that the peer was permitted to open stay permitted.
    pub fn set_max_concurrent_streams(&mut self, direction: Direction, count: u64) {
        self.streams.get_mut().set_max_concurrent(direction, count);
    }

    /// Returns how many streams of this direction were opened, and how many more may be. While the
    /// connection is [idle](Self::is_compacted), stream state is unpacked for this.
    pub fn stream_counts(&self, direction: Direction) -> StreamCounts {
        self.streams.get().counts(direction)
    }

    /// Ends a stream (FIN) after the data written so far.
    pub fn finish(&mut self, stream_id: StreamId) -> Result<(), WriteError> {
        self.streams.get_mut().finish(stream_id)
    }

    /// Resets a stream (RESET_STREAM): undelivered data may never be delivered.
    pub fn reset(&mut self, stream_id: StreamId, error_code: VarInt) -> Result<(), UnknownStream> {
        self.streams.get_mut().reset(stream_id, error_code)
    }

    /// Resets a stream like [`reset`](Self::reset), but still delivers its first `reliable_size`
    /// bytes, or all written bytes if those are fewer (RESET_STREAM_AT,
    /// draft-ietf-quic-reliable-stream-reset §5). The application may call this again with a
    /// smaller size, which then applies; a larger one has no effect. Later calls do not change the
    /// error code.
    ///
    /// # Errors
    /// Returns an error if the stream does not exist or cannot be written, or the peer does not
    /// support RESET_STREAM_AT and `reliable_size` is not 0.
    pub fn reset_at(
        &mut self,
        stream_id: StreamId,
        error_code: VarInt,
        reliable_size: u64,
    ) -> Result<(), ResetAtError> {
        if reliable_size > 0 && !self.peer.parameters.reset_stream_at {
            return Err(ResetAtError::Unsupported);
        }
        self.streams.get_mut().reset_at(stream_id, error_code, reliable_size)?;
        Ok(())
    }

    /// Requests that the peer stop sending on a stream (STOP_SENDING), and discards the received
    /// data.
    pub fn stop_sending(
        &mut self,
        now: Timestamp,
        stream_id: StreamId,
        error_code: VarInt,
    ) -> Result<(), UnknownStream> {
        self.streams.get_mut().stop_sending(now, stream_id, error_code)
    }

    /// Reads at most `max` bytes of a stream, in order, without copying.
    pub fn read(
        &mut self,
        now: Timestamp,
        stream_id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        self.streams.get_mut().read(now, stream_id, max)
    }

    /// Reads like [`read`](Self::read), for an application that buffers the data before using it:
    /// the bytes still count against the receive windows of the stream and the connection (RFC 9000
    /// §4.1) until they are [returned](Self::return_credit). A stream that was read ahead to its end
    /// still counts against the peer's stream limit (§4.6) until [`read`](Self::read) returns the
    /// end too.
    pub fn read_ahead(
        &mut self,
        stream_id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        self.streams.get_mut().read_ahead(stream_id, max)
    }

    /// Returns the application error code if the peer has reset a stream (RFC 9000 §19.4). The
    /// reset then counts as read (§3.2), which ends the receiving part of the stream. Returns
    /// `Ok(None)` if there was no reset. This reads no data, so it can be called while data is
    /// unread. A reset that leaves data to be delivered (RESET_STREAM_AT) is returned by
    /// [`read`](Self::read) after that data.
    ///
    /// # Errors
    /// Returns the same error as [`read`](Self::read) for a stream that cannot be read.
    pub fn received_reset(&mut self, stream_id: StreamId) -> Result<Option<VarInt>, UnknownStream> {
        self.streams.get_mut().received_reset(stream_id)
    }

    /// Returns whether the peer has reset a stream (RFC 9000 §19.4) so that no more data of it can
    /// be read, not even data that has arrived. The next [`read`](Self::read) then returns the
    /// reset. Unlike [`received_reset`](Self::received_reset), this does not count the reset as
    /// read.
    pub fn is_reset_by_peer(&mut self, stream_id: StreamId) -> bool {
        self.streams.get_mut().is_reset_by_peer(stream_id)
    }

    /// Returns how many bytes of a stream the peer still delivers after resetting it, if it used
    /// RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset §4). [`read`](Self::read) returns
    /// these bytes, and then the reset.
    pub fn received_reliable_size(&mut self, stream_id: StreamId) -> Option<u64> {
        self.streams.get_mut().received_reliable_size(stream_id)
    }

    /// Allows the peer to send this many more bytes, because bytes that were [read
    /// ahead](Self::read_ahead) have been used. Bytes beyond those that were read ahead are
    /// ignored.
    pub fn return_credit(
        &mut self,
        now: Timestamp,
        stream_id: StreamId,
        bytes: u64,
    ) -> Result<(), UnknownStream> {
        self.streams.get_mut().return_credit(now, stream_id, bytes)
    }

    /// Returns how many more bytes the peer may send on a stream and on the entire connection,
    /// according to the limits that it has received or will receive next.
    pub fn receive_credit(&mut self, stream_id: StreamId) -> Option<(u64, u64)> {
        self.streams.get_mut().receive_credit(stream_id)
    }

    /// Returns the receive windows of a stream and of the connection, in bytes. An application that
    /// withholds credit for only a part of both windows does not block the peer.
    pub fn receive_windows(&mut self, stream_id: StreamId) -> Option<(u64, u64)> {
        self.streams.get_mut().receive_windows(stream_id)
    }

    /// Sets the priority of a stream, initially 0: a stream's data is sent before the data of
    /// streams with a lower priority. Streams of the same priority share bandwidth if they are
    /// incremental, which is the default, and are sent one after another if not (RFC 9218 §10).
    pub fn set_priority(
        &mut self,
        stream_id: StreamId,
        priority: i32,
        is_incremental: bool,
    ) -> Result<(), UnknownStream> {
        self.streams.get_mut().set_priority(stream_id, priority, is_incremental)
    }

    /// Queues `data` for sending in an unreliable datagram, which may be lost or reordered (RFC
    /// 9221). Datagrams are subject to congestion control, and share the window evenly with
    /// streams. Returns the ID of the datagram in [`Event::DatagramSettled`].
    ///
    /// # Errors
    /// Returns an error if the datagram can never be sent, or cannot be queued now; see
    /// [`DatagramError`].
    pub fn send_datagram(&mut self, data: Bytes) -> Result<DatagramId, DatagramError> {
        if self.is_closed() {
            return Err(DatagramError::ConnectionClosed);
        }
        self.want_larger_datagrams();
        self.datagrams.send(data)
    }

    /// Starts path MTU discovery, unless it is disabled or complete: the application sends
    /// unreliable datagrams, or has one that is larger than
    /// [`max_datagram_payload`](Self::max_datagram_payload).
    pub fn want_larger_datagrams(&mut self) {
        if !self.is_closed() {
            self.paths.mtu_mut().want();
        }
    }

    /// Returns whether datagrams are queued that have not been sent yet. If the connection is closed
    /// now, they are dropped.
    pub fn has_unsent_datagrams(&self) -> bool {
        self.datagrams.has_pending()
    }

    /// Returns the largest unreliable datagram payload that fits the send queue, in bytes. The path
    /// may allow less: see [`max_datagram_payload`](Self::max_datagram_payload).
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.datagrams.send_space()
    }

    /// Requests an [`Event::DatagramsWritable`] when half of the datagram send queue is empty and a
    /// payload of `bytes` fits, as if a datagram of that size had been rejected with
    /// [`QueueFull`](DatagramError::QueueFull).
    pub fn await_datagram_room(&mut self, bytes: usize) {
        self.datagrams.await_room_for(bytes);
    }

    /// Removes and returns the oldest received unreliable datagram.
    pub fn receive_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.next()
    }

    /// Sends a PING, which the peer acknowledges.
    pub fn ping(&mut self) {
        self.flags.ping_pending = true;
    }

    /// Replaces the connection IDs that the peer uses, if this endpoint's
    /// [generator](crate::ConnectionIdGenerator::rotation) has switched to another configuration
    /// since they were issued: the peer gets new IDs and has to retire the earlier ones (RFC 9000
    /// §5.1.2), which remain valid until it does. Before the handshake is confirmed this does
    /// nothing; the IDs are replaced upon confirmation without another call. Likewise, another
    /// configuration change waits until the peer has retired the IDs from the previous change.
    ///
    /// Returns whether there are IDs to send.
    pub fn replace_connection_ids(&mut self) -> bool {
        if !self.lifecycle.is_confirmed() {
            return false;
        }
        self.local_ids.replace(&mut self.random);
        self.local_ids.has_pending()
    }

    pub(super) fn has_part_events(&self) -> bool {
        self.streams.has_events() || self.datagrams.has_events()
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
        if self.datagrams.take_unreported() {
            return Some(Event::DatagramReceived);
        }
        if self.datagrams.take_room() {
            return Some(Event::DatagramsWritable);
        }
        let settled = self.datagrams.next_outcome();
        settled.map(|(id, outcome)| Event::DatagramSettled { id, outcome })
    }
}
