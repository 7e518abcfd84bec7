//! What the shard and an application's tasks share of a connection: one lock, held only to move
//! pointers, and never while a task is woken.

use core::net::SocketAddr;
use core::task::{Context, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use clearway_io::ConnectionWaker;
use clearway_transport::{ConnectionError, Statistics};
use clearway_wire::{Direction, StreamId, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::sync::{Notify, oneshot};

use crate::error::{ConnectError, ExportError};

/// How many bytes of a stream wait for the transport. More is not taken from the task.
pub(crate) const STREAM_BUFFER: usize = 1 << 20;
/// A writer is told of room only when there is at least this much.
pub(crate) const RESUME_BELOW: usize = STREAM_BUFFER / 2;
/// So many received pieces of a stream wait for its task however small they are.
const MAX_PIECES: usize = 16;
/// One piece more waits for each this many bytes. The rest stays in the transport, which joins pieces
/// as they come: many small ones cost no more than a small multiple of their bytes.
const BYTES_PER_PIECE: usize = 512;
/// Credit goes back to the peer with the next batch, and at once when it comes to this part of a
/// window.
pub(crate) const CREDIT_PART: u64 = 4;
/// How many bytes of unreliable datagrams wait between tasks and the transport, each way, each
/// counting [`DATAGRAM_OVERHEAD`] more than its payload.
pub(crate) const DATAGRAM_BUFFER: usize = 1 << 20;
pub(crate) const DATAGRAM_OVERHEAD: usize = 64;

/// One connection, as tasks and the shard see it.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Set when the shard has made the connection.
    waker: OnceLock<ConnectionWaker>,
    pub(crate) signals: Signals,
}

/// What tasks wait for that is not of one stream.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) bidirectional: Notify,
    pub(crate) unidirectional: Notify,
    pub(crate) datagrams: Notify,
    pub(crate) closed: Notify,
}

impl Signals {
    pub(crate) fn incoming(&self, direction: Direction) -> &Notify {
        match direction {
            Direction::Bidirectional => &self.bidirectional,
            Direction::Unidirectional => &self.unidirectional,
        }
    }
}

#[derive(Default)]
pub(crate) struct State {
    /// Known when the handshake is complete.
    pub(crate) established: Option<Arc<Established>>,
    /// Why the connection could not be established or is over.
    pub(crate) error: Option<ConnectError>,
    /// The task that waits for the connection to be established.
    pub(crate) connecting: Option<Waker>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) statistics: Option<Statistics>,
    pub(crate) new_token: Option<Bytes>,

    pub(crate) streams: BTreeMap<StreamId, Stream>,
    /// Streams with which tasks did something that the shard has to know.
    pub(crate) touched: Vec<StreamId>,
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
    /// This end wants the connection closed.
    pub(crate) close: Option<(VarInt, Bytes)>,
}

/// What the handshake brought.
pub(crate) struct Established {
    pub(crate) application_protocol: Option<Vec<u8>>,
    pub(crate) peer_certificates: Option<Vec<CertificateDer<'static>>>,
    pub(crate) server_name: Option<String>,
    /// The largest DATAGRAM frame that the peer takes, in bytes; 0 for none.
    pub(crate) peer_datagram_limit: usize,
    /// At that moment.
    pub(crate) statistics: Statistics,
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
    /// It is in [`State::touched`].
    pub(crate) is_touched: bool,
}

/// From a task to the transport.
#[derive(Default)]
pub(crate) struct SendHalf {
    pub(crate) queue: VecDeque<Bytes>,
    pub(crate) queued: usize,
    pub(crate) state: SendState,
    /// The task's wish for its priority, until the transport knows it.
    pub(crate) priority: Option<i32>,
    pub(crate) writer: Option<Waker>,
    pub(crate) watcher: Option<Waker>,
    pub(crate) handle_is_gone: bool,
}

