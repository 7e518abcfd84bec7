//! The tasks of a connection during one turn of the driver, with their lock held.

use core::time::Duration;
use std::sync::MutexGuard;
use std::time::Instant;

use bytes::Bytes;
use clearway_http3::{Code, Priority, Role, StreamError};
use clearway_transport::Event;
use clearway_wire::VarInt;
use http::{HeaderMap, Request, Response};

use super::super::driver::{AppTurn, Ending, Turn};
use super::super::exchanges::{Effects, Exchange, Exchanges, Head, State};
use super::super::{Error, Timeouts};
use super::{Listener, News};
use crate::bridge::{SendState, Signal};

/// The state of tasks during one turn of the driver.
pub(in crate::http3) struct Batch<'a> {
    pub(super) state: MutexGuard<'a, State>,
    pub(super) effects: &'a mut Effects,
    pub(super) changed: &'a mut Vec<usize>,
    /// See [`Tasks::exchanges`](super::Tasks).
    pub(super) exchanges: &'a mut u64,
    pub(super) listener: Option<&'a dyn Listener>,
    /// Set if the listener must be notified of requests.
    pub(super) has_requests: bool,
}

impl AppTurn for Batch<'_> {
    type News = News;

    fn begin(&mut self, turn: &mut Turn<'_>) {
        if self.state.note_early_data(turn.connection(), self.effects) {
            self.state.note_path(turn.connection());
        }
    }

    fn connected(&mut self, turn: &mut Turn<'_>) {
        self.state.establish(turn.connection(), self.effects);
        if self.listener.is_some() {
            self.state.note_path(turn.connection());
            self.state.app.connected_at = Some(Instant::now());
        }
    }

    fn path_event(&mut self, turn: &mut Turn<'_>, event: Event) {
        self.state.on_path_event(event, self.effects);
        self.state.note_path(turn.connection());
    }

    fn request(&mut self, turn: &mut Turn<'_>, stream: u64, request: Request<()>) {
        let app = &mut self.state.app;
        let mut exchange = Exchange::incoming(stream, request, &app.totals);
        exchange.priority = turn.priority(stream);
        let key = app.all.insert(exchange);
        app.by_stream.insert(stream, key);
        app.incoming.push_back(key);
        self.has_requests |= !core::mem::replace(&mut app.is_announced, true);
    }

    fn informational(&mut self, stream: u64, response: Response<()>) {
        self.with(stream, |exchange, effects| {
            exchange.receive.informational.push(response);
            exchange.receive.buffer.wake(effects);
        });
    }

    fn response(&mut self, stream: u64, response: Response<()>) {
        self.with(stream, |exchange, effects| {
            exchange.head = Some(Head::Response(response));
            exchange.receive.buffer.wake(effects);
        });
    }

    fn readable(&mut self, turn: &mut Turn<'_>, stream: u64) {
        self.by_stream(stream, |batch, key| {
            if let Some(exchange) = batch.state.app.all.get_mut(key) {
                exchange.receive.buffer.has_more = true;
            }
            batch.read(turn, key);
        });
    }

    fn finished(&mut self, _: &mut Turn<'_>, stream: u64, trailers: Option<Box<HeaderMap>>) {
        self.with(stream, |exchange, effects| {
            exchange.receive.trailers = trailers;
            exchange.receive.end(effects);
            exchange.datagrams.end(effects);
        });
    }

    fn writable(&mut self, turn: &mut Turn<'_>, stream: u64) {
        self.by_stream(stream, |batch, key| {
            if let Some(exchange) = batch.state.app.all.get_mut(key) {
                exchange.send.buffer.unblock();
            }
            batch.write(turn, key);
        });
    }

    /// Called when the client has abandoned its request, or the server its response.
    fn reset(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code) {
        let app = &mut self.state.app;
        let Some(key) = app.by_stream.get(stream) else { return };
        let Some(exchange) = app.all.get_mut(key) else { return };
        exchange.fail_receiving(&Error::Reset(code), self.effects);
        if exchange.is_queued {
            // No task has seen the request, and none will.
            exchange.is_queued = false;
            exchange.send.end(SendState::Reset, self.effects);
            app.incoming.retain(|queued| *queued != key);
            turn.reset(stream, Code::REQUEST_REJECTED);
        }
        app.retire(key);
    }

    fn stopped(&mut self, turn: &mut Turn<'_>, stream: u64, code: Code) {
        self.with(stream, |exchange, effects| {
            exchange.send.fail(&Error::Stopped(code), effects);
        });
        self.by_stream(stream, |batch, key| batch.read(turn, key));
    }

    fn failed(&mut self, _: &mut Turn<'_>, stream: u64, error: StreamError) {
        let error = Error::from_stream(error);
        let app = &mut self.state.app;
        let Some(key) = app.by_stream.get(stream) else { return };
        let Some(exchange) = app.all.get_mut(key) else { return };
        exchange.send.fail(&error, self.effects);
        exchange.fail_receiving(&error, self.effects);
        if core::mem::take(&mut exchange.is_queued) {
            app.incoming.retain(|queued| *queued != key);
        }
        app.retire(key);
    }

    fn request_timed_out(&mut self, _: &mut Turn<'_>, stream: u64, _: Code) {
        self.with(stream, |exchange, effects| exchange.fail_receiving(&Error::TimedOut, effects));
    }

    fn response_timed_out(&mut self, _: &mut Turn<'_>, stream: u64, _: Code) {
        self.with(stream, |exchange, effects| exchange.send.fail(&Error::TimedOut, effects));
    }

    fn datagram(&mut self, _: &mut Turn<'_>, stream: u64, payload: Bytes) {
        let Exchanges { all, by_stream, totals, .. } = &mut self.state.app;
        let exchange = by_stream.get(stream).and_then(|key| all.get_mut(key));
        if let Some(exchange) = exchange {
            exchange.datagrams.receive(payload, &totals.datagrams, self.effects);
        }
    }

    fn priority(&mut self, stream: u64, priority: Priority) {
        self.with(stream, |exchange, _| exchange.priority = priority);
    }

    fn going_away(&mut self) {
        self.state.app.is_going_away = true;
        while let Some(key) = self.state.app.waiting.pop_front() {
            if let Some(exchange) = self.state.app.all.get_mut(key) {
                exchange.is_queued = false;
            }
            self.give_up(key, &Error::GoingAway);
        }
        self.state.announce_readiness(self.effects);
    }

    fn permitted(&mut self, turn: &mut Turn<'_>, streams: &[u64]) {
        for stream in streams {
            self.by_stream(*stream, |batch, key| batch.report_credit(turn, key));
        }
    }

    /// Processes the changes made by tasks.
    fn changes(&mut self, turn: &mut Turn<'_>) {
        if self.state.app.is_rejecting {
            self.state.reject_incoming();
        }
        for (stream, code) in core::mem::take(&mut self.state.app.aborted) {
            self.with(stream, |exchange, effects| exchange.send.fail(&Error::Cancelled, effects));
            turn.abort(stream, code);
        }
        let mut changed = core::mem::take(self.changed);
        self.state.take_changed(&mut changed);
        for key in changed.drain(..) {
            self.change(turn, key);
            self.state.app.retire(key);
        }
        *self.changed = changed;
        self.state.app.begun = 0;
        self.share_returned_credit(turn);
        self.open_waiting(turn);
        self.state.announce_readiness(self.effects);
    }

    fn timeouts(&self) -> Option<Timeouts> {
        self.listener?.timeouts()
    }

    fn wants_content(&self, stream: u64) -> bool {
        self.exchange(stream).is_some_and(|exchange| exchange.receive.is_awaited())
    }

    fn awaits_credit(&self, stream: u64) -> bool {
        self.exchange(stream).is_some_and(|exchange| exchange.send.buffer.awaits_credit())
    }

    fn max_age(&self) -> Option<Duration> {
        self.state.app.max_age
    }

    fn drain(&mut self) {
        self.state.app.is_finishing = true;
    }

    fn take_close(&mut self) -> Option<(VarInt, Bytes)> {
        self.state.close.take()
    }

    fn ending(&self) -> Ending {
        let app = &self.state.app;
        match app.is_finishing {
            _ if self.state.error.is_some() => Ending::No,
            true => Ending::Shutdown,
            false if app.is_released => Ending::WhenIdle,
            false => Ending::No,
        }
    }

    /// Stops requests whose remaining content is only being discarded.
    fn give_up_unwanted(&mut self, turn: &mut Turn<'_>) {
        self.stop_discarding(turn);
    }

    fn is_idle(&self) -> bool {
        self.state.app.waiting.is_empty() && self.state.app.incoming.is_empty()
    }

    fn ended(&mut self, error: Error) {
        self.state.fail(error, self.effects);
    }

    fn close(mut self, turn: &mut Turn<'_>) -> News {
        let state = &mut *self.state;
        if core::mem::take(&mut state.app.wants_statistics) {
            state.statistics = Some(Box::new(turn.connection().statistics()));
            self.effects.signal(Signal::Connection);
        }
        let answers_here = || self.listener.is_some_and(Listener::answers_here);
        state.is_attended = self.has_requests && answers_here();
        #[cfg(any(test, debug_assertions))]
        state.app.check_caches();
        *self.exchanges = state.app.all.len() as u64;
        News {
            has_requests: self.has_requests,
            are_answered: state.is_attended,
            failures: core::mem::take(&mut state.app.failures),
        }
    }
}

