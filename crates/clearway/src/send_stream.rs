use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use bytes::Bytes;
use clearway_transport::ConnectionError;
use clearway_wire::{StreamId, VarInt};
use tokio::io::AsyncWrite;

use crate::connection::ConnectionRef;
use crate::error::{StreamClosed, WriteError};
use crate::shared::{STREAM_BUFFER, SendHalf, SendState, register};

/// How many bytes one write copies at most.
const COPY_LIMIT: usize = 64 << 10;

/// A stream to write to.
///
/// What is written waits, up to 1 MiB, until the transport takes it. Dropped without
/// [`finish`](Self::finish) or [`reset`](Self::reset), the stream is finished: what was written is
/// still delivered, as long as the connection is kept.
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
}

impl SendStream {
    pub(crate) fn new(connection: ConnectionRef, id: StreamId) -> Self {
        Self { connection, id }
    }

    /// The stream's ID.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `data`, as soon as there is room, and returns how many bytes. Cancelled, it has
    /// written nothing.
    ///
    /// # Errors
    /// If the stream takes no more.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|context| self.poll_copy(context, data)).await
    }

    /// Writes all of `data`. Cancelled, it may have written some.
    ///
    /// # Errors
    /// If the stream takes no more.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let taken = self.write(data).await?;
            data = &data[taken..];
        }
        Ok(())
    }

    /// Writes all of `data`, without copying it, as soon as there is room for some. Cancelled, it has
    /// written nothing.
    ///
    /// # Errors
    /// If the stream takes no more.
    pub async fn write_chunk(&mut self, data: Bytes) -> Result<(), WriteError> {
        poll_fn(|context| self.poll_queue(context, |_| data.clone())).await.map(|_| ())
    }

    fn poll_copy(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        self.poll_queue(context, |room| {
            Bytes::copy_from_slice(&data[..data.len().min(room).min(COPY_LIMIT)])
        })
    }

    /// Queues what `make` makes of the room that there is.
    fn poll_queue(
        &mut self,
        context: &mut Context<'_>,
        make: impl FnOnce(usize) -> Bytes,
    ) -> Poll<Result<usize, WriteError>> {
        let mut state = self.connection.lock();
        let lost = state.lost();
        let Some(send) = state.streams.get_mut(&self.id).and_then(|stream| stream.send.as_mut())
        else {
            return Poll::Ready(Err(WriteError::ClosedStream));
        };
        match send.state {
            SendState::Stopped(code) => return Poll::Ready(Err(WriteError::Stopped(code))),
            SendState::Open => {}
            _ => return Poll::Ready(Err(WriteError::ClosedStream)),
        }
        if let Some(error) = lost {
            return Poll::Ready(Err(WriteError::ConnectionLost(error)));
        }
        if send.queued >= STREAM_BUFFER {
            let old = register(&mut send.writer, context);
            drop(state);
            drop(old);
            return Poll::Pending;
        }
        let data = make(STREAM_BUFFER - send.queued);
        let length = data.len();
        if length > 0 {
            send.queued += length;
            send.queue.push_back(data);
            state.touch(self.id);
            drop(state);
            self.connection.wake_shard();
        }
        Poll::Ready(Ok(length))
    }

    /// Ends the stream after what was written. It does not wait for anything; see
    /// [`stopped`](Self::stopped).
    ///
    /// # Errors
    /// If the stream was finished or reset before.
    pub fn finish(&mut self) -> Result<(), StreamClosed> {
        self.change(|send| match send.state {
            SendState::Open => {
                send.state = SendState::Finishing;
                Ok(())
            }
            SendState::Stopped(_) => Ok(()),
            _ => Err(StreamClosed),
        })
    }

    /// Gives the stream up: what the peer does not have yet it may never get, and it learns
    /// `error_code`. Does nothing if the peer has everything or wants nothing.
    ///
    /// # Errors
    /// If the stream was reset before.
    pub fn reset(&mut self, error_code: VarInt) -> Result<(), StreamClosed> {
        self.change(|send| match send.state {
            SendState::Open | SendState::Finishing | SendState::Finished => {
                send.state = SendState::Resetting(error_code);
                Ok(())
            }
            SendState::Stopped(_) | SendState::Delivered => Ok(()),
            SendState::Resetting(_) | SendState::Reset => Err(StreamClosed),
        })
    }

    /// Sends this stream's data before that of streams of a lower priority; all begin with 0.
    pub fn set_priority(&mut self, priority: i32) {
        // A stream that is over needs none.
        let _ = self.change(|send| {
            send.priority = Some(priority);
            Ok(())
        });
    }

    fn change(
        &self,
        change: impl FnOnce(&mut SendHalf) -> Result<(), StreamClosed>,
    ) -> Result<(), StreamClosed> {
        {
            let mut state = self.connection.lock();
            let send = state.streams.get_mut(&self.id).and_then(|stream| stream.send.as_mut());
            change(send.ok_or(StreamClosed)?)?;
            state.touch(self.id);
        }
        self.connection.wake_shard();
        Ok(())
    }

    /// Waits until the peer wants no more of the stream (`Some` of its error code) or, after
    /// [`finish`](Self::finish), has acknowledged everything (`None`). After [`reset`](Self::reset) it
    /// is `None` at once.
    ///
    /// # Errors
    /// If the connection ends before.
    pub async fn stopped(&mut self) -> Result<Option<VarInt>, ConnectionError> {
        poll_fn(|context| self.poll_stopped(context)).await
    }

    fn poll_stopped(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<VarInt>, ConnectionError>> {
        let mut state = self.connection.lock();
        let lost = state.lost();
        let send = state.streams.get_mut(&self.id).and_then(|stream| stream.send.as_mut());
        let Some(send) = send else { return Poll::Ready(Ok(None)) };
        match (send.state, lost) {
            (SendState::Stopped(code), _) => Poll::Ready(Ok(Some(code))),
            (SendState::Delivered | SendState::Resetting(_) | SendState::Reset, _) => {
                Poll::Ready(Ok(None))
            }
            (_, Some(error)) => Poll::Ready(Err(error)),
            _ => {
                let old = register(&mut send.watcher, context);
                drop(state);
                drop(old);
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_copy(context, data).map_err(Into::into)
    }

    /// What is written goes without being asked.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Finishes the stream, and does not wait until it is delivered.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // One that is over already is shut down.
        let _ = self.get_mut().finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let mut wakers = (None, None);
        // A stream that is over needs nothing more.
        let _ = self.change(|send| {
            if send.state == SendState::Open {
                send.state = SendState::Finishing;
            }
            send.handle_is_gone = true;
            // Dropped after unlocking.
            wakers = (send.writer.take(), send.watcher.take());
            Ok(())
        });
    }
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("id", &self.id).finish_non_exhaustive()
    }
}
