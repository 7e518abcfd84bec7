//! The application that runs in the shard for tasks elsewhere: it moves what they did to the
//! transport, and what the transport has to them, under one lock per batch (law 12).
//!
//! What is moved to the tasks still counts against flow control: credit goes back to the peer, and a
//! stream's place to another, only for what a task has read.

use std::sync::Arc;

use bytes::Buf;
use clearway_io::Application;
use clearway_transport::{
    self as transport, Connection, ConnectionError, Event, ReadOutcome, Statistics,
};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId};

use crate::error::{ConnectError, ExportError};
use crate::shared::{
    CREDIT_PART, Effects, Established, Opened, RESUME_BELOW, ReceiveEnd, ReceiveHalf, SendHalf,
    SendState, Shared, State, Stream,
};

pub(crate) struct Driver {
    shared: Arc<Shared>,
    /// Kept for its memory.
    effects: Effects,
    /// Kept for its memory.
    touched: Vec<StreamId>,
    is_closed: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, effects: Effects::default(), touched: Vec::new(), is_closed: false }
    }
}

impl Application for Driver {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        let Self { shared, effects, touched, is_closed } = self;
        let mut state = shared.lock();
        while let Some(event) = connection.next_event() {
            on_event(connection, &mut state, event, effects);
        }
        receive_datagrams(connection, &mut state, effects);
        if !*is_closed {
            std::mem::swap(&mut state.touched, touched);
            for id in touched.drain(..) {
                on_touched(now, connection, &mut state, id, effects);
            }
            for direction in [Direction::Bidirectional, Direction::Unidirectional] {
                open_streams(shared, connection, &mut state, direction, effects);
            }
            send_datagrams(connection, &mut state);
            export(connection, &mut state, effects);
            if let Some((error_code, reason)) = state.close.take() {
                connection.close(now, error_code, &reason);
            }
            *is_closed = connection.is_closed();
        }
        state.statistics = Some(connection.statistics());
        drop(state);
        effects.carry_out(shared);
    }

    fn closed(&mut self, statistics: &Statistics) {
        self.shared.lock().statistics = Some(*statistics);
    }
}

impl Drop for Driver {
    /// The shard may have ended without a word, by a panic for example.
    fn drop(&mut self) {
        let gone = ConnectError::Lost(ConnectionError::LocallyClosed);
        self.shared.lock().fail(gone, &mut self.effects);
        self.effects.carry_out(&self.shared);
    }
}

fn on_event(connection: &mut Connection, state: &mut State, event: Event, effects: &mut Effects) {
    match event {
        Event::Connected => {
            state.established = Some(Arc::new(established(connection)));
            state.remote = Some(connection.remote_address());
            effects.wake(state.connecting.take());
        }
        Event::Opened(direction) => {
            while let Some(id) = connection.accept(direction) {
                let send = (direction == Direction::Bidirectional).then(SendHalf::default);
                let receive = Some(ReceiveHalf::default());
                state.streams.insert(id, Stream { send, receive, is_touched: false });
                state.incoming.get_mut(direction).push_back(id);
                *effects.has_incoming.get_mut(direction) = true;
            }
        }
        Event::Readable(id) => {
            read(connection, state, id, Pieces::Bounded, effects);
            settle(state, id);
        }
        Event::Writable(id) => with_send(state, id, |send| write(connection, id, send, effects)),
        Event::Stopped { stream_id, error_code } => with_send(state, stream_id, |send| {
            if !matches!(send.state, SendState::Delivered | SendState::Reset) {
                send.state = SendState::Stopped(error_code);
            }
            give_up_sending(send, effects);
        }),
        Event::Finished(id) => with_send(state, id, |send| {
            send.state = SendState::Delivered;
            effects.wake(send.watcher.take());
        }),
        Event::PeerMoved(remote) => state.remote = Some(remote),
        Event::NewToken(token) => state.new_token = Some(token),
        Event::Closed(error) => {
            read_the_rest(connection, state, effects);
            state.fail(ConnectError::Lost(error), effects);
        }
        // Openers and datagrams are looked after in every batch.
        Event::StreamsAvailable(_)
        | Event::DatagramReceived
        | Event::HandshakeConfirmed
        | Event::ResetAcknowledged(_) => {}
    }
}

