//! An endpoint: one UDP port with all of its connections.

mod counters;
mod reconfiguring;

use core::fmt;
use core::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use core::num::NonZeroUsize;
use core::pin::pin;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clearway_io::{
    Accept, Acceptor, ApplicationFactory, ConnectFailure, ConnectRequest, DatagramSocket, Decision,
    GroupOptions, GroupServerSetup, MemoryBudget, ShardFailure, ShardGroup, ShardHandle, Steering,
    halt_shards,
};
#[cfg(feature = "quic-lb")]
use clearway_io::{QuicLb, RotateQuicLbError};
use clearway_transport::{
    EndpointConfig, Incoming, Observer, RandomIds, ResetKey, SharedTokens, Side, TicketKeys,
};
use clearway_wire::VarInt;
use rustls::time_provider::DefaultTimeProvider;
use tokio::sync::Notify;

use crate::config::{ClientConfig, DEFAULT_MAX_CONNECTIONS, ServerConfig, SingleUse};
use crate::connection::Connecting;
use crate::driver::Driver;
use crate::error::{ConfigError, ConnectError, EndpointError};
use crate::observe::Observers;
use crate::reset_key;
use crate::streams::Shared;
use crate::tasks::{self, Runtime};
use reconfiguring::Kept;

/// Maximum number of clients that wait for [`Endpoint::accept`]; additional clients are refused.
const MAX_WAITING: usize = 1024;

/// A UDP socket with its own thread and all connections on it. A server with more than one
/// [shard](ServerConfig::shards) has several sockets and threads at one address. Clones refer to
/// the same endpoint.
///
/// When the last clone is dropped, no more clients are accepted; existing connections continue
/// until they are closed.
#[derive(Clone)]
pub struct Endpoint {
    owner: Arc<Owner>,
    default_client: Option<ClientConfig>,
}

struct Owner {
    group: ShardGroup,
    memory_budget: Option<MemoryBudget>,
    /// Number of connections initiated so far, to distribute them round-robin across shards.
    begun: AtomicUsize,
    shared: Arc<EndpointShared>,
    /// What a server keeps when its configuration is replaced.
    kept: OnceLock<Kept>,
}

impl Owner {
    fn shards(&self) -> &[ShardHandle] {
        self.group.shards()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.stop_accepting();
    }
}

/// The state that the endpoint's handles share with its shards.
struct EndpointShared {
    waiting: Mutex<Waiting>,
    has_waiting: Notify,
    /// The number of shards that still accept clients.
    accepting: AtomicUsize,
    is_idle: Notify,
    /// Set when another process has taken over the address.
    is_replaced: AtomicBool,
    was_replaced: Notify,
    /// The runtime of the first task that was started on the endpoint's thread. Kept so that the
    /// shutdown of that runtime is detected while the endpoint exists.
    runtime: OnceLock<Runtime>,
}

/// Clients that no task has accepted yet.
#[derive(Default)]
struct Waiting {
    queue: VecDeque<Connecting>,
    is_closed: bool,
}

impl EndpointShared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            has_waiting: Notify::new(),
            accepting: AtomicUsize::new(0),
            is_idle: Notify::new(),
            is_replaced: AtomicBool::new(false),
            was_replaced: Notify::new(),
            runtime: OnceLock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code that can panic runs while the lock is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_accepting(&self) {
        let abandoned = {
            let mut waiting = self.lock();
            waiting.is_closed = true;
            std::mem::take(&mut waiting.queue)
        };
        // Dropped after the lock is released, since this closes connections.
        drop(abandoned);
        self.has_waiting.notify_waiters();
    }

    /// Records that no more clients will arrive. Clients that are already waiting can still be
    /// accepted.
    fn end_accepting(&self) {
        self.lock().is_closed = true;
        self.has_waiting.notify_waiters();
    }

    /// Records that another process now gets new clients. Clients that are already waiting can
    /// still be accepted.
    fn replace(&self) {
        self.end_accepting();
        self.is_replaced.store(true, Ordering::SeqCst);
        self.was_replaced.notify_waiters();
    }
}

/// A guard that a shard's acceptor holds; dropped when the shard stops accepting clients for any
/// reason.
struct Accepting(Arc<EndpointShared>);

impl Accepting {
    fn new(shared: &Arc<EndpointShared>) -> Self {
        shared.accepting.fetch_add(1, Ordering::SeqCst);
        Self(shared.clone())
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        if self.0.accepting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.end_accepting();
        }
    }
}

/// Wraps an acceptor to add the observers of the server configuration.
struct ConfiguredAcceptor<A> {
    acceptor: A,
    observers: Observers,
    _accepting: Accepting,
}

