use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use clearway_http3::{Code, Priority};
use http::{HeaderMap, Response};
use http_body::Frame;
use tokio::io::{AsyncRead, ReadBuf};

use super::exchanges::{Effects, Exchange, Head, Interim, Shared, State};
use super::send_body::set_priority;
use super::{Datagrams, Error};

/// The content of a message that is being received.
///
/// The end is reported only if the message is complete, that is, it was not aborted and its length
/// matches the content-length field.
///
/// While the task does not read, data is buffered up to the stream's maximum receive window or 1
/// MiB, whichever is less. For all exchanges on a connection together, the limit is the
/// connection's maximum window or 2 MiB. Beyond these limits, flow control stops the peer, which
/// may already have sent one more window.
///
/// When a server drops the body before its end, the rest is read and discarded, up to [8
/// MiB](super::Server::discard_limit); then STOP_SENDING with H3_NO_ERROR is sent (RFC 9114 §4.1).
/// Some clients, including Chromium 156, ignore a response that arrives with STOP_SENDING before
/// they have sent everything. In a tunnel, and after the response was reset, STOP_SENDING is sent
/// immediately. When a client drops the body, STOP_SENDING with H3_REQUEST_CANCELLED is sent, which
/// also cancels the request.
///
/// If the client expects 100 (Continue) before it sends the content (RFC 9110 §10.1.1), the server
/// sends that response when a task first waits for content, unless the final response has begun.
pub struct RecvBody {
    end: ReceiveEnd,
    chunks: VecDeque<Bytes>,
    is_complete: bool,
}

impl RecvBody {
    pub(super) fn new(end: ReceiveEnd) -> Self {
        Self { end, chunks: VecDeque::new(), is_complete: false }
    }

    /// Waits for the next piece of content. Returns `None` when the message is complete.
    ///
    /// # Cancel safety
    /// If the future is dropped, no content is lost.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Polls for the next content, like [`chunk`](Self::chunk).
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if self.is_complete {
            return Poll::Ready(None);
        }
        match ready!(self.end.poll_take(context, &mut self.chunks)) {
            Ok(is_over) => self.is_complete = is_over,
            Err(error) => return Poll::Ready(Some(Err(error))),
        }
        Poll::Ready(self.chunks.pop_front().map(Ok))
    }

    /// Waits for the entire content, and returns it.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the content is longer than `limit` bytes; otherwise the error
    /// that aborted the message.
    pub async fn bytes(&mut self, limit: usize) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk?;
            if chunk.len() > limit.saturating_sub(whole.len()) {
                return Err(Error::TooLarge { limit });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Waits for the end of the message, and returns its trailer section, if there is one. Unread
    /// content is discarded.
    ///
    /// # Errors
    /// Returns the error that aborted the message.
    pub async fn trailers(&mut self) -> Result<Option<HeaderMap>, Error> {
        while let Some(chunk) = self.chunk().await {
            chunk?;
        }
        Ok(self.end.take_trailers())
    }

    /// Returns the datagrams of the exchange, if it is an extended CONNECT (RFC 9297).
    pub fn datagrams(&self) -> Datagrams {
        self.end.datagrams()
    }

    /// Changes the priority of the exchange (RFC 9218). A client requests the change from the
    /// server; a server applies it.
    pub fn set_priority(&self, priority: Priority) {
        self.end.set_priority(priority);
    }

    /// Asks the peer to stop sending, with this error code (STOP_SENDING).
    pub fn stop(mut self, code: Code) {
        self.chunks.clear();
        self.end.cancel(code);
    }
}

impl AsyncRead for RecvBody {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(chunk) = ready!(self.poll_chunk(context)) else { return Poll::Ready(Ok(())) };
        let mut chunk = chunk?;
        let part = chunk.split_to(chunk.len().min(buffer.remaining()));
        buffer.put_slice(&part);
        if chunk.has_remaining() {
            self.chunks.push_front(chunk);
        }
        Poll::Ready(Ok(()))
    }
}

impl http_body::Body for RecvBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = match ready!(self.poll_chunk(context)) {
            Some(chunk) => Some(chunk.map(Frame::data)),
            None => self.end.take_trailers().map(|trailers| Ok(Frame::trailers(trailers))),
        };
        Poll::Ready(frame)
    }
}

impl core::fmt::Debug for RecvBody {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RecvBody").field("is_complete", &self.is_complete).finish_non_exhaustive()
    }
}

