#[path = "shard_tests/errnos.rs"]
mod errnos;
#[path = "shard_tests/overload.rs"]
mod overload;

use core::task::{Poll, Waker};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clearway_transport::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Event, Incoming,
    PreferredAddresses, RandomIds, ResetKey, ServerConfig, TlsClientConfig, TlsServerConfig,
    TransportConfig,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::VarInt;
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::connections::Connections;
use super::{ShardSetup, listen, spawn, start};
use crate::acceptor::Admission;
use crate::mailbox::Mailbox;
use crate::{
    Accept, Acceptor, Application, ConnectFailure, ConnectRequest, ConnectionWaker, Decision,
    ServerSetup, ShardHandle, ShardStatistics,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Reports the events of its connection to the test.
struct Reporting {
    events: Sender<Event>,
    turns: Sender<()>,
}

impl Application for Reporting {
    fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            // The test may have stopped listening.
            let _ = self.events.send(event);
        }
        let _ = self.turns.send(());
    }
}

/// Requests another turn in every turn, so that its shard never sleeps.
struct Restless {
    events: Sender<Event>,
    waker: ConnectionWaker,
}

impl Application for Restless {
    fn process(&mut self, _now: Timestamp, connection: &mut Connection) {
        while let Some(event) = connection.next_event() {
            let _ = self.events.send(event);
        }
        self.waker.wake();
    }
}

pub(in crate::shard) struct Accepting;

impl Acceptor for Accepting {
    fn incoming(&mut self, _incoming: &Incoming) -> Decision {
        let (events, turns) = (mpsc::channel().0, mpsc::channel().0);
        Decision::Accept(Accept::new(Box::new(|_| Box::new(Reporting { events, turns }))))
    }
}

pub(in crate::shard) fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        id_generator: Arc::new(RandomIds),
        reset_key: ResetKey::new(&[1; 32]),
        max_connections: 10,
    }
}

pub(in crate::shard) fn server_config() -> ServerConfig {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let chain = vec![certified.cert.into()];
    let tls = TlsServerConfig::with_certificate(chain, key.into(), &[b"test"]).unwrap();
    ServerConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        retry_token_lifetime: Duration::from_secs(10),
        new_token_lifetime: Duration::from_secs(10),
        shared_tokens: None,
        preferred_addresses: PreferredAddresses::default(),
    }
}

fn server() -> ShardHandle {
    let (config, acceptor) = (Arc::new(server_config()), Box::new(Accepting));
    let setup = ServerSetup { config, acceptor, admission: Admission::default() };
    spawn("127.0.0.1:0".parse().unwrap(), endpoint_config(), Some(setup)).unwrap()
}

fn client() -> ShardHandle {
    spawn("127.0.0.1:0".parse().unwrap(), endpoint_config(), None).unwrap()
}

struct Probe {
    events: Receiver<Event>,
    turns: Receiver<()>,
    waker: Receiver<ConnectionWaker>,
    failure: Receiver<ConnectFailure>,
}

fn connect(client: &ShardHandle, remote: std::net::SocketAddr, name: &str) -> Probe {
    connect_as(client, remote, name, b"test")
}

fn connect_as(
    client: &ShardHandle,
    remote: std::net::SocketAddr,
    name: &str,
    protocol: &[u8],
) -> Probe {
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[protocol]).unwrap();
    let config = ClientConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        token: Vec::new(),
    };
    let (events_in, events) = mpsc::channel();
    let (turns_in, turns) = mpsc::channel();
    let (waker_in, waker) = mpsc::channel();
    let (failure_in, failure) = mpsc::channel();
    let request = ConnectRequest {
        config: Arc::new(config),
        remote,
        server_name: name.to_owned(),
        application: Box::new(move |waker| {
            waker_in.send(waker).unwrap();
            Box::new(Reporting { events: events_in, turns: turns_in })
        }),
        observer: None,
        on_failure: Box::new(move |failure| failure_in.send(failure).unwrap()),
    };
    assert!(client.connect(request).is_ok());
    Probe { events, turns, waker, failure }
}

fn wait_for(probe: &Probe, wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = probe.events.recv_timeout(TIMEOUT).expect("the event does not come");
        if wanted(&event) {
            return event;
        }
    }
}

