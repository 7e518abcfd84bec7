//! Moves messages from tasks to the transport.

use clearway_http3::{DatagramError, Role, SendError};

use super::super::Error;
use super::super::driver::Turn;
use super::super::early;
use super::super::exchanges::{Effects, Exchange, Failure, Head};
use super::batch::Batch;
use crate::bridge::SendState;

impl Batch<'_> {
    /// Passes a task's datagrams to the transport, and updates the largest payload that can be
    /// sent.
    pub(super) fn send_datagrams(&mut self, turn: &mut Turn<'_>, key: usize) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        let datagrams = &mut exchange.datagrams;
        let mut wants_larger = datagrams.take_wants_larger();
        while let Some(data) = datagrams.next_outgoing() {
            match turn.send_datagram(stream, &data) {
                Ok(()) => {}
                // Datagrams are unreliable: one that is too large for the path or for the queue is
                // lost.
                Err(DatagramError::QueueFull) => datagrams.count_dropped(),
                Err(DatagramError::TooLarge { .. }) => {
                    wants_larger = true;
                    datagrams.count_dropped();
                }
                Err(error) => datagrams.fail(error),
            }
        }
        if wants_larger {
            turn.want_larger_datagrams();
        }
        datagrams.maximum = turn.max_datagram(stream);
    }

    /// Applies a priority that a task has set.
    pub(super) fn reprioritize(&mut self, turn: &mut Turn<'_>, key: usize) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if let Some(priority) = exchange.wanted_priority.take() {
            exchange.priority = priority;
            turn.set_priority(stream, priority);
        }
    }

    /// Sends requests that wait for a stream, while the peer allows more streams. Each request
    /// is tried once. Requests that need the peer's SETTINGS are skipped, since other requests need
    /// not wait for SETTINGS (RFC 9114 §7.2.4.2).
    pub(super) fn open_waiting(&mut self, turn: &mut Turn<'_>) {
        let mut place = 0;
        while self.state.is_open()
            && let Some((found, key)) = self.next_waiting(place)
        {
            place = found;
            let opened = match self.state.app.all.get_mut(key) {
                Some(_) => self.send_request(turn, key),
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
            self.state.app.retire(key);
        }
    }

    /// Returns the next request to send and its position in the queue, starting from `place`. While
    /// the handshake is not complete, only requests that may be sent early are considered.
    fn next_waiting(&self, place: usize) -> Option<(usize, usize)> {
        let app = &self.state.app;
        let is_complete = self.state.established.is_some();
        let may_go = |(_, key): &(usize, usize)| {
            is_complete || app.all.get(*key).is_none_or(early::may_be_sent)
        };
        app.waiting.iter().copied().enumerate().skip(place).find(may_go)
    }

    fn dequeue(&mut self, key: usize) {
        let app = &mut self.state.app;
        if let Some(place) = app.waiting.iter().position(|other| *other == key) {
            app.waiting.remove(place);
        }
        if let Some(exchange) = app.all.get_mut(key) {
            exchange.is_queued = false;
        }
    }

    fn send_request(&mut self, turn: &mut Turn<'_>, key: usize) -> Result<(), SendError> {
        let app = &mut self.state.app;
        let Some(exchange) = app.all.get_mut(key) else { return Ok(()) };
        let Some(Head::Request(request)) = &exchange.head else { return Ok(()) };
        let is_whole = exchange.send.is_head_only();
        let stream = turn.send_request(request, is_whole)?;
        exchange.head = None;
        exchange.stream = Some(stream);
        app.by_stream.insert(stream, key);
        if is_whole {
            exchange.send.end(SendState::Finished, self.effects);
        }
        self.reprioritize(turn, key);
        self.send_datagrams(turn, key);
        self.write(turn, key);
        Ok(())
    }

    /// Passes as much of a task's data to the transport as it accepts.
    pub(super) fn write(&mut self, turn: &mut Turn<'_>, key: usize) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream else { return };
        if !exchange.send.buffer.is_sendable() {
            return;
        }
        if let Err(error) = write(turn, stream, exchange, self.effects) {
            self.write_failed(turn, key, stream, error);
        }
        if let Some(exchange) = self.state.app.all.get_mut(key) {
            exchange.send.buffer.wake_for_room(self.effects);
        }
    }

    /// Reports the peer's flow control credit to a task that is waiting for it.
    pub(super) fn report_credit(&mut self, turn: &mut Turn<'_>, key: usize) {
        let Some(exchange) = self.state.app.all.get_mut(key) else { return };
        let Some(stream) = exchange.stream.filter(|_| exchange.send.buffer.awaits_credit()) else {
            return;
        };
        if let Some(credits) = turn.credit(stream)
            && !exchange.send.buffer.set_credit(credits, self.effects)
        {
            turn.await_credit(stream);
        }
    }

    /// Reports the credit left over by finished messages to the tasks that are waiting for flow
    /// control credit.
    pub(super) fn share_returned_credit(&mut self, turn: &mut Turn<'_>) {
        if self.state.app.totals.sending.take_returned() {
            let keys: Vec<usize> = self.state.app.all.iter().map(|(key, _)| key).collect();
            keys.into_iter().for_each(|key| self.report_credit(turn, key));
        }
    }

    /// Ends the local message, which cannot be continued. If the task caused this, the stream is
    /// reset, so that the message does not look complete to the peer.
    fn write_failed(&mut self, turn: &mut Turn<'_>, key: usize, stream: u64, error: SendError) {
        let app = &mut self.state.app;
        let Some(exchange) = app.all.get_mut(key) else { return };
        let is_ours = !matches!(
            error,
            SendError::Stopped(_) | SendError::StreamClosed | SendError::ConnectionClosed
        );
        let error = Error::from_send(error);
        exchange.send.fail(&error, self.effects);
        if !is_ours {
            return;
        }
        let code = Self::own_failure(turn);
        if turn.role() == Role::Server {
            app.failures.push(Failure { stream, error: error.clone() });
        }
        turn.reset(stream, code);
        if turn.role() == Role::Client || exchange.receive.discarded.is_some() {
            turn.stop(stream, code);
            exchange.fail_receiving(&error, self.effects);
        }
    }
}

