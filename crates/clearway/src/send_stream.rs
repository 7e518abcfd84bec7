use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use bytes::Bytes;
use clearway_transport::ConnectionError;
use clearway_wire::{StreamId, VarInt};
use tokio::io::AsyncWrite;

use crate::bridge::{HANDLE, SendBuffer, SendState};
use crate::connection_ref::ConnectionRef;
use crate::error::{ResetAtError, StreamClosed, WriteError};
use crate::stopped::{self, Stopped};
use crate::streams::{Effects, Scheduling, SendHalf};

/// Maximum number of bytes that one write copies.
const COPY_LIMIT: usize = 64 << 10;

/// The sending half of a stream.
///
/// Up to 1 MiB of written data is buffered until the transport takes it. If the handle is dropped
/// without [`finish`](Self::finish) or [`reset`](Self::reset), the stream is finished: written data
/// is still delivered, provided that the connection stays open.
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
}

impl SendStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id }
    }

    /// Returns the stream's ID.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `data` as soon as the send buffer has room. Returns the number of bytes
    /// written.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped, no data was written.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|context| self.poll_write(context, data)).await
    }

    /// Writes some of `data` as soon as the send buffer has room. Returns the number of bytes
    /// written.
    ///
    /// If it returns [`Poll::Pending`], no data was written, and the task of `context` is woken
    /// once there is room, or nothing more can be written. Only the last task that called a `poll_`
    /// function for writing is woken.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_send(context, |buffer, room| {
            let data = Bytes::copy_from_slice(&data[..data.len().min(room).min(COPY_LIMIT)]);
            let length = data.len();
            buffer.push(data);
            length
        })
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// Not cancel-safe: if the future is dropped, some of the data may have been written.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let taken = self.write(data).await?;
            data = &data[taken..];
        }
        Ok(())
    }

    /// Writes all of `data` without copying it, as soon as the send buffer has room for some of it.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped, no data was written.
    pub async fn write_chunk(&mut self, mut data: Bytes) -> Result<(), WriteError> {
        poll_fn(|context| self.poll_write_chunk(context, &mut data)).await
    }

    /// Writes all of `chunk` without copying it, as soon as the send buffer has room for some of
    /// it. `chunk` is then empty.
    ///
    /// If it returns [`Poll::Pending`], no data was written, and the task of `context` is woken as
    /// for [`poll_write`](Self::poll_write).
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    pub fn poll_write_chunk(
        &mut self,
        context: &mut Context<'_>,
        chunk: &mut Bytes,
    ) -> Poll<Result<(), WriteError>> {
        self.poll_send(context, |buffer, _| buffer.push(core::mem::take(chunk)))
    }

    /// Writes the first of `chunks` without copying them: at least one, as soon as the send buffer
    /// has room for some of it, and more as long as there is room. The chunks that were written are
    /// then empty.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, no data was written.
    pub async fn write_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Written, WriteError> {
        if chunks.is_empty() {
            return Ok(Written { bytes: 0, chunks: 0 });
        }
        poll_fn(|context| self.poll_send(context, |buffer, _| push_all(buffer, chunks))).await
    }

    /// Writes all of `chunks` without copying them. They are then empty.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped, the chunks that were written are empty and the others unchanged:
    /// another call with the same `chunks` continues.
    pub async fn write_all_chunks(&mut self, chunks: &mut [Bytes]) -> Result<(), WriteError> {
        let mut written = 0;
        while written < chunks.len() {
            written += self.write_chunks(&mut chunks[written..]).await?.chunks;
        }
        Ok(())
    }

    /// Writes all of `data` without copying it, as soon as the send buffer has room for some of it,
    /// and ends the stream.
    ///
    /// The last data and the end are sent in one frame; with [`write_all`](Self::write_all) and
    /// [`finish`](Self::finish) the end may need a separate packet.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, no data was written.
    pub async fn finish_with(&mut self, data: Bytes) -> Result<(), WriteError> {
        poll_fn(|context| {
            self.poll_send(context, |send, _| {
                send.push(data.clone());
                send.finish();
            })
        })
        .await
    }

    /// Waits until the peer's flow control allows more data than has been written, and the send
    /// buffer has room for it. Returns the number of bytes, at most `max`, and at least one unless
    /// `max` is 0.
    ///
    /// A task that produces data only when it has credit buffers little for a peer that does not
    /// read.
    ///
    /// # Errors
    /// Fails if nothing more can be written to the stream.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn credit(&mut self, max: usize) -> Result<usize, WriteError> {
        if max == 0 {
            return Ok(0);
        }
        poll_fn(|context| self.poll_credit(context, max)).await
    }

    fn poll_credit(
        &mut self,
        context: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<usize, WriteError>> {
        self.connection.act(|state, effects| {
            let lost = state.lost();
            let send = state.send_half(self.id).ok_or(WriteError::ClosedStream)?;
            check_open(send.buffer.state(), lost)?;
            let credit = send.buffer.poll_credit(context, effects, max);
            if send.buffer.awaits_credit() && credit.is_pending() {
                state.change(self.id);
                effects.wake_shard();
            }
            credit.map(Ok)
        })
    }

    /// Changes the buffer as soon as it has room, and wakes the shard.
    fn poll_send<T>(
        &mut self,
        context: &mut Context<'_>,
        change: impl FnOnce(&mut SendBuffer<VarInt>, usize) -> T,
    ) -> Poll<Result<T, WriteError>> {
        self.connection.act(|state, effects| {
            let lost = state.lost();
            let send = state.send_half(self.id).ok_or(WriteError::ClosedStream)?;
            check_open(send.buffer.state(), lost)?;
            let room = ready!(send.buffer.poll_room(context, effects));
            let changed = change(&mut send.buffer, room);
            state.change(self.id);
            effects.wake_shard();
            Poll::Ready(Ok(changed))
        })
    }

    /// Ends the stream after the written data. Does not wait for delivery; see
    /// [`stopped`](Self::stopped).
    ///
    /// # Errors
    /// Fails if the stream was already finished or reset.
    pub fn finish(&mut self) -> Result<(), StreamClosed> {
        self.change(|send, _| match send.buffer.state() {
            SendState::Open => {
                send.buffer.finish();
                Ok(())
            }
            SendState::Failed(_) => Ok(()),
            _ => Err(StreamClosed),
        })
    }

    /// Resets the stream with `error_code` (RESET_STREAM): data that has not been delivered may be
    /// lost. Has no effect if the peer has acknowledged everything or has stopped the stream.
    ///
    /// # Errors
    /// Fails if the stream was already reset.
    pub fn reset(&mut self, error_code: VarInt) -> Result<(), StreamClosed> {
        self.change(|send, _| match send.buffer.state() {
            SendState::Open | SendState::Finishing | SendState::Finished => {
                send.buffer.reset(error_code);
                Ok(())
            }
            SendState::Failed(_) | SendState::Delivered => Ok(()),
            SendState::Resetting(_) | SendState::ResettingAt { .. } | SendState::Reset => {
                Err(StreamClosed)
            }
        })
    }

    /// Resets the stream like [`reset`](Self::reset), but still delivers its first `reliable_size`
    /// bytes.
    ///
    /// If fewer bytes were written, all of them are delivered (RESET_STREAM_AT,
    /// draft-ietf-quic-reliable-stream-reset). The peer reads the delivered bytes before the reset.
    ///
    /// # Errors
    /// Fails if the peer does not support RESET_STREAM_AT, or the stream was already reset.
    pub fn reset_at(&mut self, error_code: VarInt, reliable_size: u64) -> Result<(), ResetAtError> {
        self.connection.act(|state, effects| {
            let is_supported =
                state.established.as_ref().is_some_and(|established| established.reset_stream_at);
            let send = state.send_half(self.id).ok_or(ResetAtError::ClosedStream)?;
            match send.buffer.state() {
                SendState::Open | SendState::Finishing | SendState::Finished => {}
                SendState::Failed(_) | SendState::Delivered => return Ok(()),
                SendState::Resetting(_) | SendState::ResettingAt { .. } | SendState::Reset => {
                    return Err(ResetAtError::ClosedStream);
                }
            }
            match reliable_size {
                0 => send.buffer.reset(error_code),
                _ if is_supported => send.buffer.reset_at(error_code, reliable_size),
                _ => return Err(ResetAtError::Unsupported),
            }
            state.change(self.id);
            effects.wake_shard();
            Ok(())
        })
    }

    /// Sets the stream's priority: its data is sent before data on streams with a lower priority.
    /// The default is 0.
    pub fn set_priority(&mut self, priority: i32) {
        self.schedule(|scheduling| scheduling.priority = priority);
    }

    /// Returns the stream's [priority](Self::set_priority).
    pub fn priority(&self) -> i32 {
        self.connection.lock().send_half(self.id).map_or(0, |send| send.scheduling.priority)
    }

    /// Sets whether the stream shares bandwidth with other streams of the same priority (RFC 9218
    /// §10), which is the default. The streams that do not are sent one after another, in the order
    /// of their IDs.
    pub fn set_incremental(&mut self, is_incremental: bool) {
        self.schedule(|scheduling| scheduling.is_incremental = is_incremental);
    }

    fn schedule(&self, change: impl FnOnce(&mut Scheduling)) {
        // Fails if the stream has ended; it then is not scheduled.
        let _ = self.change(|send, _| {
            change(&mut send.scheduling);
            send.scheduling.is_unreported = true;
            Ok(())
        });
    }

    fn change(
        &self,
        change: impl FnOnce(&mut SendHalf, &mut Effects) -> Result<(), StreamClosed>,
    ) -> Result<(), StreamClosed> {
        self.connection.act(|state, effects| {
            change(state.send_half(self.id).ok_or(StreamClosed)?, effects)?;
            state.change(self.id);
            effects.wake_shard();
            Ok(())
        })
    }

    /// Waits until the peer stops the stream or has acknowledged everything.
    ///
    /// Returns `Some` with the peer's error code if it stops the stream, and `None` if it has
    /// acknowledged everything after [`finish`](Self::finish). After [`reset`](Self::reset),
    /// returns `None` immediately.
    ///
    /// The future does not borrow the stream, so it can be awaited while another future writes. It
    /// keeps the connection open, and returns the same after this handle was dropped, which
    /// finishes the stream.
    ///
    /// # Errors
    /// Fails if the connection ends earlier.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub fn stopped(&self) -> Stopped {
        Stopped::new(&self.connection, self.id)
    }

    /// Waits like [`stopped`](Self::stopped).
    ///
    /// If it returns [`Poll::Pending`], the task of `context` is woken once there is an outcome.
    /// Only the last task that called this function is woken; tasks that write or wait for a
    /// [`stopped`](Self::stopped) future are not affected.
    ///
    /// # Errors
    /// Fails if the connection ends earlier.
    pub fn poll_stopped(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<VarInt>, ConnectionError>> {
        self.connection.act(|state, effects| {
            if let Some(outcome) = stopped::outcome(state, self.id) {
                return Poll::Ready(outcome);
            }
            if let Some(send) = state.send_half(self.id) {
                send.buffer.watchers().register(HANDLE, context, effects);
            }
            Poll::Pending
        })
    }
}

