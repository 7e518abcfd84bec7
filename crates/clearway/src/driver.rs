//! The application that runs in the shard on behalf of tasks. It passes the tasks' changes to the
//! transport, and received data and events to the tasks, taking one lock per batch (law 12).
//!
//! Data that was moved to the tasks' buffers still counts against flow control: the peer gets new
//! credit, and may open another stream, only for data that a task has read.

use std::sync::Arc;

use clearway_io::Application;
use clearway_transport::{self as transport, Connection, Event, ReadOutcome, Statistics};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId};

use crate::bridge::{SendState, Signal, Total};
use crate::error::{ConnectError, ExportError};
use crate::handshake_data::HandshakeData;
use crate::postponed_close::PostponedClose;
use crate::streams::{
    CREDIT_PART, Effects, Negotiation, Opened, Scheduling, SendHalf, Shared, State, Stream,
    incoming,
};

pub(crate) struct Driver {
    shared: Arc<Shared>,
    /// Data that tasks have written but the transport has not accepted yet.
    sending: Total,
    /// Kept between batches to reuse its memory.
    effects: Effects,
    /// Kept between batches to reuse its memory.
    changed: Vec<StreamId>,
    is_closed: bool,
    postponed: PostponedClose,
    /// Set during processing, and still set afterward if the application has panicked.
    is_processing: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let sending = shared.lock().app.sending.clone();
        Self {
            shared,
            sending,
            effects: Effects::default(),
            changed: Vec::new(),
            is_closed: false,
            postponed: PostponedClose::default(),
            is_processing: false,
        }
    }

    /// Frees the memory that only a busy connection needs, since the connection is idle.
    fn compact(&mut self) {
        self.effects = Effects::default();
        self.changed = Vec::new();
        self.shared.lock().compact();
    }
}

impl Application for Driver {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        if connection.is_compacted() {
            self.compact();
        }
        let Self { shared, effects, changed, is_closed, is_processing, postponed, .. } = self;
        *is_processing = true;
        let mut state = shared.lock();
        while let Some(event) = connection.next_event() {
            on_event(connection, &mut state, event, effects);
        }
        if state.note_early_data(connection, effects) {
            state.app.datagrams.establish(connection);
        }
        state.app.local_ip = connection.local_ip();
        note_negotiation(connection, &mut state, effects);
        if !*is_closed {
            state.take_changed(changed);
            for id in changed.drain(..) {
                on_changed(now, connection, &mut state, id, effects);
            }
            for direction in [Direction::Bidirectional, Direction::Unidirectional] {
                open_streams(shared, connection, &mut state, direction, effects);
            }
            carry_out_requests(now, connection, &mut state);
            if state.app.sending.take_returned() {
                report_credit_to_all(connection, &mut state, effects);
            }
            export(connection, &mut state, effects);
            if state.close.is_some() {
                // Datagrams that were queued before are still sent.
                state.app.datagrams.exchange(connection, effects);
            }
            let requested = state.close.take();
            if let Some((error_code, reason)) = postponed.next(now, connection, requested) {
                connection.close(now, error_code, &reason);
            }
            *is_closed = connection.is_closed();
        }
        let statistics = connection.statistics();
        match &mut state.statistics {
            Some(known) => **known = statistics,
            None => state.statistics = Some(Box::new(statistics)),
        }
        state.app.datagrams.exchange(connection, effects);
        drop(state);
        effects.carry_out(shared);
        *is_processing = false;
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.postponed.deadline()
    }

    fn held_bytes(&self) -> u64 {
        self.sending.bytes() as u64
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.shared.lock().statistics = Some(Box::new(*statistics));
    }
}

impl Drop for Driver {
    /// Ends the connection for its tasks in case the shard has ended without an event, for example
    /// by a panic.
    fn drop(&mut self) {
        let error = self.shared.dropped_because(self.is_processing);
        self.shared.on_gone(ConnectError::Lost(error));
        // A panic leaves effects that were not carried out.
        self.effects.carry_out(&self.shared);
    }
}

