//! Many connections between two busy hosts, in virtual time: after one of them has stood still, both go on as before.

mod support;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_transport::{
    Arrival, ClientConfig, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig, Event,
    RandomIds, ReadOutcome, Received, ResetKey, ServerConfig, SocketIndex,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::{Direction, StreamId};
use support::{CLIENT, SERVER, Tls, address, quiet, tls};

const CONNECTIONS: usize = 600;
/// Each connection makes a request every 2.2 s.
const BETWEEN_REQUESTS: Duration = Duration::from_micros(3600);
const REQUEST: &[u8] = &[1; 100];
const RESPONSE: &[u8] = &[2; 1000];
/// What a datagram takes a host's only thread. A request takes the server 3.2 ms: it receives the request and an ACK, and
/// sends the response. So it is busy for nine tenths of the time.
const RECEIVING: Duration = Duration::from_micros(1200);
const SENDING: Duration = Duration::from_micros(800);
/// The time on the wire.
const DELAY: Duration = Duration::from_micros(100);
/// How many datagrams a socket buffer holds: what a host receives in 1.2 s.
const BUFFER: usize = 1000;
/// How many datagrams a host receives before it sends.
const TURN: usize = 64;
const SECOND: Duration = Duration::from_secs(1);

/// One endpoint, its socket buffer, and the thread that serves both.
struct Host {
    endpoint: Endpoint,
    home: SocketAddr,
    peer: SocketAddr,
    /// What is on the wire or in the buffer, and when it arrives.
    buffer: VecDeque<(Timestamp, Vec<u8>)>,
    /// When the thread has finished its turn.
    free: Timestamp,
    /// Up to when it has received everything.
    frontier: Timestamp,
    timers: BTreeSet<(Timestamp, ConnectionHandle)>,
    deadlines: HashMap<ConnectionHandle, Timestamp>,
    /// Connections with something to do.
    dirty: BTreeSet<ConnectionHandle>,
    dropped: usize,
}

impl Host {
    fn new(seed: u8, server: Option<Arc<ServerConfig>>, [home, peer]: [&str; 2]) -> Self {
        let config = EndpointConfig {
            id_generator: Arc::new(RandomIds),
            reset_key: ResetKey::new(&[seed; 32]),
            max_connections: CONNECTIONS,
        };
        let random = Random::from_number(u64::from(seed));
        Self {
            endpoint: Endpoint::new(config, server, Timestamp::ORIGIN, random),
            home: address(home),
            peer: address(peer),
            buffer: VecDeque::new(),
            free: Timestamp::ORIGIN,
            frontier: Timestamp::ORIGIN,
            timers: BTreeSet::new(),
            deadlines: HashMap::new(),
            dirty: BTreeSet::new(),
            dropped: 0,
        }
    }

    /// When its thread has something to do.
    fn next(&self) -> Option<Timestamp> {
        let arrival = self.buffer.front().map(|(at, _)| *at);
        let timer = self.timers.first().map(|(at, _)| *at);
        let dirty = (!self.dirty.is_empty()).then_some(self.free);
        [arrival, timer, dirty].into_iter().flatten().min().map(|at| at.max(self.free))
    }

    fn set_timer(&mut self, handle: ConnectionHandle, deadline: Option<Timestamp>) {
        let before = match deadline {
            Some(at) => self.deadlines.insert(handle, at),
            None => self.deadlines.remove(&handle),
        };
        self.timers.extend(deadline.map(|at| (at, handle)));
        if let Some(before) = before.filter(|before| Some(*before) != deadline) {
            self.timers.remove(&(before, handle));
        }
    }

    /// A turn of the thread: it receives, serves timers, and has the connections do `work` and send. Returns what it sends.
    fn turn(
        &mut self,
        mut now: Timestamp,
        work: &mut dyn FnMut(Timestamp, &mut Endpoint, ConnectionHandle),
    ) -> Vec<(Timestamp, Vec<u8>)> {
        let began = now;
        for _ in 0..TURN {
            if self.buffer.front().is_none_or(|(at, _)| *at > now) {
                break;
            }
            let Some((_, mut datagram)) = self.buffer.pop_front() else { break };
            now += RECEIVING;
            let (remote, socket) = (self.peer, SocketIndex::default());
            let (local_ip, ecn) = (Some(self.home.ip()), EcnCodepoint::NotEct);
            let arrival = Arrival { remote, socket, local_ip, ecn };
            match self.endpoint.receive(now, arrival, &mut datagram) {
                Received::Incoming(incoming) => {
                    self.dirty.insert(self.endpoint.accept(now, incoming, None).unwrap());
                }
                Received::Connection(handle) => _ = self.dirty.insert(handle),
                Received::Done => {}
            }
        }
        if self.buffer.front().is_none_or(|(at, _)| *at > began) {
            self.frontier = began;
        }
        while let Some((at, handle)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, handle));
            self.deadlines.remove(&handle);
            self.endpoint.on_deadline(handle, now, self.frontier);
            self.dirty.insert(handle);
        }
        let (mut sent, mut buffer) = (Vec::new(), vec![0; 1500]);
        while let Some(handle) = self.dirty.pop_first() {
            work(now, &mut self.endpoint, handle);
            while let Some(transmit) = self.endpoint.transmit(handle, now, &mut buffer, 1) {
                now += SENDING;
                self.endpoint.transmitted(handle, now);
                sent.push((now + DELAY, buffer[..transmit.size].to_vec()));
            }
            // What waits to be received is not asked for again at once.
            let deadline = self.endpoint.deadline(handle, now);
            let deadline = deadline.map(|at| at.max(now + Duration::from_millis(1)));
            self.set_timer(handle, deadline);
        }
        self.free = now;
        sent
    }

    /// Datagrams come from the other host.
    fn arrive(&mut self, datagrams: Vec<(Timestamp, Vec<u8>)>) {
        for datagram in datagrams {
            if self.buffer.len() < BUFFER {
                self.buffer.push_back(datagram);
            } else {
                self.dropped += 1;
            }
        }
    }
}

