//! The application's operations on streams: opening, writing, reading, and ending them.

use bytes::{Bytes, BytesMut};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, VarInt};

use super::{
    LEAST_SEND_BUFFER, MAX_WAKING_ROOM, Queues, ReadError, ReadOutcome, STREAM_SEND_SHARE,
    SendCredits, StreamEvent, StreamProgress, Streams, UnknownStream, WINDOWS_KEPT, WriteError,
};

/// Writes shorter than this are collected in chunks of [`SCRATCH`] bytes.
const SHORT_WRITE: usize = 4 << 10;

/// The size of the chunks in which short writes are collected, in bytes.
const SCRATCH: usize = 16 << 10;

impl Streams {
    /// Opens a stream. Returns `None` while the peer does not allow another (RFC 9000 §4.6);
    /// [`StreamEvent::StreamsAvailable`] follows once it does.
    pub(crate) fn open(&mut self, direction: Direction) -> Option<StreamId> {
        let index = self.local.get_mut(direction).open()?;
        let id = StreamId::new(self.side.initiator(), direction, index)?;
        self.create(id);
        Some(id)
    }

    /// Accepts the next stream that the peer has opened.
    pub(crate) fn accept(&mut self, direction: Direction) -> Option<StreamId> {
        let index = self.remote.get_mut(direction).accept()?;
        let id = StreamId::new(self.side.peer().initiator(), direction, index)?;
        if let Some((key, stream)) = self.table.find_mut(id) {
            stream.is_accepted = true;
            if self.report_readable(key) {
                self.settle(key);
            }
        }
        Some(id)
    }

    /// Appends to a stream, without copying, as much of `data` as the send buffer has space for,
    /// and returns that number of bytes. If not all of `data` was accepted,
    /// [`StreamEvent::Writable`] follows once there is more space.
    pub(crate) fn write(&mut self, id: StreamId, mut data: Bytes) -> Result<usize, WriteError> {
        let (key, taken) = self.admit(id, data.len())?;
        data.truncate(taken);
        self.append(key, data);
        Ok(taken)
    }

    /// Like [`Self::write`] for each of the parts of `data` in turn. If the stream accepts all of
    /// them and `end` is set, also calls [`Self::finish`].
    pub(crate) fn write_parts(
        &mut self,
        id: StreamId,
        data: [Bytes; 2],
        end: bool,
    ) -> Result<usize, WriteError> {
        let wanted = data.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        let (key, taken) = self.admit(id, wanted)?;
        if let Some(stream) = self.table.get_mut(key)
            && let Some(send) = stream.send.as_deref_mut()
        {
            self.queues.kept.add(stream.priority, taken as u64);
            self.unsent = self.unsent.saturating_add(taken as u64);
            let mut room = taken;
            for mut part in data {
                part.truncate(room);
                room = room.saturating_sub(part.len());
                send.write(part);
            }
            if end && taken == wanted {
                send.finish();
            }
        }
        self.settle(key);
        Ok(taken)
    }

    /// Like [`Self::write`], but copies the data.
    pub(crate) fn write_slice(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let (key, taken) = self.admit(id, data.len())?;
        let data = data.get(..taken).unwrap_or_default();
        let copy = if data.len() < SHORT_WRITE {
            let scratch = &mut self.queues.scratch;
            if scratch.capacity() < data.len() {
                *scratch = BytesMut::with_capacity(SCRATCH);
            }
            scratch.extend_from_slice(data);
            scratch.split().freeze()
        } else {
            Bytes::copy_from_slice(data)
        };
        self.append(key, copy);
        Ok(taken)
    }

    /// Returns the stream's key, and how many of `wanted` bytes it may keep now.
    fn admit(&mut self, id: StreamId, wanted: usize) -> Result<(usize, usize), WriteError> {
        let key = self.table.key(id).ok_or(WriteError::UnknownStream)?;
        let room = usize::try_from(self.room(key)).unwrap_or(usize::MAX);
        let stream = self.table.get_mut(key).ok_or(WriteError::UnknownStream)?;
        stream.send.as_deref().ok_or(WriteError::UnknownStream)?.check_writable()?;
        if wanted > room {
            stream.awaits_room = true;
            if !core::mem::replace(&mut stream.queued.writers, true) {
                self.queues.writers.push(stream.priority, key);
            }
        }
        Ok((key, wanted.min(room)))
    }

