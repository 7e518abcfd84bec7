//! The state shared between an application's tasks, on any thread, and the shard that owns their
//! connection. It is behind one lock, which the shard takes once per batch and a task once per
//! call. The lock is held only to move pointers, and never while a task is woken (law 12).
//!
//! Raw streams and HTTP/3 both build on it: an [`AppState`] defines the state that their tasks and
//! the shard share in addition to the connection-wide state.

mod effects;
mod held;
mod paths;
mod receive_buffer;
mod requests;
mod send_buffer;
mod watchers;

use core::future::Future;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use clearway_io::ConnectionWaker;
use clearway_transport::{
    Connection, ConnectionError, EarlyData, Side, Statistics, TransportError,
};
use clearway_wire::VarInt;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;

use crate::tasks::{self, Runtime};
pub(crate) use effects::{Effects, Replies, Signal, WakerSlot};
#[cfg(feature = "http3")]
pub(crate) use held::Held;
pub(crate) use held::Total;
use paths::PathState;
pub(crate) use receive_buffer::ReceiveBuffer;
pub(crate) use requests::Requests;
pub(crate) use send_buffer::{SendBuffer, SendState};
pub(crate) use watchers::HANDLE;

/// The part of a connection's shared state that is specific to one kind of application (raw streams
/// or HTTP/3).
pub(crate) trait AppState: Default + Sized {
    /// Key of a stream or exchange that tasks change and the shard then processes.
    type Key: Copy;
    /// The reason why the connection has ended.
    type Error: Clone;
    /// Replies sent to tasks, in addition to waking them.
    type Replies: Replies;

    /// Returns the flag that marks a stream or exchange as changed by a task; `None` if it does not
    /// exist.
    fn is_changed(&mut self, key: Self::Key) -> Option<&mut bool>;

    /// Wakes all tasks that wait for a stream or exchange, and fails their operations with `error`,
    /// since the connection has ended.
    fn fail(&mut self, error: &Self::Error, effects: &mut Effects<Self>);

    /// Frees the memory of finished streams or exchanges, since the connection is idle.
    fn compact(&mut self);
}

/// The state of one connection that tasks and the shard share.
pub(crate) struct Shared<F: AppState> {
    state: Mutex<State<F>>,
    /// Set when the shard has created the connection.
    waker: OnceLock<ConnectionWaker>,
    /// The signals, created when a task first waits for one.
    signals: OnceLock<Box<[Notify; Signal::COUNT]>>,
    /// The runtime of the first task that was started on the shard's thread. Kept so that the
    /// shutdown of that runtime is detected while the connection exists.
    runtime: OnceLock<Runtime>,
    /// Number of times the lock was taken.
    #[cfg(test)]
    pub(crate) locks: core::sync::atomic::AtomicUsize,
    /// Number of times a task has woken the shard.
    #[cfg(test)]
    pub(crate) shard_wakes: core::sync::atomic::AtomicUsize,
}

/// The state behind the lock.
pub(crate) struct State<F: AppState> {
    /// Set when the handshake is complete.
    pub(crate) established: Option<Arc<Established>>,
    /// The outcome of early data; `None` until the shard has created the connection.
    pub(crate) early_data: Option<EarlyData>,
    /// The connection properties that are known before the handshake is complete, while early data
    /// can be exchanged.
    early: Option<Arc<Established>>,
    /// Why the connection could not be established or has ended.
    pub(crate) error: Option<F::Error>,
    /// Set when the shard has discarded the connection.
    pub(crate) is_gone: bool,
    /// Set while the shard is about to process the connection anyway, so that tasks need not wake
    /// it.
    pub(crate) is_attended: bool,
    pub(crate) remote_address: Option<SocketAddr>,
    /// The newest statistics from the shard. Always `Some` once the connection is established.
    pub(crate) statistics: Option<Box<Statistics>>,
    /// The application error code and reason of a close that a task has requested and the shard has
    /// not carried out yet.
    pub(crate) close: Option<(VarInt, Bytes)>,
    /// Path events and migrations, as tasks see them. Most connections have none.
    paths: Option<Box<PathState>>,
    /// The task that waits for the connection to be established.
    connecting: WakerSlot,
    /// Streams or exchanges that tasks have changed and the shard has yet to process.
    changed: Vec<F::Key>,
    pub(crate) app: F,
}

