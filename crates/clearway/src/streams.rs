//! What the shard and an application's tasks share of a connection whose streams the tasks use themselves.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use clearway_transport::ConnectionError;
use clearway_wire::{Direction, StreamId, VarInt};
use tokio::sync::oneshot;

use crate::bridge::{self, Face, ReceiveBuffer, Replies, SendBuffer, Signal};
use crate::error::{ConnectError, ExportError};

/// Credit goes back to the peer with the next batch, and at once when it comes to this part of a
/// window.
pub(crate) const CREDIT_PART: u64 = 4;
/// How many bytes of unreliable datagrams wait between tasks and the transport, each way, each
/// counting [`DATAGRAM_OVERHEAD`] more than its payload.
pub(crate) const DATAGRAM_BUFFER: usize = 1 << 20;
pub(crate) const DATAGRAM_OVERHEAD: usize = 64;

pub(crate) type Shared = bridge::Shared<Streams>;
pub(crate) type State = bridge::State<Streams>;
pub(crate) type Effects = bridge::Effects<Streams>;

/// The streams of one connection, and what else its tasks use.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    /// Streams of the peer's that no task has taken. Nothing of them counts as read, so there are at
    /// most as many as the peer may have open.
    pub(crate) incoming: PerDirection<VecDeque<StreamId>>,
    /// What tasks have read of all streams and the transport has not given back to the peer, in bytes.
    pub(crate) credit: u64,
    /// The shard is to be woken when [`Self::credit`] is as much, in bytes.
    pub(crate) credit_step: u64,
    pub(crate) opening: PerDirection<VecDeque<oneshot::Sender<Opened>>>,

    pub(crate) datagrams_to_send: DatagramQueue,
    pub(crate) datagrams_received: DatagramQueue,
    pub(crate) exports: Vec<ExportRequest>,
    pub(crate) new_token: Option<Bytes>,
}

/// Somebody wants keying material (RFC 8446 §7.5).
pub(crate) struct ExportRequest {
    pub(crate) label: Vec<u8>,
    pub(crate) context: Option<Vec<u8>>,
    pub(crate) length: usize,
    pub(crate) reply: ExportReply,
}

type Exported = Result<Vec<u8>, ExportError>;
type ExportReply = oneshot::Sender<Exported>;

/// A stream's halves. A half is gone when its handle is and the transport knows.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) send: Option<SendHalf>,
    pub(crate) receive: Option<ReceiveHalf>,
    is_changed: bool,
}

impl Stream {
    pub(crate) fn new(has_send: bool, has_receive: bool) -> Self {
        Self {
            send: has_send.then(SendHalf::new),
            receive: has_receive.then(ReceiveHalf::new),
            is_changed: false,
        }
    }
}

/// From a task to the transport.
pub(crate) struct SendHalf {
    /// It fails when the peer wants no more, with the code that the peer gave.
    pub(crate) buffer: SendBuffer<VarInt>,
    /// The task's wish for its priority, until the transport knows it.
    pub(crate) priority: Option<i32>,
    pub(crate) handle_is_gone: bool,
}

impl SendHalf {
    fn new() -> Self {
        Self { buffer: SendBuffer::new(None), priority: None, handle_is_gone: false }
    }
}

/// From the transport to a task. What is here counts against the windows of flow control, which bound
/// it; only what the task has read is given back to the peer.
pub(crate) struct ReceiveHalf {
    /// It fails when the peer resets the stream, with the peer's code.
    pub(crate) buffer: ReceiveBuffer<VarInt>,
    /// The task knows of the end.
    pub(crate) end_is_known: bool,
    /// The transport is to be told that the task knows of the end.
    pub(crate) end_is_owed: bool,
    /// What the task has read and the transport has not given back to the peer, in bytes.
    pub(crate) credit: u64,
    /// The shard is to be woken when [`Self::credit`] is as much, in bytes.
    pub(crate) credit_step: u64,
    pub(crate) handle_is_gone: bool,
}

impl ReceiveHalf {
    fn new() -> Self {
        Self {
            buffer: ReceiveBuffer::new(None),
            end_is_known: false,
            end_is_owed: false,
            credit: 0,
            credit_step: 0,
            handle_is_gone: false,
        }
    }