    fn append(&mut self, key: usize, data: Bytes) {
        if let Some(stream) = self.table.get_mut(key)
            && let Some(send) = stream.send.as_deref_mut()
        {
            self.queues.kept.add(stream.priority, data.len() as u64);
            self.unsent = self.unsent.saturating_add(data.len() as u64);
            send.write(data);
        }
        self.settle(key);
    }

    /// Returns how many more bytes the stream with `key` may keep. Data of less urgent streams does
    /// not reduce this number: those streams wait for this one, however long ago they filled the
    /// buffer.
    fn room(&self, key: usize) -> u64 {
        let Some(stream) = self.table.get(key) else { return 0 };
        let kept = stream.send.as_deref().map_or(0, |send| send.buffered());
        let share = STREAM_SEND_SHARE.min(self.send_buffer).saturating_sub(kept);
        self.shared_room(stream.priority).max(share)
    }

    /// Returns how many more bytes the streams of a priority may keep in total.
    fn shared_room(&self, priority: i32) -> u64 {
        self.send_buffer.saturating_sub(self.queues.kept.of_at_least(priority))
    }

    /// Adapts the send buffer to a congestion window of `window` bytes. Data that cannot be sent
    /// for a long time is better left with the application, which may not have it in memory yet. A
    /// buffer that is too full for a smaller window accepts nothing until enough of it has been
    /// sent.
    pub(crate) fn on_congestion_window(&mut self, window: u64) {
        let wanted = window.saturating_mul(WINDOWS_KEPT).max(LEAST_SEND_BUFFER);
        let before = self.send_buffer;
        self.send_buffer = wanted.min(self.max_send_buffer).max(1);
        if self.send_buffer > before {
            self.wake_writers();
        }
    }

    /// Sets the maximum size of the send buffer, whatever the congestion window, which is `window`
    /// bytes now.
    pub(crate) fn set_max_send_buffer(&mut self, bytes: u64, window: u64) {
        self.max_send_buffer = bytes;
        self.on_congestion_window(window);
    }

    /// Releases `bytes` of the stream with `key`: their space becomes available to waiting writers.
    pub(super) fn release(&mut self, key: usize, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let Some(stream) = self.table.get(key) else { return };
        let (priority, awaits_room) = (stream.priority, stream.awaits_room);
        self.queues.kept.remove(priority, bytes);
        if awaits_room && self.room(key) >= self.waking_room() {
            self.queues.writers.remove(priority, key);
            self.wake_writer(key);
        }
        self.wake_writers();
    }

    /// Returns the free buffer space at which a blocked writer is woken, in bytes.
    fn waking_room(&self) -> u64 {
        (self.send_buffer / 8).clamp(1, MAX_WAKING_ROOM)
    }

    /// Wakes the blocked writers for which there is enough space. A less urgent writer never has
    /// more space than a more urgent one.
    fn wake_writers(&mut self) {
        let least = self.waking_room();
        loop {
            let limit = self.send_buffer;
            let Some(Queues { kept, writers, .. }) = self.queues.used() else { return };
            let has_room = |priority| limit.saturating_sub(kept.of_at_least(priority)) >= least;
            let Some(key) = writers.pop_if(has_room) else { return };
            self.wake_writer(key);
        }
    }

    fn wake_writer(&mut self, key: usize) {
        let Some(stream) = self.table.get_mut(key) else { return };
        stream.queued.writers = false;
        stream.awaits_room = false;
        let can_write = stream.send.as_deref().is_some_and(|send| send.check_writable().is_ok());
        if can_write && !core::mem::replace(&mut stream.queued.writable, true) {
            self.queues.events.push(StreamEvent::Writable(stream.id));
        }
    }

