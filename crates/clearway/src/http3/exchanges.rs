//! The state shared between the tasks of one HTTP/3 connection and its shard: requests and their
//! responses.

mod peer;

use core::net::IpAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use bytes::Bytes;
use clearway_http3::{Code, Priority};
use clearway_units::StreamKeys;
use clearway_wire::VarInt;
use http::header::EXPECT;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use slab::Slab;

use super::Error;
use super::datagram_queues::ExchangeDatagrams;
use crate::bridge::{self, AppState, ReceiveBuffer, SendBuffer, SendState, Signal, Total};

pub(super) use peer::Addresses;
pub use peer::{ConnectionHandle, Peer};

pub(super) type Shared = bridge::Shared<Exchanges>;
pub(super) type State = bridge::State<Exchanges>;
pub(super) type Effects = bridge::Effects<Exchanges>;

/// Maximum number of requests that are made before the shard has checked whether the peer allows
/// streams for them, when tasks wait for [readiness](super::Client::ready).
const BURST: usize = 64;

/// The exchanges of one connection, and how the connection should end.
#[derive(Default)]
pub(super) struct Exchanges {
    pub(super) all: Slab<Exchange>,
    /// Maps streams to their exchanges.
    pub(super) by_stream: StreamKeys,
    /// Keys of requests that wait until the peer allows another stream (client).
    pub(super) waiting: VecDeque<usize>,
    /// Number of requests that tasks have made since the shard last processed the connection
    /// (client).
    pub(super) begun: usize,
    /// Set if a task waits until requests can be made without waiting (client).
    pub(super) awaits_readiness: bool,
    /// Keys of requests that no task has accepted yet (server).
    pub(super) incoming: VecDeque<usize>,
    /// Set if the connection is gone, but requests are still waiting to be accepted (server).
    pub(super) is_ended: bool,
    /// Set if the listener has been notified of waiting requests.
    pub(super) is_announced: bool,
    /// Set if the client's handles were dropped: the connection is kept only for the exchanges in
    /// progress.
    pub(super) is_released: bool,
    /// Set if the connection should be closed when the exchanges in progress are complete (RFC 9114
    /// §5.2).
    pub(super) is_finishing: bool,
    /// Set if the peer accepts no more requests.
    pub(super) is_going_away: bool,
    /// Set if no task will accept more requests (server).
    pub(super) is_rejecting: bool,
    /// Total number of bytes that all streams buffer.
    pub(super) totals: Totals,
    pub(super) wants_statistics: bool,
    /// The client, as its requests refer to it, unless the connection is idle (server).
    pub(super) peer: Option<Peer>,
    /// The local IP address of the current path (server).
    pub(super) local_ip: Option<IpAddr>,
    /// The time at which the handshake was completed (server).
    pub(super) connected_at: Option<Instant>,
    /// The time after the handshake at which to shut the connection down (server).
    pub(super) max_age: Option<Duration>,
    /// Number of bytes of a request to read and discard once no task reads it; then STOP_SENDING is
    /// sent.
    pub(super) discard_limit: u64,
    /// Responses that failed because of this endpoint and have not been reported yet.
    pub(super) failures: Vec<Failure>,
    /// Aborted messages, possibly already finished, and their error codes.
    pub(super) aborted: Vec<(u64, Code)>,
}

/// A response that failed because of this endpoint.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) stream: u64,
    pub(super) error: Error,
}

/// Number of bytes that all streams of a connection buffer, separately for each direction, so that
/// one direction does not take room from the other.
#[derive(Clone, Default)]
pub(super) struct Totals {
    /// Number of buffered bytes to be sent.
    pub(super) sending: Total,
    /// Number of received bytes that no task has read.
    receiving: Total,
    /// Number of queued bytes of datagrams in both directions.
    pub(super) datagrams: Total,
}

impl Totals {
    /// Returns the number of bytes buffered in both directions.
    pub(super) fn bytes(&self) -> usize {
        let content = self.sending.bytes().saturating_add(self.receiving.bytes());
        content.saturating_add(self.datagrams.bytes())
    }
}