/// The results of the handshake.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) side: Side,
    pub(crate) application_protocol: Option<Vec<u8>>,
    pub(crate) peer_certificates: Option<Vec<CertificateDer<'static>>>,
    pub(crate) server_name: Option<String>,
    pub(crate) key_exchange_group: Option<&'static str>,
    /// The largest datagram payload when the handshake completed; `None` if the peer accepts no
    /// unreliable datagrams.
    pub(crate) max_datagram_payload: Option<usize>,
    /// Whether the peer accepts RESET_STREAM_AT frames.
    pub(crate) reset_stream_at: bool,
}

impl<F: AppState> Shared<F> {
    /// Creates the state of a connection whose handshake is not complete; `remote_address` is the
    /// peer's address, if known.
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

    /// Takes the lock. Only for the shard, which carries out the effects itself, and for changes
    /// without effects.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<F>> {
        #[cfg(test)]
        self.locks.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        // A panic cannot leave the state inconsistent, so a poisoned lock is still usable.
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
        // There is one shard, and it creates the connection only once.
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

    /// Runs `task` on the shard's thread, inside `runtime`. The task is dropped if the shard has
    /// ended or has not created the connection yet.
    pub(crate) fn spawn(
        &self,
        runtime: Option<Runtime>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        if let Some(waker) = self.waker.get() {
            waker.spawn(tasks::inside(runtime, task));
        }
    }

    /// Returns the error with which the shard drops the application of a connection that has not
    /// ended: the application panicked while processing the connection, the shard failed, or the
    /// shard was shut down.
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

