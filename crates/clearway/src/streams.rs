//! The state shared between the shard and the tasks of a connection that uses QUIC streams
//! directly.

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use clearway_transport::ConnectionError;
use clearway_wire::{Direction, StreamId, VarInt};
use tokio::sync::oneshot;

use crate::bridge::{self, AppState, ReceiveBuffer, Replies, Requests, SendBuffer, Signal, Total};
use crate::datagrams::Datagrams;
use crate::error::{ConnectError, DatagramWaitError, ExportError};
use crate::handshake_data::HandshakeData;

/// Divisor of a receive window. Credit of at least this fraction of a window wakes the shard
/// immediately to grant it to the peer; less credit is granted with the next batch.
pub(crate) const CREDIT_PART: u64 = 4;

pub(crate) type Shared = bridge::Shared<Streams>;
pub(crate) type State = bridge::State<Streams>;
pub(crate) type Effects = bridge::Effects<Streams>;

/// The streams of one connection, and other state that its tasks use.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    /// Number of bytes on all streams that tasks have written but the transport has not accepted
    /// yet.
    pub(crate) sending: Total,
    /// Streams that the peer has opened and no task has accepted. None of their data counts as
    /// read, so their number is bounded by the limit on the peer's open streams.
    pub(crate) incoming: PerDirection<VecDeque<StreamId>>,
    /// Number of bytes that tasks have read, on all streams, and for which the transport has not
    /// granted the peer new credit.
    pub(crate) credit: u64,
    /// Threshold in bytes: the shard is woken when [`Self::credit`] reaches it.
    pub(crate) credit_step: u64,
    /// Set if the peer had little connection-level credit left when data was last received.
    pub(crate) peer_is_short: bool,
    pub(crate) opening: PerDirection<VecDeque<oneshot::Sender<Opened>>>,
    /// Unused streams, opened for futures that have since been dropped. Nothing was sent on these
    /// streams, so they are given to the next tasks.
    pub(crate) spare: PerDirection<VecDeque<StreamId>>,

    pub(crate) datagrams: Datagrams,
    pub(crate) exports: Vec<ExportRequest>,
    pub(crate) new_token: Option<Bytes>,
    /// Changes to the connection's settings that the shard has yet to make.
    pub(crate) requests: Option<Box<Requests>>,
    /// The local address that the peer sends to, if known.
    pub(crate) local_ip: Option<IpAddr>,
    /// Set when the handshake is confirmed (RFC 9001 §4.1.2).
    pub(crate) is_confirmed: bool,
    /// Results of a handshake that is not complete, for a task that waits for them.
    pub(crate) negotiation: Negotiation,
}

/// Results of a handshake that are known before it is complete.
#[derive(Default)]
pub(crate) enum Negotiation {
    /// No task waits for them.
    #[default]
    Unwanted,
    /// A task waits for them.
    Wanted,
    /// They are known.
    Known(Box<HandshakeData>),
}

/// A task's request for keying material (RFC 8446 §7.5).
pub(crate) struct ExportRequest {
    pub(crate) label: Vec<u8>,
    pub(crate) context: Option<Vec<u8>>,
    pub(crate) length: usize,
    pub(crate) reply: ExportReply,
}

type Exported = Result<Vec<u8>, ExportError>;
type ExportReply = oneshot::Sender<Exported>;

/// The halves of a stream. A half is removed when its handle was dropped and the transport has been
/// notified.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) send: Option<SendHalf>,
    pub(crate) receive: Option<ReceiveHalf>,
    is_changed: bool,
}

impl Stream {
    pub(crate) fn new(has_send: bool, has_receive: bool, sending: &Total) -> Self {
        Self {
            send: has_send.then(|| SendHalf::new(sending)),
            receive: has_receive.then(ReceiveHalf::new),
            is_changed: false,
        }
    }
}