impl AppState for Exchanges {
    type Key = usize;
    type Error = Error;
    type Replies = ();

    fn is_changed(&mut self, key: usize) -> Option<&mut bool> {
        self.all.get_mut(key).map(|exchange| &mut exchange.is_changed)
    }

    fn fail(&mut self, error: &Error, effects: &mut Effects) {
        while let Some(key) = self.waiting.pop_front() {
            if let Some(exchange) = self.all.get_mut(key) {
                exchange.is_queued = false;
            }
        }
        // Requests that were received before the connection ended can still be accepted.
        let keys: Vec<usize> = self.all.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(exchange) = self.all.get_mut(key) {
                exchange.send.fail(error, effects);
                exchange.fail_receiving(error, effects);
            }
            self.retire(key);
        }
        if !matches!(error, Error::Connection(_)) {
            // This endpoint has closed the connection, and does not need its remaining requests.
            self.forget_incoming();
        }
    }

    fn compact(&mut self) {
        if self.all.is_empty() {
            self.all = Slab::new();
            self.peer.take_if(|peer| peer.is_unused());
        }
        for (_, exchange) in &mut self.all {
            exchange.datagrams.compact();
        }
        self.by_stream.compact();
        self.waiting.shrink_to_fit();
        self.incoming.shrink_to_fit();
    }
}

impl Exchanges {
    /// Discards the requests of an ended connection that no task has accepted.
    pub(super) fn forget_incoming(&mut self) {
        while let Some(key) = self.incoming.pop_front() {
            if let Some(exchange) = self.all.get_mut(key) {
                exchange.is_queued = false;
            }
            self.retire(key);
        }
    }

    /// Releases a task's handle to an exchange.
    pub(super) fn release(&mut self, key: usize) {
        if let Some(exchange) = self.all.get_mut(key) {
            exchange.handles = exchange.handles.saturating_sub(1);
            self.retire(key);
        }
    }

    /// Discards an exchange that neither a task nor the protocol needs any more.
    pub(super) fn retire(&mut self, key: usize) {
        let Some(exchange) = self.all.get(key).filter(|exchange| exchange.is_over()) else {
            return;
        };
        if let Some(stream) = exchange.stream {
            self.by_stream.remove(stream);
        }
        if exchange.handles == 0 && !exchange.is_changed {
            self.all.remove(key);
        }
    }

    /// Checks that each exchange is still needed, and that it can be found by its stream while the
    /// stream is in use. Skipped if there are many exchanges.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        const MOST: usize = 64;
        if self.all.len() > MOST {
            return;
        }
        for (key, exchange) in &self.all {
            let is_needed = exchange.handles > 0 || exchange.is_changed || !exchange.is_over();
            assert!(
                is_needed,
                "the exchange of stream {:?} is over but was not discarded",
                exchange.stream
            );
            let stream = exchange.stream.filter(|_| !exchange.is_over());
            assert!(stream.is_none_or(|stream| self.by_stream.get(stream) == Some(key)));
        }
        for (stream, key) in self.by_stream.iter() {
            assert!(self.all.get(key).is_some_and(|exchange| exchange.stream == Some(stream)));
        }
    }
}

impl State {
    /// Returns whether requests can be sent now.
    pub(super) fn is_open(&self) -> bool {
        self.is_usable() && self.error.is_none()
    }

    /// Fails if no new requests can be made.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.app.is_going_away || self.app.is_finishing => Err(Error::GoingAway),
            None => Ok(()),
        }
    }

    /// Returns whether another request would not have to wait for a stream, as far as is known.
    pub(super) fn is_ready(&self) -> bool {
        self.app.waiting.is_empty() && self.app.begun < BURST
    }

    /// Wakes the tasks that wait until requests can be made, if they can be made now.
    pub(super) fn announce_readiness(&mut self, effects: &mut Effects) {
        if self.app.awaits_readiness && (self.is_ready() || self.check_open().is_err()) {
            self.app.awaits_readiness = false;
            effects.signal(Signal::Requests);
        }
    }

    /// Rejects the requests that no task has accepted.
    pub(super) fn reject_incoming(&mut self) {
        while let Some(key) = self.app.incoming.pop_front() {
            if let Some(exchange) = self.app.all.get_mut(key) {
                exchange.is_queued = false;
                exchange.send.cancel(Code::REQUEST_REJECTED);
                exchange.receive.cancel(Code::REQUEST_REJECTED);
            }
            self.change(key);
        }
    }
}