/// A request that was not answered yet.
struct Request {
    stream: StreamId,
    since: Timestamp,
    received: usize,
}

/// The two hosts, and what the clients wait for.
struct World {
    client: Host,
    server: Host,
    handles: Vec<ConnectionHandle>,
    requests: HashMap<ConnectionHandle, Request>,
    /// When a request was answered, and how long that took.
    answers: Vec<(Timestamp, Duration)>,
    next_request: (Timestamp, usize),
    /// How many requests were not answered before the connection's next one.
    late: usize,
    /// Datagrams on the wire are lost.
    is_cut: bool,
}

impl World {
    /// The connections are established one after the other.
    fn new() -> Self {
        let tls: &Tls = tls();
        let (client, server) = support::configurations(tls, quiet(), quiet());
        let mut world = Self {
            client: Host::new(1, None, [CLIENT, SERVER]),
            server: Host::new(2, Some(server), [SERVER, CLIENT]),
            handles: Vec::new(),
            requests: HashMap::new(),
            answers: Vec::new(),
            next_request: (Timestamp::FAR_FUTURE, 0),
            late: 0,
            is_cut: false,
        };
        for _ in 0..CONNECTIONS {
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
        self.run_until(now + Duration::from_millis(20));
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
            self.next_request = (since + BETWEEN_REQUESTS, number + 1);
            let handle = self.handles[number % CONNECTIONS];
            let connection = self.client.endpoint.connection_mut(handle).unwrap();
            let stream = connection.open(Direction::Bidirectional).unwrap();
            connection.write_slice(stream, REQUEST).unwrap();
            connection.finish(stream).unwrap();
            let before = self.requests.insert(handle, Request { stream, since, received: 0 });
            self.late += usize::from(before.is_some());
            self.client.dirty.insert(handle);
        }
        let (requests, answers) = (&mut self.requests, &mut self.answers);
        let sent = self.client.turn(now, &mut |now, endpoint, handle| {
            let connection = endpoint.connection_mut(handle).unwrap();
            while let Some(event) = connection.next_event() {
                assert!(!matches!(event, Event::Closed(_)), "{event:?}");
            }
            let Some(request) = requests.get_mut(&handle) else { return };
            while let Ok(outcome) = connection.read(now, request.stream, usize::MAX) {
                match outcome {
                    ReadOutcome::Data(data) => request.received += data.len(),
                    ReadOutcome::Blocked => return,
                    ReadOutcome::Finished => break,
                }
            }
            assert_eq!(request.received, RESPONSE.len());
            answers.push((now, now.saturating_since(request.since)));
            requests.remove(&handle);
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

    /// How many requests were answered between these times.
    fn answered(&self, from: Timestamp, to: Timestamp) -> usize {
        self.answers.iter().filter(|(at, _)| (from..to).contains(at)).count()
    }
}

/// A world in which requests have been made for two seconds, and the time.
fn in_use() -> (World, Timestamp) {
    let mut world = World::new();
    let now = world.next_request.0 + 2 * SECOND;
    world.run_until(now);
    assert!(world.requests.len() < 10, "{} wait", world.requests.len());
    (world, now)
}

/// 277 requests a second come in, and 312 can be answered. What waits after a second without the server must not be asked for
/// again and again, until there is more of that than the host can process.
#[test]
fn a_second_without_a_host_is_made_up_for() {
    let (mut world, stop) = in_use();
    world.server.free = stop + SECOND;
    world.run_until(stop + SECOND);
    let waiting = world.requests.len();
    assert!(waiting > 250, "{waiting}");
    for second in 1..16 {
        let from = stop + SECOND * second;
        world.run_until(from + SECOND);
        let answered = world.answered(from, from + SECOND);
        assert!(answered > 250, "{answered} answered in second {second}");
    }
    assert!(world.requests.len() < 10, "{} wait", world.requests.len());
    assert_eq!((world.late, world.client.dropped, world.server.dropped), (0, 0, 0));
    let longest = world.answers.iter().map(|(_, wait)| *wait).max().unwrap();
    assert!(longest < 2 * SECOND, "{longest:?}");
}

/// All that is sent for 0.3 s is lost. That all connections have waited for answers delays none of them much longer than that.
#[test]
fn what_a_path_has_lost_is_sent_again_soon() {
    let (mut world, begin) = in_use();
    world.is_cut = true;
    let end = begin + Duration::from_millis(300);
    world.run_until(end);
    world.is_cut = false;
    world.run_until(end + 8 * SECOND);
    let made_before = |(at, wait): &(Timestamp, Duration)| *at > end && *at < end + *wait;
    let late = world.answers.iter().filter(|answer| made_before(answer)).map(|(at, _)| *at);
    let last = late.max().unwrap().saturating_since(end);
    assert!(last < Duration::from_millis(700), "{last:?}");
    assert!(world.requests.len() < 10, "{} wait", world.requests.len());
}