/// The sending half, from a task to the transport.
pub(crate) struct SendHalf {
    /// Data to send; fails with the peer's error code when the peer stops the stream.
    pub(crate) buffer: SendBuffer<VarInt>,
    pub(crate) scheduling: Scheduling,
    pub(crate) handle_is_gone: bool,
}

/// How a stream shares the bandwidth of its connection with other streams.
pub(crate) struct Scheduling {
    pub(crate) priority: i32,
    pub(crate) is_incremental: bool,
    /// Set if the task has changed this and it has yet to be passed to the transport.
    pub(crate) is_unreported: bool,
}

impl SendHalf {
    fn new(sending: &Total) -> Self {
        let scheduling = Scheduling { priority: 0, is_incremental: true, is_unreported: false };
        Self { buffer: SendBuffer::counted(sending), scheduling, handle_is_gone: false }
    }
}

/// The receiving half, from the transport to a task. Flow control windows bound the buffered data;
/// the peer gets new credit only for data that the task has read.
pub(crate) struct ReceiveHalf {
    /// Received data; fails with the peer's error code when the peer resets the stream.
    pub(crate) buffer: ReceiveBuffer<VarInt>,
    /// Set if the task has read the end of the stream.
    pub(crate) end_is_read: bool,
    /// Set if the task has read the end, but this has yet to be reported to the transport.
    pub(crate) end_is_unreported: bool,
    /// Set if data has arrived in 0-RTT packets before the handshake was complete.
    pub(crate) has_early_data: bool,
    /// Number of bytes that the task has read and for which the transport has not granted the peer
    /// new credit.
    pub(crate) credit: u64,
    /// Threshold in bytes: the shard is woken when [`Self::credit`] reaches it.
    pub(crate) credit_step: u64,
    /// Set if the peer had little stream-level credit left when data was last received.
    pub(crate) peer_is_short: bool,
    pub(crate) handle_is_gone: bool,
}

impl ReceiveHalf {
    fn new() -> Self {
        Self {
            buffer: ReceiveBuffer::new(None),
            end_is_read: false,
            end_is_unreported: false,
            has_early_data: false,
            credit: 0,
            credit_step: 0,
            peer_is_short: false,
            handle_is_gone: false,
        }
    }

    /// Takes at most `max` bytes for the task.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let data = self.buffer.take(max)?;
        self.credit += data.len() as u64;
        Some(data)
    }

    /// Returns whether the shard must process the stream immediately, since the peer waits for
    /// credit or the transport has more data.
    pub(crate) fn is_due(&self) -> bool {
        self.credit >= self.credit_step || (self.buffer.has_more && self.buffer.is_empty())
    }
}

/// One `T` for each stream direction (bidirectional and unidirectional).
#[derive(Default)]
pub(crate) struct PerDirection<T> {
    bidirectional: T,
    unidirectional: T,
}

impl<T> PerDirection<T> {
    pub(crate) fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Bidirectional => &mut self.bidirectional,
            Direction::Unidirectional => &mut self.unidirectional,
        }
    }
}

/// Returns the signal for streams of this direction that the peer opens.
pub(crate) fn incoming(direction: Direction) -> Signal {
    match direction {
        Direction::Bidirectional => Signal::Bidirectional,
        Direction::Unidirectional => Signal::Unidirectional,
    }
}

impl AppState for Streams {
    type Key = StreamId;
    type Error = ConnectError;
    type Replies = StreamReplies;

    fn is_changed(&mut self, id: StreamId) -> Option<&mut bool> {
        self.streams.get_mut(&id).map(|stream| &mut stream.is_changed)
    }

    fn fail(&mut self, error: &ConnectError, effects: &mut Effects) {
        for stream in self.streams.values_mut() {
            if let Some(send) = &mut stream.send {
                send.buffer.abandon(effects);
            }
            if let Some(receive) = &mut stream.receive {
                receive.buffer.wake(effects);
            }
        }
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            effects.replies().dropped.extend(self.opening.get_mut(direction).drain(..));
        }
        for request in self.exports.drain(..) {
            let error = ExportError::ConnectionLost(lost(error));
            effects.replies().exported.push((request.reply, Err(error)));
        }
    }

    fn compact(&mut self) {
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            self.incoming.get_mut(direction).shrink_to_fit();
            self.opening.get_mut(direction).shrink_to_fit();
            self.spare.get_mut(direction).shrink_to_fit();
        }
        self.exports.shrink_to_fit();
        self.datagrams.compact();
    }
}

