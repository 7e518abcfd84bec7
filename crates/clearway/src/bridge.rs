//! The state shared between the tasks of an application, on any thread, and the shard that owns their connection. It is
//! behind one lock, which the shard takes once per batch and a task once per call. The lock is held only to move
//! pointers, and never while a task is woken (law 12).
//!
//! Raw streams and HTTP/3 both build on it: a [`Face`] defines what their tasks and the shard share in addition to the
//! state of the connection as a whole.

mod effects;
mod held;
mod paths;
mod receive_buffer;
mod send_buffer;

use core::future::Future;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use clearway_io::ConnectionWaker;
use clearway_transport::{Connection, ConnectionError, EarlyData, Statistics, TransportError};
use clearway_wire::VarInt;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::tasks::{self, Runtime};
pub(crate) use effects::{Effects, Replies, Signal, WakerSlot};
pub(crate) use held::Total;
use paths::PathState;
pub(crate) use receive_buffer::ReceiveBuffer;
pub(crate) use send_buffer::{SendBuffer, SendState};

/// What one kind of application (raw streams or HTTP/3) adds to the shared state of a connection.
pub(crate) trait Face: Default + Sized {
    /// Identifies a part that tasks change and the shard then processes: a stream or an exchange.
    type Key: Copy;
    /// Why the connection has ended.
    type Error: Clone;
    /// What is sent to tasks, besides waking them.
    type Replies: Replies;

    /// The flag that marks a part as changed by a task; `None` if there is no such part.
    fn is_changed(&mut self, key: Self::Key) -> Option<&mut bool>;

    /// The connection has ended: wakes all tasks that wait for a part of it, and passes them `error`.
    fn fail(&mut self, error: &Self::Error, effects: &mut Effects<Self>);

    /// The connection rests: gives back the memory of parts that are over.
    fn rest(&mut self);
}

/// One connection, as tasks and the shard see it.
pub(crate) struct Shared<F: Face> {
    state: Mutex<State<F>>,
    /// Set when the shard has created the connection.
    waker: OnceLock<ConnectionWaker>,
    /// Made when a task first waits for one of them.
    signals: OnceLock<Box<[Notify; Signal::COUNT]>>,
    /// The runtime of the first task that was started on the shard's thread: its end is noticed as
    /// long as the connection lasts.
    runtime: OnceLock<Runtime>,
    /// How often the lock was taken.
    #[cfg(test)]
    pub(crate) locks: core::sync::atomic::AtomicUsize,
    /// How often a task has woken the shard.
    #[cfg(test)]
    pub(crate) shard_wakes: core::sync::atomic::AtomicUsize,
}

/// The state behind the lock.
pub(crate) struct State<F: Face> {
    /// Set when the handshake is complete.
    pub(crate) established: Option<Arc<Established>>,
    /// What became of early data; `None` until the shard has created the connection.
    pub(crate) early_data: Option<EarlyData>,
    /// What is known of the connection while early data can be exchanged, before the handshake is complete.
    early: Option<Arc<Established>>,
    /// Why the connection could not be established, or why it has ended.
    pub(crate) error: Option<F::Error>,
    /// The shard has discarded the connection.
    pub(crate) is_gone: bool,
    /// The shard is about to process the connection again: tasks need not wake it for that.
    pub(crate) is_attended: bool,
    pub(crate) remote_address: Option<SocketAddr>,
    /// The newest that the shard has reported. There are some once the connection is established.
    pub(crate) statistics: Option<Box<Statistics>>,
    /// A task has closed the connection, with this application error code and reason; the shard has not done it yet.
    pub(crate) close: Option<(VarInt, Bytes)>,
    /// What tasks see of its paths.
    paths: PathState,
    /// The task that waits for the connection to be established.
    connecting: WakerSlot,
    /// Parts that tasks have changed and the shard has to process.
    changed: Vec<F::Key>,
    pub(crate) face: F,
}

