//! Tests that the effects of commands happen in the turn that executes them: no virtual time
//! passes, and no other event is needed.

use core::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clearway_transport::{ConnectionError, Event, Incoming, SocketIndex};
use clearway_wire::VarInt;
use rustls::crypto::aws_lc_rs::kx_group::X25519;

use super::pending_clients::tests::{SERVER, Server, client_config};
use super::*;
use crate::census::Census;
use crate::mailbox::MigrateRequest;
use crate::{Accept, Application, Decision, Migration};

const DELAY: Duration = Duration::from_millis(10);
const CODE: VarInt = VarInt::from_u32(7);

/// The events of one endpoint's connections, with their times.
type Log = Arc<Mutex<Vec<(Timestamp, Event)>>>;

/// An application that records all events.
struct Noting(Log);

impl Application for Noting {
    fn process(&mut self, now: Timestamp, connection: &mut Connection) {
        let events = core::iter::from_fn(|| connection.next_event());
        self.0.lock().unwrap().extend(events.map(|event| (now, event)));
    }
}

/// Accepts every client.
struct Door(Log);

impl Acceptor for Door {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        let log = self.0.clone();
        let application: ApplicationFactory = Box::new(move |_| Box::new(Noting(log)));
        Decision::Accept(Accept::new(application))
    }
}

/// A datagram in transit: its arrival time, its receiving endpoint, and the client's socket from or
/// to which it is sent.
struct Datagram {
    at: Timestamp,
    to: usize,
    socket: SocketIndex,
    contents: Vec<u8>,
}

/// The connections of a client (number 0) and of a server (number 1).
struct World {
    now: Timestamp,
    ends: [Server; 2],
    logs: [Log; 2],
    network: Vec<Datagram>,
    census: Arc<Census>,
    /// Number of times that the client's connection count fell to 0.
    emptied: Arc<AtomicUsize>,
}

/// Returns the address of a client's socket.
fn address_of(socket: SocketIndex) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 5000 + socket.0 as u16))
}

