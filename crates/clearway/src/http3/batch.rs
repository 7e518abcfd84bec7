//! One batch of one connection: moves messages between the protocol and the tasks' queues.

use std::collections::BTreeSet;

use bytes::Bytes;
use clearway_http3::{
    Code, Connection as Http3, DatagramError, Event, QuicStreams, Role, SendError, StreamError,
    Transport,
};
use clearway_transport::ConnectionError;
use clearway_units::Timestamp;
use clearway_wire::{StreamId, VarInt};

use super::Error;
use super::driver::{FIRST_REQUEST, PROTOCOL};
use super::early;
use super::exchanges::{Effects, Exchange, Failure, Head, State};
use super::feed::Undelivered;
use super::progress::{Look, Stalled, Watch};
use crate::bridge::{SendState, Signal};

/// How much content is read from the transport at once, in bytes.
const READ: usize = 256 << 10;

/// One call of `process`, with the lock held.
pub(super) struct Batch<'a> {
    pub(super) http3: &'a mut Http3,
    pub(super) undelivered: &'a mut Undelivered,
    pub(super) streams: QuicStreams<'a>,
    pub(super) state: &'a mut State,
    pub(super) effects: &'a mut Effects,
    pub(super) has_said_goaway: &'a mut bool,
    pub(super) has_requests: bool,
    /// When the handshake was complete, until the first request.
    pub(super) unasked_since: &'a mut Option<Timestamp>,
    /// The connection has ended: all received content is taken, whatever its size, which flow control has bounded.
    pub(super) is_draining: bool,
}