/// The results of the handshake.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) application_protocol: Option<Vec<u8>>,
    pub(crate) peer_certificates: Option<Vec<CertificateDer<'static>>>,
    pub(crate) server_name: Option<String>,
    pub(crate) key_exchange_group: Option<&'static str>,
    /// The largest payload of an unreliable datagram when the handshake completed; `None` if the peer accepts none.
    pub(crate) max_datagram_payload: Option<usize>,
    /// Whether the peer accepts RESET_STREAM_AT frames.
    pub(crate) reset_stream_at: bool,
}

impl<F: Face> Shared<F> {
    /// A connection to `remote_address`, if that is known, whose handshake is not complete.
    pub(crate) fn new(remote_address: Option<SocketAddr>) -> Arc<Self> {
        let state = State { remote_address, ..State::default() };
        Arc::new(Self {
            state: Mutex::new(state),
            waker: OnceLock::new(),
            signals: OnceLock::new(),
            runtime: OnceLock::new(),
            #[cfg(test)]
            locks: Default::default(),
            #[cfg(test)]
            shard_wakes: Default::default(),
        })
    }

    /// Takes the lock. For the shard, which carries out the effects itself, and for changes without effects.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<F>> {
        #[cfg(test)]
        self.locks.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        // A panic cannot leave the state inconsistent, so a poisoned lock can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and carries out the effects after releasing the lock.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut State<F>, &mut Effects<F>) -> T) -> T {
        let mut effects = Effects::default();
        let outcome = {
            let mut state = self.lock();
            let outcome = act(&mut state, &mut effects);
            if state.is_attended {
                effects.spare_shard();
            }
            outcome
        };
        effects.carry_out(self);
        outcome
    }

    pub(crate) fn set_waker(&self, waker: ConnectionWaker) {
        // There is one shard, and it creates the connection once.
        let _ = self.waker.set(waker);
    }

    /// Runs `task` on the shard's thread, inside the caller's runtime if there is one.
    pub(crate) fn spawn_here(&self, task: impl Future<Output = ()> + Send + 'static) {
        let runtime = Runtime::current();
        if let Some(runtime) = &runtime {
            self.runtime.get_or_init(|| runtime.clone());
        }
        self.spawn(runtime, task);
    }

    /// Runs `task` on the shard's thread, inside `runtime`. The task is dropped if the shard has ended or has not created
    /// the connection.
    pub(crate) fn spawn(
        &self,
        runtime: Option<Runtime>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        if let Some(waker) = self.waker.get() {
            waker.spawn(tasks::inside(runtime, task));
        }
    }

    /// Returns why the shard drops the application of a connection that has not ended: the application panicked while it
    /// processed the connection, the shard failed, or the shard was shut down.
    pub(crate) fn dropped_because(&self, was_processing: bool) -> ConnectionError {
        let failure = self.waker.get().and_then(ConnectionWaker::shard_failure);
        match failure {
            Some(failure) => ConnectionError::EndpointFailed(failure.to_string().into()),
            None if std::thread::panicking() => {
                ConnectionError::EndpointFailed("the thread panicked".into())
            }
            None if was_processing => {
                ConnectionError::TransportError(TransportError::internal("the application failed"))
            }
            None => ConnectionError::LocallyClosed,
        }
    }

    /// Wakes the shard to process the changes of tasks. Before the shard has created the connection, this is not
    /// necessary: it processes them then. Must not be called with the lock held.
    fn wake_shard(&self) {
        #[cfg(test)]
        self.shard_wakes.fetch_add(1, core::sync::atomic::Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Wakes the tasks that wait for `signal`, after what they wait for was changed with the lock held. A task that does
    /// not wait yet will see the change: it makes the signals before it takes the lock.
    fn notify_waiters(&self, signal: Signal) {
        if let Some(signals) = self.signals.get() {
            signals[signal as usize].notify_waiters();
        }
    }

    /// Waits until `attempt` returns a result; it is called again whenever `signal` is given.
    pub(crate) async fn wait<T>(
        &self,
        signal: Signal,
        mut attempt: impl FnMut(&mut State<F>) -> Option<T>,
    ) -> T {
        self.wait_acting(signal, |state, _| attempt(state)).await
    }

    /// Like [`Self::wait`], where the attempt may have effects.
    pub(crate) async fn wait_acting<T>(
        &self,
        signal: Signal,
        mut attempt: impl FnMut(&mut State<F>, &mut Effects<F>) -> Option<T>,
    ) -> T {
        // If there is a result already, the lock is taken only once.
        if let Some(result) = self.act(&mut attempt) {
            return result;
        }
        loop {
            let signals = self.signals.get_or_init(Box::default);
            let mut notified = pin!(signals[signal as usize].notified());
            // From here on no signal is missed.
            notified.as_mut().enable();
            if let Some(result) = self.act(&mut attempt) {
                return result;
            }
            notified.await;
        }
    }

    /// Waits until the handshake is complete. A connection that was established stays so for its
    /// tasks, whatever ended it later: what was received before can be read.
    pub(crate) fn poll_established(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<Arc<Established>, F::Error>> {
        self.act(|state, effects| match (&state.established, &state.error) {
            (Some(established), _) => Poll::Ready(Ok(established.clone())),
            (None, Some(error)) => Poll::Ready(Err(error.clone())),
            (None, None) => {
                state.connecting.register(context, effects);
                Poll::Pending
            }
        })
    }

    /// Waits until it is known whether early data can be exchanged before the handshake is complete: a client's session
    /// permits it, or a server has accepted it. `None` if not, or if the handshake is complete. As
    /// for [`Self::poll_established`], what ended the connection later does not matter.
    pub(crate) fn poll_early(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Arc<Established>>, F::Error>> {
        self.act(|state, effects| {
            // Also if the handshake is complete by now: whether there is early data does not depend on when a task looks.
            if let Some(early) = &state.early {
                return Poll::Ready(Ok(Some(state.established.as_ref().unwrap_or(early).clone())));
            }
            if state.established.is_some() {
                return Poll::Ready(Ok(None));
            }
            if let Some(error) = &state.error {
                return Poll::Ready(Err(error.clone()));
            }
            match state.early_data {
                // A server learns of early data with the ClientHello, at the latest when the handshake is complete.
                None => {
                    state.connecting.register(context, effects);
                    Poll::Pending
                }
                Some(_) => Poll::Ready(Ok(None)),
            }
        })
    }

    /// Waits until the handshake is complete, and returns whether early data was accepted.
    pub(crate) async fn early_data_accepted(&self) -> bool {
        let wanted = self.wait(Signal::Connection, |state| {
            let is_over = state.established.is_some() || state.error.is_some();
            is_over.then(|| state.early_data == Some(EarlyData::Accepted))
        });
        wanted.await
    }

    /// Closes the connection, unless it has ended already: tasks get `error` at once, and the shard sends CONNECTION_CLOSE.
    pub(crate) fn close(&self, error_code: VarInt, reason: Bytes, error: F::Error) {
        self.act(|state, effects| {
            if state.error.is_none() {
                state.close = Some((error_code, reason));
                state.fail(error, effects);
                effects.wake_shard();
            }
        });
    }

    /// Ends the connection with `error`, unless it was over before.
    pub(crate) fn fail(&self, error: F::Error) {
        self.act(|state, effects| state.fail(error, effects));
    }

    /// The shard has discarded the connection, or could not create it. If no reason is set yet, it is `error`.
    pub(crate) fn on_gone(&self, error: F::Error) {
        self.act(|state, effects| {
            state.fail(error, effects);
            state.is_gone = true;
            effects.signal(Signal::Connection);
        });
    }
}

impl<F: Face> State<F> {
    /// The handshake is complete.
    pub(crate) fn establish(&mut self, connection: &Connection, effects: &mut Effects<F>) {
        let established = Established::new(connection);
        self.established = Some(Arc::new(established));
        self.statistics.get_or_insert_with(|| Box::new(connection.statistics()));
        self.remote_address = Some(connection.remote_address());
        self.connecting.wake(effects);
        effects.signal(Signal::Connection);
    }

    /// The shard has processed the connection: takes note of what became of early data. Returns whether the connection can be
    /// used from now on, before the handshake is complete.
    pub(crate) fn note_early_data(
        &mut self,
        connection: &Connection,
        effects: &mut Effects<F>,
    ) -> bool {
        let now = connection.early_data();
        let is_known = connection.side().is_client() || now != EarlyData::None;
        if self.early_data == Some(now) || !is_known {
            return false;
        }
        self.early_data = Some(now);
        let can_exchange = matches!(now, EarlyData::Offered | EarlyData::Accepted);
        let is_new = can_exchange && self.established.is_none() && self.early.is_none();
        if is_new {
            self.early = Some(Arc::new(Established::new(connection)));
            self.statistics.get_or_insert_with(|| Box::new(connection.statistics()));
            self.remote_address = Some(connection.remote_address());
        }
        self.connecting.wake(effects);
        is_new
    }

    /// Whether application data can be exchanged.
    pub(crate) fn is_usable(&self) -> bool {
        self.established.is_some() || self.early.is_some()
    }

    /// Marks a part as changed, so that the shard processes it.
    pub(crate) fn change(&mut self, key: F::Key) {
        if let Some(is_changed) = self.face.is_changed(key)
            && !core::mem::replace(is_changed, true)
        {
            self.changed.push(key);
        }
    }

    /// Moves the keys of the changed parts into the empty `changed`.
    pub(crate) fn take_changed(&mut self, changed: &mut Vec<F::Key>) {
        core::mem::swap(&mut self.changed, changed);
        for key in changed.iter() {
            self.unmark(*key);
        }
    }

    /// The connection rests: gives back the memory that only a busy connection needs.
    pub(crate) fn rest(&mut self) {
        self.changed.shrink_to_fit();
        self.face.rest();
    }

    fn unmark(&mut self, key: F::Key) {
        if let Some(is_changed) = self.face.is_changed(key) {
            *is_changed = false;
        }
    }

    /// Ends the connection with `error`, and wakes all tasks that wait. Does nothing if it was over before.
    pub(crate) fn fail(&mut self, error: F::Error, effects: &mut Effects<F>) {
        if self.error.is_some() {
            return;
        }
        // The shard cannot do anything for a part any more.
        while let Some(key) = self.changed.pop() {
            self.unmark(key);
        }
        self.face.fail(&error, effects);
        self.fail_migration(effects);
        self.error = Some(error);
        self.connecting.wake(effects);
        effects.signal_all();
    }
}

impl<F: Face> Default for State<F> {
    fn default() -> Self {
        Self {
            established: None,
            early_data: None,
            early: None,
            error: None,
            is_gone: false,
            is_attended: false,
            remote_address: None,
            statistics: None,
            close: None,
            paths: PathState::default(),
            connecting: WakerSlot::default(),
            changed: Vec::new(),
            face: F::default(),
        }
    }
}

impl Established {
    fn new(connection: &Connection) -> Self {
        let session = connection.session();
        Self {
            application_protocol: session.application_protocol().map(<[u8]>::to_vec),
            peer_certificates: session.peer_certificates().map(<[_]>::to_vec),
            server_name: session.server_name().map(str::to_owned),
            key_exchange_group: session.key_exchange_group(),
            max_datagram_payload: connection.max_datagram_payload(),
            reset_stream_at: connection.peer_parameters().is_some_and(|it| it.reset_stream_at),
        }
    }
}

#[cfg(test)]
#[path = "bridge_tests.rs"]
pub(crate) mod tests;
