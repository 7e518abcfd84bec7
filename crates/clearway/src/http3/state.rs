//! What the tasks of one HTTP/3 connection and its shard share: one lock, taken once per batch by
//! the shard and once per call by a task.

use core::net::SocketAddr;
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use clearway_http3::Code;
use clearway_io::ConnectionWaker;
use clearway_transport::Statistics;
use http::{HeaderMap, Request, Response};
use slab::Slab;

use super::{Error, Timeouts};

/// How many bytes of content a stream holds between task and transport, each way. One chunk more may
/// go over it.
pub(super) const BUFFER: usize = 1 << 20;

/// How many bytes of content all streams of a connection hold between task and transport, each way. A stream that
/// holds none gets room for a chunk whatever the others hold, so that none waits for another.
pub(super) const CONNECTION_BUFFER: usize = 2 << 20;

/// What a received chunk counts beside its bytes, so that tiny chunks are bounded too.
const CHUNK_OVERHEAD: usize = 64;

/// One connection, as its tasks and its shard see it.
pub(super) struct Shared {
    state: Mutex<State>,
    waker: OnceLock<ConnectionWaker>,
}

impl Shared {
    /// A connection whose handshake is not complete, with one task that holds on to it.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::default()), waker: OnceLock::new() })
    }

    /// Nothing that panics runs while the lock is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection lives in a shard now.
    pub(super) fn set_waker(&self, waker: ConnectionWaker) {
        // It is set once, by the one shard that makes the connection.
        let _ = self.waker.set(waker);
    }

    /// Has the shard look at the connection. Not to be called with the lock held.
    pub(super) fn wake_shard(&self) {
        // A shard that has not made the connection yet looks as soon as it has.
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Fails everything, with the first error that came.
    pub(super) fn fail(&self, error: Error) {
        let mut wakers = Vec::new();
        self.lock().close(error, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// How far a connection is.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// The handshake is going on.
    #[default]
    Connecting,
    /// Requests can be made.
    Open,
    /// It is over.
    Closed(Error),
}

/// How a connection was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ending {
    /// Not at all.
    #[default]
    None,
    /// When the exchanges in progress are complete.
    Graceful,
    /// At once, with this code.
    Now(Code),
}

/// What is behind the lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) exchanges: Slab<Exchange>,
    /// Which exchange a stream belongs to.
    pub(super) streams: BTreeMap<u64, usize>,
    /// Exchanges that tasks have changed since the shard looked.
    pub(super) changed: Vec<usize>,
    /// Requests that wait for the peer to allow another stream (client).
    pub(super) waiting: VecDeque<usize>,
    /// Requests that no task has taken yet (server).
    pub(super) incoming: VecDeque<usize>,
    /// Nothing more wants this connection than its exchanges.
    pub(super) is_released: bool,
    /// The peer accepts no more requests.
    pub(super) is_going_away: bool,
    pub(super) ending: Ending,
    /// No task will take requests (server).
    pub(super) is_rejecting: bool,
    /// The shard has forgotten the connection.
    pub(super) is_gone: bool,
    pub(super) remote_address: Option<SocketAddr>,
    /// The listener knows that requests wait.
    pub(super) is_announced: bool,
    /// What all streams hold.
    pub(super) held: Totals,
    /// The server wants to know which streams stand still.
    pub(super) wants_look: Option<Timeouts>,
    pub(super) statistics: Option<Statistics>,
    pub(super) wants_statistics: bool,
    /// Tasks that wait for something about the connection as a whole.
    pub(super) watchers: Vec<Waker>,
}

impl State {
    /// The shard is to look at an exchange.
    pub(super) fn touch(&mut self, key: usize) {
        if let Some(exchange) = self.exchanges.get_mut(key)
            && !core::mem::replace(&mut exchange.is_changed, true)
        {
            self.changed.push(key);
        }
    }

    /// Forgets an exchange that neither a task nor the protocol needs any more.
    pub(super) fn retire(&mut self, key: usize) {
        let is_over = |exchange: &Exchange| {
            exchange.send.is_over && exchange.receive.is_over && !exchange.is_queued
        };
        let Some(exchange) = self.exchanges.get(key).filter(|exchange| is_over(exchange)) else {
            return;
        };
        if let Some(stream) = exchange.stream {
            self.streams.remove(&stream);
        }
        if exchange.handles == 0 && !exchange.is_changed {
            self.exchanges.remove(key);
        }
    }

