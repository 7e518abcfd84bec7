//! The state shared between the tasks of one HTTP/3 connection and its shard: requests and their responses.

use core::task::{Context, Poll};
use std::collections::VecDeque;

use bytes::Bytes;
use clearway_http3::{Code, Priority};
use clearway_units::StreamKeys;
use clearway_wire::VarInt;
use http::header::EXPECT;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use slab::Slab;

use super::Error;
use super::datagram_queues::ExchangeDatagrams;
use crate::bridge::{self, Face, ReceiveBuffer, SendBuffer, SendState, Total};

pub(super) type Shared = bridge::Shared<Exchanges>;
pub(super) type State = bridge::State<Exchanges>;
pub(super) type Effects = bridge::Effects<Exchanges>;

/// The exchanges of one connection, and how it is to end.
#[derive(Default)]
pub(super) struct Exchanges {
    pub(super) all: Slab<Exchange>,
    /// Which exchange a stream belongs to.
    pub(super) by_stream: StreamKeys,
    /// Requests that wait for the peer to allow another stream (client).
    pub(super) waiting: VecDeque<usize>,
    /// Requests that no task has taken yet (server).
    pub(super) incoming: VecDeque<usize>,
    /// The connection is gone, and requests still wait (server).
    pub(super) is_departed: bool,
    /// The listener was notified that requests wait.
    pub(super) is_announced: bool,
    /// The client's handles were dropped: the connection is kept only for its exchanges.
    pub(super) is_released: bool,
    /// The connection is to be closed when the exchanges in progress are complete (RFC 9114 §5.2).
    pub(super) is_finishing: bool,
    /// The peer accepts no more requests.
    pub(super) is_going_away: bool,
    /// No task will take requests (server).
    pub(super) is_rejecting: bool,
    /// The bytes that all streams hold.
    pub(super) totals: Totals,
    pub(super) wants_statistics: bool,
    /// Number of bytes of a request that are read and discarded once no task reads it; then STOP_SENDING is sent.
    pub(super) discard_limit: u64,
    /// Responses that have failed because of this end, and were not reported yet.
    pub(super) failures: Vec<Failure>,
    /// Messages that were aborted, perhaps after they were finished, and the error codes.
    pub(super) aborted: Vec<(u64, Code)>,
}

/// A response that has failed because of this end.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) stream: u64,
    pub(super) error: Error,
}

/// The bytes that all streams of a connection hold, by direction: one direction does not take room from the other.
#[derive(Clone, Default)]
pub(super) struct Totals {
    /// Data to be sent.
    pub(super) sending: Total,
    /// Received data that no task has taken.
    receiving: Total,
}

impl Totals {
    /// How many bytes there are in both directions.
    pub(super) fn bytes(&self) -> usize {
        self.sending.bytes().saturating_add(self.receiving.bytes())
    }
}

impl Face for Exchanges {
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
        // Requests that were received before the end can still be accepted.
        let keys: Vec<usize> = self.all.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(exchange) = self.all.get_mut(key) {
                exchange.send.fail(error, effects);
                exchange.fail_receiving(error, effects);
            }
            self.retire(key);
        }
        if !matches!(error, Error::Connection(_)) {
            // This end has closed the connection, and wants no more of it.
            self.forget_incoming();
        }
    }

    fn rest(&mut self) {
        if self.all.is_empty() {
            self.all = Slab::new();
        }
        self.by_stream.rest();
        self.waiting.shrink_to_fit();
        self.incoming.shrink_to_fit();
    }
}

impl Exchanges {
    /// Discards the requests that no task has taken, of a connection that has ended.
    pub(super) fn forget_incoming(&mut self) {
        while let Some(key) = self.incoming.pop_front() {
            if let Some(exchange) = self.all.get_mut(key) {
                exchange.is_queued = false;
            }
            self.retire(key);
        }
    }

    /// A task has dropped a handle of an exchange.
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

    /// Checks that each exchange is there for a reason, and is found by its stream while that is in use; unless there are many.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        const MOST: usize = 64;
        if self.all.len() > MOST {
            return;
        }
        for (key, exchange) in &self.all {
            let is_needed = exchange.handles > 0 || exchange.is_changed || !exchange.is_over();
            assert!(is_needed, "the exchange of stream {:?} is over, but kept", exchange.stream);
            let stream = exchange.stream.filter(|_| !exchange.is_over());
            assert!(stream.is_none_or(|stream| self.by_stream.get(stream) == Some(key)));
        }
        for (stream, key) in self.by_stream.iter() {
            assert!(self.all.get(key).is_some_and(|exchange| exchange.stream == Some(stream)));
        }
    }
}