/// A task's handle to the receiving half of an exchange.
pub(super) struct ReceiveEnd {
    shared: Arc<Shared>,
    key: usize,
    is_client: bool,
}

impl ReceiveEnd {
    pub(super) fn new(shared: Arc<Shared>, key: usize, is_client: bool) -> Self {
        Self { shared, key, is_client }
    }

    /// Moves all received data into the empty `chunks`. Returns whether this completes the message.
    fn poll_take(
        &self,
        context: &Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<Result<bool, Error>> {
        self.shared.act(|state, effects| {
            let exchange = state.app.all.get_mut(self.key).ok_or(Error::Cancelled)?;
            let taken = exchange.receive.poll_take(context, effects, chunks);
            let is_over = matches!(exchange.receive.buffer.end(), Some(Ok(())));
            let asks = taken.is_pending() && exchange.ask_for_content();
            let has_more = matches!(taken, Poll::Ready(Ok(true)));
            exchange.expects_continue &= taken.is_pending();
            if asks || has_more {
                state.change(self.key);
                effects.wake_shard();
            }
            taken.map_ok(|_| is_over && !has_more)
        })
    }

    pub(super) fn datagrams(&self) -> Datagrams {
        Datagrams::new(&self.shared, self.key)
    }

    pub(super) fn set_priority(&self, priority: Priority) {
        set_priority(&self.shared, self.key, priority);
    }

    fn take_trailers(&self) -> Option<HeaderMap> {
        self.shared.lock().app.all.get_mut(self.key)?.receive.trailers.take().map(|it| *it)
    }

    /// Returns the next interim response; `None` when the final response has arrived.
    pub(super) fn poll_informational(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Response<()>>, Error>> {
        self.poll_head(context, |exchange| {
            let next = exchange.receive.informational.pop();
            let has_response = matches!(exchange.head, Some(Head::Response(_)));
            (next.is_some() || has_response).then_some(next)
        })
    }

    /// Returns the final response's header section, once it has arrived. Interim responses are
    /// skipped.
    pub(super) fn poll_response(&self, context: &Context<'_>) -> Poll<Result<Response<()>, Error>> {
        self.poll_head(context, |exchange| {
            exchange.receive.informational = Interim::default();
            exchange.take_response()
        })
    }

    /// Waits until `take` returns a result from the received data.
    fn poll_head<T>(
        &self,
        context: &Context<'_>,
        take: impl FnOnce(&mut Exchange) -> Option<T>,
    ) -> Poll<Result<T, Error>> {
        self.shared.act(|state, effects| {
            let exchange = state.app.all.get_mut(self.key).ok_or(Error::Cancelled)?;
            if let Some(taken) = take(exchange) {
                return Poll::Ready(Ok(taken));
            }
            let receive = &mut exchange.receive;
            match receive.buffer.end() {
                Some(Err(error)) => Poll::Ready(Err(Error::clone(error))),
                Some(Ok(())) => Poll::Ready(Err(Error::Cancelled)),
                None => {
                    receive.buffer.watch(context, effects);
                    Poll::Pending
                }
            }
        })
    }

    fn cancel(&mut self, code: Code) {
        self.shared.act(|state, effects| self.cancel_in(state, effects, code));
    }

    /// Discards the rest of a request that a server no longer needs.
    fn discard_in(&self, state: &mut State, effects: &mut Effects) {
        let limit = state.app.discard_limit;
        let Some(exchange) = state.app.all.get_mut(self.key) else { return };
        if exchange.receive.buffer.is_stopped() {
            return;
        }
        match exchange.discard(limit) {
            Some(true) => {
                state.change(self.key);
                effects.wake_shard();
            }
            Some(false) => {}
            None => self.cancel_in(state, effects, Code::NO_ERROR),
        }
    }

    fn cancel_in(&self, state: &mut State, effects: &mut Effects, code: Code) {
        let Some(exchange) = state.app.all.get_mut(self.key) else { return };
        if !exchange.receive.cancel(code) {
            return;
        }
        if self.is_client && exchange.send.cancel(code) {
            // The response will not be read, so the request's sending half is canceled too.
            exchange.send.buffer.wake(effects);
        }
        state.change(self.key);
        effects.wake_shard();
    }
}

impl Drop for ReceiveEnd {
    fn drop(&mut self) {
        self.shared.act(|state, effects| {
            match self.is_client {
                true => self.cancel_in(state, effects, Code::REQUEST_CANCELLED),
                false => self.discard_in(state, effects),
            }
            state.app.release(self.key);
        });
    }
}
