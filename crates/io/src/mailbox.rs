//! The interface through which other threads communicate with a shard.

mod undecided;

use core::fmt;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clearway_transport::{
    ClientConfig, MigrationError, Observer, PreferredAddresses, ServerConfig, SocketIndex,
};
use clearway_udp::{MAX_BUSY_POLL, Socket};
use clearway_wire::VarInt;

use crate::application::Application;
use crate::census::{Census, Counted};
use crate::failures::{ConnectFailure, MigrateFailure, ShardFailure};
use crate::statistics::{ShardStatistics, SharedStatistics};
use crate::system::Waker;
use crate::system::restart::{HandOver, Replaceable};

pub(crate) use undecided::Answer;
pub use undecided::{Accept, Undecided};

/// Creates a connection's application once the connection exists. Other threads use the waker to
/// request calls of [`Application::process`].
pub type ApplicationFactory = Box<dyn FnOnce(ConnectionWaker) -> Box<dyn Application> + Send>;

/// A request to start a client connection.
pub struct ConnectRequest {
    /// The configuration of the connection.
    pub config: Arc<ClientConfig>,
    /// The address of the server.
    pub remote: SocketAddr,
    /// The server's name, for which its certificate must be valid.
    pub server_name: String,
    /// Creates the connection's application.
    pub application: ApplicationFactory,
    /// Observer of the connection.
    pub observer: Option<Box<dyn Observer>>,
    /// Called, in the shard, if the connection cannot be started.
    pub on_failure: Box<dyn FnOnce(ConnectFailure) + Send>,
}

/// Called when a migration begins or cannot begin; see [`ConnectionWaker::migrate`].
pub type MigrationStarted = Box<dyn FnOnce(Result<Migration, MigrateFailure>) + Send>;

/// A migration that has begun, with its new path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Migration {
    /// The local address of the new path, with its port. The IP address is unspecified if the
    /// socket is bound to all addresses.
    pub local: SocketAddr,
    /// The socket index of the new path, as used in the connection's events.
    pub socket: SocketIndex,
}

/// A task on a shard's thread. Any thread can pass it to the shard, and it then stays on the
/// shard's thread.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A command to a shard.
pub(crate) enum Command {
    /// Start a connection, which is already included in the connection count.
    Connect(Box<ConnectRequest>, Counted),
    Wake(Arc<WakeTarget>),
    /// Respond to a client whose acceptor has postponed the decision.
    Decide {
        ticket: u64,
        answer: Answer,
    },
    Migrate(Box<MigrateRequest>),
    /// Run a task on the shard's thread.
    Spawn(Task),
    Shutdown {
        error_code: VarInt,
        reason: Vec<u8>,
    },
    /// All handles were dropped.
    Release,
    /// Another shard of the group has ended: take over its sockets, which listen at the same
    /// addresses as this shard's sockets with the same indices.
    Adopt(Vec<(SocketIndex, Socket)>),
    /// Another process receives on the listening sockets from now on.
    HandOver(Box<HandOver>),
    /// This process receives on the listening sockets from now on, for the first time or again.
    Listen,
    /// Replace the connection IDs of all connections, since their configuration has changed.
    #[cfg_attr(not(feature = "quic-lb"), expect(dead_code, reason = "only QUIC-LB replaces IDs"))]
    ReplaceIds,
    /// Use this configuration for clients that connect from now on.
    SetServer(Option<Arc<ServerConfig>>),
    /// End the shard, since the program is about to exit.
    Halt,
}

/// A request to move a client's connection to another local address.
pub(crate) struct MigrateRequest {
    pub(crate) target: Arc<WakeTarget>,
    pub(crate) local: SocketAddr,
    pub(crate) on_start: MigrationStarted,
}

/// The command queue of a shard. Commands wake the shard only if it sleeps.
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    /// Set if the inbox is not empty. Read without the lock, so that a turn without commands does
    /// not take the lock.
    has_commands: AtomicBool,
    /// Set if a task on the shard's thread is ready to run.
    has_ready_tasks: AtomicBool,
    is_sleeping: AtomicBool,
    /// Wakes the shard; set once the shard has started.
    waker: OnceLock<Waker>,
    /// The busy polling limit in nanoseconds; see [`ShardHandle::set_busy_poll`].
    busy_poll: AtomicU64,
    pub(crate) statistics: SharedStatistics,
    /// The shard's failure, if it has failed.
    failure: OnceLock<ShardFailure>,
    /// The connection count of the shard's group.
    pub(crate) census: Arc<Census>,
}

#[derive(Default)]
struct Inbox {
    commands: Vec<Command>,
    is_closed: bool,
}

