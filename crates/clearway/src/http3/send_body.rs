use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use clearway_http3::{Code, Priority};
use clearway_wire::VarInt;
use http::{HeaderMap, Response, StatusCode};
use tokio::io::AsyncWrite;

use super::exchanges::{Effects, Exchange, Failure, Head, Shared};
use super::{Datagrams, Error};
use crate::bridge::SendState;

/// Maximum number of bytes that [`AsyncWrite`] copies in one call.
const COPY: usize = 64 << 10;

/// The sending half of one message: send content, then call [`finish`](Self::finish).
///
/// Dropping this earlier cancels the message: the peer gets H3_REQUEST_CANCELLED, or
/// H3_INTERNAL_ERROR if a task on a server drops it in a panic. A peer never mistakes a partial
/// message for a complete one.
///
/// Up to 1 MiB is buffered per stream, and up to 2 MiB on all streams of a connection, plus one
/// chunk per stream. When a limit is reached, writing waits.
pub struct SendBody {
    shared: Arc<Shared>,
    key: usize,
    /// Set if the entire message was passed on or canceled, in which case dropping this has no
    /// effect.
    is_committed: bool,
    /// Set if the message must not have content (RFC 9110 §6.4.1), in which case content is
    /// omitted.
    is_bodiless: bool,
    /// Whether the message is a response.
    is_response: bool,
}

impl SendBody {
    /// Creates the sending half of a request.
    pub(super) fn of_request(shared: Arc<Shared>, key: usize) -> Self {
        Self { shared, key, is_committed: false, is_bodiless: false, is_response: false }
    }

    /// Creates the sending half of a response.
    pub(super) fn of_response(shared: Arc<Shared>, key: usize) -> Self {
        Self { shared, key, is_committed: false, is_bodiless: false, is_response: true }
    }

    /// Sends content without copying it, as soon as the send buffer has room. A chunk of any size
    /// is accepted as a whole.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the peer has stopped reading, [`Error::Cancelled`] if the
    /// other handle of a client's request was dropped, [`Error::Send`] if the content is longer
    /// than the content-length field states, or the error that ended the connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, no part of the chunk is sent.
    pub async fn write_chunk(&mut self, chunk: impl Into<Bytes>) -> Result<(), Error> {
        let mut chunk = chunk.into();
        poll_fn(|context| self.poll_write_chunk(context, &mut chunk)).await
    }

    /// Polls to send content, like [`write_chunk`](Self::write_chunk). Once accepted, `chunk` is
    /// left empty.
    pub fn poll_write_chunk(
        &mut self,
        context: &mut Context<'_>,
        chunk: &mut Bytes,
    ) -> Poll<Result<(), Error>> {
        if self.is_bodiless {
            *chunk = Bytes::new();
            return Poll::Ready(Ok(()));
        }
        self.poll_push(context, |_| core::mem::take(chunk)).map_ok(|_| ())
    }

    /// Buffers the data that `make` returns when passed the available room. Returns the data's
    /// length in bytes.
    fn poll_push(
        &self,
        context: &Context<'_>,
        make: impl FnOnce(usize) -> Bytes,
    ) -> Poll<Result<usize, Error>> {
        self.act(|exchange, effects| {
            let room = ready!(exchange.send.poll_room(context, effects))?;
            let chunk = make(room);
            let length = chunk.len();
            exchange.send.push(chunk)?;
            effects.wake_shard();
            Poll::Ready(Ok(length))
        })
        .unwrap_or_else(|error| Poll::Ready(Err(error)))
    }

    /// Buffers content for which the caller has found room. Returns whether there is room for more.
    pub(super) fn push(&mut self, chunk: Bytes) -> Result<bool, Error> {
        if self.is_bodiless {
            return Ok(true);
        }
        self.act(|exchange, effects| {
            exchange.send.push(chunk)?;
            effects.wake_shard();
            Ok(exchange.send.buffer.has_room())
        })?
    }

    fn poll_room(&self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        self.shared.act(|state, effects| match state.app.all.get_mut(self.key) {
            Some(exchange) => exchange.send.poll_room(context, effects).map_ok(|_| ()),
            None => Poll::Ready(Err(Error::Cancelled)),
        })
    }

    /// Waits until the send buffer has room for content, so that it need not be produced or
    /// buffered earlier.
    ///
    /// # Errors
    /// Returns the same errors as [`write_chunk`](Self::write_chunk).
    pub async fn room(&mut self) -> Result<(), Error> {
        poll_fn(
            |context| if self.is_bodiless { Poll::Ready(Ok(())) } else { self.poll_room(context) },
        )
        .await
    }

