use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use bytes::Bytes;
use clearway_wire::{StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection_ref::ConnectionRef;
use crate::error::{ReadError, ReadToEndError, StreamClosed};
use crate::streams::{Effects, ReceiveHalf};

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
        if buffer.is_empty() {
            return Ok(Some(0));
        }
        let chunk = self.read_chunk(buffer.len()).await?;
        Ok(chunk.map(|chunk| {
            buffer[..chunk.len()].copy_from_slice(&chunk);
            chunk.len()
        }))
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
        poll_fn(|context| self.poll_chunk(context, max)).await
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

    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.connection.act(|state, effects| {
            let lost = state.lost();
            let app = &mut state.app;
            let stream = app.streams.get_mut(&self.id);
            let receive = stream.and_then(|stream| stream.receive.as_mut());
            let receive = receive
                .filter(|receive| !receive.buffer.is_stopped())
                .ok_or(ReadError::ClosedStream)?;
            if let Some(chunk) = receive.take(max.max(1)) {
                app.credit += chunk.len() as u64;
                if receive.is_due() || app.credit >= app.credit_step {
                    effects.wake_shard();
                }
                // The shard will see the change with the next batch at the latest.
                state.change(self.id);
                return Poll::Ready(Ok(Some(chunk)));
            }
            let end = match (receive.buffer.end(), lost) {
                (Some(Ok(())), _) => Ok(None),
                (Some(Err(code)), _) => Err(ReadError::Reset(*code)),
                (None, Some(error)) => return Poll::Ready(Err(ReadError::ConnectionLost(error))),
                (None, None) => {
                    receive.buffer.watch(context, effects);
                    // Unread data on other streams may leave the peer without credit to send more
                    // on this stream.
                    if receive.credit > 0 && (receive.peer_is_short || app.peer_is_short) {
                        state.change(self.id);
                        effects.wake_shard();
                    }
                    return Poll::Pending;
                }
            };
            if !std::mem::replace(&mut receive.end_is_read, true) {
                // The peer may now open another stream.
                receive.end_is_unreported = true;
                state.change(self.id);
                effects.wake_shard();
            }
            Poll::Ready(end)
        })
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
        self.get_mut().poll_chunk(context, room).map(|read| {
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