    /// Wakes the shard to process the changes made by tasks. Does nothing until the shard has
    /// created the connection, since the shard then processes all changes anyway. Must not be
    /// called with the lock held.
    fn wake_shard(&self) {
        #[cfg(test)]
        self.shard_wakes.fetch_add(1, core::sync::atomic::Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Wakes the tasks that wait for `signal`. The caller must have changed the state that these
    /// tasks check, with the lock held. A task that is not waiting yet sees the change, since it
    /// creates the signals before it takes the lock.
    fn notify_waiters(&self, signal: Signal) {
        if let Some(signals) = self.signals.get() {
            signals[signal as usize].notify_waiters();
        }
    }

    /// Waits until `attempt` returns a result; it is called again on each `signal`.
    pub(crate) async fn wait<T>(
        &self,
        signal: Signal,
        mut attempt: impl FnMut(&mut State<F>) -> Option<T>,
    ) -> T {
        self.wait_acting(signal, |state, _| attempt(state)).await
    }

    /// Like [`Self::wait`], but the attempt may have effects.
    pub(crate) async fn wait_acting<T>(
        &self,
        signal: Signal,
        mut attempt: impl FnMut(&mut State<F>, &mut Effects<F>) -> Option<T>,
    ) -> T {
        // The lock is taken only once if the result is already available.
        if let Some(result) = self.act(&mut attempt) {
            return result;
        }
        loop {
            let signals = self.signals.get_or_init(Box::default);
            let mut notified = pin!(signals[signal as usize].notified());
            // No signal is missed from here on.
            notified.as_mut().enable();
            if let Some(result) = self.act(&mut attempt) {
                return result;
            }
            notified.await;
        }
    }

    /// Waits until the handshake is complete. An established connection counts as established for
    /// its tasks even after it has ended, so that data received earlier can be read.
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

    /// Waits until it is known whether early data can be exchanged before the handshake is
    /// complete: a client's session allows it, or a server has accepted it. Returns `None` if early
    /// data cannot be exchanged, or if the handshake is already complete. As with
    /// [`Self::poll_established`], the result is the same after the connection has ended.
    pub(crate) fn poll_early(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Arc<Established>>, F::Error>> {
        self.act(|state, effects| {
            // This applies even if the handshake is complete by now: the result must not depend on
            // when the task polls.
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
                // A server learns about early data from the ClientHello, at the latest when the
                // handshake completes.
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

    /// Closes the connection unless it has already ended: tasks get `error` immediately, and the
    /// shard sends CONNECTION_CLOSE.
    pub(crate) fn close(&self, error_code: VarInt, reason: Bytes, error: F::Error) {
        self.act(|state, effects| {
            if state.error.is_none() {
                state.close = Some((error_code, reason));
                state.fail(error, effects);
                effects.wake_shard();
            }
        });
    }

    /// Ends the connection with `error` unless it has already ended.
    pub(crate) fn fail(&self, error: F::Error) {
        self.act(|state, effects| state.fail(error, effects));
    }

    /// Records that the shard has discarded the connection or could not create it, with `error` as
    /// the reason unless one is already set.
    pub(crate) fn on_gone(&self, error: F::Error) {
        self.act(|state, effects| {
            state.fail(error, effects);
            state.is_gone = true;
            effects.signal(Signal::Connection);
        });
    }
}

impl<F: AppState> State<F> {
    /// Records that the handshake is complete.
    pub(crate) fn establish(&mut self, connection: &Connection, effects: &mut Effects<F>) {
        let established = Established::new(connection);
        self.established = Some(Arc::new(established));
        self.statistics.get_or_insert_with(|| Box::new(connection.statistics()));
        self.remote_address = Some(connection.remote_address());
        self.connecting.wake(effects);
        effects.signal(Signal::Connection);
    }

    /// Records the outcome of early data after the shard has processed the connection. Returns
    /// whether the connection has just become usable for early data.
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

    /// Returns the results of the handshake, or what is known of them while early data can be
    /// exchanged.
    pub(crate) fn known(&self) -> Option<&Arc<Established>> {
        self.established.as_ref().or(self.early.as_ref())
    }

    /// Returns whether application data can be exchanged.
    pub(crate) fn is_usable(&self) -> bool {
        self.known().is_some()
    }

    /// Marks a stream or exchange as changed, so that the shard processes it.
    pub(crate) fn change(&mut self, key: F::Key) {
        if let Some(is_changed) = self.app.is_changed(key)
            && !core::mem::replace(is_changed, true)
        {
            self.changed.push(key);
        }
    }

    /// Moves the keys of the changed streams or exchanges into the empty `changed`.
    pub(crate) fn take_changed(&mut self, changed: &mut Vec<F::Key>) {
        core::mem::swap(&mut self.changed, changed);
        for key in changed.iter() {
            self.unmark(*key);
        }
    }

    /// Frees the memory that only a busy connection needs, since the connection is idle.
    pub(crate) fn compact(&mut self) {
        self.changed.shrink_to_fit();
        self.app.compact();
    }

    fn unmark(&mut self, key: F::Key) {
        if let Some(is_changed) = self.app.is_changed(key) {
            *is_changed = false;
        }
    }

    /// Ends the connection with `error` and wakes all waiting tasks. Does nothing if it has already
    /// ended.
    pub(crate) fn fail(&mut self, error: F::Error, effects: &mut Effects<F>) {
        if self.error.is_some() {
            return;
        }
        // The shard can no longer process these changes, unless this endpoint is about to close the
        // connection: queued datagrams are sent before that.
        if self.close.is_none() {
            while let Some(key) = self.changed.pop() {
                self.unmark(key);
            }
        }
        self.app.fail(&error, effects);
        self.fail_migration(effects);
        self.error = Some(error);
        self.connecting.wake(effects);
        effects.signal_all();
    }
}

impl<F: AppState> Default for State<F> {
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
            paths: None,
            connecting: WakerSlot::default(),
            changed: Vec::new(),
            app: F::default(),
        }
    }
}

impl Established {
    pub(crate) fn new(connection: &Connection) -> Self {
        let session = connection.session();
        Self {
            side: connection.side(),
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