    /// The connection is over, because of `error`.
    pub(super) fn close(&mut self, error: Error, wakers: &mut Vec<Waker>) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        wakers.append(&mut self.watchers);
        self.waiting.clear();
        for key in core::mem::take(&mut self.incoming) {
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.is_queued = false;
            }
        }
        self.changed.clear();
        let keys: Vec<usize> = self.exchanges.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.is_changed = false;
                exchange.is_queued = false;
                exchange.send.fail(&error, wakers);
                exchange.receive.fail(&error, wakers);
            }
            self.retire(key);
        }
        self.phase = Phase::Closed(error);
    }

    /// Refuses the requests that no task has taken.
    pub(super) fn reject_incoming(&mut self) {
        while let Some(key) = self.incoming.pop_front() {
            if let Some(exchange) = self.exchanges.get_mut(key) {
                exchange.is_queued = false;
                exchange.send.cancel(Code::REQUEST_REJECTED);
                exchange.receive.cancel(Code::REQUEST_REJECTED);
            }
            self.touch(key);
        }
    }

    /// Why nothing new can be begun.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match &self.phase {
            Phase::Closed(error) => Err(error.clone()),
            _ if self.is_going_away || self.ending != Ending::None => Err(Error::GoingAway),
            _ => Ok(()),
        }
    }

    /// Has `context` woken when something about the connection as a whole changes.
    pub(super) fn watch(&mut self, context: &Context<'_>) {
        if !self.watchers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.watchers.push(context.waker().clone());
        }
    }
}

/// How many bytes of content all streams of a connection hold. It is only read and changed under the lock.
#[derive(Clone, Default)]
pub(super) struct Total(Arc<AtomicUsize>);

/// What all streams of a connection hold, by its direction: one does not take room from the other.
#[derive(Clone, Default)]
pub(super) struct Totals {
    /// On the way to the peer.
    sending: Total,
    /// What came and no task has taken.
    receiving: Total,
}

/// How many of them one stream holds. Dropping it takes them away.
#[derive(Default)]
pub(super) struct Held {
    own: usize,
    total: Total,
}

impl Held {
    fn new(total: &Total) -> Self {
        Self { own: 0, total: total.clone() }
    }

    /// How many bytes it holds.
    pub(super) const fn bytes(&self) -> usize {
        self.own
    }

    /// It holds this many now.
    pub(super) fn set(&mut self, bytes: usize) {
        let total = self.total.0.load(Ordering::Relaxed);
        self.total.0.store(total.saturating_sub(self.own).saturating_add(bytes), Ordering::Relaxed);
        self.own = bytes;
    }