impl<A: Acceptor> Acceptor for ConfiguredAcceptor<A> {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        self.acceptor.incoming(incoming)
    }

    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        self.acceptor.observer().or_else(|| self.observers.observer(Side::Server))
    }
}

/// Queues clients for [`Endpoint::accept`].
struct QueueingAcceptor(Arc<EndpointShared>);

impl Acceptor for QueueingAcceptor {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        let remote = incoming.remote_address();
        let shared = Shared::new(Some(remote));
        {
            let mut waiting = self.0.lock();
            if waiting.is_closed || waiting.queue.len() >= MAX_WAITING {
                return Decision::Refuse;
            }
            waiting.queue.push_back(Connecting::new(shared.clone(), remote));
        }
        self.0.has_waiting.notify_waiters();
        Decision::Accept(Accept::new(driver(shared)))
    }
}

/// Takes what only one server can use.
fn take<T>(value: &Option<SingleUse<T>>, what: &'static str) -> Result<Option<T>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    value.take().map(Some).ok_or(ConfigError::InUse(what))
}

fn driver(shared: Arc<Shared>) -> ApplicationFactory {
    // If the connection cannot be created, dropping this wakes the tasks that wait for it with an
    // error.
    let driver = Driver::new(shared.clone());
    Box::new(move |waker| {
        shared.set_waker(waker);
        Box::new(driver)
    })
}

impl Endpoint {
    /// Creates an endpoint at the local address `bind` that initiates connections but accepts none;
    /// port 0 means any free port.
    ///
    /// # Errors
    /// Fails if the socket or the thread cannot be created.
    pub fn client(bind: SocketAddr) -> io::Result<Self> {
        let (max, shared) = (DEFAULT_MAX_CONNECTIONS, EndpointShared::new());
        Self::start(bind, NonZeroUsize::MIN, max, None, GroupOptions::default(), None, shared)
    }

    /// Creates an endpoint that initiates connections through `socket`, for example through a tunnel.
    /// Its connections cannot migrate to another local address.
    ///
    /// # Errors
    /// Fails if the thread cannot be created.
    pub fn client_over(socket: impl DatagramSocket + 'static) -> io::Result<Self> {
        let config = EndpointConfig {
            id_generator: Arc::new(RandomIds),
            reset_key: ResetKey::new(&clearway_io::seed()?),
            max_connections: DEFAULT_MAX_CONNECTIONS,
        };
        clearway_transport::prepare_randomness();
        let group = clearway_io::spawn_group_over(Box::new(socket), config)?;
        Ok(Self::of_group(group, None, EndpointShared::new()))
    }

    /// Creates an endpoint at the local address `bind` that accepts connections, and can also
    /// initiate them.
    ///
    /// # Errors
    /// Fails if the socket or the thread cannot be created, or the configuration is invalid.
    pub fn server(bind: SocketAddr, config: ServerConfig) -> Result<Self, EndpointError> {
        let shared = EndpointShared::new();
        let queueing = shared.clone();
        Self::serve(bind, config, |_| QueueingAcceptor(queueing.clone()), shared)
    }