fn established(connection: &Connection) -> Established {
    let session = connection.session();
    let limit = connection.peer_parameters().map_or(0, |peer| peer.max_datagram_frame_size.get());
    Established {
        application_protocol: session.application_protocol().map(<[u8]>::to_vec),
        peer_certificates: session.peer_certificates().map(<[_]>::to_vec),
        server_name: session.server_name().map(str::to_owned),
        peer_datagram_limit: usize::try_from(limit).unwrap_or(usize::MAX),
        statistics: connection.statistics(),
    }
}

fn with_send(state: &mut State, id: StreamId, act: impl FnOnce(&mut SendHalf)) {
    if let Some(send) = state.streams.get_mut(&id).and_then(|stream| stream.send.as_mut()) {
        act(send);
    }
    settle(state, id);
}

/// A task did something with a stream.
fn on_touched(
    now: Timestamp,
    connection: &mut Connection,
    state: &mut State,
    id: StreamId,
    effects: &mut Effects,
) {
    let Some(stream) = state.streams.get_mut(&id) else { return };
    stream.is_touched = false;
    if let Some(send) = &mut stream.send {
        if let Some(priority) = send.priority.take() {
            // A stream that the transport has forgotten needs none.
            let _ = connection.set_priority(id, priority, true);
        }
        write(connection, id, send, effects);
    }
    if let Some(receive) = &mut stream.receive {
        let credit = std::mem::take(&mut receive.credit);
        state.credit -= credit;
        // A stream that the transport has forgotten needs none of these.
        if credit > 0 {
            let _ = connection.give_back(now, id, credit);
        }
        if std::mem::take(&mut receive.end_is_owed) {
            let _ = connection.read(now, id, 1);
        }
        if let Some(error_code) = receive.stop.take() {
            let _ = connection.stop_sending(now, id, error_code);
        }
        if receive.is_paused && receive.queue.is_empty() {
            read(connection, state, id, Pieces::Bounded, effects);
        }
    }
    settle(state, id);
}

/// Forgets the halves that neither a task nor the transport needs any more.
fn settle(state: &mut State, id: StreamId) {
    let Some(stream) = state.streams.get_mut(&id) else { return };
    let send_is_over = |send: &SendHalf| {
        let is_pending =
            matches!(send.state, SendState::Open | SendState::Finishing | SendState::Resetting(_));
        send.handle_is_gone && !is_pending
    };
    if stream.send.as_ref().is_some_and(send_is_over) {
        stream.send = None;
    }
    if stream.receive.as_ref().is_some_and(|it| it.handle_is_gone && it.stop.is_none()) {
        stream.receive = None;
    }
    if stream.send.is_none() && stream.receive.is_none() && !stream.is_touched {
        state.streams.remove(&id);
    }
}

/// Gives the transport what is queued, as far as it has room.
fn write(connection: &mut Connection, id: StreamId, send: &mut SendHalf, effects: &mut Effects) {
    if let SendState::Resetting(error_code) = send.state {
        let _ = connection.reset(id, error_code);
        send.state = SendState::Reset;
        give_up_sending(send, effects);
        return;
    }
    while let Some(mut data) = send.queue.pop_front() {
        match connection.write(id, data.clone()) {
            Ok(taken) => {
                send.queued -= taken;
                if taken < data.len() {
                    data.advance(taken);
                    send.queue.push_front(data);
                    break;
                }
            }
            Err(error) => {
                if let transport::WriteError::Stopped(error_code) = error {
                    send.state = SendState::Stopped(error_code);
                }
                give_up_sending(send, effects);
                return;
            }
        }
    }
    if send.state == SendState::Finishing && send.queue.is_empty() {
        let _ = connection.finish(id);
        send.state = SendState::Finished;
    }
    if send.queued < RESUME_BELOW {
        effects.wake(send.writer.take());
    }
}

