//! A server's connections, and the requests on them that no task has accepted yet.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use clearway_units::Random;
use http::Request;
use slab::Slab;

use super::answering::Answer;
use super::exchanges::{Head, Shared};
use super::listener::{Listener, ResponseFailure};
use super::recv_body::ReceiveEnd;
use super::{ConnectionHandle, RecvBody, Responder, SendBody, Timeouts};

/// Maximum number of ended connections with requests that wait to be accepted; the requests of
/// additional ended connections are discarded.
const MAX_ENDED: usize = 1024;

/// Fraction by which the maximum age of a connection varies, so that the clients of a server do not
/// reconnect at the same time.
const JITTER: f64 = 0.1;

/// The connections of one server.
pub(super) struct Accepting {
    connections: Mutex<Connections>,
    /// The number of shards that still accept clients.
    shards: AtomicUsize,
    /// Responds to requests on the shard's thread, if enabled.
    answer: RwLock<Option<Arc<dyn Answer>>>,
    /// Hook that receives response failures.
    on_error: OnceLock<ErrorHook>,
    /// See [`Server::discard_limit`](super::Server::discard_limit).
    discard_limit: AtomicU64,
    /// See [`Server::with_timeouts`](super::Server::with_timeouts).
    timeouts: OnceLock<Timeouts>,
    /// See [`Server::max_connection_age`](super::Server::max_connection_age).
    max_age: OnceLock<Duration>,
}

/// See [`Server::on_error`](super::Server::on_error).
pub(super) type ErrorHook = Box<dyn Fn(&ResponseFailure) + Send + Sync>;

/// Default of [`Server::discard_limit`](super::Server::discard_limit).
const DISCARD_LIMIT: u64 = 8 << 20;

impl Default for Accepting {
    fn default() -> Self {
        Self {
            connections: Mutex::default(),
            shards: AtomicUsize::new(0),
            answer: RwLock::default(),
            on_error: OnceLock::new(),
            discard_limit: AtomicU64::new(DISCARD_LIMIT),
            timeouts: OnceLock::new(),
            max_age: OnceLock::new(),
        }
    }
}

#[derive(Default)]
struct Connections {
    all: Slab<Arc<Shared>>,
    /// The connections with waiting requests. Each is listed once, so that connections take turns.
    ready: VecDeque<Arc<Shared>>,
    /// Number of ended connections with waiting requests.
    ended: usize,
    is_closing: bool,
    wakers: Vec<Waker>,
}

impl Connections {
    fn watch(&mut self, context: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            self.wakers.push(context.waker().clone());
        }
    }
}

impl Connections {
    /// Records that a connection is gone. Requests that arrived before its end can still be
    /// accepted, unless too many ended connections have waiting requests.
    fn record_ended(&mut self, shared: &Shared) {
        let app = &mut shared.lock().app;
        if app.incoming.is_empty() {
            return;
        }
        if self.ended >= MAX_ENDED {
            return app.forget_incoming();
        }
        self.ended += 1;
        app.is_ended = true;
    }
}