#[test]
fn two_shards_shake_hands_and_part() {
    let (server, client) = (server(), client());
    let probe = connect(&client, server.local_address(), "localhost");
    wait_for(&probe, |event| *event == Event::Connected);
    wait_for(&probe, |event| *event == Event::HandshakeConfirmed);
    server.shutdown(VarInt::from_u32(9), b"bye");
    let closed = wait_for(&probe, |event| matches!(event, Event::Closed(_)));
    assert!(format!("{closed:?}").contains("bye"), "{closed:?}");
    let statistics = client.statistics();
    assert!(statistics.datagrams_sent > 0 && statistics.datagrams_received > 0);
}

pub(in crate::shard) fn wait_until(
    shard: &ShardHandle,
    condition: impl Fn(&ShardStatistics) -> bool,
) {
    let begun = Instant::now();
    while !condition(&shard.statistics()) {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", shard.statistics());
        std::thread::yield_now();
    }
}

#[test]
fn what_connections_have_counted_outlives_them() {
    let (server, client) = (server(), client());
    let probe = connect(&client, server.local_address(), "localhost");
    wait_for(&probe, |event| *event == Event::HandshakeConfirmed);
    // The client has received the response to its last flight, so the flight is already counted.
    let living = server.statistics();
    assert_eq!((living.connections, living.connections_accepted), (1, 1));
    assert_eq!((living.handshakes_completed, living.handshakes_failed), (1, 0));
    assert!(living.packets_received > 0, "{living:?}");
    client.shutdown(VarInt::ZERO, b"");
    wait_until(&server, |server| server.connections == 0);
    wait_until(&client, |client| client.connections == 0);
    let (sent, ended) = (client.statistics(), server.statistics());
    assert_eq!((ended.connections_accepted, ended.handshakes_completed), (1, 1));
    assert!(ended.packets_received > living.packets_received, "{ended:?}");
    assert!(ended.packets_sent > 0 && sent.packets_received > 0, "{ended:?} {sent:?}");
    assert_eq!(ended.bytes_received, sent.bytes_sent);
    assert_eq!(ended.datagrams_received, sent.datagrams_sent);
    assert_eq!(sent.batches_by_size.iter().sum::<u64>(), sent.batches_sent);
    assert!(ended.turns_by_duration.iter().sum::<u64>() >= ended.wakeups, "{ended:?}");
    assert!(!ended.turn_time().is_zero());
    assert_eq!((sent.connections_accepted, sent.handshakes_completed), (0, 1));
}

#[test]
fn handshakes_that_fail_are_counted() {
    let (server, client) = (server(), client());
    let probe = connect_as(&client, server.local_address(), "localhost", b"another");
    wait_for(&probe, |event| matches!(event, Event::Closed(_)));
    for shard in [&server, &client] {
        wait_until(shard, |shard| shard.connections == 0);
        let statistics = shard.statistics();
        assert_eq!((statistics.handshakes_completed, statistics.handshakes_failed), (0, 1));
    }
}

/// The kernel does not coalesce ACKs and requests of different connections. If a turn receives few
/// of them, the responses are sent in small batches.
#[test]
fn a_turn_receives_what_waits() {
    const WAITING: u64 = 200;
    let mut config = Some(Arc::new(server_config()));
    let sockets = listen("127.0.0.1:0".parse().unwrap(), config.as_mut()).unwrap();
    let address = sockets.main().unwrap().local_address();
    for _ in 0..WAITING {
        // Each datagram has its own source, so that no two are coalesced.
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(source.send_to(&[0x40; 30], address).unwrap(), 30);
    }
    let shard = start(ShardSetup {
        sockets,
        config: endpoint_config(),
        server: config,
        acceptor: Some(Box::new(Accepting)),
        admission: Admission::default(),
        mailbox: Arc::new(Mailbox::new()),
        peer_shards: None,
        predecessor: None,
        memory_budget: None,
    })
    .unwrap();
    wait_until(&shard, |shard| shard.datagrams_received == WAITING);
    let turns: u64 = shard.statistics().turns_by_duration.iter().sum();
    // This takes one turn for the queued datagrams, and a few for the start; it would take eight if
    // a turn received 32 datagrams.
    assert!(turns <= 4, "{turns} turns");
}

