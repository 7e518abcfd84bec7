//! Many connections between two busy hosts, in virtual time: after one of the hosts has stalled,
//! both continue as before.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{self, CLIENT, SERVER, Tls, address, quiet, tls};
use clearway_transport::{
    Arrival, ClientConfig, Connection, ConnectionHandle, Deadlines, EcnCodepoint, Endpoint,
    EndpointConfig, Event, RandomIds, ReadOutcome, Received, ResetKey, ServerConfig, SocketIndex,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::{Direction, StreamId};

const REQUEST: &[u8] = &[1; 100];
const RESPONSE: &[u8] = &[2; 1000];
/// The one-way delay on the wire.
const DELAY: Duration = Duration::from_micros(100);
const SECOND: Duration = Duration::from_secs(1);

/// The load of the hosts. For each request, the server receives two datagrams (the request and an
/// ACK) and sends one response.
#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    /// The time between two requests, over all connections.
    between: Duration,
    /// The time that a host's only thread takes to receive a datagram, and to send one.
    receiving: Duration,
    sending: Duration,
    /// The capacity of each socket buffer, in datagrams.
    buffer: usize,
    /// The number of datagrams that a host receives before it sends. Per turn, it also handles a
    /// quarter as many connections whose peer is silent.
    turn: usize,
}

/// A load of nine tenths of the server's capacity. Each connection makes a request every 2.2 s, and
/// receiving a full buffer takes 1.2 s.
const BUSY: Load = Load {
    connections: 600,
    between: Duration::from_micros(3600),
    receiving: Duration::from_micros(1200),
    sending: Duration::from_micros(800),
    buffer: 1000,
    turn: 64,
};

/// The same relative load, with hosts that have a twentieth of the speed and with more connections:
/// each makes a request every 58 s.
const SLOW: Load = Load {
    connections: 800,
    between: Duration::from_millis(72),
    receiving: Duration::from_millis(24),
    sending: Duration::from_millis(16),
    buffer: 50,
    turn: 4,
};

/// One endpoint, its socket buffer, and the thread that serves both.
struct Host {
    endpoint: Endpoint,
    home: SocketAddr,
    peer: SocketAddr,
    /// Datagrams on the wire or in the buffer, with their arrival times.
    buffer: VecDeque<(Timestamp, Vec<u8>)>,
    /// The time at which the thread finishes its turn.
    free: Timestamp,
    load: Load,
    /// The time up to which the host has received all datagrams.
    frontier: Timestamp,
    /// The start times of the latest consecutive turns that did not receive all datagrams.
    behind: VecDeque<Timestamp>,
    own: BTreeSet<(Timestamp, ConnectionHandle)>,
    silence: BTreeSet<(Timestamp, ConnectionHandle)>,
    deadlines: HashMap<ConnectionHandle, Deadlines>,
    /// Connections with something to do.
    dirty: BTreeSet<ConnectionHandle>,
    dropped: usize,
}

impl Host {
    fn new(
        seed: u8,
        server: Option<Arc<ServerConfig>>,
        load: Load,
        [home, peer]: [&str; 2],
    ) -> Self {
        let config = EndpointConfig {
            id_generator: Arc::new(RandomIds),
            reset_key: ResetKey::new(&[seed; 32]),
            max_connections: load.connections,
        };
        let random = Random::from_number(u64::from(seed));
        Self {
            endpoint: Endpoint::new(config, server, Timestamp::ORIGIN, random),
            home: address(home),
            peer: address(peer),
            buffer: VecDeque::new(),
            free: Timestamp::ORIGIN,
            load,
            frontier: Timestamp::ORIGIN,
            behind: VecDeque::new(),
            own: BTreeSet::new(),
            silence: BTreeSet::new(),
            deadlines: HashMap::new(),
            dirty: BTreeSet::new(),
            dropped: 0,
        }
    }