    /// Whether it may hold more.
    fn has_room(&self) -> bool {
        let total = self.total.0.load(Ordering::Relaxed);
        self.own == 0 || (self.own < BUFFER && total < CONNECTION_BUFFER)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// One request and its response.
pub(super) struct Exchange {
    /// Its stream, once there is one.
    pub(super) stream: Option<u64>,
    /// How many ends tasks hold.
    pub(super) handles: u8,
    /// It stands in [`State::changed`].
    pub(super) is_changed: bool,
    /// It stands in [`State::waiting`] or [`State::incoming`].
    pub(super) is_queued: bool,
    pub(super) send: Sending,
    pub(super) receive: Receiving,
}

impl Exchange {
    /// A request that a task makes (client). The task holds both ends.
    pub(super) fn request(head: Request<()>, totals: &Totals) -> Self {
        let send = Sending { head: Some(Head::Request(head)), ..Sending::new(&totals.sending) };
        let receive = Receiving::new(&totals.receiving);
        Self { stream: None, handles: 2, is_changed: false, is_queued: false, send, receive }
    }

    /// A request that came on `stream` (server). No task has it yet.
    pub(super) fn incoming(stream: u64, request: Request<()>, totals: &Totals) -> Self {
        let receive = Receiving::new(&totals.receiving);
        let receive = Receiving { head: Some(Head::Request(request)), ..receive };
        let send = Sending::new(&totals.sending);
        let stream = Some(stream);
        Self { stream, handles: 0, is_changed: false, is_queued: true, send, receive }
    }
}

/// The beginning of a message.
pub(super) enum Head {
    Request(Request<()>),
    Response(Response<()>),
}

/// How a message is to end.
pub(super) struct Finish {
    pub(super) trailers: Option<HeaderMap>,
}

/// Our message: what the task has given and the transport has not taken.
#[derive(Default)]
pub(super) struct Sending {
    pub(super) informational: VecDeque<Response<()>>,
    pub(super) head: Option<Head>,
    pub(super) chunks: VecDeque<Bytes>,
    /// What `chunks` has.
    pub(super) held: Held,
    pub(super) finish: Option<Finish>,
    /// The task gives the message up.
    pub(super) reset: Option<Code>,
    /// The transport has refused some and will tell when it takes more.
    pub(super) is_blocked: bool,
    /// The protocol needs nothing more: everything was handed over, or given up.
    pub(super) is_over: bool,
    pub(super) error: Option<Error>,
    pub(super) waker: Option<Waker>,
}

impl Sending {
    /// A message of a connection whose streams hold `total`.
    fn new(total: &Total) -> Self {
        Self { held: Held::new(total), ..Self::default() }
    }

    /// The message cannot be sent any more.
    pub(super) fn fail(&mut self, error: &Error, wakers: &mut Vec<Waker>) {
        if self.is_over {
            return;
        }
        self.end();
        self.error = Some(error.clone());
        wakers.extend(self.waker.take());
    }

    /// The protocol has the whole message, or will never have it.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.chunks = VecDeque::new();
        self.held.set(0);
        self.informational = VecDeque::new();
        self.head = None;
        self.finish = None;
        self.reset = None;
    }

    /// Gives up what has not been handed over. Whether the shard has to do anything for that.
    pub(super) fn cancel(&mut self, code: Code) -> bool {
        if self.is_over {
            return false;
        }
        self.chunks = VecDeque::new();
        self.held.set(0);
        self.finish = None;
        self.reset = Some(code);
        true
    }

    /// Whether the header section is all there is.
    pub(super) fn is_head_only(&self) -> bool {
        self.chunks.is_empty() && matches!(&self.finish, Some(Finish { trailers: None }))
    }

    /// Waits for room.
    pub(super) fn poll_room(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = &self.error {
            return Poll::Ready(Err(error.clone()));
        }
        if self.is_over || self.reset.is_some() {
            return Poll::Ready(Err(Error::Cancelled));
        }
        if !self.held.has_room() {
            set_waker(&mut self.waker, context);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes `chunk`, unless nothing is sent any more.
    pub(super) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() && !self.is_over {
            self.held.set(self.held.bytes().saturating_add(chunk.len()));
            self.chunks.push_back(chunk);
        }
    }

    /// Waits until the protocol has the whole message.
    pub(super) fn poll_over(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        match &self.error {
            Some(error) => Poll::Ready(Err(error.clone())),
            None if self.is_over => Poll::Ready(Ok(())),
            None => {
                set_waker(&mut self.waker, context);
                Poll::Pending
            }
        }
    }

    /// The task waits for room and there is enough to be worth its while.
    pub(super) fn collect_waker(&mut self, wakers: &mut Vec<Waker>) {
        if self.is_over || self.held.bytes() <= BUFFER / 2 {
            wakers.extend(self.waker.take());
        }
    }
}

/// The peer's message: what came and the task has not taken.
#[derive(Default)]
pub(super) struct Receiving {
    pub(super) informational: VecDeque<Response<()>>,
    pub(super) head: Option<Head>,
    pub(super) chunks: VecDeque<Bytes>,
    /// What `chunks` counts.
    pub(super) held: Held,
    pub(super) trailers: Option<HeaderMap>,
    /// The transport may have content that there was no room for.
    pub(super) is_readable: bool,
    /// The task wants no more of it.
    pub(super) stop: Option<Code>,
    /// Nothing more comes: the message is complete, or the error says why not.
    pub(super) is_over: bool,
    pub(super) error: Option<Error>,
    pub(super) waker: Option<Waker>,
}

impl Receiving {
    /// A message of a connection whose streams hold `total`.
    fn new(total: &Total) -> Self {
        Self { held: Held::new(total), ..Self::default() }
    }

    /// Nothing more comes, because of `error`. What came before it can still be read.
    pub(super) fn fail(&mut self, error: &Error, wakers: &mut Vec<Waker>) {
        if !self.is_over {
            self.error = Some(error.clone());
            self.end(wakers);
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, wakers: &mut Vec<Waker>) {
        self.is_over = true;
        self.is_readable = false;
        self.stop = None;
        wakers.extend(self.waker.take());
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.held.has_room()
    }

    /// Whether a task waits for more of an incomplete message.
    pub(super) fn is_awaited(&self) -> bool {
        self.waker.is_some() && self.chunks.is_empty() && !self.is_over
    }

    /// Takes what came.
    pub(super) fn push(&mut self, chunk: Bytes) {
        let counted = chunk.len().saturating_add(CHUNK_OVERHEAD);
        self.held.set(self.held.bytes().saturating_add(counted));
        self.chunks.push_back(chunk);
    }

    /// Gives up what is not read yet. Whether the shard has to do anything for that.
    pub(super) fn cancel(&mut self, code: Code) -> bool {
        self.chunks = VecDeque::new();
        self.held.set(0);
        self.trailers = None;
        if self.is_over {
            return false;
        }
        self.stop = Some(code);
        true
    }

    /// Moves everything that came into the empty `chunks`. `Ready(Ok(true))` if the shard has
    /// something to move up, `Ready(Ok(false))` if not.
    pub(super) fn poll_take(
        &mut self,
        context: &Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<Result<bool, Error>> {
        if !self.chunks.is_empty() {
            core::mem::swap(&mut self.chunks, chunks);
            self.held.set(0);
            return Poll::Ready(Ok(self.is_readable));
        }
        match &self.error {
            Some(error) => Poll::Ready(Err(error.clone())),
            None if self.is_over => Poll::Ready(Ok(false)),
            None => {
                set_waker(&mut self.waker, context);
                Poll::Pending
            }
        }
    }
}

/// Notes that the task of `context` waits.
pub(super) fn set_waker(place: &mut Option<Waker>, context: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(context.waker()),
        None => *place = Some(context.waker().clone()),
    }
}

#[cfg(test)]
mod tests;