#[test]
fn an_idle_shard_sleeps() {
    for busy_poll in [Duration::ZERO, Duration::from_secs(1)] {
        let shards = [server(), client()];
        shards.iter().for_each(|shard| shard.set_busy_poll(busy_poll));
        let [server, client] = &shards;
        let probe = connect(client, server.local_address(), "localhost");
        wait_for(&probe, |event| *event == Event::HandshakeConfirmed);
        // During half a second without traffic, only a few timers fire.
        while probe.events.recv_timeout(Duration::from_millis(500)).is_ok() {}
        let turns = probe.turns.try_iter().count();
        let total: ShardStatistics = shards.iter().map(ShardHandle::statistics).sum();
        let waits = total.wakeups + total.busy_polls_successful;
        assert!(turns < 50 && waits < 100, "{turns} turns, {total:?}");
        assert!(total.busy_polls <= if busy_poll.is_zero() { 0 } else { waits }, "{total:?}");
    }
}

#[test]
fn a_shard_looks_before_it_sleeps_if_it_is_asked_to() {
    let (server, source) = (server(), UdpSocket::bind("127.0.0.1:0").unwrap());
    source.connect(server.local_address()).unwrap();
    server.set_busy_poll(Duration::from_millis(1));
    let look = |shard: &ShardStatistics| {
        assert_eq!(source.send(&[0x40; 30]).unwrap(), 30);
        shard.busy_polls >= 2
    };
    wait_until(&server, look);
}

#[test]
fn a_wake_makes_one_turn() {
    let (server, client) = (server(), client());
    let probe = connect(&client, server.local_address(), "localhost");
    wait_for(&probe, |event| *event == Event::HandshakeConfirmed);
    let waker = probe.waker.recv().unwrap();
    for _ in 0..100 {
        while probe.turns.try_recv().is_ok() {}
        waker.wake();
        probe.turns.recv_timeout(TIMEOUT).expect("the wake is lost");
    }
}

#[test]
fn the_thread_ends_when_its_handles_are_gone() {
    let (server, client) = (server(), client());
    let probe = connect(&client, server.local_address(), "localhost");
    wait_for(&probe, |event| *event == Event::Connected);
    let address = client.local_address();
    drop(client);
    // The connection keeps the shard, and so its socket, alive.
    assert!(UdpSocket::bind(address).is_err());
    server.shutdown(VarInt::ZERO, b"");
    wait_for(&probe, |event| matches!(event, Event::Closed(_)));
    // The application is dropped when the connection is drained, and the socket immediately
    // afterwards.
    let disconnected = loop {
        match probe.turns.recv_timeout(TIMEOUT) {
            Ok(()) => {}
            Err(error) => break error == mpsc::RecvTimeoutError::Disconnected,
        }
    };
    assert!(disconnected, "the connection is never forgotten");
}

#[test]
fn a_shard_that_never_sleeps_keeps_its_deadlines() {
    // Row 83: no server responds here, so only a timer ends the handshake.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = client();
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let transport =
        TransportConfig::builder().handshake_timeout(Duration::from_millis(100)).build().unwrap();
    let config =
        ClientConfig { sessions: Arc::new(tls), transport: Arc::new(transport), token: Vec::new() };
    let (events_in, events) = mpsc::channel();
    let request = ConnectRequest {
        config: Arc::new(config),
        remote: silent.local_addr().unwrap(),
        server_name: "localhost".to_owned(),
        application: Box::new(move |waker| Box::new(Restless { events: events_in, waker })),
        observer: None,
        on_failure: Box::new(|failure| panic!("{failure}")),
    };
    assert!(client.connect(request).is_ok());
    let event = events.recv_timeout(TIMEOUT).expect("no timer went off");
    assert_eq!(event, Event::Closed(ConnectionError::HandshakeTimedOut(Default::default())));
}

#[test]
fn what_cannot_be_started_is_reported() {
    let client = client();
    let probe = connect(&client, "127.0.0.1:9".parse().unwrap(), "no name");
    let failure = probe.failure.recv_timeout(TIMEOUT).unwrap();
    assert!(matches!(failure, ConnectFailure::Endpoint(_)), "{failure}");
    let probe = connect(&client, "[::1]:9".parse().unwrap(), "localhost");
    let failure = probe.failure.recv_timeout(TIMEOUT).unwrap();
    assert!(matches!(failure, ConnectFailure::UnsupportedAddress(_)), "{failure}");
    client.shutdown(VarInt::ZERO, b"");
    let probe = connect(&client, "127.0.0.1:9".parse().unwrap(), "localhost");
    assert_eq!(probe.failure.recv_timeout(TIMEOUT), Ok(ConnectFailure::ShuttingDown));
}