/// One request with its response.
pub(super) struct Exchange {
    /// The ID of the exchange's stream, once it has one.
    pub(super) stream: Option<u64>,
    /// Number of handles that tasks hold.
    pub(super) handles: usize,
    is_changed: bool,
    /// Whether the exchange is a tunnel (CONNECT). The content of a tunnel counts as complete at
    /// any time, since a client may send nothing.
    pub(super) is_tunnel: bool,
    /// Whether the response has no content because its request is HEAD.
    pub(super) is_head: bool,
    /// Whether the exchange is in [`Exchanges::waiting`] or [`Exchanges::incoming`].
    pub(super) is_queued: bool,
    /// Whether the client is still waiting for 100 (Continue) before it sends content (RFC 9110
    /// §10.1.1).
    pub(super) expects_continue: bool,
    /// Whether the task has passed on the header section of the final response.
    pub(super) has_response: bool,
    /// The next header section: the request's until the protocol or a task has received it, and
    /// then the response's.
    pub(super) head: Option<Head>,
    pub(super) send: Sending,
    pub(super) receive: Receiving,
    pub(super) datagrams: ExchangeDatagrams,
    /// The priority, as last reported by the shard.
    pub(super) priority: Priority,
    /// A priority that a task has set, until it is passed to the protocol.
    pub(super) wanted_priority: Option<Priority>,
}

impl Exchange {
    /// Returns whether the protocol no longer needs this exchange.
    fn is_over(&self) -> bool {
        self.send.buffer.is_over() && self.receive.is_over() && !self.is_queued
    }

    /// Creates an exchange for a task's request (client). The task has handles to both halves.
    pub(super) fn request(head: Request<()>, totals: &Totals) -> Self {
        Self::new(None, head, totals)
    }

    fn new(stream: Option<u64>, request: Request<()>, totals: &Totals) -> Self {
        // A client's request already has a task; a request that a server has received is queued.
        let is_queued = stream.is_some();
        Self {
            stream,
            handles: if is_queued { 0 } else { 2 },
            is_changed: false,
            is_tunnel: request.method() == Method::CONNECT,
            is_head: request.method() == Method::HEAD,
            expects_continue: false,
            has_response: false,
            is_queued,
            head: Some(Head::Request(request)),
            send: Sending::new(&totals.sending),
            receive: Receiving::new(&totals.receiving),
            datagrams: ExchangeDatagrams::default(),
            priority: Priority::default(),
            wanted_priority: None,
        }
    }

    /// Ends receiving with an error. Data received earlier can still be read.
    pub(super) fn fail_receiving(&mut self, error: &Error, effects: &mut Effects) {
        self.receive.fail(error, effects);
        self.datagrams.end(effects);
    }

    /// Creates an exchange for a request received on `stream` (server). No task has a handle to it
    /// yet.
    pub(super) fn incoming(stream: u64, request: Request<()>, totals: &Totals) -> Self {
        let expects_continue = expects_continue(&request);
        Self { expects_continue, ..Self::new(Some(stream), request, totals) }
    }

    /// Sends 100 (Continue) if the client expects it and the response has not begun. Called when a
    /// task waits for content.
    pub(super) fn ask_for_content(&mut self) -> bool {
        let is_due = self.expects_continue && !self.has_response && self.send.check_open().is_ok();
        if is_due {
            self.expects_continue = false;
            self.send.informational.push(continue_response());
        }
        is_due
    }