impl Accepting {
    /// Takes the lock. No code that can panic runs while it is held.
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that another shard accepts clients.
    pub(super) fn add_shard(&self) {
        self.shards.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that a shard has stopped accepting clients. After the last one, the server is
    /// closing.
    pub(super) fn remove_shard(&self) {
        if self.shards.fetch_sub(1, Ordering::SeqCst) == 1 {
            let wakers = {
                let mut connections = self.lock();
                connections.is_closing = true;
                core::mem::take(&mut connections.wakers)
            };
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Returns whether new clients are refused.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Adds a connection. `random` varies its maximum age.
    pub(super) fn register(
        self: &Arc<Self>,
        shared: Arc<Shared>,
        random: &mut Random,
    ) -> Box<dyn Listener> {
        let max_age = self.max_age.get().map(|age| vary(*age, random));
        let mut connections = self.lock();
        {
            let app = &mut shared.lock().app;
            app.is_finishing |= connections.is_closing;
            app.discard_limit = self.discard_limit.load(Ordering::Relaxed);
            // Set here rather than after the handshake, since a request in early data may change
            // it.
            app.max_age = max_age;
        }
        let key = connections.all.insert(shared);
        Box::new(Registration { accepting: self.clone(), key })
    }

    /// Returns handles to the connections that are established.
    pub(super) fn connections(&self) -> Vec<ConnectionHandle> {
        let peer = |shared: Arc<Shared>| shared.lock().peer(&shared);
        self.all().into_iter().filter_map(peer).filter_map(|peer| peer.connection()).collect()
    }

    fn all(&self) -> Vec<Arc<Shared>> {
        self.lock().all.iter().map(|(_, shared)| shared.clone()).collect()
    }

    /// Responds to requests with `answer` from now on, on the threads of their shards.
    pub(super) fn answer_with(&self, answer: Arc<dyn Answer>) {
        self.replace_answer(|current| current.replace(answer));
    }

    /// Responds to requests with `answer`, like [`answer_with`](Self::answer_with), until the guard
    /// is dropped. Later requests are then queued for [`poll_accept`](Self::poll_accept).
    pub(super) fn answer_while(&self, answer: Arc<dyn Answer>) -> impl Drop + Send {
        self.answer_with(answer.clone());
        Answers { accepting: self, answer }
    }

    fn answer(&self) -> Option<Arc<dyn Answer>> {
        self.answer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes `answer`. The previous one is dropped without the lock, since it runs code of the
    /// program.
    fn replace_answer(
        &self,
        change: impl FnOnce(&mut Option<Arc<dyn Answer>>) -> Option<Arc<dyn Answer>>,
    ) {
        let previous = change(&mut self.answer.write().unwrap_or_else(PoisonError::into_inner));
        drop(previous);
    }

    /// Reports response failures to `hook` from now on.
    pub(super) fn report_to(&self, hook: ErrorHook) {
        // Only the first hook is used.
        let _ = self.on_error.set(hook);
    }

    pub(super) fn set_discard_limit(&self, bytes: u64) {
        self.discard_limit.store(bytes, Ordering::Relaxed);
    }

    /// Enables timeouts: from now on, abandons streams on which clients make no progress.
    pub(super) fn set_timeouts(&self, timeouts: Timeouts) {
        // Only the first timeouts are used.
        let _ = self.timeouts.set(timeouts);
    }

    /// Limits the age of new connections.
    pub(super) fn set_max_age(&self, age: Duration) {
        // Only the first limit is used.
        let _ = self.max_age.set(age);
    }

    /// Starts the task that responds to a request, if `answer_with` was called; otherwise the
    /// request is reset.
    pub(super) fn spawn(&self, request: Request<RecvBody>, responder: Responder) {
        if let Some(answer) = self.answer() {
            answer.spawn(request, responder);
        }
    }

    /// Returns the next request of any connection; `None` once the server is closing and its last
    /// connection is gone.
    pub(super) fn poll_accept(
        &self,
        context: &Context<'_>,
    ) -> Poll<Option<(Request<RecvBody>, Responder)>> {
        loop {
            let shared = {
                let mut connections = self.lock();
                match connections.ready.pop_front() {
                    Some(shared) => shared,
                    None if connections.is_closing && connections.all.is_empty() => {
                        return Poll::Ready(None);
                    }
                    None => {
                        connections.watch(context);
                        return Poll::Pending;
                    }
                }
            };
            let Taken { request, has_more, has_ended } = take_request(&shared);
            if has_more {
                self.announce(shared);
            }
            if has_ended {
                self.lock().ended -= 1;
            }
            if request.is_some() {
                return Poll::Ready(request);
            }
        }
    }

    fn announce(&self, shared: Arc<Shared>) {
        let wakers = {
            let mut connections = self.lock();
            connections.ready.push_back(shared);
            core::mem::take(&mut connections.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Makes every connection complete the exchanges in progress and close. If `reject` is set,
    /// requests that no task has accepted are rejected.
    pub(super) fn close(&self, reject: bool) {
        let wakers = {
            let mut connections = self.lock();
            connections.is_closing = true;
            core::mem::take(&mut connections.wakers)
        };
        for shared in self.all() {
            shared.act(|state, effects| {
                state.app.is_finishing = true;
                state.app.is_rejecting |= reject;
                effects.wake_shard();
            });
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until new clients are refused.
    pub(super) fn poll_closing(&self, context: &Context<'_>) -> Poll<()> {
        let mut connections = self.lock();
        if connections.is_closing {
            return Poll::Ready(());
        }
        connections.watch(context);
        Poll::Pending
    }

    /// Waits until the last connection is gone.
    pub(super) fn poll_idle(&self, context: &Context<'_>) -> Poll<()> {
        let mut connections = self.lock();
        if connections.all.is_empty() {
            return Poll::Ready(());
        }
        connections.watch(context);
        Poll::Pending
    }
}

/// Has requests answered until it is dropped.
struct Answers<'a> {
    accepting: &'a Accepting,
    answer: Arc<dyn Answer>,
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        // Another call may have replaced it.
        let is_own = |current: &mut Arc<dyn Answer>| Arc::ptr_eq(current, &self.answer);
        self.accepting.replace_answer(|current| current.take_if(is_own));
    }
}

/// Varies the maximum age of a connection by [`JITTER`].
fn vary(age: Duration, random: &mut Random) -> Duration {
    let factor = 1.0 + JITTER * (2.0 * random.fraction() - 1.0);
    Duration::try_from_secs_f64(age.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// The result of taking a request that no task has accepted.
struct Taken {
    /// The oldest request.
    request: Option<(Request<RecvBody>, Responder)>,
    has_more: bool,
    /// Set if the connection is gone and this was its last request.
    has_ended: bool,
}

/// Removes and returns a connection's oldest request that no task has accepted.
fn take_request(shared: &Arc<Shared>) -> Taken {
    let mut taken = take_head(shared);
    if let Some((request, responder)) = &mut taken.request
        && let Some(peer) = responder.peer()
    {
        // Allocates memory, so it is done without the lock.
        request.extensions_mut().insert(peer.clone());
    }
    taken
}

/// Like [`take_request`], without the extensions.
fn take_head(shared: &Arc<Shared>) -> Taken {
    let state = &mut *shared.lock();
    let peer = state.peer(shared);
    let app = &mut state.app;
    let key = app.incoming.pop_front();
    let has_more = !app.incoming.is_empty();
    app.is_announced = has_more;
    let has_ended = !has_more && core::mem::take(&mut app.is_ended);
    let exchange = key.and_then(|key| Some((key, app.all.get_mut(key)?)));
    let taken = exchange.and_then(|(key, exchange)| Some((key, exchange.head.take()?, exchange)));
    let Some((key, Head::Request(request), exchange)) = taken else {
        return Taken { request: None, has_more, has_ended };
    };
    exchange.is_queued = false;
    exchange.handles = 2;
    let send = SendBody::of_response(shared.clone(), key);
    let extent = exchange.extent_of_request(&request);
    let responder = Responder::new(send, request.method().clone(), peer);
    let body = RecvBody::new(ReceiveEnd::new(shared.clone(), key, false), extent);
    Taken { request: Some((request.map(|()| body), responder)), has_more, has_ended }
}

/// A connection's entry in its server's list.
struct Registration {
    accepting: Arc<Accepting>,
    key: usize,
}

impl Listener for Registration {
    fn answers_here(&self) -> bool {
        self.accepting.answer().is_some()
    }

    fn timeouts(&self) -> Option<Timeouts> {
        self.accepting.timeouts.get().copied()
    }

    fn on_requests(&mut self, shared: &Arc<Shared>) {
        let Some(answer) = self.accepting.answer() else {
            return self.accepting.announce(shared.clone());
        };
        let mut has_more = true;
        let mut next = || {
            while has_more {
                let taken = take_request(shared);
                has_more = taken.has_more;
                if taken.request.is_some() {
                    return taken.request;
                }
            }
            None
        };
        answer.answer(shared, &mut next);
    }

    fn on_failure(&self, failure: &ResponseFailure) {
        const HOOK: &str = "hook for failed responses panicked";
        if let Some(hook) = self.accepting.on_error.get() {
            clearway_io::guard(HOOK, || hook(failure));
        }
    }

    fn on_gone(&mut self) {
        let wakers = {
            let mut connections = self.accepting.lock();
            if let Some(shared) = connections.all.try_remove(self.key) {
                connections.record_ended(&shared);
            }
            core::mem::take(&mut connections.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