    /// Returns when the host's thread has something to do.
    fn next(&self) -> Option<Timestamp> {
        let arrival = self.buffer.front().map(|(at, _)| *at);
        let timers = [self.own.first(), self.silence.first()].map(|it| it.map(|(at, _)| *at));
        let dirty = (!self.dirty.is_empty()).then_some(self.free);
        let next = [arrival, timers[0], timers[1], dirty].into_iter().flatten().min();
        next.map(|at| at.max(self.free))
    }

    fn set_timers(&mut self, handle: ConnectionHandle, deadlines: Deadlines) {
        let before = self.deadlines.insert(handle, deadlines).unwrap_or_default();
        let sets = [&mut self.own, &mut self.silence];
        let [before, after] = [before, deadlines].map(|it| [it.own, it.silence]);
        for ((set, before), after) in sets.into_iter().zip(before).zip(after) {
            before.map(|at| set.remove(&(at, handle)));
            after.map(|at| set.insert((at, handle)));
        }
    }

    /// Removes and returns the connections whose timers are served in a turn.
    fn due(&mut self, now: Timestamp) -> Vec<ConnectionHandle> {
        let is_due = |(at, _): &(Timestamp, ConnectionHandle), until| *at <= until;
        let own = self.own.iter().take_while(|it| is_due(it, now));
        let until = now.min(self.frontier);
        let silence = self.silence.iter().take_while(|it| is_due(it, until));
        own.chain(silence.take(self.load.turn / 4)).map(|(_, handle)| *handle).collect()
    }

    /// Updates the time up to which everything was received, after a turn.
    fn note_received(&mut self, began: Timestamp) {
        if self.buffer.front().is_none_or(|(at, _)| *at > began) {
            self.frontier = began;
            self.behind.clear();
            return;
        }
        self.behind.push_back(began);
        if self.behind.len() > self.load.buffer / self.load.turn {
            self.frontier = self.behind.pop_front().unwrap();
        }
    }

    /// Runs a turn of the thread: it receives, serves timers, and lets the connections do `work`
    /// and send. Returns what it sends.
    fn turn(
        &mut self,
        mut now: Timestamp,
        work: &mut dyn FnMut(Timestamp, &mut Endpoint, ConnectionHandle),
    ) -> Vec<(Timestamp, Vec<u8>)> {
        let began = now;
        for _ in 0..self.load.turn {
            if self.buffer.front().is_none_or(|(at, _)| *at > now) {
                break;
            }
            let Some((_, mut datagram)) = self.buffer.pop_front() else { break };
            now += self.load.receiving;
            let (remote, socket) = (self.peer, SocketIndex::default());
            let (local_ip, ecn) = (Some(self.home.ip()), EcnCodepoint::NotEct);
            let arrival = Arrival { remote, socket, local_ip, ecn };
            match self.endpoint.receive(now, arrival, &mut datagram) {
                Received::Incoming(incoming) => {
                    self.dirty.insert(self.endpoint.accept(now, incoming, None).unwrap());
                }
                Received::Connection { handle, .. } => _ = self.dirty.insert(handle),
                _ => {}
            }
        }
        self.note_received(began);
        for handle in self.due(now) {
            self.endpoint.on_deadline(handle, now, self.frontier);
            self.dirty.insert(handle);
        }
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 1500]);
        while let Some(handle) = self.dirty.pop_first() {
            work(now, &mut self.endpoint, handle);
            while let Some(transmit) = self.endpoint.transmit(handle, now, &mut buffer, 1) {
                now += self.load.sending;
                self.endpoint.transmitted(handle, now);
                sent.push((now + DELAY, buffer[..transmit.size].to_vec()));
            }
            let deadlines = self.endpoint.deadlines(handle, now);
            self.set_timers(handle, deadlines);
        }
        self.free = now;
        sent
    }

    /// Receives datagrams from the other host.
    fn arrive(&mut self, datagrams: Vec<(Timestamp, Vec<u8>)>) {
        for datagram in datagrams {
            if self.buffer.len() < self.load.buffer {
                self.buffer.push_back(datagram);
            } else {
                self.dropped += 1;
            }
        }
    }
}

