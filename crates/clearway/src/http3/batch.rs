//! One batch of one connection: messages between the protocol and the tasks' queues.

use core::task::Waker;
use std::collections::BTreeSet;

use bytes::Buf;
use clearway_http3::{
    Code, Connection as Http3, Event, QuicStreams, Role, SendError, StreamError, Transport,
};
use clearway_transport::ConnectionError;
use clearway_units::Timestamp;
use clearway_wire::{StreamId, VarInt};

use super::Error;
use super::adapter::Undelivered;
use super::bridge::PROTOCOL;
use super::progress::{Look, Stalled, Watch};
use super::state::{Ending, Exchange, Head, Phase, State};

/// How much content is asked of the transport at once.
const READ: usize = 256 << 10;

/// One call of `process`, with the lock held.
pub(super) struct Batch<'a> {
    pub(super) http3: &'a mut Http3,
    pub(super) undelivered: &'a mut Undelivered,
    pub(super) streams: QuicStreams<'a>,
    pub(super) state: &'a mut State,
    pub(super) wakers: &'a mut Vec<Waker>,
    pub(super) has_said_goaway: &'a mut bool,
    pub(super) has_requests: bool,
    /// The connection is over: what came is taken in, whatever its size. Flow control has bounded it.
    pub(super) is_draining: bool,
}