    /// Stops reading the request on behalf of the task. The rest is read and discarded, up to
    /// `limit` bytes. Returns whether there is data to discard now, or `None` if STOP_SENDING must
    /// be sent immediately.
    pub(super) fn discard(&mut self, limit: u64) -> Option<bool> {
        // A client that still waits for 100 (Continue) may never send its content.
        let sends_none = self.expects_continue && !self.receive.buffer.has_more;
        if limit == 0 || self.is_tunnel || self.send.is_abandoned() || sends_none {
            return None;
        }
        self.receive.discard(limit);
        Some(self.receive.buffer.has_more)
    }

    /// Removes and returns the response's header section, if it is next.
    pub(super) fn take_response(&mut self) -> Option<Response<()>> {
        match self.head.take_if(|head| matches!(head, Head::Response(_)))? {
            Head::Response(response) => Some(response),
            Head::Request(_) => None,
        }
    }
}

/// Returns whether a client waits for 100 (Continue) before it sends the content of `request`.
pub(super) fn expects_continue(request: &Request<()>) -> bool {
    let expected = request.headers().get(EXPECT);
    expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Returns the 100 (Continue) response (RFC 9110 §15.2.1).
pub(super) fn continue_response() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    response
}

/// The header section of a message.
pub(super) enum Head {
    Request(Request<()>),
    Response(Response<()>),
}

/// The interim responses of an exchange. Few exchanges have any.
#[derive(Default)]
#[expect(clippy::box_collection, reason = "every message has one, so it must be small")]
pub(super) struct Interim(Option<Box<VecDeque<Response<()>>>>);

impl Interim {
    pub(super) fn push(&mut self, response: Response<()>) {
        self.0.get_or_insert_default().push_back(response);
    }

    /// Removes and returns the oldest interim response.
    pub(super) fn pop(&mut self) -> Option<Response<()>> {
        self.0.as_mut()?.pop_front()
    }
}

/// The local message: data that the task has sent but the transport has not accepted yet.
pub(super) struct Sending {
    pub(super) informational: Interim,
    pub(super) buffer: SendBuffer<Box<Error>>,
    /// The trailer section, sent before the end.
    pub(super) trailers: Option<Box<HeaderMap>>,
}

impl Sending {
    /// Creates a message whose buffer counts toward `total`.
    fn new(total: &Total) -> Self {
        Self {
            informational: Interim::default(),
            buffer: SendBuffer::new(Some(total)),
            trailers: None,
        }
    }

    /// Ends sending with an error.
    pub(super) fn fail(&mut self, error: &Error, effects: &mut Effects) {
        if !self.buffer.is_over() {
            self.end(SendState::Failed(Box::new(error.clone())), effects);
        }
    }

    /// Ends sending with `state`: the protocol has accepted the entire message, or never will.
    pub(super) fn end(&mut self, state: SendState<Box<Error>>, effects: &mut Effects) {
        self.informational = Interim::default();
        self.trailers = None;
        self.buffer.end(state, effects);
    }

    /// Cancels the part of the message that has not been handed over. Returns whether the shard has
    /// to reset the stream.
    pub(super) fn cancel(&mut self, code: Code) -> bool {
        if self.buffer.is_over() {
            return false;
        }
        self.trailers = None;
        self.buffer.reset(VarInt::saturating(code.get()));
        true
    }