/// A request that has not been answered yet.
struct Request {
    stream: StreamId,
    since: Timestamp,
    received: usize,
}

impl Request {
    /// Reads the available data, and returns whether the response is complete.
    fn read(&mut self, now: Timestamp, connection: &mut Connection) -> bool {
        while let Ok(outcome) = connection.read(now, self.stream, usize::MAX) {
            match outcome {
                ReadOutcome::Data(data) => self.received += data.len(),
                ReadOutcome::Blocked => return false,
                ReadOutcome::Finished => break,
            }
        }
        assert_eq!(self.received, RESPONSE.len());
        true
    }
}

/// The two hosts, and the clients' pending requests.
struct World {
    client: Host,
    server: Host,
    handles: Vec<ConnectionHandle>,
    requests: HashMap<ConnectionHandle, Vec<Request>>,
    /// When each request was answered, and how long that took.
    answers: Vec<(Timestamp, Duration)>,
    next_request: (Timestamp, usize),
    between: Duration,
    /// Whether datagrams on the wire are lost.
    is_cut: bool,
}

impl World {
    /// Establishes the connections one after the other.
    fn new(load: Load) -> Self {
        let tls: &Tls = tls();
        let (client, server) = support::configurations(tls, quiet(), quiet());
        let mut world = Self {
            client: Host::new(1, None, load, [CLIENT, SERVER]),
            server: Host::new(2, Some(server), load, [SERVER, CLIENT]),
            handles: Vec::new(),
            requests: HashMap::new(),
            answers: Vec::new(),
            next_request: (Timestamp::FAR_FUTURE, 0),
            between: load.between,
            is_cut: false,
        };
        for _ in 0..load.connections {
            world.connect(&client);
        }
        let now = world.client.free.max(world.server.free) + Duration::from_secs(10);
        world.run_until(now);
        world.next_request.0 = now;
        world
    }

    fn connect(&mut self, config: &ClientConfig) {
        let now = self.client.free.max(self.server.free);
        let endpoint = &mut self.client.endpoint;
        let handle = endpoint.connect(now, config, address(SERVER), "localhost", None).unwrap();
        self.client.dirty.insert(handle);
        self.handles.push(handle);
        let load = self.client.load;
        self.run_until(now + 8 * (load.receiving + load.sending));
    }

    fn run_until(&mut self, end: Timestamp) {
        loop {
            let request = self.next_request.0.max(self.client.free);
            let client = self.client.next().map_or(request, |at| at.min(request));
            let server = self.server.next().unwrap_or(Timestamp::FAR_FUTURE);
            if client.min(server) >= end {
                return;
            }
            if client <= server {
                self.client_turn(client);
            } else {
                self.server_turn(server);
            }
        }
    }

    fn client_turn(&mut self, now: Timestamp) {
        while self.next_request.0 <= now {
            let (since, number) = self.next_request;
            self.next_request = (since + self.between, number + 1);
            let handle = self.handles[number % self.handles.len()];
            let connection = self.client.endpoint.connection_mut(handle).unwrap();
            let stream = connection.open(Direction::Bidirectional).unwrap();
            connection.write_slice(stream, REQUEST).unwrap();
            connection.finish(stream).unwrap();
            let waiting = self.requests.entry(handle).or_default();
            waiting.push(Request { stream, since, received: 0 });
            self.client.dirty.insert(handle);
        }
        let (requests, answers) = (&mut self.requests, &mut self.answers);
        let sent = self.client.turn(now, &mut |now, endpoint, handle| {
            let connection = endpoint.connection_mut(handle).unwrap();
            while let Some(event) = connection.next_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
            }
            let Some(waiting) = requests.get_mut(&handle) else { return };
            waiting.retain_mut(|request| {
                let is_answered = request.read(now, connection);
                if is_answered {
                    answers.push((now, now.saturating_since(request.since)));
                }
                !is_answered
            });
        });
        if !self.is_cut {
            self.server.arrive(sent);
        }
    }

    fn server_turn(&mut self, now: Timestamp) {
        let sent = self.server.turn(now, &mut |_, endpoint, handle| {
            let connection = endpoint.connection_mut(handle).unwrap();
            while let Some(event) = connection.next_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
            }
            while let Some(stream) = connection.accept(Direction::Bidirectional) {
                connection.write_slice(stream, RESPONSE).unwrap();
                connection.finish(stream).unwrap();
            }
        });
        if !self.is_cut {
            self.client.arrive(sent);
        }
    }

    /// Returns how many requests are unanswered.
    fn waiting(&self) -> usize {
        self.requests.values().map(Vec::len).sum()
    }

    /// Returns how many requests were answered between these times.
    fn answered(&self, from: Timestamp, to: Timestamp) -> usize {
        self.answers.iter().filter(|(at, _)| (from..to).contains(at)).count()
    }
}

