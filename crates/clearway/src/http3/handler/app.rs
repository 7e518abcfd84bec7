//! The driver's interface to a handler.

use std::collections::BTreeMap;

use bytes::Bytes;
use clearway_http3::{Code, StreamError};
use clearway_transport::{Connection, Event, Statistics};
use http::{HeaderMap, Request};

use super::super::driver::{App, AppTurn, EXCHANGE, Ending, Turn};
use super::super::exchanges::{Addresses, continue_response, expects_continue};
use super::super::{Error, Peer, Timeouts};
use super::outgoing::Outgoing;
use super::{CHUNK, Handler, RequestStream};

/// The handler of one connection, as the driver sees it.
pub(super) struct Handling<H> {
    handler: H,
    responses: Responses,
}

/// The responses of one connection.
#[derive(Default)]
pub(super) struct Responses {
    pub(super) bodies: BTreeMap<u64, Outgoing>,
    /// Whether to close the connection when the exchanges in progress are complete.
    pub(super) is_finishing: bool,
    /// The client, as its requests refer to it, unless the connection is idle.
    peer: Option<Peer>,
}

impl Responses {
    /// Returns the client.
    pub(super) fn peer(&mut self, connection: &Connection) -> Peer {
        if connection.is_handshaking() {
            return Peer::of_handler(connection);
        }
        self.peer.get_or_insert_with(|| Peer::of_handler(connection)).clone()
    }

    /// Sends as much of the body on `stream` as the transport accepts.
    pub(super) fn pull(&mut self, turn: &mut Turn<'_>, stream: u64) {
        let Some(body) = self.bodies.get_mut(&stream) else { return };
        match body.pull(turn, stream) {
            Ok(false) => return,
            Ok(true) => {}
            // Has no effect if the client or the transport has ended the stream.
            Err(_) => turn.reset(stream, Code::INTERNAL_ERROR),
        }
        self.bodies.remove(&stream);
    }
}

impl<H: Handler> Handling<H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, responses: Responses::default() }
    }

    /// Calls the handler for a request.
    fn call(
        &mut self,
        turn: &mut Turn<'_>,
        id: u64,
        act: impl FnOnce(&mut H, &mut RequestStream<'_>),
    ) {
        let responses = &mut self.responses;
        act(&mut self.handler, &mut RequestStream { turn: turn.reborrow(), responses, id });
    }

    /// Resets a response that has not begun, since the handler will not be called again for its
    /// request.
    fn give_up(&self, turn: &mut Turn<'_>, stream: u64, code: Code) {
        if turn.awaits_response(stream) {
            turn.reset(stream, code);
        }
    }
}

impl<H: Handler> App for Handling<H> {
    type News = ();
    type Open<'a>
        = &'a mut Self
    where
        Self: 'a;

    fn open(&mut self) -> &mut Self {
        self
    }

    fn compact(&mut self) {
        self.responses.peer.take_if(|peer| peer.is_unused());
    }

    fn held_bytes(&self) -> u64 {
        let bodies = &self.responses.bodies;
        let pulled: usize = bodies.values().map(Outgoing::held_bytes).sum();
        (pulled as u64).saturating_add((bodies.len() as u64).saturating_mul(EXCHANGE))
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.handler.closed(statistics);
    }
}

impl<H: Handler> AppTurn for &mut Handling<H> {
    type News = ();

    fn path_event(&mut self, turn: &mut Turn<'_>, _: Event) {
        if let Some(peer) = &self.responses.peer {
            peer.set_addresses(Addresses::of(turn.connection()));
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, stream: u64, request: Request<()>) {
        let is_asked_for = expects_continue(&request);
        self.call(turn, stream, |handler, stream| handler.request(stream, request));
        if is_asked_for {
            // Not sent after a response, since the request's content is not needed then.
            let _ = turn.inform(stream, &continue_response());
        }
    }

    fn readable(&mut self, turn: &mut Turn<'_>, stream: u64) {
        while let Some(content) = turn.read(stream, CHUNK) {
            self.call(turn, stream, |handler, stream| handler.data(stream, content));
        }
    }

    fn finished(&mut self, turn: &mut Turn<'_>, stream: u64, trailers: Option<Box<HeaderMap>>) {
        let trailers = trailers.map(|trailers| *trailers);
        self.call(turn, stream, |handler, stream| handler.finished(stream, trailers));
        self.give_up(turn, stream, Code::INTERNAL_ERROR);
    }

    fn writable(&mut self, turn: &mut Turn<'_>, stream: u64) {
        self.responses.pull(turn, stream);
    }

    fn reset(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code) {
        self.handler.failed(stream, code);
        self.give_up(turn, stream, Code::REQUEST_CANCELLED);
    }

    fn stopped(&mut self, _: &mut Turn<'_>, stream: u64, code: Code) {
        self.responses.bodies.remove(&stream);
        self.handler.failed(stream, code);
    }

    fn failed(&mut self, _: &mut Turn<'_>, stream: u64, error: StreamError) {
        self.responses.bodies.remove(&stream);
        self.handler.failed(stream, error.code);
    }

    fn request_timed_out(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code) {
        self.reset(turn, stream, code);
    }

    fn response_timed_out(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code) {
        self.stopped(turn, stream, code);
    }

    fn datagram(&mut self, turn: &mut Turn<'_>, stream: u64, payload: Bytes) {
        self.call(turn, stream, |handler, stream| handler.datagram(stream, payload));
    }

    fn timeouts(&self) -> Option<Timeouts> {
        self.handler.timeouts()
    }

    /// Always true: a handler gets all content.
    fn wants_content(&self, _: u64) -> bool {
        true
    }

    fn ending(&self) -> Ending {
        if self.responses.is_finishing { Ending::Shutdown } else { Ending::No }
    }

    fn ended(&mut self, _: Error) {
        self.responses.bodies.clear();
    }

    fn close(self, _: &mut Turn<'_>) {}
}