    /// Returns whether the message was canceled or has failed.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(
            self.buffer.state(),
            SendState::Resetting(_) | SendState::Reset | SendState::Failed(_)
        )
    }

    /// Returns whether the message consists of the header section only.
    pub(super) fn is_head_only(&self) -> bool {
        let is_finishing = matches!(self.buffer.state(), SendState::Finishing);
        is_finishing && self.buffer.is_empty() && self.trailers.is_none()
    }

    /// Fails if no more content is accepted.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match self.buffer.state() {
            SendState::Open => Ok(()),
            SendState::Failed(error) => Err(Error::clone(error)),
            _ => Err(Error::Cancelled),
        }
    }

    /// Waits until there is room, and returns the number of bytes that fit.
    pub(super) fn poll_room(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects,
    ) -> Poll<Result<usize, Error>> {
        self.check_open()?;
        self.buffer.poll_room(context, effects).map(Ok)
    }

    /// Waits for room in the buffer and for flow control credit from the peer. Returns the number
    /// of bytes that both allow.
    pub(super) fn poll_credit(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects,
        max: usize,
    ) -> Poll<Result<usize, Error>> {
        self.check_open()?;
        self.buffer.poll_credit(context, effects, max).map(Ok)
    }

    /// Buffers `chunk`, whether or not there is room.
    pub(super) fn push(&mut self, chunk: Bytes) -> Result<(), Error> {
        self.check_open()?;
        self.buffer.push(chunk);
        Ok(())
    }

    /// Ends the message after the buffered content, with `trailers`.
    pub(super) fn finish(&mut self, trailers: Option<HeaderMap>) {
        if self.check_open().is_ok() {
            self.trailers = trailers.map(Box::new);
            self.buffer.finish();
        }
    }

    /// Waits until the protocol has accepted the entire message, or never will.
    pub(super) fn poll_over(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects,
    ) -> Poll<Result<(), Error>> {
        match self.buffer.state() {
            SendState::Failed(error) => Poll::Ready(Err(Error::clone(error))),
            SendState::Resetting(_) | SendState::Reset => Poll::Ready(Err(Error::Cancelled)),
            _ if self.buffer.is_over() => Poll::Ready(Ok(())),
            _ => {
                self.buffer.watch_end(context, effects);
                Poll::Pending
            }
        }
    }
}

/// The peer's message: received data that the task has not read yet.
pub(super) struct Receiving {
    pub(super) informational: Interim,
    pub(super) buffer: ReceiveBuffer<Box<Error>>,
    pub(super) trailers: Option<Box<HeaderMap>>,
    /// If no task reads the rest of the message, the number of bytes that may still arrive and be
    /// discarded.
    pub(super) discarded: Option<u64>,
}

impl Receiving {
    /// Creates a message whose buffer counts toward `total`.
    fn new(total: &Total) -> Self {
        Self {
            informational: Interim::default(),
            buffer: ReceiveBuffer::new(Some(total)),
            trailers: None,
            discarded: None,
        }
    }

    /// Ends receiving with an error. Data received earlier can still be read.
    pub(super) fn fail(&mut self, error: &Error, effects: &mut Effects) {
        if !self.is_over() {
            self.buffer.finish(Err(Box::new(error.clone())), effects);
        }
    }

    /// Records that the message is complete.
    pub(super) fn end(&mut self, effects: &mut Effects) {
        self.buffer.finish(Ok(()), effects);
    }

    /// Returns whether more data is awaited, either by a task or to be discarded.
    pub(super) fn is_awaited(&self) -> bool {
        self.buffer.is_awaited() || (self.discarded.is_some() && !self.is_over())
    }

    /// Returns whether receiving has ended.
    pub(super) fn is_over(&self) -> bool {
        self.buffer.end().is_some()
    }

    /// Discards unread data. Returns whether the shard has to send STOP_SENDING.
    pub(super) fn cancel(&mut self, code: Code) -> bool {
        self.buffer.clear();
        self.trailers = None;
        if self.is_over() || self.buffer.is_stopped() {
            return false;
        }
        self.buffer.stop(VarInt::saturating(code.get()));
        true
    }

    /// Discards unread data, and up to `limit` bytes that arrive later.
    fn discard(&mut self, limit: u64) {
        self.buffer.clear();
        self.trailers = None;
        self.discarded = (!self.is_over()).then_some(limit);
    }

    /// Moves all received data into the empty `chunks`. Returns `Ready(Ok(true))` if the transport
    /// has more data, for which there is now room, and `Ready(Ok(false))` if not.
    pub(super) fn poll_take(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<Result<bool, Error>> {
        if !self.buffer.is_empty() {
            self.buffer.take_all(chunks);
            return Poll::Ready(Ok(self.buffer.has_more));
        }
        match self.buffer.end() {
            Some(Ok(())) => Poll::Ready(Ok(false)),
            Some(Err(error)) => Poll::Ready(Err(Error::clone(error))),
            None => {
                self.buffer.watch(context, effects);
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
#[path = "exchanges_tests.rs"]
mod tests;
