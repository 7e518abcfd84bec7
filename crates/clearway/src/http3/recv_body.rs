use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use clearway_http3::{Code, Priority};
use http::{HeaderMap, Response};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};

use super::exchanges::{Effects, Exchange, Head, Interim, Shared, State};
use super::extent::Extent;
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
///
/// As an [`http_body::Body`], it has an exact size if the message states its length, must not have
/// content, or has arrived completely. [`is_end_stream`](http_body::Body::is_end_stream) is true
/// from the start if the message has ended with its header section.
pub struct RecvBody {
    /// The receiving half of the exchange; `None` for an [empty](Self::empty) body.
    end: Option<ReceiveEnd>,
    chunks: VecDeque<Bytes>,
    extent: Extent,
}

impl RecvBody {
    /// Creates a body without content that belongs to no message, for example to take the body out
    /// of a request.
    pub fn empty() -> Self {
        Self { end: None, chunks: VecDeque::new(), extent: Extent::EMPTY }
    }

    pub(super) fn new(end: ReceiveEnd, extent: Extent) -> Self {
        Self { end: Some(end), chunks: VecDeque::new(), extent }
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
        if self.chunks.is_empty()
            && !self.extent.is_complete
            && let Some(end) = &self.end
            && let Err(error) = ready!(end.poll_take(context, &mut self.chunks, &mut self.extent))
        {
            return Poll::Ready(Some(Err(error)));
        }
        let chunk = self.chunks.pop_front();
        if let Some(chunk) = &chunk {
            self.extent.subtract(chunk.len());
        }
        Poll::Ready(chunk.map(Ok))
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
        Ok(self.take_trailers())
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        let has_trailers = core::mem::take(&mut self.extent.has_trailers);
        self.end.as_ref().filter(|_| has_trailers)?.take_trailers()
    }

    /// Returns the datagrams of the exchange, if it is an extended CONNECT (RFC 9297). Those of an
    /// [empty](Self::empty) body fail with [`Error::Cancelled`].
    pub fn datagrams(&self) -> Datagrams {
        match &self.end {
            Some(end) => end.datagrams(),
            None => Datagrams::new(&Shared::new(None), 0),
        }
    }

    /// Changes the priority of the exchange (RFC 9218). A client requests the change from the
    /// server; a server applies it.
    pub fn set_priority(&self, priority: Priority) {
        if let Some(end) = &self.end {
            end.set_priority(priority);
        }
    }

    /// Asks the peer to stop sending, with this error code (STOP_SENDING).
    pub fn stop(mut self, code: Code) {
        self.chunks.clear();
        if let Some(end) = &mut self.end {
            end.cancel(code);
        }
    }
}

impl Default for RecvBody {
    fn default() -> Self {
        Self::empty()
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
            self.extent.add(chunk.len());
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
            None => self.take_trailers().map(|trailers| Ok(Frame::trailers(trailers))),
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let Extent { is_complete, has_trailers, .. } = self.extent;
        self.chunks.is_empty() && is_complete && !has_trailers
    }

    fn size_hint(&self) -> SizeHint {
        match self.extent.remaining {
            Some(remaining) => SizeHint::with_exact(remaining),
            None => {
                let mut hint = SizeHint::new();
                hint.set_lower(self.chunks.iter().map(|chunk| chunk.len() as u64).sum());
                hint
            }
        }
    }
}

impl core::fmt::Debug for RecvBody {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RecvBody").field("extent", &self.extent).finish_non_exhaustive()
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

    /// Moves all received data into the empty `chunks`, and updates `extent` if this completes the
    /// message.
    fn poll_take(
        &self,
        context: &Context<'_>,
        chunks: &mut VecDeque<Bytes>,
        extent: &mut Extent,
    ) -> Poll<Result<(), Error>> {
        self.shared.act(|state, effects| {
            let exchange = state.app.all.get_mut(self.key).ok_or(Error::Cancelled)?;
            let taken = exchange.receive.poll_take(context, effects, chunks);
            if taken.is_ready() {
                exchange.receive.note_end(extent, chunks);
            }
            let asks = taken.is_pending() && exchange.ask_for_content();
            let has_more = matches!(taken, Poll::Ready(Ok(true)));
            exchange.expects_continue &= taken.is_pending();
            if asks || has_more {
                state.change(self.key);
                effects.wake_shard();
            }
            taken.map_ok(|_| ())
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
    pub(super) fn poll_response(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<(Response<()>, Extent), Error>> {
        self.poll_head(context, |exchange| {
            exchange.receive.informational = Interim::default();
            let response = exchange.take_response()?;
            let extent = exchange.extent_of_response(&response);
            Some((response, extent))
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
