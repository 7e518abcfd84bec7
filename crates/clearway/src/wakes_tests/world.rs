//! Simulates two endpoints with their applications and tasks in virtual time, run as shards would
//! run them: an application is called only when something was received, a timer has expired, a task
//! has woken the shard, or the connection itself has events.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::time::Duration;

use clearway_io::Application;
use clearway_transport::{
    Arrival, ClientConfig, Connection, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig,
    RandomIds, Received, ResetKey, ServerConfig, ServerTrust, SocketIndex, TlsClientConfig,
    TlsClientSettings, TlsServerConfig, TransportConfig,
};
use clearway_units::{Random, Timestamp};
use rustls::pki_types::PrivatePkcs8KeyDer;

/// The one-way delay of the path.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

/// The part of the shared state that tests use.
pub(crate) trait Wakes: Send + Sync {
    /// Returns how many times tasks have woken the shard.
    fn shard_wakes(&self) -> usize;
}

impl<F: crate::bridge::AppState + Send> Wakes for crate::bridge::Shared<F>
where
    F::Key: Send,
    F::Error: Send,
{
    fn shard_wakes(&self) -> usize {
        self.shard_wakes.load(Ordering::SeqCst)
    }
}

/// One endpoint.
struct End {
    endpoint: Endpoint,
    handle: Option<ConnectionHandle>,
    application: Box<dyn Application>,
    shared: Arc<dyn Wakes>,
    /// Number of wake-ups of the shard that have been processed.
    answered: usize,
    is_dirty: bool,
}

/// A task, and whether it needs to be polled.
struct Task {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The result of a task, and the time at which it was available.
pub(crate) struct Outcome<T>(Arc<Mutex<Option<(Timestamp, T)>>>);

impl<T> Outcome<T> {
    /// Removes and returns the result, if it is available.
    pub(crate) fn take(&self) -> Option<(Timestamp, T)> {
        self.0.lock().unwrap().take()
    }
}

/// A datagram in flight.
struct Datagram {
    at: Timestamp,
    to: usize,
    contents: Vec<u8>,
}

/// Decides whether a datagram to the endpoint with this number is lost.
pub(crate) type Loss = Box<dyn FnMut(Timestamp, usize) -> bool>;

/// A client (endpoint 0) and a server (endpoint 1).
pub(crate) struct World {
    pub(crate) now: Timestamp,
    clock: Arc<AtomicU64>,
    ends: [End; 2],
    tasks: Vec<Task>,
    network: VecDeque<Datagram>,
    pub(crate) loss: Option<Loss>,
    buffer: Vec<u8>,
}

/// The application of an endpoint, and the state that the application shares with tasks.
pub(crate) type Side = (Box<dyn Application>, Arc<dyn Wakes>);

fn endpoint(number: u64, server: Option<Arc<ServerConfig>>) -> Endpoint {
    let config = EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        max_connections: 10,
    };
    Endpoint::new(config, server, Timestamp::ORIGIN, Random::from_number(number))
}

/// The configurations of both endpoints. Worlds that use the same configurations share the client's
/// TLS sessions, which allow early data.
pub(crate) struct Configs {
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

impl Configs {
    /// Creates configurations with this protocol and these settings for both endpoints.
    pub(crate) fn new(protocol: &[u8], transport: TransportConfig) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let chain = vec![certified.cert.into()];
        let tls = TlsServerConfig::with_certificate(chain, key.into(), &[protocol]).unwrap();
        let transport = Arc::new(transport);
        let server = Arc::new(ServerConfig {
            sessions: Arc::new(tls.early_data(true)),
            transport: transport.clone(),
            retry_token_lifetime: Duration::from_secs(10),
            new_token_lifetime: Duration::from_secs(10),
            shared_tokens: None,
            preferred_addresses: Default::default(),
        });
        let settings = TlsClientSettings::new(ServerTrust::DangerousAnyone, &[protocol]);
        let sessions = TlsClientConfig::from_settings(settings).unwrap().early_data(true);
        let client = ClientConfig { sessions: Arc::new(sessions), transport, token: Vec::new() };
        Self { client, server }
    }
}

fn end(endpoint: Endpoint, (application, shared): Side) -> End {
    End { endpoint, handle: None, application, shared, answered: 0, is_dirty: true }
}