impl Batch<'_> {
    fn exchange(&self, stream: u64) -> Option<&Exchange> {
        let key = self.state.app.by_stream.get(stream)?;
        self.state.app.all.get(key)
    }

    /// Changes the exchange on `stream`, and discards it if it has ended.
    fn with(&mut self, stream: u64, change: impl FnOnce(&mut Exchange, &mut Effects)) {
        let app = &mut self.state.app;
        let Some(key) = app.by_stream.get(stream) else { return };
        if let Some(exchange) = app.all.get_mut(key) {
            change(exchange, self.effects);
        }
        app.retire(key);
    }

    fn by_stream(&mut self, stream: u64, act: impl FnOnce(&mut Self, usize)) {
        if let Some(key) = self.state.app.by_stream.get(stream) {
            act(self, key);
            self.state.app.retire(key);
        }
    }

    /// Fails an exchange that has no stream.
    pub(super) fn give_up(&mut self, key: usize, error: &Error) {
        let app = &mut self.state.app;
        if let Some(exchange) = app.all.get_mut(key) {
            exchange.send.fail(error, self.effects);
            exchange.fail_receiving(error, self.effects);
        }
        app.retire(key);
    }

    /// Processes a task's changes to an exchange.
    fn change(&mut self, turn: &mut Turn<'_>, key: usize) {
        let app = &mut self.state.app;
        let Some(exchange) = app.all.get_mut(key) else { return };
        match exchange.stream {
            Some(_) => {
                // Before the stream is reset: afterwards, nothing can be sent for it.
                self.send_datagrams(turn, key);
                self.cancel(turn, key);
                self.reprioritize(turn, key);
                self.write(turn, key);
                self.report_credit(turn, key);
                self.read(turn, key);
            }
            None if exchange.send.buffer.is_over() || exchange.is_queued => self.check_waiting(key),
            None => {
                exchange.is_queued = true;
                app.waiting.push_back(key);
                self.check_waiting(key);
            }
        }
    }

    /// Removes a request that waits for a stream if its task has canceled it.
    fn check_waiting(&mut self, key: usize) {
        let app = &mut self.state.app;
        let Some(exchange) = app.all.get_mut(key) else { return };
        let is_cancelled = matches!(exchange.send.buffer.state(), SendState::Resetting(_));
        if exchange.is_queued && is_cancelled {
            exchange.is_queued = false;
            app.waiting.retain(|waiting| *waiting != key);
            self.give_up(key, &Error::Cancelled);
        }
    }

    /// Resets or stops the directions of the stream that the task has canceled.
    fn cancel(&mut self, turn: &mut Turn<'_>, key: usize) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if let SendState::Resetting(code) = exchange.send.buffer.state() {
            turn.reset(stream, Code::new(code.get()));
            exchange.send.end(SendState::Reset, self.effects);
        }
        if let Some(code) = exchange.receive.buffer.take_stop() {
            turn.stop(stream, Code::new(code.get()));
            exchange.fail_receiving(&Error::Cancelled, self.effects);
        }
    }

    /// Returns the error code for messages that cannot be continued because of this endpoint.
    pub(super) fn own_failure(turn: &Turn<'_>) -> Code {
        match turn.role() {
            Role::Client => Code::REQUEST_CANCELLED,
            Role::Server => Code::INTERNAL_ERROR,
        }
    }
}