impl Batch<'_> {
    pub(super) fn on_connected(&mut self) {
        let protocol = self.streams.connection().session().application_protocol();
        if protocol != Some(PROTOCOL) {
            self.http3.close(&mut self.streams, Code::NO_ERROR, "this end speaks HTTP/3");
            self.state.close(Error::WrongProtocol, self.wakers);
            return;
        }
        self.state.phase = Phase::Open;
        self.state.statistics = Some(self.streams.connection().statistics());
        self.state.remote_address = Some(self.streams.connection().remote_address());
        self.wakers.append(&mut self.state.watchers);
    }

    /// Passes on what the protocol has to tell.
    pub(super) fn events(&mut self) {
        // What ends a stream may stand behind what permits to write on it.
        let mut writable = Vec::new();
        while let Some(event) = self.http3.next_event() {
            match event {
                Event::Request { stream, request } => {
                    let key = self.state.exchanges.insert(Exchange::incoming(
                        stream,
                        request,
                        &self.state.held,
                    ));
                    self.state.streams.insert(stream, key);
                    self.state.incoming.push_back(key);
                    self.has_requests |= !core::mem::replace(&mut self.state.is_announced, true);
                }
                Event::Informational { stream, response } => {
                    self.with(stream, |exchange, wakers| {
                        exchange.receive.informational.push_back(response);
                        wakers.extend(exchange.receive.waker.take());
                    })
                }
                Event::Response { stream, response } => self.with(stream, |exchange, wakers| {
                    exchange.receive.head = Some(Head::Response(response));
                    wakers.extend(exchange.receive.waker.take());
                }),
                Event::Data { stream } => {
                    self.with(stream, |exchange, _| exchange.receive.is_readable = true);
                    self.by_stream(stream, Self::read);
                }
                Event::Trailers { stream, fields } => {
                    self.with(stream, |exchange, _| exchange.receive.trailers = Some(fields));
                }
                Event::Finished { stream } => {
                    self.with(stream, |exchange, wakers| exchange.receive.end(wakers));
                }
                Event::Writable { stream } => {
                    self.with(stream, |exchange, _| exchange.send.is_blocked = false);
                    writable.push(stream);
                }
                Event::Reset { stream, code } => self.on_reset(stream, code),
                Event::Stopped { stream, code } => self.with(stream, |exchange, wakers| {
                    exchange.send.fail(&Error::Stopped(code), wakers);
                }),
                Event::Failed { stream, error } => self.on_failed(stream, error),
                Event::GoAway { .. } => self.on_goaway(),
                Event::Closed(error) => self.state.close(Error::Protocol(error), self.wakers),
                Event::Settings(_) => {}
            }
        }
        for stream in writable {
            self.by_stream(stream, Self::write);
        }
    }

    /// Changes the exchange on `stream`, and forgets it if it is over.
    fn with(&mut self, stream: u64, change: impl FnOnce(&mut Exchange, &mut Vec<Waker>)) {
        let Some(&key) = self.state.streams.get(&stream) else { return };
        if let Some(exchange) = self.state.exchanges.get_mut(key) {
            change(exchange, self.wakers);
        }
        self.state.retire(key);
    }

    fn by_stream(&mut self, stream: u64, act: impl FnOnce(&mut Self, usize)) {
        if let Some(&key) = self.state.streams.get(&stream) {
            act(self, key);
            self.state.retire(key);
        }
    }

    /// The client abandoned its request, or the server its response.
    fn on_reset(&mut self, stream: u64, code: Code) {
        let Some(&key) = self.state.streams.get(&stream) else { return };
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        exchange.receive.fail(&Error::Reset(code), self.wakers);
        if exchange.is_queued {
            // No task has seen it, and none will.
            exchange.is_queued = false;
            exchange.send.end();
            self.state.incoming.retain(|queued| *queued != key);
            self.http3.reset(&mut self.streams, stream, Code::REQUEST_REJECTED);
        }
        self.state.retire(key);
    }

    fn on_failed(&mut self, stream: u64, error: StreamError) {
        let error = Error::from_stream(error);
        let Some(&key) = self.state.streams.get(&stream) else { return };
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        exchange.send.fail(&error, self.wakers);
        exchange.receive.fail(&error, self.wakers);
        if core::mem::take(&mut exchange.is_queued) {
            self.state.incoming.retain(|queued| *queued != key);
        }
        self.state.retire(key);
    }

    fn on_goaway(&mut self) {
        self.state.is_going_away = true;
        while let Some(key) = self.state.waiting.pop_front() {
            if let Some(exchange) = self.state.exchanges.get_mut(key) {
                exchange.is_queued = false;
            }
            self.give_up(key, &Error::GoingAway);
        }
    }

    /// Ends an exchange that has no stream.
    fn give_up(&mut self, key: usize, error: &Error) {
        if let Some(exchange) = self.state.exchanges.get_mut(key) {
            exchange.send.fail(error, self.wakers);
            exchange.receive.fail(error, self.wakers);
        }
        self.state.retire(key);
    }

    /// Does what tasks want.
    pub(super) fn changes(&mut self, changed: &mut Vec<usize>) {
        if self.state.is_rejecting {
            self.state.reject_incoming();
        }
        std::mem::swap(&mut self.state.changed, changed);
        for key in changed.drain(..) {
            let Some(exchange) = self.state.exchanges.get_mut(key) else { continue };
            exchange.is_changed = false;
            match exchange.stream {
                Some(_) => {
                    self.cancel(key);
                    self.write(key);
                    self.read(key);
                }
                None if exchange.send.is_over || exchange.is_queued => self.check_waiting(key),
                None => {
                    exchange.is_queued = true;
                    self.state.waiting.push_back(key);
                    self.check_waiting(key);
                }
            }
            self.state.retire(key);
        }
    }

    /// A request that waits for a stream may have been given up.
    fn check_waiting(&mut self, key: usize) {
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        if exchange.is_queued && exchange.send.reset.is_some() {
            exchange.is_queued = false;
            self.state.waiting.retain(|waiting| *waiting != key);
            self.give_up(key, &Error::Cancelled);
        }
    }

    /// Gives up what the task gave up.
    fn cancel(&mut self, key: usize) {
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if let Some(code) = exchange.send.reset.take() {
            self.http3.reset(&mut self.streams, stream, code);
            exchange.send.end();
            wake(&mut exchange.send.waker, self.wakers);
        }
        if let Some(code) = exchange.receive.stop.take() {
            self.http3.stop(&mut self.streams, stream, code);
            exchange.receive.fail(&Error::Cancelled, self.wakers);
        }
    }

    /// Sends requests for which there was no stream.
    pub(super) fn open_waiting(&mut self) {
        while let Phase::Open = self.state.phase
            && let Some(&key) = self.state.waiting.front()
        {
            let opened = match self.state.exchanges.get_mut(key) {
                Some(_) => self.send_request(key),
                None => Ok(()),
            };
            match opened {
                Err(SendError::StreamsBlocked) => return,
                Ok(()) => self.dequeue(),
                Err(error) => {
                    self.dequeue();
                    self.give_up(key, &Error::from_send(error));
                }
            }
            self.state.retire(key);
        }
    }

    fn dequeue(&mut self) {
        let key = self.state.waiting.pop_front();
        if let Some(exchange) = key.and_then(|key| self.state.exchanges.get_mut(key)) {
            exchange.is_queued = false;
        }
    }

    fn send_request(&mut self, key: usize) -> Result<(), SendError> {
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return Ok(()) };
        let Some(Head::Request(request)) = &exchange.send.head else { return Ok(()) };
        let is_whole = exchange.send.is_head_only();
        let stream = self.http3.send_request(&mut self.streams, request, is_whole)?;
        exchange.send.head = None;
        exchange.stream = Some(stream);
        self.state.streams.insert(stream, key);
        if is_whole {
            self.undelivered.add(stream);
            exchange.send.end();
            wake(&mut exchange.send.waker, self.wakers);
        }
        self.write(key);
        Ok(())
    }

    /// Hands over what a task has given, as far as the transport takes it.
    fn write(&mut self, key: usize) {
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if exchange.send.is_over || exchange.send.is_blocked {
            return;
        }
        match write(self.http3, &mut self.streams, stream, exchange) {
            Ok(()) if exchange.send.is_over => self.undelivered.add(stream),
            Ok(()) => {}
            Err(error) => self.write_failed(key, stream, error),
        }
        if let Some(exchange) = self.state.exchanges.get_mut(key) {
            exchange.send.collect_waker(self.wakers);
        }
    }

    /// Our own message cannot go on: what its task did wrong must not look like an end to the peer.
    fn write_failed(&mut self, key: usize, stream: u64, error: SendError) {
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        let is_ours = !matches!(
            error,
            SendError::Stopped(_) | SendError::StreamClosed | SendError::ConnectionClosed
        );
        let error = Error::from_send(error);
        exchange.send.fail(&error, self.wakers);
        if !is_ours {
            return;
        }
        let code = match self.http3.role() {
            Role::Client => Code::REQUEST_CANCELLED,
            Role::Server => Code::INTERNAL_ERROR,
        };
        self.http3.reset(&mut self.streams, stream, code);
        if self.http3.role() == Role::Client {
            self.http3.stop(&mut self.streams, stream, code);
            exchange.receive.fail(&error, self.wakers);
        }
    }

    /// Takes content that came, as far as there is room.
    fn read(&mut self, key: usize) {
        let Some(exchange) = self.state.exchanges.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        let receive = &mut exchange.receive;
        let mut has_news = false;
        while receive.is_readable && (self.is_draining || receive.has_room()) {
            match self.http3.read_body(&mut self.streams, stream, READ) {
                Some(chunk) => {
                    receive.push(chunk);
                    has_news = true;
                }
                None => receive.is_readable = false,
            }
        }
        if has_news {
            wake(&mut receive.waker, self.wakers);
        }
    }

    /// Abandons the streams whose peer stands still, if it is time to look for them.
    pub(super) fn look(&mut self, now: Timestamp, watch: &mut Watch) {
        let Some(timeouts) = self.state.wants_look.take() else { return };
        let mut streams: BTreeSet<u64> = self.http3.request_streams().collect();
        streams.extend(self.undelivered.iter());
        let looks: Vec<Look> =
            streams.into_iter().filter_map(|stream| self.look_at(stream)).collect();
        for (stream, stalled) in watch.look(now, &timeouts, &looks) {
            match stalled {
                Stalled::Request => self.abandon_request(stream),
                Stalled::Response => self.abandon_response(stream),
            }
        }
    }

    fn look_at(&mut self, stream: u64) -> Option<Look> {
        let id = StreamId::from_varint(VarInt::saturating(stream));
        let progress = self.streams.connection_mut().stream_progress(id)?;
        let key = self.state.streams.get(&stream);
        let exchange = key.and_then(|key| self.state.exchanges.get(*key));
        let awaits_content = exchange.is_some_and(|exchange| exchange.receive.is_awaited());
        let awaits_request = awaits_content || self.http3.awaits_request(stream);
        Some(Look { stream, progress, awaits_request })
    }

    fn abandon_request(&mut self, stream: u64) {
        let is_unseen = self.http3.awaits_request(stream);
        let code = if is_unseen { Code::REQUEST_REJECTED } else { Code::REQUEST_CANCELLED };
        self.with(stream, |exchange, wakers| exchange.receive.fail(&Error::TimedOut, wakers));
        if is_unseen {
            self.http3.reset(&mut self.streams, stream, code);
        }
        self.http3.stop(&mut self.streams, stream, code);
    }

    fn abandon_response(&mut self, stream: u64) {
        self.with(stream, |exchange, wakers| exchange.send.fail(&Error::TimedOut, wakers));
        self.http3.reset(&mut self.streams, stream, Code::REQUEST_CANCELLED);
        // The protocol may have handed over the end already, and know nothing of the stream.
        self.streams.reset(stream, Code::REQUEST_CANCELLED.get());
    }

    /// The connection is over. What the transport has received completely is still good.
    pub(super) fn on_closed(&mut self, error: ConnectionError) {
        self.is_draining = true;
        let open: Vec<(u64, usize)> =
            self.state.streams.iter().map(|(stream, key)| (*stream, *key)).collect();
        for (stream, key) in open {
            self.http3.on_readable(&mut self.streams, stream);
            self.read(key);
        }
        self.events();
        self.state.close(Error::from_connection(error), self.wakers);
    }

    /// Closes the connection if that was asked for and nothing is in the way.
    pub(super) fn end_if_due(&mut self) {
        let code = match self.state.ending {
            _ if matches!(self.state.phase, Phase::Closed(_)) => return,
            Ending::Now(code) => code,
            Ending::Graceful => {
                if !core::mem::replace(self.has_said_goaway, true) {
                    self.http3.goaway(&mut self.streams);
                }
                Code::NO_ERROR
            }
            Ending::None if self.state.is_released => Code::NO_ERROR,
            Ending::None => return,
        };
        let is_idle = self.http3.is_idle()
            && self.undelivered.is_empty()
            && self.state.waiting.is_empty()
            && self.state.incoming.is_empty();
        if is_idle || matches!(self.state.ending, Ending::Now(_)) {
            self.http3.close(&mut self.streams, code, "");
            self.state.close(Error::Closed, self.wakers);
        }
    }

    pub(super) fn report_statistics(&mut self) {
        if core::mem::take(&mut self.state.wants_statistics) {
            self.state.statistics = Some(self.streams.connection().statistics());
            self.wakers.append(&mut self.state.watchers);
        }
    }
}