impl World {
    fn new() -> Self {
        let logs = [Log::default(), Log::default()];
        let (census, emptied) = (Arc::<Census>::default(), Arc::new(AtomicUsize::new(0)));
        let count = emptied.clone();
        census.on_empty(Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        let ends =
            [Server::with(0, None), Server::with(100, Some(Box::new(Door(logs[1].clone()))))];
        let now = Timestamp::from_origin(Duration::from_secs(1));
        Self { now, ends, logs, network: Vec::new(), census, emptied }
    }

    /// Starts a connection of the client.
    fn connect(&mut self) {
        let log = self.logs[0].clone();
        let request = ConnectRequest {
            config: Arc::new(client_config(X25519)),
            remote: SERVER,
            server_name: "localhost".into(),
            application: Box::new(move |_| Box::new(Noting(log))),
            observer: None,
            on_failure: Box::new(|failure| panic!("{failure:?}")),
        };
        let counted = self.census.count_one();
        self.ends[0].0.connect(self.now, request, SERVER, counted);
    }

    /// Runs turns until nothing is left to do at the current time. Returns the sending endpoint of
    /// each datagram that was sent, and the client's socket that it was sent from or to.
    fn settle(&mut self) -> Vec<(usize, SocketIndex)> {
        let mut sent = Vec::new();
        for end in [0, 1].repeat(10) {
            for (transmit, contents) in self.ends[end].turn(self.now, false) {
                let sockets = [0, 1, 2].map(SocketIndex);
                let to = sockets.into_iter().find(|it| address_of(*it) == transmit.destination);
                let socket = if end == 0 { transmit.socket } else { to.expect("a client's") };
                sent.push((end, socket));
                self.network.push(Datagram { at: self.now + DELAY, to: 1 - end, socket, contents });
            }
            self.ends[end].0.report_departed();
        }
        sent
    }

    /// Advances time, and handles only events that are due.
    fn run_until(&mut self, until: Timestamp) {
        loop {
            self.settle();
            let arrivals = self.network.iter().map(|it| it.at);
            let timers = self.ends.iter().filter_map(|end| end.0.next_deadline());
            let Some(next) = arrivals.chain(timers).min().filter(|next| *next <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            let now = self.now;
            for datagram in self.network.extract_if(.., |it| it.at <= now) {
                let Datagram { to, socket, contents, .. } = datagram;
                match to {
                    0 => self.ends[0].receive_at(now, SERVER, socket, contents),
                    _ => self.ends[1].receive_at(
                        now,
                        address_of(socket),
                        SocketIndex::default(),
                        contents,
                    ),
                }
            }
        }
    }

    fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Requests a migration of the client's connection. The returned value is set when the
    /// migration begins or fails.
    fn migrate(&mut self) -> Arc<Mutex<Option<Result<Migration, String>>>> {
        let started = Arc::new(Mutex::new(None));
        let target = self.ends[0].0.slots[0].as_ref().expect("a connection").target.clone();
        let result = started.clone();
        let request = MigrateRequest {
            target,
            local: "127.0.0.1:0".parse().unwrap(),
            on_start: Box::new(move |outcome| {
                *result.lock().unwrap() = Some(outcome.map_err(|error| format!("{error:?}")));
            }),
        };
        self.ends[0].migrate(self.now, request);
        started
    }

    /// Returns the time of an endpoint's first event of a kind.
    fn first(&self, end: usize, is_wanted: impl Fn(&Event) -> bool) -> Option<Timestamp> {
        let log = self.logs[end].lock().unwrap();
        log.iter().find(|(_, event)| is_wanted(event)).map(|(at, _)| *at)
    }

    fn closed(&self, end: usize) -> Vec<(Timestamp, ConnectionError)> {
        let log = self.logs[end].lock().unwrap();
        let closed = |(at, event): &(Timestamp, Event)| match event {
            Event::Closed(error) => Some((*at, error.clone())),
            _ => None,
        };
        log.iter().filter_map(closed).collect()
    }
}

const fn is_migrated(event: &Event) -> bool {
    matches!(event, Event::Migrated { .. })
}

#[test]
fn a_migration_begins_at_once() {
    let mut world = World::new();
    world.connect();
    world.run_for(Duration::from_secs(1));
    for socket in [SocketIndex(1), SocketIndex(2)] {
        world.logs[0].lock().unwrap().clear();
        let (began, started) = (world.now, world.migrate());
        let sent = world.settle();
        assert!(
            matches!(*started.lock().unwrap(), Some(Ok(migration)) if migration.socket == socket)
        );
        assert!(sent.contains(&(0, socket)), "{sent:?}");
        world.run_for(Duration::from_millis(500));
        assert_eq!(world.first(0, is_migrated), Some(began + 2 * DELAY));
    }
}

/// A migration that waits for the confirmation of the handshake begins in the turn of that
/// confirmation.
#[test]
fn a_migration_that_waits_begins_with_the_packet_that_permits_it() {
    let mut world = World::new();
    world.connect();
    world.settle();
    let started = world.migrate();
    let mut began = None;
    for _ in 0..100 {
        world.run_for(DELAY);
        if started.lock().unwrap().is_none() {
            continue;
        }
        began = Some(world.now);
        break;
    }
    let confirmed = world.first(0, |event| *event == Event::HandshakeConfirmed);
    assert!(confirmed.is_some() && began == confirmed, "{began:?}, {confirmed:?}");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.first(0, is_migrated), confirmed.map(|at| at + 2 * DELAY));
}

/// CONNECTION_CLOSE is sent immediately for every connection; the turn that releases the last
/// remaining state reports that the endpoint has no connections.
#[test]
fn a_shard_that_shuts_down_closes_at_once_and_is_empty_in_time() {
    for closer in [0, 1] {
        let mut world = World::new();
        (0..3).for_each(|_| world.connect());
        world.run_for(Duration::from_secs(1));
        let now = world.now;
        world.ends[closer].0.shut_down(now, CODE, b"over");
        let sent = world.settle();
        assert_eq!(sent, [(closer, SocketIndex::default()); 3]);
        let own = world.closed(closer);
        assert_eq!(own, [(); 3].map(|()| (now, ConnectionError::LocallyClosed)));
        world.run_for(DELAY);
        world.settle();
        let others = world.closed(1 - closer);
        assert!(others.len() == 3 && others.iter().all(|(at, _)| *at == now + DELAY), "{others:?}");
        let mut last = None;
        while let Some(next) = world.ends[0].0.next_deadline() {
            assert_eq!((world.emptied.load(Ordering::SeqCst), world.census.count() > 0), (0, true));
            world.run_until(next);
            world.settle();
            last = Some(next);
        }
        assert_eq!((world.emptied.load(Ordering::SeqCst), world.census.count()), (1, 0));
        // The closing period is three probe timeouts (RFC 9000 §10.2).
        assert!(last.is_some_and(|last| last <= now + Duration::from_millis(500)), "{last:?}");
    }
}

#[test]
fn attempts_and_pending_clients_learn_of_the_end_at_once() {
    // The peer has not responded yet, so there is no closing period.
    let mut world = World::new();
    world.connect();
    world.settle();
    let now = world.now;
    world.ends[0].0.shut_down(now, CODE, b"over");
    world.settle();
    assert_eq!((world.emptied.load(Ordering::SeqCst), world.census.count()), (1, 0));
    // The client has arrived, but its handshake has not begun.
    let mut world = World::new();
    world.connect();
    world.settle();
    let (began, arrives) = (world.now, world.now + DELAY);
    world.now = arrives;
    for datagram in std::mem::take(&mut world.network) {
        let from = address_of(SocketIndex::default());
        world.ends[1].receive_at(arrives, from, SocketIndex::default(), datagram.contents);
    }
    world.ends[1].0.shut_down(arrives, CODE, b"over");
    world.run_for(Duration::from_secs(1));
    let closed = world.closed(0);
    assert_eq!(closed.first().map(|(at, _)| *at), Some(began + 2 * DELAY), "{closed:?}");
}