/// Returns the simulation after requests have been made for a while, and the current time.
fn in_use(load: Load) -> (World, Timestamp) {
    let mut world = World::new(load);
    let now = world.next_request.0 + 500 * load.between;
    world.run_until(now);
    assert!(world.waiting() < 10, "{} wait", world.waiting());
    (world, now)
}

/// 277 requests per second arrive, and 312 can be answered. Requests that are pending after the
/// server stalls for a second must not be retransmitted so often that the host cannot process them.
#[test]
fn a_second_without_a_host_is_made_up_for() {
    let (mut world, stop) = in_use(BUSY);
    world.server.free = stop + SECOND;
    world.run_until(stop + SECOND);
    let waiting = world.waiting();
    assert!(waiting > 250, "{waiting}");
    for second in 1..16 {
        let from = stop + SECOND * second;
        world.run_until(from + SECOND);
        let answered = world.answered(from, from + SECOND);
        assert!(answered > 250, "{answered} answered in second {second}");
    }
    assert!(world.waiting() < 10, "{} wait", world.waiting());
    assert_eq!((world.client.dropped, world.server.dropped), (0, 0));
    let longest = world.answers.iter().map(|(_, wait)| *wait).max().unwrap();
    assert!(longest < 2 * SECOND, "{longest:?}");
}

/// Everything sent for 0.3 s is lost. All connections then wait for responses, but none of them is
/// delayed by much more than 0.3 s.
#[test]
fn what_a_path_has_lost_is_sent_again_soon() {
    let (mut world, begin) = in_use(BUSY);
    world.is_cut = true;
    let end = begin + Duration::from_millis(300);
    world.run_until(end);
    world.is_cut = false;
    world.run_until(end + 8 * SECOND);
    let made_before = |(at, wait): &(Timestamp, Duration)| *at > end && *at < end + *wait;
    let late = world.answers.iter().filter(|answer| made_before(answer)).map(|(at, _)| *at);
    let last = late.max().unwrap().saturating_since(end);
    assert!(last < Duration::from_millis(700), "{last:?}");
    assert!(world.waiting() < 10, "{} wait", world.waiting());
}

/// For two minutes, the request rate is 1.5 times the rate that can be answered, which is 234 per
/// 15 s. While hosts cannot receive everything that arrives, retransmissions must not take up their
/// time.
#[test]
fn too_many_requests_do_not_keep_hosts_from_answering() {
    let (mut world, begin) = in_use(SLOW);
    world.between = SLOW.between * 6 / 10;
    for part in 0..16 {
        if part == 8 {
            world.between = SLOW.between;
        }
        let from = begin + 15 * SECOND * part;
        world.run_until(from + 15 * SECOND);
        let answered = world.answered(from, from + 15 * SECOND);
        assert!(answered > 160, "{answered} answered in part {part}");
    }
    assert!(world.server.dropped > 1000, "{} dropped", world.server.dropped);
}