impl World {
    /// Creates a world with a client that begins to connect. Both endpoints have the same
    /// configuration.
    pub(crate) fn new(protocol: &[u8], transport: TransportConfig, sides: [Side; 2]) -> Self {
        Self::with(&Configs::new(protocol, transport), sides)
    }

    /// Creates a world with a client that begins to connect.
    pub(crate) fn with(configs: &Configs, [client, server]: [Side; 2]) -> Self {
        let now = Timestamp::from_origin(Duration::from_secs(1));
        let mut client = end(endpoint(1, None), client);
        let server = end(endpoint(2, Some(configs.server.clone())), server);
        let remote = "127.0.0.1:443".parse().unwrap();
        let handle = client.endpoint.connect(now, &configs.client, remote, "localhost", None);
        let handle = handle.unwrap();
        client.handle = Some(handle);
        Self {
            now,
            clock: Arc::new(AtomicU64::new(now.as_nanos())),
            ends: [client, server],
            tasks: Vec::new(),
            network: VecDeque::new(),
            loss: None,
            buffer: vec![0; 65_536],
        }
    }

    /// Returns the memory that this endpoint's application reports, in bytes.
    pub(crate) fn held_bytes(&self, number: usize) -> u64 {
        self.ends[number].application.held_bytes()
    }

    /// Returns the time at which this endpoint's application must be called.
    pub(crate) fn application_deadline(&self, number: usize) -> Option<Timestamp> {
        self.ends[number].application.deadline()
    }

    /// Starts a task.
    pub(crate) fn spawn<T: Send + 'static>(
        &mut self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Outcome<T> {
        let outcome = Arc::<Mutex<Option<(Timestamp, T)>>>::new(Mutex::new(None));
        let (result, clock) = (outcome.clone(), self.clock.clone());
        let future = Box::pin(async move {
            let value = future.await;
            let at = Timestamp::from_origin(Duration::from_nanos(clock.load(Ordering::SeqCst)));
            *result.lock().unwrap() = Some((at, value));
        });
        self.tasks.push(Task { future, woken: Arc::new(Woken(AtomicBool::new(true))) });
        Outcome(outcome)
    }

    /// Polls the tasks that were woken. Returns whether there were any.
    fn run_tasks(&mut self) -> bool {
        let mut has_run = false;
        self.tasks.retain_mut(|task| {
            if !task.woken.0.swap(false, Ordering::SeqCst) {
                return true;
            }
            has_run = true;
            let waker = task.woken.clone().into();
            task.future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending
        });
        has_run
    }

    /// Runs a shard's turn for one endpoint. Returns whether there was anything to do.
    fn turn(&mut self, number: usize) -> bool {
        let (now, end) = (self.now, &mut self.ends[number]);
        let Some(handle) = end.handle else { return false };
        let wakes = end.shared.shard_wakes();
        let is_woken = std::mem::replace(&mut end.answered, wakes) != wakes;
        if !std::mem::take(&mut end.is_dirty) && !is_woken {
            return false;
        }
        if let Some(connection) = end.endpoint.connection_mut(handle) {
            end.application.process(now, connection);
        }
        while let Some(transmit) = end.endpoint.transmit(handle, now, &mut self.buffer, 10) {
            end.endpoint.transmitted(handle, now);
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for contents in self.buffer[..transmit.size].chunks(size) {
                if self.loss.as_mut().is_some_and(|loss| loss(now, 1 - number)) {
                    continue;
                }
                let (at, contents) = (now + DELAY, contents.to_vec());
                self.network.push_back(Datagram { at, to: 1 - number, contents });
            }
        }
        end.note_events(handle);
        true
    }