fn on_event(connection: &mut Connection, state: &mut State, event: Event, effects: &mut Effects) {
    match event {
        Event::Connected => {
            state.establish(connection, effects);
            state.app.negotiation = Negotiation::Unwanted;
            state.app.datagrams.establish(connection);
        }
        Event::HandshakeConfirmed => {
            state.app.is_confirmed = true;
            effects.signal(Signal::Connection);
        }
        Event::Opened(direction) => {
            while let Some(id) = connection.accept(direction) {
                let is_bidirectional = direction == Direction::Bidirectional;
                let stream = Stream::new(is_bidirectional, true, &state.app.sending);
                state.app.streams.insert(id, stream);
                state.app.incoming.get_mut(direction).push_back(id);
                effects.signal(incoming(direction));
            }
        }
        Event::Readable(id) => {
            read(connection, state, id, Pieces::Bounded, effects);
            state.app.retire(id);
        }
        Event::Writable(id) => with_send(state, id, |send| {
            send.buffer.unblock();
            write(connection, id, send, effects);
            report_credit(connection, id, send, effects);
        }),
        Event::Stopped { stream_id, error_code } => with_send(state, stream_id, |send| {
            let is_known = matches!(send.buffer.state(), SendState::Delivered | SendState::Reset);
            if !is_known {
                send.buffer.end(SendState::Failed(error_code), effects);
            }
        }),
        Event::Finished(id) => {
            with_send(state, id, |send| send.buffer.end(SendState::Delivered, effects));
        }
        Event::DatagramSettled { id, outcome } => {
            state.app.datagrams.on_settled(id, outcome, effects);
        }
        Event::NewToken(token) => state.app.new_token = Some(token),
        Event::Closed(error) => {
            read_the_rest(connection, state, effects);
            state.fail(ConnectError::Lost(error), effects);
        }
        // Opening streams and moving datagrams happens in every batch. No task waits for any other
        // event.
        event => state.on_path_event(event, effects),
    }
}

fn with_send(state: &mut State, id: StreamId, act: impl FnOnce(&mut SendHalf)) {
    if let Some(send) = state.send_half(id) {
        act(send);
    }
    state.app.retire(id);
}

/// Processes a task's changes to a stream.
fn on_changed(
    now: Timestamp,
    connection: &mut Connection,
    state: &mut State,
    id: StreamId,
    effects: &mut Effects,
) {
    let Some(stream) = state.app.streams.get_mut(&id) else { return };
    if let Some(send) = &mut stream.send {
        let Scheduling { priority, is_incremental, is_unreported } = &mut send.scheduling;
        if std::mem::take(is_unreported) {
            // Fails if the transport has discarded the stream, which then needs no priority.
            let _ = connection.set_priority(id, *priority, *is_incremental);
        }
        write(connection, id, send, effects);
        report_credit(connection, id, send, effects);
    }
    if let Some(receive) = &mut stream.receive {
        let credit = std::mem::take(&mut receive.credit);
        state.app.credit -= credit;
        // These calls fail if the transport has discarded the stream; they are not needed then.
        if credit > 0 {
            let _ = connection.return_credit(now, id, credit);
        }
        if std::mem::take(&mut receive.end_is_unreported) {
            let _ = connection.read(now, id, 1);
        }
        if let Some(error_code) = receive.buffer.take_stop() {
            let _ = connection.stop_sending(now, id, error_code);
        }
        if receive.buffer.has_more && receive.buffer.is_empty() {
            read(connection, state, id, Pieces::Bounded, effects);
        }
    }
    state.app.retire(id);
}

/// Passes as much buffered data to the transport as it has room for.
fn write(connection: &mut Connection, id: StreamId, send: &mut SendHalf, effects: &mut Effects) {
    let buffer = &mut send.buffer;
    if let SendState::Resetting(error_code) = *buffer.state() {
        let _ = connection.reset(id, error_code);
        return buffer.end(SendState::Reset, effects);
    }
    if !buffer.is_sendable() {
        return;
    }
    if let SendState::ResettingAt { error_code, reliable_size } = *buffer.state() {
        return match buffer.hand_over(|data, _| connection.write(id, data)) {
            // The transport has no room yet.
            Ok(false) => {}
            outcome => {
                // The peer has stopped the stream, or it was already finished: there is nothing
                // left to write.
                let _: Result<bool, _> = outcome;
                let _ = connection.reset_at(id, error_code, reliable_size);
                buffer.end(SendState::Reset, effects);
            }
        };
    }
    match buffer.hand_over(|data, _| connection.write(id, data)) {
        Ok(true) if *buffer.state() == SendState::Finishing => {
            let _ = connection.finish(id);
            buffer.set_finished();
        }
        Ok(_) => {}
        Err(transport::WriteError::Stopped(error_code)) => {
            return buffer.end(SendState::Failed(error_code), effects);
        }
        // The transport has discarded the stream together with the connection.
        Err(_) => return buffer.abandon(effects),
    }
    buffer.wake_for_room(effects);
}

/// Reports the peer's flow control credit to a task that is waiting for it.
fn report_credit(
    connection: &mut Connection,
    id: StreamId,
    send: &mut SendHalf,
    effects: &mut Effects,
) {
    if send.buffer.awaits_credit()
        && let Ok(credits) = connection.send_credit(id)
        && !send.buffer.set_credit(credits, effects)
    {
        // Fails if nothing more can be written; an event reports this.
        let _ = connection.await_credit(id);
    }
}

/// Reports the peer's flow control credit to all tasks that are waiting for it, since a stream has
/// ended without using its entire grant.
fn report_credit_to_all(connection: &mut Connection, state: &mut State, effects: &mut Effects) {
    for (id, stream) in &mut state.app.streams {
        if let Some(send) = &mut stream.send {
            report_credit(connection, *id, send, effects);
        }
    }
}