fn wake(waker: &mut Option<Waker>, wakers: &mut Vec<Waker>) {
    wakers.extend(waker.take());
}

/// Hands over what there is of our message on `stream`.
fn write(
    http3: &mut Http3,
    streams: &mut QuicStreams<'_>,
    stream: u64,
    exchange: &mut Exchange,
) -> Result<(), SendError> {
    let send = &mut exchange.send;
    while let Some(response) = send.informational.pop_front() {
        http3.send_informational(streams, stream, &response)?;
    }
    if let Some(Head::Response(response)) = send.head.take() {
        let is_whole = send.is_head_only();
        http3.send_response(streams, stream, &response, is_whole)?;
        if is_whole {
            send.end();
            return Ok(());
        }
    }
    while let Some(chunk) = send.chunks.front_mut() {
        let taken = http3.send_body(streams, stream, chunk.clone())?;
        send.held.set(send.held.bytes().saturating_sub(taken));
        chunk.advance(taken.min(chunk.len()));
        if !chunk.is_empty() {
            send.is_blocked = true;
            return Ok(());
        }
        send.chunks.pop_front();
    }
    if let Some(finish) = send.finish.take() {
        if let Some(trailers) = &finish.trailers {
            http3.send_trailers(streams, stream, trailers)?;
        }
        http3.finish(streams, stream)?;
        send.end();
    }
    Ok(())
}