impl Mailbox {
    /// Creates the mailbox of a single shard.
    pub(crate) fn new() -> Self {
        Self::of_group(Arc::default())
    }

    /// Creates the mailbox of a shard whose connections `census` counts.
    pub(crate) fn of_group(census: Arc<Census>) -> Self {
        Self {
            census,
            inbox: Mutex::default(),
            has_commands: AtomicBool::new(false),
            has_ready_tasks: AtomicBool::new(false),
            is_sleeping: AtomicBool::new(false),
            waker: OnceLock::new(),
            busy_poll: AtomicU64::new(0),
            statistics: SharedStatistics::default(),
            failure: OnceLock::new(),
        }
    }

    /// Sets the waker when the shard starts.
    pub(crate) fn wake_with(&self, waker: Waker) {
        // Each mailbox belongs to one shard, so this is set once.
        let _ = self.waker.set(waker);
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        // No code that panics runs while the lock is held.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command, or returns it if the shard no longer runs.
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        {
            let mut inbox = self.lock();
            if inbox.is_closed {
                return Err(command);
            }
            inbox.commands.push(command);
            self.has_commands.store(true, Ordering::SeqCst);
        }
        self.rouse();
        Ok(())
    }

    /// Records that a task on the shard's thread is ready to run, and wakes the shard.
    pub(crate) fn note_ready_task(&self) {
        self.has_ready_tasks.store(true, Ordering::SeqCst);
        self.rouse();
    }

    /// Returns whether a task on the shard's thread has become ready since the last call.
    pub(crate) fn take_ready_tasks(&self) -> bool {
        self.has_ready_tasks.load(Ordering::SeqCst)
            && self.has_ready_tasks.swap(false, Ordering::SeqCst)
    }

    /// Wakes the shard if it sleeps.
    pub(crate) fn rouse(&self) {
        if self.is_sleeping.swap(false, Ordering::SeqCst)
            && let Some(waker) = self.waker.get()
        {
            waker.wake();
        }
    }

    /// Swaps the queued commands with the empty `commands`.
    pub(crate) fn take(&self, commands: &mut Vec<Command>) {
        if self.has_commands.load(Ordering::SeqCst) {
            let mut inbox = self.lock();
            std::mem::swap(&mut inbox.commands, commands);
            self.has_commands.store(false, Ordering::SeqCst);
        }
    }

    /// Announces that the shard is about to sleep. Returns `false` if it must not sleep, because
    /// there are commands to process or tasks that are ready to run.
    ///
    /// A sender checks the flag after it has queued its command. So either the sender sees the
    /// flag, or this call sees the command.
    pub(crate) fn prepare_to_sleep(&self) -> bool {
        self.is_sleeping.store(true, Ordering::SeqCst);
        let is_busy =
            self.has_commands.load(Ordering::SeqCst) || self.has_ready_tasks.load(Ordering::SeqCst);
        let may_sleep = !is_busy;
        if !may_sleep {
            self.is_sleeping.store(false, Ordering::SeqCst);
        }
        may_sleep
    }

    /// Records that the shard is awake.
    pub(crate) fn awake(&self) {
        self.is_sleeping.store(false, Ordering::SeqCst);
    }

    /// Returns the maximum duration of busy polling before the shard sleeps.
    pub(crate) fn busy_poll(&self) -> Duration {
        Duration::from_nanos(self.busy_poll.load(Ordering::Relaxed))
    }

    /// Records that the shard is ending because of a failure.
    pub(crate) fn fail(&self, failure: ShardFailure) {
        // Keep the first failure, which may have caused the others.
        let _ = self.failure.set(failure);
    }

    /// Returns the shard's failure, if it has failed.
    pub(crate) fn failure(&self) -> Option<&ShardFailure> {
        self.failure.get()
    }

    /// Closes the mailbox when the shard has ended. Returns the remaining commands; later commands
    /// are rejected.
    pub(crate) fn close(&self) -> Vec<Command> {
        let mut inbox = self.lock();
        inbox.is_closed = true;
        std::mem::take(&mut inbox.commands)
    }
}

impl Replaceable for Mailbox {
    fn hand_over(&self, hand_over: HandOver) {
        let _ = self.send(Command::HandOver(Box::new(hand_over)));
    }

    fn listen(&self) {
        let _ = self.send(Command::Listen);
    }
}

/// Handle to a shard for other threads. When the last handle is dropped, the shard accepts no new
/// connections, and ends after its last one.
#[derive(Clone)]
pub struct ShardHandle(Arc<Guard>);

struct Guard {
    mailbox: Arc<Mailbox>,
    local_address: SocketAddr,
    preferred_addresses: PreferredAddresses,
}