impl State {
    /// Whether requests can be sent now.
    pub(super) fn is_open(&self) -> bool {
        self.is_usable() && self.error.is_none()
    }

    /// Fails if no new request can be made.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.face.is_going_away || self.face.is_finishing => Err(Error::GoingAway),
            None => Ok(()),
        }
    }

    /// Rejects the requests that no task has accepted.
    pub(super) fn reject_incoming(&mut self) {
        while let Some(key) = self.face.incoming.pop_front() {
            if let Some(exchange) = self.face.all.get_mut(key) {
                exchange.is_queued = false;
                exchange.send.cancel(Code::REQUEST_REJECTED);
                exchange.receive.cancel(Code::REQUEST_REJECTED);
            }
            self.change(key);
        }
    }
}

/// One request and its response.
pub(super) struct Exchange {
    /// The ID of its stream, once there is one.
    pub(super) stream: Option<u64>,
    /// How many handles of it are held by tasks.
    pub(super) handles: usize,
    is_changed: bool,
    /// It is a tunnel (CONNECT): its content is complete at any time, so that a client that sends none owes nothing.
    pub(super) is_tunnel: bool,
    /// It is in [`Exchanges::waiting`] or [`Exchanges::incoming`].
    pub(super) is_queued: bool,
    /// The client waits for 100 (Continue) before it sends content (RFC 9110 §10.1.1), and has not received it.
    pub(super) expects_continue: bool,
    /// The task has passed on the header section of the final response.
    pub(super) has_response: bool,
    /// The header section that comes next: first that of the request, until the protocol or a task has taken it, then that of
    /// the response.
    pub(super) head: Option<Head>,
    pub(super) send: Sending,
    pub(super) receive: Receiving,
    pub(super) datagrams: ExchangeDatagrams,
    /// The priority, as far as the shard has told.
    pub(super) priority: Priority,
    /// A priority that a task has set, until the protocol is told.
    pub(super) wanted_priority: Option<Priority>,
}

impl Exchange {
    /// Whether the protocol does not need it any more.
    fn is_over(&self) -> bool {
        self.send.buffer.is_over() && self.receive.is_over() && !self.is_queued
    }

    /// A request that a task makes (client). The task holds both ends.
    pub(super) fn request(head: Request<()>, totals: &Totals) -> Self {
        Self::new(None, head, totals)
    }