    /// Waits until the peer's flow control allows more content than has been written, and the send
    /// buffer has room for it. Returns the number of bytes, at most `max`, and at least one unless
    /// `max` is 0.
    ///
    /// A task that produces content only when it has credit buffers little for a peer that does not
    /// read. [`room`](Self::room) does not ensure this: there is always room for a first chunk,
    /// regardless of the peer's credit.
    ///
    /// # Errors
    /// Returns the same errors as [`write_chunk`](Self::write_chunk).
    pub async fn credit(&mut self, max: usize) -> Result<usize, Error> {
        if max == 0 || self.is_bodiless {
            return Ok(max);
        }
        poll_fn(|context| self.poll_credit(context, max)).await
    }

    fn poll_credit(&self, context: &Context<'_>, max: usize) -> Poll<Result<usize, Error>> {
        self.shared.act(|state, effects| {
            let Some(exchange) = state.app.all.get_mut(self.key) else {
                return Poll::Ready(Err(Error::Cancelled));
            };
            let credit = exchange.send.poll_credit(context, effects, max);
            if credit.is_pending() && exchange.send.buffer.awaits_credit() {
                state.change(self.key);
                effects.wake_shard();
            }
            credit
        })
    }

    /// Returns a handle that aborts the message, even after it was [finished](Self::finish). `None`
    /// for a request that has not been sent yet.
    pub fn abort_handle(&self) -> Option<AbortHandle> {
        let stream = self.shared.lock().app.all.get(self.key)?.stream?;
        Some(AbortHandle { shared: Arc::downgrade(&self.shared), stream })
    }

    /// Ends the message, and waits until the transport has accepted all of it.
    ///
    /// # Errors
    /// Returns [`Error::Send`] if the content is shorter than the content-length field states, or
    /// an error of [`write_chunk`](Self::write_chunk).
    ///
    /// # Cancel safety
    /// After the first poll, the entire message is sent even if the future is dropped.
    pub async fn finish(mut self) -> Result<(), Error> {
        self.commit(None);
        poll_fn(|context| self.poll_over(context)).await
    }

    /// Like [`finish`](Self::finish), with a trailer section (RFC 9114 §4.1).
    pub async fn finish_with_trailers(mut self, trailers: HeaderMap) -> Result<(), Error> {
        self.commit(Some(trailers));
        poll_fn(|context| self.poll_over(context)).await
    }

    /// Returns the datagrams of the exchange, if it is an extended CONNECT (RFC 9297).
    pub fn datagrams(&self) -> Datagrams {
        Datagrams::new(&self.shared, self.key)
    }

    /// Changes the priority of the exchange (RFC 9218). A client requests the change from the
    /// server; a server applies it.
    pub fn set_priority(&self, priority: Priority) {
        set_priority(&self.shared, self.key, priority);
    }

    /// Returns the priority of the exchange, as last stated by the peer.
    pub(super) fn priority(&self) -> Priority {
        let state = &self.shared.lock();
        state.app.all.get(self.key).map_or_else(Priority::default, |exchange| exchange.priority)
    }

    /// Cancels the message with this error code (RESET_STREAM).
    pub fn reset(mut self, code: Code) {
        self.cancel(code);
    }

    /// Cancels the message because it could not be produced. The receiving half of the exchange on
    /// this endpoint fails with `error`.
    pub(super) fn fail(mut self, error: &Error) {
        self.fail_in_place(error);
    }

    fn fail_in_place(&mut self, error: &Error) {
        self.is_committed = true;
        let code = self.fault();
        self.shared.act(|state, effects| {
            let Some(exchange) = state.app.all.get_mut(self.key) else { return };
            if exchange.send.buffer.is_over() {
                return;
            }
            if let Some(stream) = exchange.stream.filter(|_| self.is_response) {
                let error = error.clone();
                state.app.failures.push(Failure { stream, error });
            }
            exchange.fail_receiving(error, effects);
            exchange.receive.buffer.stop(VarInt::saturating(code.get()));
            exchange.send.cancel(code);
            state.change(self.key);
            effects.wake_shard();
        });
    }

    /// Returns the error code for a message that this endpoint cannot produce.
    fn fault(&self) -> Code {
        if self.is_response { Code::INTERNAL_ERROR } else { Code::REQUEST_CANCELLED }
    }

    /// Ends the message.
    fn commit(&mut self, trailers: Option<HeaderMap>) {
        self.commit_with(None, Bytes::new(), trailers);
    }

    /// Passes the header section of a response, if there is one, and the entire content to the
    /// shard, and ends the message.
    pub(super) fn commit_with(
        &mut self,
        head: Option<Response<()>>,
        content: Bytes,
        trailers: Option<HeaderMap>,
    ) {
        let content = if self.is_bodiless { Bytes::new() } else { content };
        if core::mem::replace(&mut self.is_committed, true) {
            return;
        }
        let trailers = trailers.filter(|trailers| !trailers.is_empty() && !self.is_bodiless);
        // If sending has already failed, the error is returned to the task that waits for the end.
        let _ = self.act(|exchange, effects| {
            exchange.has_response = true;
            if let Some(head) = head.filter(|_| !exchange.send.buffer.is_over()) {
                exchange.head = Some(Head::Response(head));
            }
            exchange.send.push(content)?;
            exchange.send.finish(trailers);
            effects.wake_shard();
            Ok::<_, Error>(())
        });
    }

