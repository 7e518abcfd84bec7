//! The connections of a server, and those of them with requests that no task has accepted yet.

use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::{Method, Request};
use slab::Slab;

use super::answering::Answer;
use super::driver::Listener;
use super::exchanges::{Head, Shared};
use super::recv_body::ReceiveEnd;
use super::{RecvBody, Responder, SendBody, Timeouts};

/// The connections of one server.
#[derive(Default)]
pub(super) struct Accepting {
    connections: Mutex<Connections>,
    /// How requests are answered on the shard's thread, if they are.
    answer: OnceLock<Box<dyn Answer>>,
}

#[derive(Default)]
struct Connections {
    all: Slab<Arc<Shared>>,
    /// The connections with waiting requests, each once, so that they take turns.
    ready: VecDeque<Arc<Shared>>,
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

impl Accepting {
    /// Takes the lock. Nothing that panics runs while it is held.
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether new clients are refused.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().is_closing
    }

    /// Adds a connection.
    pub(super) fn register(self: &Arc<Self>, shared: Arc<Shared>) -> Box<dyn Listener> {
        let mut connections = self.lock();
        if connections.is_closing {
            shared.lock().face.is_finishing = true;
        }
        let key = connections.all.insert(shared);
        Box::new(Registration { accepting: self.clone(), key })
    }

    /// From now on, requests are answered by `answer` on the thread of their shard.
    pub(super) fn answer_with(&self, answer: Box<dyn Answer>) {
        // A server is served in one way: the first one.
        let _ = self.answer.set(answer);
    }

    /// Starts the task that answers a request, if there is one way to do so; else the request is reset.
    pub(super) fn spawn(&self, request: Request<RecvBody>, responder: Responder) {
        if let Some(answer) = self.answer.get() {
            answer.spawn(request, responder);
        }
    }

    /// The next request of any connection; `None` once the server is closing and its last connection
    /// is gone.
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
            let (request, has_more) = take_request(&shared);
            if has_more {
                self.announce(shared);
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

    /// Tells every connection to complete the exchanges in progress and close. With `reject`, requests that no task has
    /// accepted are rejected.
    pub(super) fn close(&self, reject: bool) {
        let (all, wakers) = {
            let mut connections = self.lock();
            connections.is_closing = true;
            let all: Vec<_> = connections.all.iter().map(|(_, shared)| shared.clone()).collect();
            (all, core::mem::take(&mut connections.wakers))
        };
        for shared in all {
            shared.act(|state, effects| {
                state.face.is_finishing = true;
                state.face.is_rejecting |= reject;
                effects.wake_shard();
            });
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells every connection to look for streams without progress.
    pub(super) fn look(&self, timeouts: Timeouts) {
        let all: Vec<_> = self.lock().all.iter().map(|(_, shared)| shared.clone()).collect();
        for shared in all {
            shared.act(|state, effects| {
                state.face.wants_look = Some(timeouts);
                effects.wake_shard();
            });
        }
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

/// The oldest request of a connection that no task has accepted, and whether there are more.
fn take_request(shared: &Arc<Shared>) -> (Option<(Request<RecvBody>, Responder)>, bool) {
    let state = &mut *shared.lock();
    let remote_address = state.remote_address;
    let established = state.established.clone();
    let face = &mut state.face;
    let key = face.incoming.pop_front();
    let has_more = !face.incoming.is_empty();
    face.is_announced = has_more;
    let Some(key) = key else { return (None, has_more) };
    let Some(exchange) = face.all.get_mut(key) else { return (None, has_more) };
    let Some(Head::Request(request)) = exchange.head.take() else {
        return (None, has_more);
    };
    exchange.is_queued = false;
    exchange.handles = 2;
    let send = SendBody::new(shared.clone(), key, request.method() == Method::HEAD);
    let responder = Responder::new(send, request.method().clone(), remote_address, established);
    let body = RecvBody::new(ReceiveEnd::new(shared.clone(), key, false));
    (Some((request.map(|()| body), responder)), has_more)
}

/// A connection's entry in the list of its server.
struct Registration {
    accepting: Arc<Accepting>,
    key: usize,
}

impl Listener for Registration {
    fn answers_here(&self) -> bool {
        self.accepting.answer.get().is_some()
    }

    fn on_requests(&mut self, shared: &Arc<Shared>) {
        let Some(answer) = self.accepting.answer.get() else {
            return self.accepting.announce(shared.clone());
        };
        let mut has_more = true;
        let mut next = || {
            while has_more {
                let (request, more) = take_request(shared);
                has_more = more;
                if request.is_some() {
                    return request;
                }
            }
            None
        };
        answer.answer(shared, &mut next);
    }

    fn on_gone(&mut self) {
        let wakers = {
            let mut connections = self.accepting.lock();
            connections.all.try_remove(self.key);
            core::mem::take(&mut connections.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}