/// The extent of a [write of several chunks](SendStream::write_chunks).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Written {
    /// Number of bytes written.
    pub bytes: usize,
    /// Number of chunks written completely. No other chunk was written in part.
    pub chunks: usize,
}

/// Moves chunks into the buffer while it has room.
fn push_all(buffer: &mut SendBuffer<VarInt>, chunks: &mut [Bytes]) -> Written {
    let mut written = Written::default();
    for chunk in chunks {
        if written.chunks > 0 && !buffer.has_room() {
            break;
        }
        written.bytes += chunk.len();
        written.chunks += 1;
        buffer.push(core::mem::take(chunk));
    }
    written
}

/// Fails if nothing more can be written.
fn check_open(state: &SendState<VarInt>, lost: Option<ConnectionError>) -> Result<(), WriteError> {
    match (state, lost) {
        (SendState::Failed(code), _) => Err(WriteError::Stopped(*code)),
        (SendState::Open, None) => Ok(()),
        (SendState::Open, Some(error)) => Err(WriteError::ConnectionLost(error)),
        _ => Err(WriteError::ClosedStream),
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write(context, data).map_err(Into::into)
    }

    /// Does nothing: written data is sent without flushing.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Finishes the stream, without waiting for delivery.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An error means that the stream has already ended.
        let _ = self.get_mut().finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        // Fails if the stream has ended; there is nothing to do then.
        let _ = self.change(|send, effects| {
            send.buffer.finish();
            send.handle_is_gone = true;
            send.buffer.release(effects);
            send.buffer.unwatch(HANDLE, effects);
            Ok(())
        });
    }
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("id", &self.id).finish_non_exhaustive()
    }
}