impl Batch<'_> {
    pub(super) fn on_connected(&mut self) {
        let protocol = self.streams.connection().session().application_protocol();
        if protocol != Some(PROTOCOL) {
            self.http3.close(&mut self.streams, Code::NO_ERROR, "this end speaks HTTP/3");
            self.state.fail(Error::WrongProtocol, self.effects);
            return;
        }
        self.state.establish(self.streams.connection(), self.effects);
    }

    pub(super) fn note_early_data(&mut self) {
        self.state.note_early_data(self.streams.connection(), self.effects);
    }

    /// Passes the events of the protocol on to the tasks.
    pub(super) fn events(&mut self) {
        // Writing is postponed, since the event that ends a stream may follow the one that permits writing on it.
        let mut writable = Vec::new();
        while let Some(event) = self.http3.next_event() {
            match event {
                Event::Request { stream, mut request } => {
                    if early::is_refused(&mut self.streams, self.http3, stream, &mut request) {
                        self.undelivered.add(stream);
                        continue;
                    }
                    let mut exchange = Exchange::incoming(stream, request, &self.state.face.totals);
                    exchange.priority = self.http3.priority(stream).unwrap_or_default();
                    let key = self.state.face.all.insert(exchange);
                    self.state.face.by_stream.insert(stream, key);
                    self.state.face.incoming.push_back(key);
                    self.has_requests |=
                        !core::mem::replace(&mut self.state.face.is_announced, true);
                }
                Event::Informational { stream, response } => {
                    self.with(stream, |exchange, effects| {
                        exchange.receive.informational.push(response);
                        exchange.receive.buffer.wake(effects);
                    })
                }
                Event::Response { stream, response } => self.with(stream, |exchange, effects| {
                    exchange.head = Some(Head::Response(response));
                    exchange.receive.buffer.wake(effects);
                }),
                Event::Data { stream } => {
                    self.with(stream, |exchange, _| exchange.receive.buffer.has_more = true);
                    self.by_stream(stream, Self::read);
                }
                Event::Trailers { stream, fields } => {
                    self.with(stream, |exchange, _| {
                        exchange.receive.trailers = Some(fields.into())
                    });
                }
                Event::Finished { stream } => {
                    self.with(stream, |exchange, effects| {
                        exchange.receive.end(effects);
                        exchange.datagrams.end(effects);
                    });
                }
                Event::Writable { stream } => {
                    self.with(stream, |exchange, _| exchange.send.buffer.unblock());
                    writable.push(stream);
                }
                Event::Reset { stream, code } => self.on_reset(stream, code),
                Event::Stopped { stream, code } => {
                    self.with(stream, |exchange, effects| {
                        exchange.send.fail(&Error::Stopped(code), effects);
                    });
                    self.by_stream(stream, Self::read);
                }
                Event::Failed { stream, error } => self.on_failed(stream, error),
                Event::GoAway { .. } => self.on_goaway(),
                Event::Closed(error) => self.state.fail(Error::Protocol(error), self.effects),
                Event::Priority { stream } => {
                    let priority = self.http3.priority(stream);
                    self.with(stream, |exchange, _| {
                        exchange.priority = priority.unwrap_or_default();
                    });
                }
                _ => {}
            }
        }
        for stream in writable {
            self.by_stream(stream, Self::write);
        }
        self.receive_datagrams();
    }

    /// Passes datagrams on to the tasks.
    pub(super) fn deliver(&mut self, datagrams: impl IntoIterator<Item = (u64, Bytes)>) {
        for (stream, data) in datagrams {
            self.with(stream, |exchange, effects| exchange.datagrams.receive(data, effects));
        }
    }

    /// Passes on those that came for requests that have just arrived, or since.
    fn receive_datagrams(&mut self) {
        while let Some(datagram) = self.http3.next_datagram(&mut self.streams) {
            self.deliver([datagram]);
        }
    }

    /// Passes a task's datagrams to the transport, and tells the task what can be sent.
    fn send_datagrams(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        let datagrams = &mut exchange.datagrams;
        while let Some(data) = datagrams.next_outgoing() {
            match self.http3.send_datagram(&mut self.streams, stream, &data) {
                // Datagrams are unreliable: one that is too large for the path or for the queue is lost.
                Ok(()) | Err(DatagramError::TooLarge { .. } | DatagramError::QueueFull) => {}
                Err(error) => datagrams.fail(error),
            }
        }
        datagrams.maximum = self.http3.max_datagram(&mut self.streams, stream).ok();
    }

    /// Changes the priority as a task has set it.
    fn reprioritize(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if let Some(priority) = exchange.wanted_priority.take() {
            exchange.priority = priority;
            // An exchange that has ended needs no priority.
            let _ = self.http3.set_priority(&mut self.streams, stream, priority);
        }
    }

    /// Changes the exchange on `stream`, and discards it if it has ended.
    fn with(&mut self, stream: u64, change: impl FnOnce(&mut Exchange, &mut Effects)) {
        let Some(key) = self.state.face.by_stream.get(stream) else { return };
        if let Some(exchange) = self.state.face.all.get_mut(key) {
            change(exchange, self.effects);
        }
        self.state.face.retire(key);
    }

    fn by_stream(&mut self, stream: u64, act: impl FnOnce(&mut Self, usize)) {
        if let Some(key) = self.state.face.by_stream.get(stream) {
            act(self, key);
            self.state.face.retire(key);
        }
    }

    /// The client abandoned its request, or the server its response.
    fn on_reset(&mut self, stream: u64, code: Code) {
        let Some(key) = self.state.face.by_stream.get(stream) else { return };
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        exchange.fail_receiving(&Error::Reset(code), self.effects);
        if exchange.is_queued {
            // No task has seen the request, and none will.
            exchange.is_queued = false;
            exchange.send.end(SendState::Reset, self.effects);
            self.state.face.incoming.retain(|queued| *queued != key);
            self.undelivered.reset(self.http3, &mut self.streams, stream, Code::REQUEST_REJECTED);
        }
        self.state.face.retire(key);
    }

    fn on_failed(&mut self, stream: u64, error: StreamError) {
        let error = Error::from_stream(error);
        let Some(key) = self.state.face.by_stream.get(stream) else { return };
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        exchange.send.fail(&error, self.effects);
        exchange.fail_receiving(&error, self.effects);
        if core::mem::take(&mut exchange.is_queued) {
            self.state.face.incoming.retain(|queued| *queued != key);
        }
        self.state.face.retire(key);
    }

    fn on_goaway(&mut self) {
        self.state.face.is_going_away = true;
        while let Some(key) = self.state.face.waiting.pop_front() {
            if let Some(exchange) = self.state.face.all.get_mut(key) {
                exchange.is_queued = false;
            }
            self.give_up(key, &Error::GoingAway);
        }
    }

    /// Ends an exchange that has no stream.
    fn give_up(&mut self, key: usize, error: &Error) {
        if let Some(exchange) = self.state.face.all.get_mut(key) {
            exchange.send.fail(error, self.effects);
            exchange.fail_receiving(error, self.effects);
        }
        self.state.face.retire(key);
    }

    /// Processes the changes by tasks.
    pub(super) fn changes(&mut self, changed: &mut Vec<usize>) {
        if self.state.face.is_rejecting {
            self.state.reject_incoming();
        }
        for (stream, code) in core::mem::take(&mut self.state.face.aborted) {
            self.abort(stream, &Error::Cancelled, code);
        }
        self.state.take_changed(changed);
        for key in changed.drain(..) {
            let Some(exchange) = self.state.face.all.get_mut(key) else { continue };
            match exchange.stream {
                Some(_) => {
                    self.cancel(key);
                    self.reprioritize(key);
                    self.send_datagrams(key);
                    self.write_and_tell_credit(key);
                    self.read(key);
                }
                None if exchange.send.buffer.is_over() || exchange.is_queued => {
                    self.check_waiting(key)
                }
                None => {
                    exchange.is_queued = true;
                    self.state.face.waiting.push_back(key);
                    self.check_waiting(key);
                }
            }
            self.state.face.retire(key);
        }
    }

    /// Removes a request that waits for a stream if its task has cancelled it.
    fn check_waiting(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let is_cancelled = matches!(exchange.send.buffer.state(), SendState::Resetting(_));
        if exchange.is_queued && is_cancelled {
            exchange.is_queued = false;
            self.state.face.waiting.retain(|waiting| *waiting != key);
            self.give_up(key, &Error::Cancelled);
        }
    }

    /// Resets and stops the stream, as far as the task has cancelled the exchange.
    fn cancel(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if let SendState::Resetting(code) = exchange.send.buffer.state() {
            self.undelivered.reset(self.http3, &mut self.streams, stream, Code::new(code.get()));
            exchange.send.end(SendState::Reset, self.effects);
        }
        if let Some(code) = exchange.receive.buffer.take_stop() {
            self.http3.stop(&mut self.streams, stream, Code::new(code.get()));
            exchange.fail_receiving(&Error::Cancelled, self.effects);
        }
    }

    /// Sends requests that wait for a stream, as far as the peer allows more streams. Each is tried once: those that wait for
    /// the peer's SETTINGS are passed over, since others need not wait for them (RFC 9114 §7.2.4.2).
    pub(super) fn open_waiting(&mut self) {
        let mut place = 0;
        while self.state.is_open()
            && let Some((found, key)) = self.next_waiting(place)
        {
            place = found;
            let opened = match self.state.face.all.get_mut(key) {
                Some(_) => self.send_request(key),
                None => Ok(()),
            };
            match opened {
                Err(SendError::StreamsBlocked) => return,
                Err(SendError::SettingsUnknown) => {
                    place += 1;
                    continue;
                }
                Ok(()) => self.dequeue(key),
                Err(error) => {
                    self.dequeue(key);
                    self.give_up(key, &Error::from_send(error));
                }
            }
            self.state.face.retire(key);
        }
    }

    /// The next request to send from `place` in the queue on, and its place: any, or while the handshake is not complete the
    /// first that may be sent early.
    fn next_waiting(&self, place: usize) -> Option<(usize, usize)> {
        let face = &self.state.face;
        let is_complete = self.state.established.is_some();
        let may_go = |(_, key): &(usize, usize)| {
            is_complete || face.all.get(*key).is_none_or(early::may_be_sent)
        };
        face.waiting.iter().copied().enumerate().skip(place).find(may_go)
    }

    fn dequeue(&mut self, key: usize) {
        let waiting = &mut self.state.face.waiting;
        if let Some(place) = waiting.iter().position(|other| *other == key) {
            waiting.remove(place);
        }
        if let Some(exchange) = self.state.face.all.get_mut(key) {
            exchange.is_queued = false;
        }
    }

    fn send_request(&mut self, key: usize) -> Result<(), SendError> {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return Ok(()) };
        let Some(Head::Request(request)) = &exchange.head else { return Ok(()) };
        let is_whole = exchange.send.is_head_only();
        let stream = self.http3.send_request(&mut self.streams, request, is_whole)?;
        exchange.head = None;
        exchange.stream = Some(stream);
        self.state.face.by_stream.insert(stream, key);
        if is_whole {
            self.undelivered.add(stream);
            exchange.send.end(SendState::Finished, self.effects);
        }
        self.reprioritize(key);
        self.send_datagrams(key);
        self.write(key);
        Ok(())
    }

    /// Passes a task's data to the transport, as far as it accepts it.
    fn write(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if !exchange.send.buffer.is_sendable() {
            return;
        }
        match write(self.http3, &mut self.streams, stream, exchange, self.effects) {
            Ok(()) if exchange.send.buffer.is_over() => self.undelivered.add(stream),
            Ok(()) => {}
            Err(error) => self.write_failed(key, stream, error),
        }
        if let Some(exchange) = self.state.face.all.get_mut(key) {
            exchange.send.buffer.wake_for_room(self.effects);
        }
    }

    fn write_and_tell_credit(&mut self, key: usize) {
        self.write(key);
        self.tell_credit(key);
    }

    /// Tells a task that waits for the peer's credit how much there is.
    fn tell_credit(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream.filter(|_| exchange.send.buffer.awaits_credit()) else {
            return;
        };
        let id = StreamId::from_varint(VarInt::saturating(stream));
        let connection = self.streams.connection_mut();
        if let Ok(credits) = connection.send_credit(id)
            && !exchange.send.buffer.set_credit(credits, self.effects)
        {
            // This fails if nothing can be written any more, which an event reports.
            let _ = connection.await_credit(id);
        }
    }

    /// Tells the tasks of these streams that wait for the peer's credit how much there is.
    pub(super) fn permit(&mut self, writable: &[u64]) {
        for stream in writable {
            self.by_stream(*stream, Self::tell_credit);
        }
    }

    /// If a message has ended without having used its credit, tells the tasks that wait for some.
    pub(super) fn share_returned_credit(&mut self) {
        if self.state.face.totals.sending.take_returned() {
            let keys: Vec<usize> = self.state.face.all.iter().map(|(key, _)| key).collect();
            keys.into_iter().for_each(|key| self.tell_credit(key));
        }
    }

    /// This end's message cannot be continued. If the task caused this, the stream is reset, so that the message does
    /// not look complete to the peer.
    fn write_failed(&mut self, key: usize, stream: u64, error: SendError) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let is_ours = !matches!(
            error,
            SendError::Stopped(_) | SendError::StreamClosed | SendError::ConnectionClosed
        );
        let error = Error::from_send(error);
        exchange.send.fail(&error, self.effects);
        if !is_ours {
            return;
        }
        let code = match self.http3.role() {
            Role::Client => Code::REQUEST_CANCELLED,
            Role::Server => Code::INTERNAL_ERROR,
        };
        if self.http3.role() == Role::Server {
            self.state.face.failures.push(Failure { stream, error: error.clone() });
        }
        self.undelivered.reset(self.http3, &mut self.streams, stream, code);
        if self.http3.role() == Role::Client || exchange.receive.discarded.is_some() {
            self.http3.stop(&mut self.streams, stream, code);
            exchange.fail_receiving(&error, self.effects);
        }
    }

    /// Takes received content, as far as there is room.
    fn read(&mut self, key: usize) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if exchange.receive.discarded.is_some() {
            return self.discard(key, stream);
        }
        let buffer = &mut exchange.receive.buffer;
        let mut has_news = false;
        let config = self.streams.connection().config();
        let windows = [config.max_stream_receive_window(), config.max_connection_receive_window()];
        while buffer.has_more && (self.is_draining || buffer.has_room(windows)) {
            match self.http3.read_body(&mut self.streams, stream, READ) {
                Some(chunk) => {
                    buffer.push(chunk);
                    has_news = true;
                }
                None => buffer.has_more = false,
            }
        }
        if has_news {
            buffer.wake(self.effects);
        }
    }

    /// Reads and discards what no task needs any more of a request, up to a limit.
    fn discard(&mut self, key: usize, stream: u64) {
        let Some(exchange) = self.state.face.all.get_mut(key) else { return };
        if exchange.receive.is_over() {
            return;
        }
        let mut left = exchange.receive.discarded.filter(|_| !exchange.send.is_abandoned());
        while exchange.receive.buffer.has_more {
            let Some(rest) = left else { break };
            match self.http3.read_body(&mut self.streams, stream, READ) {
                Some(chunk) => left = rest.checked_sub(chunk.len() as u64),
                None => exchange.receive.buffer.has_more = false,
            }
        }
        match left {
            Some(_) => exchange.receive.discarded = left,
            None => {
                self.http3.stop(&mut self.streams, stream, Code::NO_ERROR);
                exchange.fail_receiving(&Error::Cancelled, self.effects);
            }
        }
    }

    /// The connection is to end: no request is waited for that is only discarded.
    fn stop_discarding(&mut self) {
        for (stream, key) in self.state.face.by_stream.iter().collect::<Vec<_>>() {
            if let Some(exchange) = self.state.face.all.get_mut(key)
                && exchange.receive.discarded.is_some()
                && !exchange.receive.is_over()
            {
                self.http3.stop(&mut self.streams, stream, Code::NO_ERROR);
                exchange.fail_receiving(&Error::Cancelled, self.effects);
            }
            self.state.face.retire(key);
        }
    }

    /// Abandons the streams on which the peer makes no progress, if a check is due.
    pub(super) fn look(&mut self, now: Timestamp, watch: &mut Watch) {
        let Some(timeouts) = self.state.face.wants_look.take() else { return };
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
        let mut progress = self.streams.connection_mut().stream_progress(id)?;
        let key = self.state.face.by_stream.get(stream);
        let exchange = key.and_then(|key| self.state.face.all.get(key));
        if exchange.is_some_and(|exchange| exchange.send.buffer.awaits_credit()) {
            // There is more to send, which its task has not produced because the client does not permit to send it.
            progress.outstanding = progress.outstanding.max(1);
            let credits = self.streams.connection_mut().send_credit(id).unwrap_or_default();
            progress.is_blocked |= credits.stream == 0;
        }
        let awaits_content =
            exchange.is_some_and(|exchange| !exchange.is_tunnel && exchange.receive.is_awaited());
        let awaits_request = awaits_content || self.http3.awaits_request(stream);
        Some(Look { stream, progress, awaits_request })
    }

    fn abandon_request(&mut self, stream: u64) {
        let is_unseen = self.http3.awaits_request(stream);
        let code = if is_unseen { Code::REQUEST_REJECTED } else { Code::REQUEST_CANCELLED };
        self.with(stream, |exchange, effects| exchange.fail_receiving(&Error::TimedOut, effects));
        if is_unseen {
            self.undelivered.reset(self.http3, &mut self.streams, stream, code);
        }
        self.http3.stop(&mut self.streams, stream, code);
    }

    fn abandon_response(&mut self, stream: u64) {
        self.abort(stream, &Error::TimedOut, Code::REQUEST_CANCELLED);
    }

    /// Resets the stream of a message, whose task gets `error` if it still writes.
    fn abort(&mut self, stream: u64, error: &Error, code: Code) {
        self.with(stream, |exchange, effects| exchange.send.fail(error, effects));
        self.undelivered.reset(self.http3, &mut self.streams, stream, code);
        // The protocol may have finished the stream already and discarded it, so the transport is told, too.
        self.streams.reset(stream, code.get());
    }

    /// The connection has ended. What the transport has received is still passed to the tasks.
    pub(super) fn on_closed(&mut self, error: ConnectionError) {
        self.is_draining = true;
        let open: Vec<(u64, usize)> = self.state.face.by_stream.iter().collect();
        for (stream, key) in open {
            self.http3.on_readable(&mut self.streams, stream);
            self.read(key);
        }
        self.events();
        self.state.fail(Error::from_connection(error), self.effects);
    }

    /// Closes the connection if a task has requested it, or if it is finishing and all exchanges are complete.
    pub(super) fn end_if_due(&mut self, now: Timestamp) {
        if self.has_requests || self.unasked_since.is_some_and(|since| now >= since + FIRST_REQUEST)
        {
            *self.unasked_since = None;
        }
        if let Some((code, reason)) = self.state.close.take() {
            let reason = core::str::from_utf8(&reason).unwrap_or_default();
            self.http3.close(&mut self.streams, Code::new(code.get()), reason);
        }
        let face = &self.state.face;
        if self.state.error.is_some() || !(face.is_finishing || face.is_released) {
            return;
        }
        if face.is_finishing {
            self.stop_discarding();
            if !self.has_shut_down() {
                return;
            }
        }
        let face = &self.state.face;
        let is_idle = self.http3.is_idle()
            && self.undelivered.is_empty()
            && face.waiting.is_empty()
            && face.incoming.is_empty();
        if is_idle {
            self.http3.close(&mut self.streams, Code::NO_ERROR, "");
            self.state.fail(Error::Closed, self.effects);
        }
    }

    /// Tells the peer that the connection is shutting down, a server in two steps (RFC 9114 §5.2), and returns whether no
    /// more requests can be accepted.
    fn has_shut_down(&mut self) -> bool {
        let is_established = self.state.established.is_some();
        if !is_established && self.http3.role() == Role::Server {
            // For the client the handshake may be complete, and a request be in transit.
            return false;
        }
        if self.unasked_since.is_some() && self.http3.role() == Role::Server {
            return false;
        }
        if !core::mem::replace(self.has_said_goaway, true) {
            // Before the handshake is complete, nothing of the server can be in transit.
            match is_established {
                true => self.http3.shutdown(&mut self.streams),
                false => self.http3.goaway(&mut self.streams),
            }
        }
        self.http3.continue_shutdown(&mut self.streams)
    }

    pub(super) fn report_statistics(&mut self) {
        if core::mem::take(&mut self.state.face.wants_statistics) {
            let statistics = self.streams.connection().statistics();
            self.state.statistics = Some(Box::new(statistics));
            self.effects.signal(Signal::Connection);
        }
    }
}