fn give_up_sending(send: &mut SendHalf, effects: &mut Effects) {
    send.queue.clear();
    send.queued = 0;
    effects.wake(send.writer.take());
    effects.wake(send.watcher.take());
}

/// How much is taken from the transport at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pieces {
    /// All, unless it comes in pieces that are too small.
    Bounded,
    /// All: the transport joins no more.
    All,
}

/// Takes what the transport has of a stream. It is for the task to give it back to the peer.
fn read(
    connection: &mut Connection,
    state: &mut State,
    id: StreamId,
    pieces: Pieces,
    effects: &mut Effects,
) {
    let Some(receive) = state.streams.get_mut(&id).and_then(|stream| stream.receive.as_mut())
    else {
        return;
    };
    if receive.is_stopped || receive.end.is_some() {
        return;
    }
    receive.is_paused = false;
    let mut has_news = false;
    loop {
        if pieces == Pieces::Bounded && receive.is_full() {
            receive.is_paused = true;
            break;
        }
        match connection.read_ahead(id, usize::MAX) {
            Ok(ReadOutcome::Data(data)) => {
                receive.push(data);
                has_news = true;
            }
            Ok(ReadOutcome::Blocked) => break,
            Ok(ReadOutcome::Finished) => {
                receive.end = Some(ReceiveEnd::Finished);
                break;
            }
            Err(transport::ReadError::Reset(error_code)) => {
                receive.end = Some(ReceiveEnd::Reset(error_code));
                receive.clear();
                break;
            }
            // The transport forgets a stream only after its end was read here.
            Err(_) => break,
        }
    }
    if has_news && let Some((stream, connection)) = connection.receive_windows(id) {
        receive.credit_step = stream / CREDIT_PART;
        state.credit_step = connection / CREDIT_PART;
    }
    if has_news || receive.end.is_some() {
        effects.wake(receive.reader.take());
    }
}

/// The connection is over: what came before that can still be read.
fn read_the_rest(connection: &mut Connection, state: &mut State, effects: &mut Effects) {
    let ids: Vec<StreamId> = state.streams.keys().copied().collect();
    for id in ids {
        read(connection, state, id, Pieces::All, effects);
    }
}

/// Opens streams for the tasks that want some, first come first served.
fn open_streams(
    shared: &Arc<Shared>,
    connection: &mut Connection,
    state: &mut State,
    direction: Direction,
    effects: &mut Effects,
) {
    if state.established.is_none() {
        return;
    }
    loop {
        let opening = state.opening.get_mut(direction);
        while opening.front().is_some_and(|reply| reply.is_closed()) {
            opening.pop_front();
        }
        if opening.is_empty() {
            return;
        }
        let Some(id) = connection.open(direction) else { return };
        let Some(reply) = state.opening.get_mut(direction).pop_front() else { return };
        let receive = (direction == Direction::Bidirectional).then(ReceiveHalf::default);
        let send = Some(SendHalf::default());
        state.streams.insert(id, Stream { send, receive, is_touched: false });
        effects.open(reply, Opened::new(shared.clone(), id));
    }
}

fn receive_datagrams(connection: &mut Connection, state: &mut State, effects: &mut Effects) {
    while let Some(data) = connection.receive_datagram() {
        // The newest are what a reader is most likely to want.
        while !state.datagrams_received.has_room_for(&data)
            && state.datagrams_received.pop().is_some()
        {}
        state.datagrams_received.push(data);
        effects.has_datagrams = true;
    }
}

fn send_datagrams(connection: &mut Connection, state: &mut State) {
    while let Some(data) = state.datagrams_to_send.pop() {
        // Unreliable by nature: one that is too large for the path or for the queue is lost.
        let _: Result<(), _> = connection.send_datagram(data);
    }
}

fn export(connection: &Connection, state: &mut State, effects: &mut Effects) {
    if state.established.is_none() {
        return;
    }
    for request in state.exports.drain(..) {
        let mut output = vec![0; request.length];
        let context = request.context.as_deref();
        let exported =
            connection.session().export_keying_material(&mut output, &request.label, context);
        effects.export(request.reply, exported.map(|()| output).map_err(ExportError::Tls));
    }
}