    /// Runs tasks and endpoints until nothing is left to do at the current time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            let has_run = self.run_tasks();
            let has_turned = [0, 1].map(|number| self.turn(number));
            if !has_run && has_turned == [false; 2] {
                return;
            }
        }
        panic!("tasks and endpoints do not become idle at {:?}", self.now);
    }

    fn receive(&mut self, Datagram { to, mut contents, .. }: Datagram) {
        let (now, end) = (self.now, &mut self.ends[to]);
        let remote = "127.0.0.1:443".parse().unwrap();
        let socket = SocketIndex::default();
        let arrival = Arrival { remote, socket, local_ip: None, ecn: EcnCodepoint::NotEct };
        if let Received::Incoming(incoming) = end.endpoint.receive(now, arrival, &mut contents) {
            end.handle = end.endpoint.accept(now, incoming, None).ok().or(end.handle);
        }
        end.is_dirty = true;
    }

    /// Advances to the next event, but not beyond `until`. Returns whether there is one.
    fn advance(&mut self, until: Timestamp) -> bool {
        let deadline = |end: &mut End, now| {
            let deadlines = end.endpoint.deadlines(end.handle?, now);
            let of_connection = deadlines.own.into_iter().chain(deadlines.silence);
            of_connection.chain(end.application.deadline()).min()
        };
        let now = self.now;
        let timers = self.ends.each_mut().map(|end| deadline(end, now));
        let arrival = self.network.front().map(|datagram| datagram.at);
        let next = timers.into_iter().flatten().chain(arrival).min();
        let Some(next) = next.filter(|next| *next <= until) else { return false };
        self.set_now(self.now.max(next));
        while self.network.front().is_some_and(|datagram| datagram.at <= self.now) {
            if let Some(datagram) = self.network.pop_front() {
                self.receive(datagram);
            }
        }
        let now = self.now;
        for (end, deadline) in self.ends.iter_mut().zip(timers) {
            if let Some(handle) = end.handle.filter(|_| deadline.is_some_and(|at| at <= now)) {
                end.endpoint.on_deadline(handle, now, now);
                end.is_dirty = true;
            }
        }
        true
    }

    fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.clock.store(now.as_nanos(), Ordering::SeqCst);
    }

    /// Runs for the given time.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        self.settle();
        while self.advance(until) {
            self.settle();
        }
        self.set_now(until);
    }

    /// Runs until the task has a result. Returns the result with the elapsed time, or `None` if
    /// there is no result after `limit`.
    pub(crate) fn wait<T>(
        &mut self,
        outcome: &Outcome<T>,
        limit: Duration,
    ) -> Option<(Duration, T)> {
        let (began, until) = (self.now, self.now + limit);
        loop {
            self.settle();
            if let Some((at, value)) = outcome.take() {
                return Some((at.saturating_since(began), value));
            }
            if !self.advance(until) {
                return None;
            }
        }
    }
}

impl End {
    /// Schedules another call of the application for events that it has not seen.
    fn note_events(&mut self, handle: ConnectionHandle) {
        let connection = self.endpoint.connection_mut(handle);
        self.is_dirty |= connection.is_some_and(Connection::has_unseen_events);
    }
}

/// A test's own state around a [`World`].
pub(crate) trait Scene: Sized {
    fn world(&mut self) -> &mut World;

    /// Returns the result of a task that finishes within a second.
    #[track_caller]
    fn get<T: Send + 'static>(&mut self, future: impl Future<Output = T> + Send + 'static) -> T {
        let outcome = self.world().spawn(future);
        self.world().wait(&outcome, Duration::from_secs(1)).expect("it waits too long").1
    }

    /// Starts the waiting task, and calls `act` after a second. The task must continue exactly
    /// `trips` one-way delays later.
    #[track_caller]
    fn expect<T: Send + 'static>(
        &mut self,
        trips: u32,
        waiting: impl Future<Output = T> + Send + 'static,
        act: impl FnOnce(&mut Self),
    ) -> T {
        let outcome = self.world().spawn(waiting);
        self.world().run_for(Duration::from_secs(1));
        self.expect_of(trips, &outcome, act)
    }

    /// Like [`expect`](Self::expect), for a task that is already waiting.
    #[track_caller]
    fn expect_of<T>(&mut self, trips: u32, outcome: &Outcome<T>, act: impl FnOnce(&mut Self)) -> T {
        assert!(outcome.take().is_none(), "the task does not wait");
        let began = self.world().now;
        act(self);
        assert_eq!(self.world().now, began, "the call takes no time");
        let Some((took, value)) = self.world().wait(outcome, Duration::from_secs(30)) else {
            panic!("the task waits forever");
        };
        assert_eq!(took, DELAY * trips, "the time until the task continued");
        value
    }
}

/// Returns the result of a future that does not have to wait.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(core::task::Waker::noop());
    match core::pin::pin!(future).poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Counts tasks.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn add(&self, number: usize) {
        self.0.fetch_add(number, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