/// How far a stream's sending has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum SendState {
    /// It takes data.
    #[default]
    Open,
    /// The end comes after what is queued.
    Finishing,
    /// The transport knows of the end.
    Finished,
    /// The peer has everything.
    Delivered,
    /// The transport is to be told of the reset.
    Resetting(VarInt),
    /// The transport knows of the reset.
    Reset,
    /// The peer wants no more.
    Stopped(VarInt),
}

/// From the transport to a task. What is here counts against the windows of flow control, which bound
/// it; only what the task has read is given back to the peer.
#[derive(Default)]
pub(crate) struct ReceiveHalf {
    pub(crate) queue: VecDeque<Bytes>,
    pub(crate) queued: usize,
    pub(crate) end: Option<ReceiveEnd>,
    /// The task knows of the end.
    pub(crate) end_is_known: bool,
    /// The transport is to be told that the task knows of the end.
    pub(crate) end_is_owed: bool,
    /// What the task has read and the transport has not given back to the peer, in bytes.
    pub(crate) credit: u64,
    /// The shard is to be woken when [`Self::credit`] is as much, in bytes.
    pub(crate) credit_step: u64,
    /// The transport may have more, in pieces too small to take them.
    pub(crate) is_paused: bool,
    /// The transport is to be told that no more is wanted.
    pub(crate) stop: Option<VarInt>,
    /// No more is wanted.
    pub(crate) is_stopped: bool,
    pub(crate) reader: Option<Waker>,
    pub(crate) handle_is_gone: bool,
}

impl ReceiveHalf {
    /// Whether what waits is in so many pieces that no more are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= MAX_PIECES + self.queued / BYTES_PER_PIECE
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        self.queued += data.len();
        self.queue.push_back(data);
    }

    /// Takes at most `max` bytes for the task.
    pub(crate) fn take(&mut self, max: usize) -> Option<Bytes> {
        let front = self.queue.front_mut()?;
        let data = if front.len() > max { front.split_to(max) } else { self.queue.pop_front()? };
        self.queued -= data.len();
        self.credit += data.len() as u64;
        Some(data)
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.queued = 0;
    }

    /// Whether the shard is to look at the stream at once, since the peer or more data waits for it.
    pub(crate) fn is_due(&self) -> bool {
        self.credit >= self.credit_step || (self.is_paused && self.queue.is_empty())
    }
}

/// How a stream ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReceiveEnd {
    Finished,
    Reset(VarInt),
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