    /// Passes the header section of a response to the shard.
    pub(super) fn start(&mut self, response: Response<()>) {
        let _ = self.act(|exchange, _| {
            exchange.has_response = true;
            if !exchange.send.buffer.is_over() {
                exchange.head = Some(Head::Response(response));
            }
        });
    }

    /// Passes an interim response to the shard.
    pub(super) fn inform(&mut self, response: Response<()>) -> Result<(), Error> {
        self.act(|exchange, effects| match exchange.send.buffer.state() {
            SendState::Failed(error) => Err(Error::clone(error)),
            _ => {
                exchange.expects_continue &= response.status() != StatusCode::CONTINUE;
                exchange.send.informational.push(response);
                effects.wake_shard();
                Ok(())
            }
        })?
    }

    /// Waits until the transport has accepted the entire message.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.shared.act(|state, effects| match state.app.all.get_mut(self.key) {
            Some(exchange) => exchange.send.poll_over(context, effects),
            None => Poll::Ready(Err(Error::Cancelled)),
        })
    }

    /// Waits until sending has failed because of the peer or the connection. Never completes if the
    /// entire message is handed over to the transport first.
    pub(super) fn poll_failed(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        match ready!(self.poll_over(context)) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(error),
        }
    }

    pub(super) fn set_bodiless(&mut self, is_bodiless: bool) {
        self.is_bodiless = is_bodiless;
    }

    pub(super) fn is_bodiless(&self) -> bool {
        self.is_bodiless
    }

    /// Returns the state of the connection.
    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Wakes the shard to process earlier changes.
    pub(super) fn wake_shard(&self) {
        self.shared.act(|_, effects| effects.wake_shard());
    }

    /// Changes the exchange, and marks it as changed for the shard if sending is not over.
    fn act<T>(&self, change: impl FnOnce(&mut Exchange, &mut Effects) -> T) -> Result<T, Error> {
        self.shared.act(|state, effects| {
            let exchange = state.app.all.get_mut(self.key).ok_or(Error::Cancelled)?;
            let outcome = change(exchange, effects);
            if !exchange.send.buffer.is_over() {
                state.change(self.key);
            }
            Ok(outcome)
        })
    }

    fn cancel(&mut self, code: Code) {
        if core::mem::replace(&mut self.is_committed, true) {
            return;
        }
        // Fails if the exchange has ended; it then need not be canceled.
        let _ = self.act(|exchange, effects| {
            if exchange.send.cancel(code) {
                effects.wake_shard();
            }
        });
    }
}

/// Aborts a message that the peer has not fully acknowledged; see [`SendBody::abort_handle`].
/// Dropping the handle has no effect.
pub struct AbortHandle {
    shared: Weak<Shared>,
    stream: u64,
}

impl AbortHandle {
    /// Resets the message's stream with this error code (RESET_STREAM), and frees the message's
    /// memory.
    ///
    /// Does nothing if the peer has acknowledged everything, or the connection has ended. A task
    /// that is still writing gets [`Error::Cancelled`].
    pub fn abort(&self, code: Code) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.act(|state, effects| {
            if state.error.is_none() {
                state.app.aborted.push((self.stream, code));
                effects.wake_shard();
            }
        });
    }
}

impl core::fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AbortHandle").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Drop for SendBody {
    fn drop(&mut self) {
        match self.is_response && !self.is_committed && std::thread::panicking() {
            true => self.fail_in_place(&Error::Panicked),
            false => self.cancel(Code::REQUEST_CANCELLED),
        }
        self.shared.lock().app.release(self.key);
    }
}

/// Changes the priority of an exchange.
pub(super) fn set_priority(shared: &Shared, key: usize, priority: Priority) {
    shared.act(|state, effects| {
        if let Some(exchange) = state.app.all.get_mut(key) {
            exchange.wanted_priority = Some(priority);
            state.change(key);
            effects.wake_shard();
        }
    });
}

impl AsyncWrite for SendBody {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (part, _) = data.split_at(data.len().min(COPY));
        if self.is_bodiless {
            return Poll::Ready(Ok(part.len()));
        }
        self.poll_push(context, |_| Bytes::copy_from_slice(part)).map_err(Into::into)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Buffered content is sent without flushing.
        Poll::Ready(Ok(()))
    }

    /// Ends the message, as [`SendBody::finish`] does.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.commit(None);
        Poll::Ready(Ok(ready!(self.poll_over(context))?))
    }
}

impl core::fmt::Debug for SendBody {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SendBody").finish_non_exhaustive()
    }
}