    /// Returns how many more bytes may be written to a stream until the peer's limits on the stream
    /// and on the connection are reached.
    pub(crate) fn send_credit(&mut self, id: StreamId) -> Result<SendCredits, WriteError> {
        let connection = self.credit_of_connection();
        let (_, stream) = self.table.find_mut(id).ok_or(WriteError::UnknownStream)?;
        let send = stream.send.as_deref().ok_or(WriteError::UnknownStream)?;
        send.check_writable()?;
        Ok(SendCredits { stream: send.permitted(), connection })
    }

    /// Requests [`StreamEvent::Writable`] when the peer raises its limit on the stream or on the
    /// connection, or nothing more can be written.
    pub(crate) fn await_credit(&mut self, id: StreamId) -> Result<(), WriteError> {
        let (key, stream) = self.table.find_mut(id).ok_or(WriteError::UnknownStream)?;
        stream.send.as_deref().ok_or(WriteError::UnknownStream)?.check_writable()?;
        if !core::mem::replace(&mut stream.queued.credit, true) {
            self.queues.credit.push_back(key);
        }
        Ok(())
    }

    fn credit_of_connection(&self) -> u64 {
        self.flow.send.available().saturating_sub(self.unsent)
    }

    /// Wakes applications that wait for credit, as long as there is some.
    pub(super) fn wake_for_credit(&mut self) {
        let Some(queues) = self.queues.used() else { return };
        let waiting = queues.credit.len();
        for _ in 0..waiting {
            let Some(key) = self.queues.credit.pop_front() else { return };
            self.queues.credit.push_back(key);
            self.wake_stream_for_credit(key);
        }
    }

    /// Wakes the application that is waiting for credit on the stream with `key`, if there is any.
    pub(super) fn wake_stream_for_credit(&mut self, key: usize) {
        let of_connection = self.credit_of_connection();
        let Some(stream) = self.table.get_mut(key).filter(|stream| stream.queued.credit) else {
            return;
        };
        let Some(send) = stream.send.as_deref() else { return };
        // An application that can no longer write is woken, too.
        if send.check_writable().is_ok() && send.permitted().min(of_connection) == 0 {
            return;
        }
        stream.queued.credit = false;
        let id = stream.id;
        let is_reported = core::mem::replace(&mut stream.queued.writable, true);
        super::remove_key(&mut self.queues.credit, key);
        if !is_reported {
            self.queues.events.push(StreamEvent::Writable(id));
        }
    }

    /// Discards written bytes that will not be sent: other streams may use the connection's credit
    /// for them.
    pub(super) fn discard_unsent(&mut self, bytes: u64) {
        if bytes > 0 {
            self.unsent = self.unsent.saturating_sub(bytes);
            self.wake_for_credit();
        }
    }