/// Passes this endpoint's message on `stream` to the protocol, as far as the transport accepts it.
fn write(
    http3: &mut Http3,
    streams: &mut QuicStreams<'_>,
    stream: u64,
    exchange: &mut Exchange,
    effects: &mut Effects,
) -> Result<(), SendError> {
    while let Some(response) = exchange.send.informational.pop() {
        http3.send_informational(streams, stream, &response)?;
    }
    let mut head = match http3.role() {
        Role::Client => None,
        Role::Server => exchange.take_response(),
    };
    let send = &mut exchange.send;
    if let Some(response) = &head
        && (send.is_head_only() || send.buffer.is_empty())
    {
        let is_whole = send.is_head_only();
        http3.send_response(streams, stream, response, is_whole)?;
        head = None;
        if is_whole {
            send.end(SendState::Finished, effects);
            return Ok(());
        }
    }
    // The first content goes with the header section, in one write, and so does the end if it is known.
    let ends_with_content = send.trailers.is_none();
    let mut is_over = false;
    let is_all = send.buffer.hand_over(|chunk, is_last| match head.take() {
        Some(response) => {
            let end = is_last && ends_with_content;
            let length = chunk.len();
            let sent = http3.send_response_with(streams, stream, &response, chunk.clone(), end)?;
            is_over = sent.1;
            match sent.0 {
                taken if taken < length => {
                    let rest = http3.send_body(streams, stream, chunk.slice(taken..))?;
                    Ok(taken.saturating_add(rest))
                }
                taken => Ok(taken),
            }
        }
        _ => http3.send_body(streams, stream, chunk),
    })?;
    if is_all && matches!(send.buffer.state(), SendState::Finishing) {
        if !is_over {
            if let Some(trailers) = send.trailers.take() {
                http3.send_trailers(streams, stream, &trailers)?;
            }
            http3.finish(streams, stream)?;
        }
        send.end(SendState::Finished, effects);
    }
    Ok(())
}