impl Streams {
    /// Discards the halves of a stream that neither a task nor the transport needs any more.
    pub(crate) fn retire(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let send_is_over = |send: &SendHalf| {
            send.handle_is_gone && send.buffer.is_over() && !send.buffer.is_watched()
        };
        if stream.send.as_ref().is_some_and(send_is_over) {
            stream.send = None;
        }
        let receive_is_over =
            |receive: &ReceiveHalf| receive.handle_is_gone && !receive.buffer.has_pending_stop();
        if stream.receive.as_ref().is_some_and(receive_is_over) {
            stream.receive = None;
        }
        if stream.send.is_none() && stream.receive.is_none() && !stream.is_changed {
            self.streams.remove(&id);
        }
    }
}

impl State {
    /// Returns why the connection has ended, for tasks whose connection was established.
    pub(crate) fn lost(&self) -> Option<ConnectionError> {
        self.error.as_ref().map(lost)
    }

    /// Returns the error for a task that waits for datagrams or outcomes if none can arrive because
    /// the feature is not enabled or the connection has ended.
    pub(crate) fn datagram_wait_error(&self, is_enabled: bool) -> Option<DatagramWaitError> {
        match self.lost() {
            Some(error) => Some(DatagramWaitError::ConnectionLost(error)),
            None => (!is_enabled).then_some(DatagramWaitError::NotEnabled),
        }
    }

    /// Returns the sending half of a stream, if it still exists.
    pub(crate) fn send_half(&mut self, id: StreamId) -> Option<&mut SendHalf> {
        self.app.streams.get_mut(&id)?.send.as_mut()
    }

    /// Returns the receiving half of a stream, if it still exists.
    pub(crate) fn receive_half(&mut self, id: StreamId) -> Option<&mut ReceiveHalf> {
        self.app.streams.get_mut(&id)?.receive.as_mut()
    }
}

fn lost(error: &ConnectError) -> ConnectionError {
    match error {
        ConnectError::Lost(error) => error.clone(),
        ConnectError::NotStarted(_) => ConnectionError::LocallyClosed,
    }
}

/// Replies to tasks, each of which waits on a channel.
#[derive(Default)]
pub(crate) struct StreamReplies {
    pub(crate) opened: Vec<(oneshot::Sender<Opened>, Opened)>,
    pub(crate) dropped: Vec<oneshot::Sender<Opened>>,
    pub(crate) exported: Vec<(ExportReply, Exported)>,
}

impl Replies for StreamReplies {
    fn send(&mut self) {
        for (reply, opened) in self.opened.drain(..) {
            // If the task has dropped its receiver, the stream is dropped here and becomes
            // available to another task.
            let _ = reply.send(opened);
        }
        self.dropped.clear();
        for (reply, exported) in self.exported.drain(..) {
            // The task may have dropped its receiver.
            let _ = reply.send(exported);
        }
    }
}

/// A newly opened stream that is being passed to the task that requested it. If this is dropped
/// before the task receives it, another task gets the stream.
pub(crate) struct Opened {
    shared: Arc<Shared>,
    id: Option<StreamId>,
}

impl Opened {
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        Self { shared, id: Some(id) }
    }

    pub(crate) fn take(mut self) -> Option<StreamId> {
        self.id.take()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        self.shared.act(|state, effects| {
            if state.error.is_some() {
                state.app.streams.remove(&id);
                return;
            }
            let direction = id.direction();
            state.app.spare.get_mut(direction).push_back(id);
            if !state.app.opening.get_mut(direction).is_empty() {
                effects.wake_shard();
            }
        });
    }
}