impl ShardHandle {
    pub(crate) fn new(
        mailbox: Arc<Mailbox>,
        local_address: SocketAddr,
        preferred_addresses: PreferredAddresses,
    ) -> Self {
        Self(Arc::new(Guard { mailbox, local_address, preferred_addresses }))
    }

    /// Returns the address of the shard's main socket, on which connections begin.
    pub fn local_address(&self) -> SocketAddr {
        self.0.local_address
    }

    /// Returns the preferred addresses that the server advertises, at which the shard listens too
    /// (RFC 9000 §9.6).
    pub fn preferred_addresses(&self) -> PreferredAddresses {
        self.0.preferred_addresses
    }

    /// Starts a connection.
    ///
    /// # Errors
    /// Returns the request if the shard no longer runs. All other failures are passed to the
    /// request's `on_failure`.
    pub fn connect(&self, request: ConnectRequest) -> Result<(), Box<ConnectRequest>> {
        let mailbox = &self.0.mailbox;
        match mailbox.send(Command::Connect(Box::new(request), mailbox.census.count_one())) {
            Err(Command::Connect(request, _)) => Err(request),
            _ => Ok(()),
        }
    }

    pub(crate) fn census(&self) -> &Arc<Census> {
        &self.0.mailbox.census
    }

    /// Runs `task` on the shard's thread; see [`ConnectionWaker::spawn`].
    pub fn spawn_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        // A shard that has ended drops the task.
        let _ = self.0.mailbox.send(Command::Spawn(Box::pin(task)));
    }

    /// Replaces the server configuration for clients that connect from now on; `None` ignores them.
    /// Does nothing if the shard no longer runs. The new configuration must have the preferred
    /// addresses of the former one, where the shard's sockets are.
    pub fn set_server(&self, server: Option<Arc<ServerConfig>>) {
        // A shard that has ended accepts no clients.
        let _ = self.0.mailbox.send(Command::SetServer(server));
    }

    /// Closes all connections with `error_code` and `reason`, and accepts no new ones.
    pub fn shutdown(&self, error_code: VarInt, reason: &[u8]) {
        // A shard that has ended has nothing to close.
        let _ = self.0.mailbox.send(Command::Shutdown { error_code, reason: reason.to_vec() });
    }

    /// Returns whether this is the shard with this mailbox.
    pub(crate) fn has_mailbox(&self, mailbox: &Arc<Mailbox>) -> bool {
        Arc::ptr_eq(&self.0.mailbox, mailbox)
    }

    /// Sets how long the shard busy-polls before it sleeps. The limit is capped at one millisecond.
    /// Busy polling is off by default. A new limit takes effect at the shard's next sleep.
    ///
    /// Sleeping and being woken takes up to a hundred microseconds on a virtual machine, most of it
    /// CPU time. If the peer responds faster, busy polling shortens round trips and uses less CPU
    /// time, but the thread keeps its core busy while polls succeed. After consecutive fruitless
    /// polls, the shard skips polling for the next 1, 3, 7 and so on up to 63 sleeps, so an idle
    /// shard sleeps.
    pub fn set_busy_poll(&self, limit: Duration) {
        // The limit is at most one millisecond, so its nanoseconds fit.
        let nanoseconds = limit.min(MAX_BUSY_POLL).as_nanos() as u64;
        self.0.mailbox.busy_poll.store(nanoseconds, Ordering::Relaxed);
    }

    /// Replaces the connection IDs of all connections that do not have the current configuration.
    #[cfg(feature = "quic-lb")]
    pub(crate) fn replace_ids(&self) {
        // A shard that has ended has no connections.
        let _ = self.0.mailbox.send(Command::ReplaceIds);
    }

    /// Sends any command.
    #[cfg(test)]
    pub(crate) fn send(&self, command: Command) -> Result<(), Command> {
        self.0.mailbox.send(command)
    }

    /// Returns the reason if the shard ended unexpectedly; all of its connections are then gone.
    /// Returns `None` while the shard runs, and after a regular end.
    pub fn failure(&self) -> Option<ShardFailure> {
        self.0.mailbox.failure().cloned()
    }

    /// Returns the shard's statistics.
    pub fn statistics(&self) -> ShardStatistics {
        self.0.mailbox.statistics.read()
    }
}

impl fmt::Debug for ShardHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardHandle")
            .field("local_address", &self.0.local_address)
            .finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.mailbox.send(Command::Release);
    }
}

/// A connection's index in its shard, and whether a call of its application has been requested.
pub(crate) struct WakeTarget {
    pub(crate) index: usize,
    /// Distinguishes this connection from later ones with the same index.
    pub(crate) generation: u64,
    pub(crate) is_woken: AtomicBool,
    /// Set if the connection must be closed because memory is low.
    pub(crate) is_condemned: AtomicBool,
}

