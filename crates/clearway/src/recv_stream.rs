use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use bytes::Bytes;
use clearway_transport::ConnectionError;
use clearway_wire::{StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection_ref::ConnectionRef;
use crate::error::{ReadError, ReadExactError, ReadToEndError, StreamClosed};
use crate::streams::{Effects, ReceiveHalf, State};

/// The receiving half of a stream.
///
/// Unread data is buffered up to the receive windows of the stream and of the connection (RFC 9000
/// §4.1); then the peer has to wait. The stream counts against the limit on the peer's open streams
/// (§4.6) until its end has been read. Dropping the handle before the end [stops](Self::stop) the
/// stream with code 0.
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
}

impl RecvStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id }
    }

    /// Returns the stream's ID.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads into `buffer`. Returns the number of bytes read, or `None` at the end of the stream.
    ///
    /// # Errors
    /// Fails if nothing more can be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, no data was read.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|context| self.poll_read(context, buffer)).await
    }

    /// Reads into `buffer`. Returns the number of bytes read, or `None` at the end of the stream.
    ///
    /// If it returns [`Poll::Pending`], no data was read, and the task of `context` is woken once
    /// there is data or the end. Only the last task that waited on this stream is woken.
    ///
    /// # Errors
    /// Fails if nothing more can be read.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        let chunk = ready!(self.poll_read_chunk(context, buffer.len()))?;
        Poll::Ready(Ok(chunk.map(|chunk| {
            buffer[..chunk.len()].copy_from_slice(&chunk);
            chunk.len()
        })))
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    /// Fails if the stream ends before the buffer is full, or nothing more can be read.
    ///
    /// # Cancel safety
    /// Not cancel-safe: if the future is dropped, data that it has read is lost.
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]).await {
                Ok(Some(length)) => filled += length,
                Ok(None) => return Err(ReadExactError::FinishedEarly(filled)),
                Err(error) => return Err(ReadExactError::Read(error)),
            }
        }
        Ok(())
    }

    /// Waits for the next bytes and returns between one and `max` of them, without copying. Returns
    /// `None` at the end of the stream.
    ///
    /// # Errors
    /// Fails if nothing more can be read.
    ///
    /// # Cancel safety
    /// If the future is dropped, no data was read.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|context| self.poll_read_chunk(context, max)).await
    }

    /// Returns between one and `max` bytes without copying them, and `None` at the end of the
    /// stream.
    ///
    /// If it returns [`Poll::Pending`], no data was read, and the task of `context` is woken as for
    /// [`poll_read`](Self::poll_read).
    ///
    /// # Errors
    /// Fails if nothing more can be read.
    pub fn poll_read_chunk(
        &mut self,
        context: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.poll_take(context, |receive| receive.take(max.max(1)))
    }

    /// Waits for the next bytes and moves all of them that have arrived into `chunks`, without
    /// copying, until all of these are used. Returns how many were used, or `None` at the end of
    /// the stream.
    ///
    /// # Errors
    /// Fails if nothing more can be read.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, no data was read.
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        if chunks.is_empty() {
            return Ok(Some(0));
        }
        poll_fn(|context| {
            self.poll_take(context, |receive| {
                let mut used = 0;
                for chunk in chunks.iter_mut() {
                    let Some(data) = receive.take(usize::MAX) else { break };
                    *chunk = data;
                    used += 1;
                }
                (used > 0).then_some(used)
            })
        })
        .await
    }

    /// Reads the rest of the stream.
    ///
    /// # Errors
    /// Returns an error if the stream fails before its end, or the rest of it is longer than
    /// `limit` bytes.
    ///
    /// # Cancel safety
    /// Not cancel-safe: if the future is dropped, data that it has read is lost.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk(usize::MAX).await.map_err(ReadToEndError::Read)? {
            if chunk.len() > limit - all.len() {
                return Err(ReadToEndError::TooLong { limit });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// Waits until `take` returns received data, or the end of the stream is reached.
    fn poll_take<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&mut ReceiveHalf) -> Option<T>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        self.connection.act(|state, effects| {
            let receive = state.receive_half(self.id).filter(|it| !it.buffer.is_stopped());
            let receive = receive.ok_or(ReadError::ClosedStream)?;
            let before = receive.credit;
            if let Some(taken) = take(receive) {
                let (credit, is_due) = (receive.credit - before, receive.is_due());
                state.app.credit += credit;
                if is_due || state.app.credit >= state.app.credit_step {
                    effects.wake_shard();
                }
                // The shard will see the change with the next batch at the latest.
                state.change(self.id);
                return Poll::Ready(Ok(Some(taken)));
            }
            let end = receive.buffer.end().cloned();
            match (end, state.lost()) {
                (Some(end), _) => {
                    self.note_end(state, effects);
                    Poll::Ready(end.map(|()| None).map_err(ReadError::Reset))
                }
                (None, Some(error)) => Poll::Ready(Err(ReadError::ConnectionLost(error))),
                (None, None) => {
                    self.watch(state, context, effects);
                    Poll::Pending
                }
            }
        })
    }

    /// Registers the task to be woken when more data or the end has arrived.
    fn watch(&self, state: &mut State, context: &Context<'_>, effects: &mut Effects) {
        let others_are_short = state.app.peer_is_short;
        let Some(receive) = state.receive_half(self.id) else { return };
        receive.buffer.watch(context, effects);
        // Unread data on other streams may leave the peer without credit to send more on this
        // stream.
        if receive.credit > 0 && (receive.peer_is_short || others_are_short) {
            state.change(self.id);
            effects.wake_shard();
        }
    }

    /// Records that the task has seen the end of the stream: the peer may open another one.
    fn note_end(&self, state: &mut State, effects: &mut Effects) {
        let Some(receive) = state.receive_half(self.id) else { return };
        if !core::mem::replace(&mut receive.end_is_read, true) {
            receive.end_is_unreported = true;
            state.change(self.id);
            effects.wake_shard();
        }
    }

    /// Waits until the peer resets the stream, or can no longer do so.
    ///
    /// Returns `Some` with the error code of the reset; data that has not been read is then
    /// discarded, except for the part that the peer still delivers (RESET_STREAM_AT). Returns
    /// `None` if all data up to the stream's end has arrived, or the stream was
    /// [stopped](Self::stop). Data that is not read can delay `None`, since flow control holds up
    /// the rest of the stream.
    ///
    /// # Errors
    /// Fails if the connection ends earlier.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn received_reset(&mut self) -> Result<Option<VarInt>, ConnectionError> {
        poll_fn(|context| self.poll_received_reset(context)).await
    }

    fn poll_received_reset(
        &mut self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<VarInt>, ConnectionError>> {
        self.connection.act(|state, effects| {
            let receive = state.receive_half(self.id).filter(|it| !it.buffer.is_stopped());
            let Some(receive) = receive else { return Poll::Ready(Ok(None)) };
            let is_empty = receive.buffer.is_empty();
            let end = receive.buffer.end().cloned();
            match (end, state.lost()) {
                (Some(Ok(())), _) => Poll::Ready(Ok(None)),
                (Some(Err(code)), _) => {
                    if is_empty {
                        self.note_end(state, effects);
                    }
                    Poll::Ready(Ok(Some(code)))
                }
                (None, Some(error)) => Poll::Ready(Err(error)),
                (None, None) => {
                    self.watch(state, context, effects);
                    Poll::Pending
                }
            }
        })
    }

    /// Returns whether data of this stream has arrived in 0-RTT packets and the handshake is not
    /// complete: an on-path attacker may then have replayed a client's data (RFC 9001 §9.2), so it
    /// must be harmless to process it twice.
    pub fn is_early(&self) -> bool {
        let mut state = self.connection.lock();
        let has_early_data = state.receive_half(self.id).is_some_and(|it| it.has_early_data);
        has_early_data && state.established.is_none()
    }

    /// Asks the peer to stop sending, with `error_code` (STOP_SENDING), and discards received data.
    /// Has no effect on a stream whose end has been received.
    ///
    /// # Errors
    /// Fails if the application has already stopped the stream.
    pub fn stop(&mut self, error_code: VarInt) -> Result<(), StreamClosed> {
        self.change(|receive, _| {
            if receive.buffer.is_stopped() {
                return Err(StreamClosed);
            }
            // If the end has already been received, nothing is sent to the peer, but the peer may
            // open another stream.
            receive.buffer.clear();
            receive.buffer.stop(error_code);
            Ok(())
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut ReceiveHalf, &mut Effects) -> Result<(), StreamClosed>,
    ) -> Result<(), StreamClosed> {
        self.connection.act(|state, effects| {
            change(state.receive_half(self.id).ok_or(StreamClosed)?, effects)?;
            state.change(self.id);
            effects.wake_shard();
            Ok(())
        })
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        self.get_mut().poll_read_chunk(context, room).map(|read| {
            if let Some(chunk) = read? {
                buffer.put_slice(&chunk);
            }
            Ok(())
        })
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        // Fails if the stream has ended; there is nothing to do then.
        let _ = self.change(|receive, effects| {
            if !receive.buffer.is_stopped() {
                receive.buffer.clear();
                receive.buffer.stop(VarInt::ZERO);
            }
            receive.handle_is_gone = true;
            receive.buffer.release(effects);
            Ok(())
        });
    }
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("id", &self.id).finish_non_exhaustive()
    }
}