/// Returns how many connections a shard checks when it gets a forged report, if it has `others`
/// connections to other addresses.
fn looked_at(others: u16) -> (usize, usize) {
    let mailbox = Arc::new(Mailbox::new());
    let config = EndpointConfig { max_connections: usize::from(others) + 1, ..endpoint_config() };
    let endpoint = Endpoint::new(config, None, Timestamp::ORIGIN, Random::from_seed([1; 32]));
    let mut connections = Connections::new(endpoint, None, &Admission::default(), mailbox.clone());
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let config = Arc::new(ClientConfig {
        sessions: Arc::new(tls),
        transport: Arc::new(TransportConfig::default()),
        token: Vec::new(),
    });
    let address = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    for port in 1..=others + 1 {
        let request = ConnectRequest {
            config: config.clone(),
            remote: address(port),
            server_name: "localhost".to_owned(),
            application: Box::new(|_| {
                let (events, turns) = (mpsc::channel().0, mpsc::channel().0);
                Box::new(Reporting { events, turns })
            }),
            observer: None,
            on_failure: Box::new(|failure| panic!("{failure}")),
        };
        let counted = Arc::<crate::census::Census>::default().count_one();
        connections.connect(Timestamp::ORIGIN, request, address(port), counted);
    }
    let forged = connections.on_unreachable(Timestamp::ORIGIN, address(9999));
    let first = connections.on_unreachable(Timestamp::ORIGIN, address(1));
    // The connection has ended and is no longer an attempt.
    assert_eq!(connections.on_unreachable(Timestamp::ORIGIN, address(1)), 0);
    (forged, first)
}

#[test]
fn a_forged_report_costs_as_much_with_many_connections_as_with_one() {
    assert_eq!(looked_at(0), (0, 1));
    assert_eq!(looked_at(500), (0, 1));
}

#[test]
fn a_task_runs_on_the_thread_of_its_shard() {
    let shard = client();
    let (sender, receiver) = mpsc::channel();
    shard.spawn_task(async move {
        let name = std::thread::current().name().map(str::to_owned);
        sender.send(name).unwrap();
    });
    let name = receiver.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(name.as_deref(), Some("clearway-shard"));
}

/// Application that reports how often it was called, and how many datagrams the shard had sent at
/// the second call.
struct Counting {
    shard: ShardHandle,
    calls: Arc<AtomicU64>,
    task: Arc<Mutex<Option<Waker>>>,
    sent: Sender<u64>,
}

impl Application for Counting {
    fn process(&mut self, _now: Timestamp, _connection: &mut Connection) {
        if self.calls.fetch_add(1, Ordering::SeqCst) == 1 {
            let _ = self.sent.send(self.shard.statistics().datagrams_sent);
        }
        if let Some(task) = self.task.lock().unwrap().take() {
            task.wake();
        }
    }
}

/// A task starts a connection, and uses it once it exists; all of this happens before the first
/// flight is sent.
#[test]
fn a_task_and_an_application_answer_each_other_before_anything_is_sent() {
    let (shard, silent) = (client(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let remote = silent.local_addr().unwrap();
    let (calls, task) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None::<Waker>)));
    let (sender, sent) = mpsc::channel();
    let (waker_in, waker) = mpsc::channel();
    let application =
        Counting { shard: shard.clone(), calls: calls.clone(), task: task.clone(), sent: sender };
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let request = ConnectRequest {
        config: Arc::new(ClientConfig {
            sessions: Arc::new(tls),
            transport: Arc::new(TransportConfig::default()),
            token: Vec::new(),
        }),
        remote,
        server_name: "localhost".to_owned(),
        application: Box::new(move |waker| {
            waker_in.send(waker).unwrap();
            Box::new(application)
        }),
        observer: None,
        on_failure: Box::new(|failure| panic!("{failure}")),
    };
    shard.spawn_task({
        let shard = shard.clone();
        async move {
            assert!(shard.connect(request).is_ok());
            core::future::poll_fn(|context| {
                *task.lock().unwrap() = Some(context.waker().clone());
                match calls.load(Ordering::SeqCst) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(()),
                }
            })
            .await;
            waker.recv().unwrap().wake();
        }
    });
    assert_eq!(sent.recv_timeout(TIMEOUT), Ok(0));
    shard.shutdown(VarInt::ZERO, b"");
}