    /// Takes at most `max` bytes for the task.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let data = self.buffer.take(max)?;
        self.credit += data.len() as u64;
        Some(data)
    }

    /// Whether the shard is to look at the stream at once, since the peer or more data waits for it.
    pub(crate) fn is_due(&self) -> bool {
        self.credit >= self.credit_step || (self.buffer.has_more && self.buffer.is_empty())
    }
}

/// Datagrams and what they count.
#[derive(Default)]
pub(crate) struct DatagramQueue {
    queue: VecDeque<Bytes>,
    cost: usize,
}

impl DatagramQueue {
    pub(crate) fn has_room_for(&self, data: &Bytes) -> bool {
        self.cost + data.len() + DATAGRAM_OVERHEAD <= DATAGRAM_BUFFER
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        self.cost += data.len() + DATAGRAM_OVERHEAD;
        self.queue.push_back(data);
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let data = self.queue.pop_front()?;
        self.cost -= data.len() + DATAGRAM_OVERHEAD;
        Some(data)
    }
}

/// One `T` for each direction of streams.
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

/// What tells that the peer has opened streams.
pub(crate) fn incoming(direction: Direction) -> Signal {
    match direction {
        Direction::Bidirectional => Signal::Bidirectional,
        Direction::Unidirectional => Signal::Unidirectional,
    }
}

impl Face for Streams {
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
}

impl Streams {
    /// Forgets the halves of a stream that neither a task nor the transport needs any more.
    pub(crate) fn retire(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let send_is_over = |send: &SendHalf| send.handle_is_gone && send.buffer.is_over();
        if stream.send.as_ref().is_some_and(send_is_over) {
            stream.send = None;
        }
        let receive_is_over =
            |receive: &ReceiveHalf| receive.handle_is_gone && !receive.buffer.owes_stop();
        if stream.receive.as_ref().is_some_and(receive_is_over) {
            stream.receive = None;
        }
        if stream.send.is_none() && stream.receive.is_none() && !stream.is_changed {
            self.streams.remove(&id);
        }
    }
}

impl State {
    /// Why the connection is over, for those that had one.
    pub(crate) fn lost(&self) -> Option<ConnectionError> {
        self.error.as_ref().map(lost)
    }

    /// The sending half of a stream, if there is one still.
    pub(crate) fn send_half(&mut self, id: StreamId) -> Option<&mut SendHalf> {
        self.face.streams.get_mut(&id)?.send.as_mut()
    }

    /// The receiving half of a stream, if there is one still.
    pub(crate) fn receive_half(&mut self, id: StreamId) -> Option<&mut ReceiveHalf> {
        self.face.streams.get_mut(&id)?.receive.as_mut()
    }
}

fn lost(error: &ConnectError) -> ConnectionError {
    match error {
        ConnectError::Lost(error) => error.clone(),
        ConnectError::NotStarted(_) => ConnectionError::LocallyClosed,
    }
}

/// What tasks wait for in channels of their own.
#[derive(Default)]
pub(crate) struct StreamReplies {
    pub(crate) opened: Vec<(oneshot::Sender<Opened>, Opened)>,
    pub(crate) dropped: Vec<oneshot::Sender<Opened>>,
    pub(crate) exported: Vec<(ExportReply, Exported)>,
}

impl Replies for StreamReplies {
    fn send(&mut self) {
        for (reply, opened) in self.opened.drain(..) {
            // Whoever does not want it any more drops it, and that gives it up.
            let _ = reply.send(opened);
        }
        self.dropped.clear();
        for (reply, exported) in self.exported.drain(..) {
            // Whoever does not wait any more does not get it.
            let _ = reply.send(exported);
        }
    }
}

/// A stream on its way to the task that asked for it. Lost on the way, it is given up.
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
            let Some(stream) = state.face.streams.get_mut(&id) else { return };
            if let Some(send) = &mut stream.send {
                send.buffer.reset(VarInt::ZERO);
                send.handle_is_gone = true;
            }
            if let Some(receive) = &mut stream.receive {
                receive.buffer.clear();
                receive.buffer.stop(VarInt::ZERO);
                receive.handle_is_gone = true;
            }
            state.change(id);
            effects.wake_shard();
        });
    }
}