/// The amount of received data to take from the transport in one call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pieces {
    /// All data, unless it consists of too many small pieces.
    Bounded,
    /// All data: the connection has ended, so the transport no longer merges pieces.
    All,
}

/// Takes received data of a stream from the transport. The peer gets new credit for it when the
/// task reads it.
fn read(
    connection: &mut Connection,
    state: &mut State,
    id: StreamId,
    pieces: Pieces,
    effects: &mut Effects,
) {
    let Some(receive) = state.app.streams.get_mut(&id).and_then(|it| it.receive.as_mut()) else {
        return;
    };
    let buffer = &mut receive.buffer;
    if buffer.is_stopped() || buffer.end().is_some() {
        return;
    }
    buffer.has_more = false;
    let mut has_news = false;
    loop {
        // A reset discards the data that is still in the transport.
        if pieces == Pieces::Bounded && buffer.is_fragmented() && !connection.is_reset_by_peer(id) {
            buffer.has_more = true;
            break;
        }
        match connection.read_ahead(id, usize::MAX) {
            Ok(ReadOutcome::Data(data)) => {
                buffer.push(data);
                has_news = true;
            }
            Ok(ReadOutcome::Blocked) => break,
            Ok(ReadOutcome::Finished) => {
                buffer.finish(Ok(()), effects);
                break;
            }
            Err(transport::ReadError::Reset(error_code)) => {
                // Data that RESET_STREAM_AT must still deliver has been read above, and is kept for
                // the task.
                if connection.received_reliable_size(id).is_none() {
                    buffer.clear();
                }
                buffer.finish(Err(error_code), effects);
                break;
            }
            // The transport discards a stream only after this function has read its end.
            Err(_) => break,
        }
    }
    if has_news {
        buffer.wake(effects);
        receive.has_early_data |= connection.is_early(id);
        if let Some((stream, whole)) = connection.receive_windows(id) {
            receive.credit_step = stream / CREDIT_PART;
            state.app.credit_step = whole / CREDIT_PART;
        }
        if let Some((stream, whole)) = connection.receive_credit(id) {
            receive.peer_is_short = stream < receive.credit_step;
            state.app.peer_is_short = whole < state.app.credit_step;
        }
    }
}

/// Takes all data from the transport after the connection has ended, so that tasks can still read
/// it.
fn read_the_rest(connection: &mut Connection, state: &mut State, effects: &mut Effects) {
    let ids: Vec<StreamId> = state.app.streams.keys().copied().collect();
    for id in ids {
        read(connection, state, id, Pieces::All, effects);
    }
}

/// Opens streams for the tasks that wait for one, in the order of their requests.
fn open_streams(
    shared: &Arc<Shared>,
    connection: &mut Connection,
    state: &mut State,
    direction: Direction,
    effects: &mut Effects,
) {
    if !state.is_usable() {
        return;
    }
    loop {
        let opening = state.app.opening.get_mut(direction);
        while opening.front().is_some_and(|reply| reply.is_closed()) {
            opening.pop_front();
        }
        if opening.is_empty() {
            return;
        }
        let id = match state.app.spare.get_mut(direction).pop_front() {
            Some(id) => id,
            None => {
                let Some(id) = connection.open(direction) else { return };
                let is_bidirectional = direction == Direction::Bidirectional;
                let stream = Stream::new(true, is_bidirectional, &state.app.sending);
                state.app.streams.insert(id, stream);
                id
            }
        };
        let Some(reply) = state.app.opening.get_mut(direction).pop_front() else { return };
        effects.replies().opened.push((reply, Opened::new(shared.clone(), id)));
    }
}

/// Makes the changes to the connection's settings that tasks have requested.
fn carry_out_requests(now: Timestamp, connection: &mut Connection, state: &mut State) {
    if let Some(requests) = &mut state.app.requests
        && !requests.apply(now, connection)
    {
        state.app.requests = None;
    }
}

/// Reports what the handshake has negotiated to a task that waits for it.
fn note_negotiation(connection: &Connection, state: &mut State, effects: &mut Effects) {
    if !matches!(state.app.negotiation, Negotiation::Wanted) {
        return;
    }
    let session = connection.session();
    // A server that has selected a protocol has also seen the server name.
    if let Some(protocol) = session.application_protocol() {
        state.app.negotiation = Negotiation::Known(Box::new(HandshakeData {
            application_protocol: Some(protocol.to_vec()),
            server_name: session.server_name().map(str::to_owned),
        }));
        effects.signal(Signal::Connection);
    }
}

fn export(connection: &Connection, state: &mut State, effects: &mut Effects) {
    if state.established.is_none() {
        return;
    }
    for request in state.app.exports.drain(..) {
        let mut output = vec![0; request.length];
        let context = request.context.as_deref();
        let exported =
            connection.session().export_keying_material(&mut output, &request.label, context);
        let exported = exported.map(|()| output).map_err(ExportError::Tls);
        effects.replies().exported.push((request.reply, exported));
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