/// Passes as much of this endpoint's message on `stream` to the protocol as the transport accepts.
fn write(
    turn: &mut Turn<'_>,
    stream: u64,
    exchange: &mut Exchange,
    effects: &mut Effects,
) -> Result<(), SendError> {
    while let Some(response) = exchange.send.informational.pop() {
        turn.inform(stream, &response)?;
    }
    let mut head = match turn.role() {
        Role::Client => None,
        Role::Server => exchange.take_response(),
    };
    let send = &mut exchange.send;
    if let Some(response) = &head
        && (send.is_head_only() || send.buffer.is_empty())
    {
        let is_whole = send.is_head_only();
        turn.respond(stream, response, is_whole)?;
        head = None;
        if is_whole {
            send.end(SendState::Finished, effects);
            return Ok(());
        }
    }
    // The header section and the first content are sent in one write, as is the end if it is known.
    let ends_with_content = send.trailers.is_none();
    let mut is_over = false;
    let is_all = send.buffer.hand_over(|chunk, is_last| match head.take() {
        Some(response) => {
            let end = is_last && ends_with_content;
            let length = chunk.len();
            let sent = turn.respond_with(stream, &response, chunk.clone(), end)?;
            is_over = sent.1;
            match sent.0 {
                taken if taken < length => {
                    let rest = turn.send_body(stream, chunk.slice(taken..))?;
                    Ok(taken.saturating_add(rest))
                }
                taken => Ok(taken),
            }
        }
        _ => turn.send_body(stream, chunk),
    })?;
    if is_all && matches!(send.buffer.state(), SendState::Finishing) {
        if !is_over {
            turn.finish(stream, send.trailers.take().as_deref())?;
        }
        send.end(SendState::Finished, effects);
    }
    Ok(())
}