    /// Creates an endpoint whose connections are served inside their shards.
    ///
    /// `acceptor` is called once per shard, with the shard's index from 0, to create its
    /// [`Acceptor`]. The acceptor decides whether to accept a client, and which
    /// [`Application`](crate::Application) serves it. There is one shard unless the configuration
    /// sets another number. Connections to which the acceptor assigns no observer get one from the
    /// configuration. [`accept`](Self::accept) never returns a connection of this endpoint.
    ///
    /// # Errors
    /// Fails if the socket or the thread cannot be created, or the configuration is invalid.
    pub fn server_with_applications<A: Acceptor + 'static>(
        bind: SocketAddr,
        config: ServerConfig,
        acceptor: impl FnMut(usize) -> A,
    ) -> Result<Self, EndpointError> {
        Self::serve(bind, config, acceptor, EndpointShared::new())
    }

    fn serve<A: Acceptor + 'static>(
        bind: SocketAddr,
        mut config: ServerConfig,
        mut acceptor: impl FnMut(usize) -> A,
        shared: Arc<EndpointShared>,
    ) -> Result<Self, EndpointError> {
        let observers = config.observers.clone();
        let mut admission = core::mem::take(&mut config.admission);
        admission.retry_above = admission.retry_above.div_ceil(config.shards.get());
        let (shards, max_connections) = (config.shards, config.max_connections);
        let mut configured = |shard| -> Box<dyn Acceptor> {
            Box::new(ConfiguredAcceptor {
                acceptor: acceptor(shard),
                observers: observers.clone(),
                _accepting: Accepting::new(&shared),
            })
        };
        let sockets = take(&config.sockets, "listening sockets")?.unwrap_or_default();
        let memory_budget = config.memory_budget.take();
        let mut options = GroupOptions::default();
        #[cfg(feature = "quic-lb")]
        {
            options.quic_lb = config.quic_lb.take();
        }
        // The reset key is derived before hot restart adds ticket keys, which do not survive a
        // crash.
        let bound = sockets.first().and_then(|socket| socket.local_addr().ok()).unwrap_or(bind);
        let derived = |keys| reset_key::from_ticket_keys(keys, bound);
        let reset_key = config.secrets.reset_key.clone();
        let reset_key = reset_key.or_else(|| config.ticket_keys.clone().and_then(derived));
        let mut hot_restart = take(&config.hot_restart, "sockets to restart with")?;
        if let Some(hot_restart) = &mut hot_restart {
            config.default_ticket_keys(&hot_restart.ticket_secret());
            let shared = shared.clone();
            hot_restart.on_replaced(move || shared.replace());
        }
        let ticket_keys = config.ticket_keys.clone();
        let mut config = config.build()?;
        if shards > NonZeroUsize::MIN && config.shared_tokens.is_none() {
            let keys = TicketKeys::new(&clearway_io::seed()?);
            config.shared_tokens =
                Some(SharedTokens { keys, clock: Arc::new(DefaultTimeProvider) });
        }
        let kept = Kept { ticket_keys, shared_tokens: config.shared_tokens.clone() };
        let setup =
            GroupServerSetup { config: Arc::new(config), acceptor: &mut configured, admission };
        options.sockets = sockets;
        options.hot_restart = hot_restart;
        options.memory_budget = memory_budget.or_else(MemoryBudget::of_process);
        let (max, shared) = (max_connections.div_ceil(shards.get()), shared.clone());
        let endpoint = Self::start(bind, shards, max, Some(setup), options, reset_key, shared)?;
        endpoint.owner.kept.get_or_init(|| kept);
        Ok(endpoint)
    }

    fn start(
        bind: SocketAddr,
        shards: NonZeroUsize,
        max_connections: usize,
        server: Option<GroupServerSetup<'_>>,
        options: GroupOptions,
        reset_key: Option<ResetKey>,
        shared: Arc<EndpointShared>,
    ) -> io::Result<Self> {
        let reset_key = match (reset_key, &options.hot_restart) {
            (Some(reset_key), _) => reset_key,
            (None, Some(hot_restart)) => ResetKey::new(&hot_restart.reset_key()),
            (None, None) => ResetKey::new(&clearway_io::seed()?),
        };
        let config =
            EndpointConfig { id_generator: Arc::new(RandomIds), reset_key, max_connections };
        // Done before the endpoint listens; otherwise the first handshake would have to wait for
        // this.
        clearway_transport::prepare_randomness();
        let memory_budget = options.memory_budget.clone();
        let group = clearway_io::spawn_group_with(bind, shards, config, server, options)?;
        Ok(Self::of_group(group, memory_budget, shared))
    }

    fn of_group(
        group: ShardGroup,
        memory_budget: Option<MemoryBudget>,
        shared: Arc<EndpointShared>,
    ) -> Self {
        let idle = Arc::downgrade(&shared);
        group.on_idle(move || {
            if let Some(shared) = idle.upgrade() {
                shared.is_idle.notify_waiters();
            }
        });
        let (begun, kept) = (AtomicUsize::new(0), OnceLock::new());
        let owner = Owner { group, memory_budget, begun, shared, kept };
        Self { owner: Arc::new(owner), default_client: None }
    }

    /// Sets the configuration for connections that this clone of the endpoint, and clones made from
    /// it later, create with [`connect`](Self::connect).
    pub fn set_default_client_config(&mut self, config: ClientConfig) {
        self.default_client = Some(config);
    }

    /// Returns the memory budget of the endpoint's connections; `None` for an endpoint that accepts
    /// none, or if the memory limit of the process is unknown.
    pub fn memory_budget(&self) -> Option<&MemoryBudget> {
        self.owner.memory_budget.as_ref()
    }

    /// Returns the local address from which connections are initiated.
    pub fn local_address(&self) -> SocketAddr {
        self.owner.shards()[0].local_address()
    }

    /// Returns the preferred address for clients that connect over IPv4, including its port.
    pub fn preferred_address_v4(&self) -> Option<SocketAddrV4> {
        self.owner.shards()[0].preferred_addresses().v4
    }

    /// Returns the preferred address for clients that connect over IPv6, including its port.
    pub fn preferred_address_v6(&self) -> Option<SocketAddrV6> {
        self.owner.shards()[0].preferred_addresses().v6
    }

    /// Connects to the server at `remote` with the default client configuration. The server's
    /// certificate must be valid for `server_name`.
    ///
    /// # Errors
    /// Fails if there is no default configuration or it is invalid. All other errors are returned
    /// by the future.
    pub fn connect(
        &self,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConfigError> {
        let config = self.default_client.as_ref().ok_or(ConfigError::NoClientConfig)?;
        self.connect_with(config, remote, server_name)
    }

    /// Connects to the server at `remote`, whose certificate must be valid for `server_name`.
    ///
    /// # Errors
    /// Fails if the configuration is invalid. All other errors are returned by the future.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConfigError> {
        let shared = Shared::new(Some(remote));
        let failing = shared.clone();
        let on_failure = Box::new(move |failure| failing.fail(ConnectError::NotStarted(failure)));
        self.connect_application(config, remote, server_name, driver(shared.clone()), on_failure)?;
        Ok(Connecting::new(shared, remote))
    }

    /// Connects to the server at `remote`, and serves the connection inside the shard.
    ///
    /// The server's certificate must be valid for `server_name`. `application` creates the
    /// [`Application`](crate::Application) that serves the connection. If the connection cannot be
    /// started, `on_failure` is called instead.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn connect_application(
        &self,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
        application: ApplicationFactory,
        on_failure: Box<dyn FnOnce(ConnectFailure) + Send>,
    ) -> Result<(), ConfigError> {
        let request = ConnectRequest {
            config: Arc::new(config.build()?),
            remote,
            server_name: server_name.to_owned(),
            application,
            observer: config.observers.observer(Side::Client),
            on_failure,
        };
        let shards = self.owner.shards();
        let first = self.owner.begun.fetch_add(1, Ordering::Relaxed) % shards.len();
        let (before, from) = shards.split_at(first);
        let mut left = request;
        for shard in from.iter().chain(before) {
            match shard.connect(left) {
                Ok(()) => return Ok(()),
                Err(request) => left = *request,
            }
        }
        let failure = self.failure();
        let failure = failure.map_or(ConnectFailure::ShuttingDown, ConnectFailure::ShardFailed);
        (left.on_failure)(failure);
        Ok(())
    }

    /// Returns the reason why a thread of this endpoint has ended unexpectedly, if one has.
    ///
    /// The failure is also logged as a `tracing` event of level ERROR and counted in
    /// [`ShardStatistics::shards_failed`](crate::ShardStatistics::shards_failed). The thread's
    /// connections have ended with
    /// [`ConnectionError::EndpointFailed`](crate::ConnectionError::EndpointFailed). Remaining
    /// threads continue to serve new clients. If no thread remains, [`accept`](Self::accept)
    /// returns `None`, and the address can be bound again.
    ///
    /// Panics in your own callbacks do not cause such a failure: see [the list](crate#panics).
    pub fn failure(&self) -> Option<ShardFailure> {
        self.owner.shards().iter().find_map(ShardHandle::failure)
    }

    /// Runs `task` on the thread of the endpoint's first shard, and in the caller's tokio runtime,
    /// if there is one; see [`Connection::spawn`](crate::Connection::spawn).
    ///
    /// With a single shard, as in client endpoints, a task that connects with early data and then
    /// makes requests sends them in the first flight, no matter how busy the machine is.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(shard) = self.owner.shards().first() {
            let runtime = Runtime::current();
            if let Some(runtime) = &runtime {
                self.owner.shared.runtime.get_or_init(|| runtime.clone());
            }
            shard.spawn_task(tasks::inside(runtime, task));
        }
    }

    /// Waits for the next client, whose handshake may still be in progress.
    ///
    /// Returns `None` when the endpoint is closed, was [replaced](Self::replaced) or has
    /// [failed](Self::failure), and no more clients wait. Any number of tasks may call this at the
    /// same time.
    ///
    /// # Cancel safety
    /// If the future is dropped, no client is lost.
    pub async fn accept(&self) -> Option<Connecting> {
        let shared = &self.owner.shared;
        loop {
            let mut notified = pin!(shared.has_waiting.notified());
            // No signal is missed from here on.
            notified.as_mut().enable();
            {
                let mut waiting = shared.lock();
                if let Some(connecting) = waiting.queue.pop_front() {
                    return Some(connecting);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            notified.await;
        }
    }

    /// Closes all connections with `error_code` and `reason`; no more connections are accepted or
    /// initiated. See [`wait_idle`](Self::wait_idle).
    pub fn close(&self, error_code: VarInt, reason: &[u8]) {
        for shard in self.owner.shards() {
            shard.shutdown(error_code, reason);
        }
        self.owner.shared.stop_accepting();
    }

    /// Ends the endpoint's threads, and with them all of its connections. Each thread first sends
    /// what was queued for it, such as the CONNECTION_CLOSE frames of connections that were just
    /// closed; unlike [`wait_idle`](Self::wait_idle), it waits for no peer.
    ///
    /// Returns when the threads have ended. This blocks if an application or task on such a thread
    /// blocks.
    pub fn halt(&self) {
        self.owner.shared.stop_accepting();
        halt_shards(self.owner.shards());
    }

    /// Waits until no connection is left, that is, until every connection has ended and its closing
    /// or draining period of three probe timeouts is over (RFC 9000 §10.2).
    ///
    /// A program should wait for this before it exits. CONNECTION_CLOSE is sent in one datagram; if
    /// that is lost, it is retransmitted during this period when the peer sends anything. The call
    /// does not wait for failed connection attempts to which no peer responded.
    ///
    /// This does not close any connection: see [`close`](Self::close).
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn wait_idle(&self) {
        let shared = &self.owner.shared;
        loop {
            let mut notified = pin!(shared.is_idle.notified());
            // No signal is missed from here on.
            notified.as_mut().enable();
            if self.owner.group.connection_count() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Waits until another process has replaced this one; see
    /// [`ServerConfig::hot_restart`](crate::ServerConfig::hot_restart).
    ///
    /// From then on that process gets all new clients, while existing connections continue here.
    /// They should be closed gracefully, for example by
    /// [`http3::Server::shutdown`](crate::http3::Server::shutdown), and this process should exit
    /// after the last one ([`wait_idle`](Self::wait_idle)): the other process cannot be replaced
    /// until then.
    pub async fn replaced(&self) {
        let shared = &self.owner.shared;
        let mut notified = pin!(shared.was_replaced.notified());
        // No signal is missed from here on.
        notified.as_mut().enable();
        if !shared.is_replaced.load(Ordering::SeqCst) {
            notified.await;
        }
    }

    /// Switches to a new QUIC-LB configuration, replacing the one set by [`ServerConfig::quic_lb`]
    /// or by the last call.
    ///
    /// New connection IDs use it immediately. IDs that clients already have are replaced, a few
    /// connections at a time, and remain valid until the clients have retired them, which usually
    /// takes one round trip. So balancers need both configurations for a while, and must get the
    /// new one first. No data is lost or delayed. Passing the current configuration changes
    /// nothing.
    ///
    /// A configuration with another server ID or key needs a different
    /// [number](crate::wire::quic_lb::ConfigId), one for which no client still has IDs.
    ///
    /// # Errors
    /// Fails if the endpoint was started without QUIC-LB, the length of IDs would change, or the
    /// operating system cannot provide a random seed. The current configuration then stays in use.
    #[cfg(feature = "quic-lb")]
    pub fn rotate_quic_lb(&self, config: QuicLb) -> Result<(), RotateQuicLbError> {
        self.owner.group.rotate_quic_lb(config)
    }

    /// Enables busy polling: the endpoint's threads poll for datagrams for at most `limit` before
    /// they sleep. Off by default; `limit` is capped at one millisecond. Intended for nearby peers,
    /// on the same machine or in the same rack.
    ///
    /// Sleeping and being woken takes up to a hundred microseconds on a virtual machine, most of it
    /// CPU time. With a peer that responds faster, polling shortens round trips and takes less CPU
    /// time, but a thread keeps its core busy while polls succeed. After consecutive fruitless
    /// polls, the thread skips polling for the next 1, 3, 7 and so on up to 63 sleeps, so an idle
    /// endpoint sleeps.
    /// [`ShardStatistics::busy_polls_successful`](crate::ShardStatistics::busy_polls_successful)
    /// counts how often polling helps.
    pub fn set_busy_poll(&self, limit: Duration) {
        self.owner.shards().iter().for_each(|shard| shard.set_busy_poll(limit));
    }

    /// Returns how datagrams are steered to their shards; `None` if there is only one shard.
    pub fn steering(&self) -> Option<Steering> {
        self.owner.group.steering()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("local_address", &self.local_address())
            .finish_non_exhaustive()
    }
}