    /// Ends a stream after the written data. [`StreamEvent::Finished`] follows once all of it is acknowledged.
    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let (key, stream) = self.table.find_mut(id).ok_or(WriteError::UnknownStream)?;
        let send = stream.send.as_deref_mut().ok_or(WriteError::UnknownStream)?;
        send.check_writable()?;
        send.finish();
        self.settle(key);
        Ok(())
    }

    /// Abandons sending on a stream: unacknowledged data is no longer sent. Does nothing if the
    /// peer has acknowledged everything, or if the stream was already reset.
    pub(crate) fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), UnknownStream> {
        let (key, stream) = self.table.find_mut(id).ok_or(UnknownStream)?;
        let send = stream.send.as_deref_mut().ok_or(UnknownStream)?;
        let (kept, unsent) = (send.buffered(), send.unsent());
        if send.reset(code) {
            self.release(key, kept);
            self.discard_unsent(unsent);
        }
        self.settle(key);
        Ok(())
    }

    /// Abandons sending on a stream from `reliable_size` on: data before that is still delivered.
    /// Does nothing if the peer has acknowledged everything, or if an earlier reset left no more to
    /// deliver.
    pub(crate) fn reset_at(
        &mut self,
        id: StreamId,
        code: VarInt,
        reliable_size: u64,
    ) -> Result<(), UnknownStream> {
        let (key, stream) = self.table.find_mut(id).ok_or(UnknownStream)?;
        let send = stream.send.as_deref_mut().ok_or(UnknownStream)?;
        // A reliable size of zero is an ordinary reset (draft-ietf-quic-reliable-stream-reset §5).
        if reliable_size == 0 || !send.has_any() {
            return self.reset(id, code);
        }
        let (kept, unsent) = (send.buffered(), send.unsent());
        send.reset_at(code, reliable_size);
        let released = kept.saturating_sub(send.buffered());
        let discarded = unsent.saturating_sub(send.unsent());
        self.release(key, released);
        self.discard_unsent(discarded);
        self.settle(key);
        Ok(())
    }

    /// Abandons reading a stream: received data is discarded, and STOP_SENDING is sent to the peer
    /// (RFC 9000 §3.5). Nothing more can be read.
    pub(crate) fn stop_sending(
        &mut self,
        now: Timestamp,
        id: StreamId,
        code: VarInt,
    ) -> Result<(), UnknownStream> {
        let (key, stream) = self.table.find_mut(id).ok_or(UnknownStream)?;
        let receive = stream.receive.as_deref_mut().ok_or(UnknownStream)?;
        receive.stop(now, &mut self.flow, code);
        self.settle(key);
        Ok(())
    }

    /// Reads up to `max` bytes (at least one) of a stream, in order and without copying them. After
    /// a read that is blocked, [`StreamEvent::Readable`] follows once there is more.
    pub(crate) fn read(
        &mut self,
        now: Timestamp,
        id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        let (key, stream) = self.table.find_mut(id).ok_or(ReadError::UnknownStream)?;
        let receive = stream.receive.as_deref_mut().ok_or(ReadError::UnknownStream)?;
        let outcome = receive.read(now, &mut self.flow, max);
        receive.replenish_peer(&mut self.flow);
        self.count_read(&outcome);
        self.settle(key);
        outcome
    }

    /// Like [`Self::read`], but the data still counts toward both receive windows until
    /// [`Self::return_credit`] returns its credit, and a stream that was read to its end stays open
    /// until [`Self::read`] returns the end.
    pub(crate) fn read_ahead(
        &mut self,
        id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, ReadError> {
        let (key, stream) = self.table.find_mut(id).ok_or(ReadError::UnknownStream)?;
        let receive = stream.receive.as_deref_mut().ok_or(ReadError::UnknownStream)?;
        let outcome = receive.read_ahead(max);
        self.count_read(&outcome);
        self.settle(key);
        outcome
    }

    /// Returns the error code with which the peer has reset a stream, if it has. The reset then
    /// counts as read. Does not read any data.
    pub(crate) fn received_reset(&mut self, id: StreamId) -> Result<Option<VarInt>, UnknownStream> {
        let (key, stream) = self.table.find_mut(id).ok_or(UnknownStream)?;
        let receive = stream.receive.as_deref_mut().ok_or(UnknownStream)?;
        let code = receive.received_reset()?;
        if code.is_some() {
            self.settle(key);
        }
        Ok(code)
    }

    /// Returns whether the peer has reset a stream and the reset has not been read.
    pub(crate) fn is_reset_by_peer(&mut self, id: StreamId) -> bool {
        let receive = self.table.find_mut(id).and_then(|(_, stream)| stream.receive.as_deref());
        receive.is_some_and(|receive| receive.is_reset())
    }

    /// Returns the reliable size of a stream that the peer has reset with RESET_STREAM_AT, if it
    /// has.
    pub(crate) fn received_reliable_size(&mut self, id: StreamId) -> Option<u64> {
        self.table.find_mut(id)?.1.receive.as_deref()?.reliable_size()
    }

    /// Returns the credit of bytes that were read ahead and are now used, so that the peer may send
    /// as many more.
    pub(crate) fn return_credit(
        &mut self,
        now: Timestamp,
        id: StreamId,
        bytes: u64,
    ) -> Result<(), UnknownStream> {
        let (key, stream) = self.table.find_mut(id).ok_or(UnknownStream)?;
        let receive = stream.receive.as_deref_mut().ok_or(UnknownStream)?;
        receive.return_credit(now, &mut self.flow, bytes);
        receive.replenish_peer(&mut self.flow);
        self.settle(key);
        Ok(())
    }

    fn count_read(&mut self, outcome: &Result<ReadOutcome, ReadError>) {
        if let Ok(ReadOutcome::Data(data)) = outcome {
            let read = &mut self.statistics.bytes_read;
            *read = read.saturating_add(data.len() as u64);
        }
    }

    /// Returns the receive windows of a stream and of the connection, in bytes.
    pub(crate) fn receive_windows(&mut self, id: StreamId) -> Option<(u64, u64)> {
        let receive = self.table.find_mut(id)?.1.receive.as_deref()?;
        Some((receive.window().window(), self.flow.receive_window().window()))
    }

    /// Returns how many more bytes the peer may send on a stream and on the connection.
    pub(crate) fn receive_credit(&mut self, id: StreamId) -> Option<(u64, u64)> {
        let receive = self.table.find_mut(id)?.1.receive.as_deref()?;
        Some((receive.window().available(), self.flow.receive_window().available()))
    }

    /// Returns a stream's progress; `None` if there is no such stream or it has ended.
    pub(crate) fn progress(&mut self, id: StreamId) -> Option<StreamProgress> {
        let (_, stream) = self.table.find_mut(id)?;
        let sent = stream.send.as_deref().map(|send| send.progress()).unwrap_or_default();
        let received = stream.receive.as_deref().map_or(0, |receive| receive.received());
        Some(StreamProgress { received, ..sent })
    }

    /// Returns how many bytes of a stream can be read now; 0 if there is no such stream.
    #[cfg(test)]
    pub(crate) fn readable_bytes(&mut self, id: StreamId) -> u64 {
        let receive = self.table.find_mut(id).and_then(|(_, stream)| stream.receive.as_deref());
        receive.map_or(0, |receive| receive.readable())
    }

    /// Sets how a stream shares the connection with others. Higher priorities are sent first; all
    /// streams start with 0. Within one priority, incremental streams (the default) take turns, and
    /// the others are sent one after another, by ID, in one common turn (RFC 9218 §10).
    pub(crate) fn set_priority(
        &mut self,
        id: StreamId,
        priority: i32,
        is_incremental: bool,
    ) -> Result<(), UnknownStream> {
        let (key, stream) = self.table.find_mut(id).ok_or(UnknownStream)?;
        if (stream.priority, stream.is_incremental) == (priority, is_incremental) {
            return Ok(());
        }
        let (before, queued) = (stream.waiting(key), stream.queued);
        let kept = stream.send.as_deref().map_or(0, |send| send.buffered());
        let is_moved = stream.priority != priority && (kept > 0 || queued.writers);
        if kept > 0 {
            self.queues.kept.remove(stream.priority, kept);
            self.queues.kept.add(priority, kept);
        }
        if queued.writers {
            self.queues.writers.remove(stream.priority, key);
            self.queues.writers.push(priority, key);
        }
        stream.priority = priority;
        stream.is_incremental = is_incremental;
        let after = stream.waiting(key);
        let Queues { creditless, fresh, .. } = &mut *self.queues;
        for (scheduler, waits) in [(creditless, queued.creditless), (fresh, queued.fresh)] {
            scheduler.set(before, waits, false);
            scheduler.set(after, false, waits);
        }
        // A stream that has become more urgent may have room now, and so may those that were less
        // urgent than it was.
        if is_moved {
            self.wake_writers();
        }
        Ok(())
    }

    /// Reports that a stream is readable, if it is and the application is waiting for it. Returns
    /// whether it was reported.
    pub(super) fn report_readable(&mut self, key: usize) -> bool {
        let Some(stream) = self.table.get_mut(key) else { return false };
        let Some(receive) = stream.receive.as_deref_mut() else { return false };
        if !(stream.is_accepted && receive.awaits_data && receive.has_unread()) {
            return false;
        }
        receive.awaits_data = false;
        if !core::mem::replace(&mut stream.queued.readable, true) {
            self.queues.events.push(StreamEvent::Readable(stream.id));
        }
        true
    }
}