impl Shared {
    pub(crate) fn new(remote: Option<SocketAddr>) -> Arc<Self> {
        let state = State { remote, ..State::default() };
        Arc::new(Self {
            state: Mutex::new(state),
            waker: OnceLock::new(),
            signals: Signals::default(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics leaves the state between two consistent ones.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_waker(&self, waker: ConnectionWaker) {
        // There is one shard, and it makes the connection once.
        let _ = self.waker.set(waker);
    }

    /// Has the shard look at what tasks did. Before the shard has made the connection there is no need:
    /// it looks when it has.
    pub(crate) fn wake_shard(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Closes the connection, unless it is over.
    pub(crate) fn close(&self, error_code: VarInt, reason: Bytes) {
        let mut effects = Effects::default();
        {
            let mut state = self.lock();
            if state.error.is_some() {
                return;
            }
            state.close = Some((error_code, reason));
            state.fail(ConnectError::Lost(ConnectionError::LocallyClosed), &mut effects);
        }
        effects.carry_out(self);
        self.wake_shard();
    }

    /// Drops a stream that the transport opened and that nobody took.
    fn abandon(&self, id: StreamId) {
        {
            let mut state = self.lock();
            let Some(stream) = state.streams.get_mut(&id) else { return };
            if let Some(send) = &mut stream.send {
                send.state = SendState::Resetting(VarInt::ZERO);
                send.handle_is_gone = true;
            }
            if let Some(receive) = &mut stream.receive {
                receive.stop = Some(VarInt::ZERO);
                receive.is_stopped = true;
                receive.handle_is_gone = true;
            }
            state.touch(id);
        }
        self.wake_shard();
    }
}

impl State {
    /// The shard has to look at a stream.
    pub(crate) fn touch(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut stream.is_touched, true)
        {
            self.touched.push(id);
        }
    }

    /// Why the connection is over, for those that had one.
    pub(crate) fn lost(&self) -> Option<ConnectionError> {
        match &self.error {
            Some(ConnectError::Lost(error)) => Some(error.clone()),
            Some(ConnectError::NotStarted(_)) => Some(ConnectionError::LocallyClosed),
            None => None,
        }
    }

    /// The connection is over: everybody who waits is to learn it. Does nothing if it was over before.
    pub(crate) fn fail(&mut self, error: ConnectError, effects: &mut Effects) {
        if self.error.is_some() {
            return;
        }
        self.error = Some(error);
        effects.is_over = true;
        effects.wake(self.connecting.take());
        for stream in self.streams.values_mut() {
            if let Some(send) = &mut stream.send {
                send.queue.clear();
                send.queued = 0;
                effects.wake(send.writer.take());
                effects.wake(send.watcher.take());
            }
            if let Some(receive) = &mut stream.receive {
                effects.wake(receive.reader.take());
            }
        }
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            effects.dropped.extend(self.opening.get_mut(direction).drain(..));
        }
        if let Some(error) = self.lost() {
            for request in self.exports.drain(..) {
                effects
                    .exported
                    .push((request.reply, Err(ExportError::ConnectionLost(error.clone()))));
            }
        }
    }
}

/// Puts the task's waker into `slot`. What comes out has to be dropped after unlocking: that may run
/// any code.
#[must_use]
pub(crate) fn register(slot: &mut Option<Waker>, context: &Context<'_>) -> Option<Waker> {
    match slot {
        Some(waker) if waker.will_wake(context.waker()) => None,
        _ => slot.replace(context.waker().clone()),
    }
}

/// What is to be done once the state is unlocked: waking a task may run any code.
#[derive(Default)]
pub(crate) struct Effects {
    wakers: Vec<Waker>,
    opened: Vec<(oneshot::Sender<Opened>, Opened)>,
    dropped: Vec<oneshot::Sender<Opened>>,
    exported: Vec<(ExportReply, Exported)>,
    pub(crate) has_incoming: PerDirection<bool>,
    pub(crate) has_datagrams: bool,
    pub(crate) is_over: bool,
}

impl Effects {
    pub(crate) fn wake(&mut self, waker: Option<Waker>) {
        self.wakers.extend(waker);
    }

    pub(crate) fn open(&mut self, reply: oneshot::Sender<Opened>, opened: Opened) {
        self.opened.push((reply, opened));
    }

    pub(crate) fn export(&mut self, reply: ExportReply, exported: Exported) {
        self.exported.push((reply, exported));
    }

    /// Does all of it; the memory can be used again.
    pub(crate) fn carry_out(&mut self, shared: &Shared) {
        self.wakers.drain(..).for_each(Waker::wake);
        for (reply, opened) in self.opened.drain(..) {
            // Whoever does not want it any more drops it, and that gives it up.
            let _ = reply.send(opened);
        }
        self.dropped.clear();
        for (reply, exported) in self.exported.drain(..) {
            // Whoever does not wait any more does not get it.
            let _ = reply.send(exported);
        }
        let is_over = std::mem::take(&mut self.is_over);
        for direction in [Direction::Bidirectional, Direction::Unidirectional] {
            if std::mem::take(self.has_incoming.get_mut(direction)) || is_over {
                shared.signals.incoming(direction).notify_waiters();
            }
        }
        if std::mem::take(&mut self.has_datagrams) || is_over {
            shared.signals.datagrams.notify_waiters();
        }
        if is_over {
            shared.signals.closed.notify_waiters();
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
        if let Some(id) = self.id {
            self.shared.abandon(id);
        }
    }
}