impl WakeTarget {
    pub(crate) const fn new(index: usize, generation: u64) -> Self {
        let (is_woken, is_condemned) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { index, generation, is_woken, is_condemned }
    }
}

/// Handle to a connection, usable from any thread: requests calls of its
/// [`Application::process`](crate::Application::process), runs tasks on its shard's thread, and
/// migrates the connection to another local address.
#[derive(Clone)]
pub struct ConnectionWaker {
    mailbox: Arc<Mailbox>,
    target: Arc<WakeTarget>,
}

impl ConnectionWaker {
    pub(crate) fn new(mailbox: Arc<Mailbox>, target: Arc<WakeTarget>) -> Self {
        Self { mailbox, target }
    }

    /// Requests a call of the application. That call sees everything done before this request;
    /// several requests before the call are merged into one. A no-op if the connection has ended.
    pub fn wake(&self) {
        if !self.target.is_woken.swap(true, Ordering::SeqCst) {
            // A shard that has ended has already notified its applications.
            let _ = self.mailbox.send(Command::Wake(self.target.clone()));
        }
    }

    /// Returns a number that identifies this connection among all existing connections.
    pub(crate) fn place(&self) -> usize {
        Arc::as_ptr(&self.target).addr()
    }

    /// Marks the connection to be closed when it is next woken, because memory is low.
    pub(crate) fn condemn(&self) {
        self.target.is_condemned.store(true, Ordering::SeqCst);
    }

    /// Returns whether the connection must be closed.
    pub(crate) fn is_condemned(&self) -> bool {
        self.target.is_condemned.load(Ordering::SeqCst)
    }

    /// Returns the failure of the connection's shard, if the shard ended unexpectedly. The failure
    /// is set before the connection's application is dropped.
    pub fn shard_failure(&self) -> Option<ShardFailure> {
        self.mailbox.failure().cloned()
    }

    /// Runs `task` on the shard's thread, between the batches of its connections. The task can use
    /// the connections without a thread switch, and the resulting data is sent with the datagrams
    /// of the same turn. The task must not block; while it computes, the shard's connections wait.
    /// The task ends with the shard at the latest. If it panics, only the task ends. A no-op if the
    /// shard has ended.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // A shard that has ended drops the task.
        let _ = self.mailbox.send(Command::Spawn(Box::pin(task)));
    }

    /// Migrates a client's connection to the local address `local` (RFC 9000 §9.2). Port 0 means
    /// any free port, and 0.0.0.0 or :: means the IP address of the route to the server. If another
    /// connection of the shard has migrated to the same address and port, both use one socket. The
    /// shard's own address selects its original socket again. A socket is closed when no connection
    /// uses it any more.
    ///
    /// `on_start` is called once, in the shard unless the shard has ended. It gets the new local
    /// address when validation of the new path begins, which is after the handshake is confirmed,
    /// or the reason why validation does not begin. The connection stays on its current path until
    /// the new one is validated. Then the application receives
    /// [`Event::Migrated`](clearway_transport::Event::Migrated), or
    /// [`Event::MigrationFailed`](clearway_transport::Event::MigrationFailed).
    pub fn migrate(&self, local: SocketAddr, on_start: MigrationStarted) {
        let target = self.target.clone();
        let request = Box::new(MigrateRequest { target, local, on_start });
        if let Err(Command::Migrate(request)) = self.mailbox.send(Command::Migrate(request)) {
            (request.on_start)(Err(MigrateFailure::Refused(MigrationError::Closed)));
        }
    }
}

impl fmt::Debug for ConnectionWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionWaker").field("index", &self.target.index).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_task_for_a_shard_that_has_ended_is_dropped() {
        let mailbox = Arc::new(Mailbox::new());
        assert!(mailbox.close().is_empty());
        let target = WakeTarget::new(0, 0);
        let (sender, receiver) = mpsc::channel::<()>();
        ConnectionWaker::new(mailbox, Arc::new(target)).spawn(async move {
            let _sender = sender;
            core::future::pending().await
        });
        assert_eq!(receiver.recv(), Err(mpsc::RecvError));
    }

    #[test]
    fn a_shard_does_not_sleep_while_a_task_can_continue() {
        let mailbox = Mailbox::new();
        assert!(mailbox.prepare_to_sleep());
        mailbox.note_ready_task();
        assert!(!mailbox.prepare_to_sleep());
        assert!(mailbox.take_ready_tasks());
        assert!(mailbox.prepare_to_sleep());
    }
}