    fn new(stream: Option<u64>, request: Request<()>, totals: &Totals) -> Self {
        // What a client has requested is held by its task, what a server has received is queued.
        let is_queued = stream.is_some();
        Self {
            stream,
            handles: if is_queued { 0 } else { 2 },
            is_changed: false,
            is_tunnel: false,
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

    /// Ends receiving with an error. What was received before can still be read.
    pub(super) fn fail_receiving(&mut self, error: &Error, effects: &mut Effects) {
        self.receive.fail(error, effects);
        self.datagrams.end(effects);
    }

    /// A request received on `stream` (server). No task holds it yet.
    pub(super) fn incoming(stream: u64, request: Request<()>, totals: &Totals) -> Self {
        let is_tunnel = request.method() == Method::CONNECT;
        let expects_continue = expects_continue(&request);
        Self { is_tunnel, expects_continue, ..Self::new(Some(stream), request, totals) }
    }

    /// Sends 100 (Continue) if the client expects it and the response has not begun. Called when a task waits for content.
    pub(super) fn ask_for_content(&mut self) -> bool {
        let is_due = self.expects_continue && !self.has_response && self.send.check_open().is_ok();
        if is_due {
            self.expects_continue = false;
            self.send.informational.push(continue_response());
        }
        is_due
    }

    /// Stops reading the request for the task. The rest is read and discarded, up to `limit` bytes. Returns whether some of it
    /// can be read now; `None` if STOP_SENDING has to be sent at once.
    pub(super) fn discard(&mut self, limit: u64) -> Option<bool> {
        // A client that still waits for 100 (Continue) may never send its content.
        let sends_none = self.expects_continue && !self.receive.buffer.has_more;
        if limit == 0 || self.is_tunnel || self.send.is_abandoned() || sends_none {
            return None;
        }
        self.receive.discard(limit);
        Some(self.receive.buffer.has_more)
    }

    /// The header section of the response, if it comes next.
    pub(super) fn take_response(&mut self) -> Option<Response<()>> {
        match self.head.take_if(|head| matches!(head, Head::Response(_)))? {
            Head::Response(response) => Some(response),
            Head::Request(_) => None,
        }
    }
}

/// Whether a client waits for an interim response before it sends the content of `request`.
pub(super) fn expects_continue(request: &Request<()>) -> bool {
    let expected = request.headers().get(EXPECT);
    expected.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The interim response that lets it begin (RFC 9110 §15.2.1).
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

/// Interim responses, which few messages have.
#[derive(Default)]
#[expect(clippy::box_collection, reason = "it is in every message")]
pub(super) struct Interim(Option<Box<VecDeque<Response<()>>>>);

impl Interim {
    pub(super) fn push(&mut self, response: Response<()>) {
        self.0.get_or_insert_default().push_back(response);
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<Response<()>> {
        self.0.as_mut()?.pop_front()
    }
}

/// This end's message: what the task has sent and the transport has not taken.
pub(super) struct Sending {
    pub(super) informational: Interim,
    pub(super) buffer: SendBuffer<Box<Error>>,
    /// The trailer section, sent before the end.
    pub(super) trailers: Option<Box<HeaderMap>>,
}

impl Sending {
    /// A message whose buffer counts as a part of `total`.
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

    /// Ends sending with `state`: the protocol has taken the whole message, or never will.
    pub(super) fn end(&mut self, state: SendState<Box<Error>>, effects: &mut Effects) {
        self.informational = Interim::default();
        self.trailers = None;
        self.buffer.end(state, effects);
    }

    /// Cancels the message, as far as it was not handed over. Returns whether the shard has to reset the stream.
    pub(super) fn cancel(&mut self, code: Code) -> bool {
        if self.buffer.is_over() {
            return false;
        }
        self.trailers = None;
        self.buffer.reset(VarInt::saturating(code.get()));
        true
    }

    /// Whether the message was cancelled or has failed.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(
            self.buffer.state(),
            SendState::Resetting(_) | SendState::Reset | SendState::Failed(_)
        )
    }

    /// Whether the message consists of the header section only.
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

    /// Waits for room. Returns for how many bytes there is room.
    pub(super) fn poll_room(
        &mut self,
        context: &Context<'_>,
        effects: &mut Effects,
    ) -> Poll<Result<usize, Error>> {
        self.check_open()?;
        self.buffer.poll_room(context, effects).map(Ok)
    }

    /// Waits for room and for the peer's credit. Returns for how many bytes there are both.
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

    /// Waits until the protocol has taken the whole message, or never will.
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

/// The peer's message: what was received and the task has not taken.
pub(super) struct Receiving {
    pub(super) informational: Interim,
    pub(super) buffer: ReceiveBuffer<Box<Error>>,
    pub(super) trailers: Option<Box<HeaderMap>>,
    /// No task reads the rest: this many bytes of it may still come.
    pub(super) discarded: Option<u64>,
}

impl Receiving {
    /// A message whose buffer counts as a part of `total`.
    fn new(total: &Total) -> Self {
        Self {
            informational: Interim::default(),
            buffer: ReceiveBuffer::new(Some(total)),
            trailers: None,
            discarded: None,
        }
    }

    /// Ends receiving with an error. What was received before can still be read.
    pub(super) fn fail(&mut self, error: &Error, effects: &mut Effects) {
        if !self.is_over() {
            self.buffer.finish(Err(Box::new(error.clone())), effects);
        }
    }

    /// The message is complete.
    pub(super) fn end(&mut self, effects: &mut Effects) {
        self.buffer.finish(Ok(()), effects);
    }

    /// Whether somebody waits for more: a task, or this end to discard it.
    pub(super) fn is_awaited(&self) -> bool {
        self.buffer.is_awaited() || (self.discarded.is_some() && !self.is_over())
    }

    /// Whether receiving has ended.
    pub(super) fn is_over(&self) -> bool {
        self.buffer.end().is_some()
    }

    /// Discards what is not read yet. Returns whether the shard has to send STOP_SENDING.
    pub(super) fn cancel(&mut self, code: Code) -> bool {
        self.buffer.clear();
        self.trailers = None;
        if self.is_over() || self.buffer.is_stopped() {
            return false;
        }
        self.buffer.stop(VarInt::saturating(code.get()));
        true
    }

    /// Discards what is not read yet, and what still comes, up to `limit` bytes.
    fn discard(&mut self, limit: u64) {
        self.buffer.clear();
        self.trailers = None;
        self.discarded = (!self.is_over()).then_some(limit);
    }

    /// Moves everything that was received into the empty `chunks`. `Ready(Ok(true))` if the transport has
    /// more, for which there is room now; `Ready(Ok(false))` if not.
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
