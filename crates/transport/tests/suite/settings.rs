//! Tests every limit at its minimum and maximum, one at a time and all together, at either
//! endpoint. A full exchange still succeeds, and applications that wait for buffer space or for a
//! stream continue.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::support::versions::closed;
use crate::support::{Door, Pair, SERVER, address, delayed, milliseconds, pattern, quiet, seconds};
use bytes::Bytes;
use clearway_transport::{
    ConnectError, Connection, ConnectionError, DatagramError, Endpoint, EndpointConfig, Event,
    RandomIds, ReadOutcome, ResetKey, ServerConfig, Side, TransportConfig, TransportConfigBuilder,
};
use clearway_units::Random;
use clearway_wire::{Direction, StreamId, TransportErrorCode, VarInt};

type Builder = TransportConfigBuilder;

/// The number of streams that each endpoint opens, and the number of bytes on each stream in each
/// direction.
const STREAMS: usize = 4;
const SIZE: usize = 500;

/// The maximum time of an exchange: each byte may have to wait for the acknowledgment of the
/// previous one, which may be delayed by the longest possible ACK delay.
const LIMIT: Duration = Duration::from_secs(3600);

const LARGEST: u64 = (1 << 62) - 1;
const LONGEST_ACK_DELAY: Duration = Duration::from_micros(16_383_999);

/// A limit: its name, and functions that set it to the lowest and the highest value that still
/// permit an exchange.
type Limit = (&'static str, fn(Builder) -> Builder, fn(Builder) -> Builder);

fn stream_windows(builder: Builder, initial: u64, max: u64) -> Builder {
    builder.initial_stream_receive_window(initial).max_stream_receive_window(max)
}

fn connection_windows(builder: Builder, initial: u64, max: u64) -> Builder {
    builder.initial_connection_receive_window(initial).max_connection_receive_window(max)
}

const LIMITS: [Limit; 25] = [
    (
        "max_idle_timeout",
        |it| it.max_idle_timeout(Some(milliseconds(1))),
        |it| it.max_idle_timeout(Some(milliseconds(LARGEST))),
    ),
    (
        "keep_alive_interval",
        |it| it.keep_alive_interval(Some(Duration::from_nanos(1))),
        |it| it.keep_alive_interval(Some(Duration::MAX)),
    ),
    // This is the minimum with which a handshake is possible on this path.
    (
        "handshake_timeout",
        |it| it.handshake_timeout(milliseconds(100)),
        |it| it.handshake_timeout(Duration::MAX),
    ),
    (
        "initial_rtt",
        |it| it.initial_rtt(Duration::from_nanos(1)),
        |it| it.initial_rtt(Duration::MAX),
    ),
    (
        "initial_datagram_size",
        |it| it.initial_datagram_size(1200),
        |it| it.max_datagram_size(65_527).initial_datagram_size(65_527),
    ),
    (
        "max_datagram_size",
        |it| it.discover_path_mtu(true).max_datagram_size(1200),
        |it| it.discover_path_mtu(true).max_datagram_size(65_527),
    ),
    (
        "max_concurrent_bidirectional_streams",
        |it| it.max_concurrent_bidirectional_streams(1),
        |it| it.max_concurrent_bidirectional_streams(1 << 60),
    ),
    (
        "max_concurrent_unidirectional_streams",
        |it| it.max_concurrent_unidirectional_streams(1),
        |it| it.max_concurrent_unidirectional_streams(1 << 60),
    ),
    (
        "initial_stream_receive_window",
        |it| it.initial_stream_receive_window(0),
        |it| stream_windows(it, LARGEST, LARGEST),
    ),
    (
        "max_stream_receive_window",
        |it| stream_windows(it, 1, 1),
        |it| it.max_stream_receive_window(LARGEST),
    ),
    (
        "initial_connection_receive_window",
        |it| it.initial_connection_receive_window(0),
        |it| connection_windows(it, LARGEST, LARGEST),
    ),
    (
        "max_connection_receive_window",
        |it| connection_windows(it, 1, 1),
        |it| it.max_connection_receive_window(LARGEST),
    ),
    ("send_buffer", |it| it.send_buffer(1), |it| it.send_buffer(u64::MAX)),
    (
        "max_datagram_frame_size",
        |it| it.max_datagram_frame_size(Some(0)),
        |it| it.max_datagram_frame_size(Some(LARGEST)),
    ),
    (
        "datagram_receive_buffer",
        |it| it.datagram_receive_buffer(0),
        |it| it.datagram_receive_buffer(u64::MAX),
    ),
    (
        "datagram_receive_limit",
        |it| it.datagram_receive_limit(1),
        |it| it.datagram_receive_limit(usize::MAX),
    ),
    (
        "datagram_send_buffer",
        |it| it.datagram_send_buffer(0),
        |it| it.datagram_send_buffer(u64::MAX),
    ),
    (
        "datagram_send_limit",
        |it| it.datagram_send_limit(1),
        |it| it.datagram_send_limit(usize::MAX),
    ),
    (
        "max_ack_delay",
        |it| it.max_ack_delay(Duration::ZERO),
        |it| it.max_ack_delay(LONGEST_ACK_DELAY),
    ),
    (
        "min_ack_delay",
        |it| it.min_ack_delay(Some(Duration::ZERO)),
        |it| it.min_ack_delay(Some(LONGEST_ACK_DELAY)),
    ),
    (
        "ack_eliciting_threshold",
        |it| it.ack_eliciting_threshold(1),
        |it| it.ack_eliciting_threshold(u32::MAX),
    ),
    ("packet_threshold", |it| it.packet_threshold(1), |it| it.packet_threshold(u64::MAX)),
    (
        "initial_window",
        |it| it.initial_window(Some(1200)),
        |it| it.maximum_window(u64::MAX).initial_window(Some(u64::MAX)),
    ),
    ("maximum_window", |it| it.maximum_window(4800), |it| it.maximum_window(u64::MAX)),
    (
        "key_update_after",
        |it| it.key_update_after(Some(1)),
        |it| it.key_update_after(Some(u64::MAX)),
    ),
];

fn base() -> Builder {
    quiet().to_builder().max_datagram_frame_size(Some(1200)).datagram_notices(true)
}

/// An application that opens its streams as soon as possible, writes as much as fits, and reads as
/// much as is available, in each case only in response to an event.
struct Application {
    side: Side,
    opened: usize,
    direction: Direction,
    /// The data that still has to be written.
    rest: BTreeMap<StreamId, Bytes>,
    received: BTreeMap<StreamId, Vec<u8>>,
    /// Streams whose receiving part was read to its end.
    ended: BTreeSet<StreamId>,
    datagrams: usize,
}

impl Application {
    fn new(side: Side, direction: Direction) -> Self {
        let (rest, received) = (BTreeMap::new(), BTreeMap::new());
        let ended = BTreeSet::new();
        Self { side, opened: 0, direction, rest, received, ended, datagrams: 0 }
    }

    fn open(&mut self, connection: &mut Connection) {
        while self.opened < STREAMS
            && let Some(stream) = connection.open(self.direction)
        {
            self.opened += 1;
            self.rest.insert(stream, pattern(SIZE));
            self.received.insert(stream, Vec::new());
            self.write(connection, stream);
        }
    }

    fn write(&mut self, connection: &mut Connection, stream: StreamId) {
        let Some(rest) = self.rest.get_mut(&stream) else { return };
        let taken = connection.write(stream, rest.clone()).unwrap();
        *rest = rest.slice(taken..);
        if rest.is_empty() {
            self.rest.remove(&stream);
            connection.finish(stream).unwrap();
        }
    }

    fn read(
        &mut self,
        pair_now: clearway_units::Timestamp,
        connection: &mut Connection,
        stream: StreamId,
    ) {
        let received = self.received.entry(stream).or_default();
        loop {
            match connection.read(pair_now, stream, usize::MAX).unwrap() {
                ReadOutcome::Data(data) => received.extend_from_slice(&data),
                ReadOutcome::Blocked => return,
                ReadOutcome::Finished => break,
            }
        }
        assert!(*received == pattern(SIZE), "{stream:?} has {} bytes", received.len());
        if !self.ended.insert(stream) {
            return;
        }
        // A request gets a response.
        let is_request = stream.direction() == Direction::Bidirectional && self.side.is_server();
        if is_request {
            self.rest.insert(stream, pattern(SIZE));
            self.write(connection, stream);
        }
    }

    fn on_event(
        &mut self,
        now: clearway_units::Timestamp,
        connection: &mut Connection,
        event: &Event,
    ) {
        match event {
            Event::Connected => {
                self.open(connection);
            }
            Event::StreamsAvailable(_) => self.open(connection),
            Event::Opened(direction) => {
                while let Some(stream) = connection.accept(*direction) {
                    self.read(now, connection, stream);
                }
            }
            Event::Readable(stream) => self.read(now, connection, *stream),
            Event::Writable(stream) => self.write(connection, *stream),
            Event::DatagramReceived => {
                while connection.receive_datagram().is_some() {
                    self.datagrams += 1;
                }
            }
            _ => {}
        }
    }
}

/// Each endpoint opens its streams and sends a datagram if allowed; then the client closes.
fn exchange(name: &str, client: TransportConfig, server: TransportConfig) {
    let mut pair = Pair::with(delayed(10, 1), client, server);
    // With the maximum initial RTT, a probe is sent later than other tests allow.
    pair.longest_wait = Duration::MAX;
    let mut applications = [
        Application::new(Side::Client, Direction::Bidirectional),
        Application::new(Side::Server, Direction::Unidirectional),
    ];
    let start = pair.now;
    let done = pair.run_until(LIMIT, |pair| {
        act(pair, &mut applications);
        // Bidirectional streams end at the client and the server, unidirectional ones only at the
        // client.
        let [client, server] = &applications;
        client.ended.len() == 2 * STREAMS && server.ended.len() == STREAMS
    });
    let took = pair.now.saturating_since(start);
    let [client, server] = &applications;
    assert!(
        done,
        "{name}: after {took:?} the client has opened {} and read {}, the server {} and {}; {:?}",
        client.opened,
        client.ended.len(),
        server.opened,
        server.ended.len(),
        pair.client().close_reason()
    );
    exchange_datagrams(name, &mut pair, &mut applications);
    let now = pair.now;
    pair.client().close(now, VarInt::from_u32(9), b"");
    pair.run_for(seconds(1));
    let expected = ConnectionError::ApplicationClosed {
        error_code: VarInt::from_u32(9),
        reason: Bytes::new(),
    };
    assert_eq!(closed(&pair.server_events), Some(&expected), "{name}");
}

fn act(pair: &mut Pair, applications: &mut [Application; 2]) {
    let now = pair.now;
    for event in std::mem::take(&mut pair.client_events) {
        applications[0].on_event(now, pair.client(), &event);
    }
    for event in std::mem::take(&mut pair.server_events) {
        applications[1].on_event(now, pair.server(), &event);
        pair.server_events.push(event);
    }
    pair.server_events.retain(|event| matches!(event, Event::Closed(_)));
}

/// A datagram is either rejected for the reason that the settings imply or, unless the receiver
/// accepts none, delivered.
fn exchange_datagrams(name: &str, pair: &mut Pair, applications: &mut [Application; 2]) {
    for sender in [Side::Client, Side::Server] {
        let (end, receiver) = match sender {
            Side::Client => (pair.client.connection_mut(pair.handle), 1),
            Side::Server => (pair.server.connection_mut(pair.accepted[0]), 0),
        };
        let sent = end.unwrap().send_datagram(Bytes::from_static(b"unreliable"));
        let before = applications[receiver].datagrams;
        // This is less than the minimum idle timeout.
        pair.run_until(milliseconds(30), |pair| {
            act(pair, applications);
            false
        });
        let [client, server] = [pair.client().config().clone(), pair.server().config().clone()];
        let (from, to) = if sender.is_client() { (client, server) } else { (server, client) };
        let expected = match (to.max_datagram_frame_size(), from.datagram_send_buffer()) {
            (None | Some(0), _) => Err(DatagramError::Unsupported),
            (_, 0) => Err(DatagramError::QueueFull),
            _ => Ok(()),
        };
        assert_eq!(sent.map(|_| ()), expected, "{name}: {sender:?}");
        let arrives = expected.is_ok() && to.datagram_receive_buffer() > 0;
        let arrived = applications[receiver].datagrams - before;
        assert_eq!(arrived, usize::from(arrives), "{name}: {sender:?}");
    }
}

/// Exchanges that should succeed, and the names of those that failed.
#[derive(Default)]
struct Exchanges {
    failed: Vec<String>,
}

impl Exchanges {
    fn add(&mut self, name: String, client: &TransportConfig, server: &TransportConfig) {
        let run = || exchange(&name, client.clone(), server.clone());
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            self.failed.push(name);
        }
    }

    /// Adds exchanges with the settings at the client, at the server, and at both.
    fn add_at_each_end(&mut self, name: &str, settings: &TransportConfig) {
        let default = base().build().unwrap();
        self.add(format!("{name} of the client"), settings, &default);
        self.add(format!("{name} of the server"), &default, settings);
        self.add(format!("{name} of both"), settings, settings);
    }

    fn check(self) {
        assert!(self.failed.is_empty(), "{:#?}", self.failed);
    }
}

#[test]
fn an_exchange_succeeds_with_each_limit_at_its_least() {
    let mut exchanges = Exchanges::default();
    for (name, least, _) in LIMITS {
        exchanges.add_at_each_end(&format!("the least {name}"), &least(base()).build().unwrap());
    }
    exchanges.check();
}

#[test]
fn an_exchange_succeeds_with_each_limit_at_its_greatest() {
    let mut exchanges = Exchanges::default();
    for (name, _, most) in LIMITS {
        exchanges.add_at_each_end(&format!("the greatest {name}"), &most(base()).build().unwrap());
    }
    exchanges.check();
}

#[test]
fn an_exchange_succeeds_with_all_limits_at_their_least_or_greatest() {
    let mut exchanges = Exchanges::default();
    // With an initial round-trip time of a nanosecond, three probe timeouts are less than a round
    // trip of this path, and this is the minimum idle timeout (RFC 9000 §10.1). The two settings
    // therefore cannot be combined.
    let limits = LIMITS.iter().filter(|(name, ..)| *name != "max_idle_timeout");
    let least = limits.fold(base(), |it, (_, least, _)| least(it));
    exchanges.add_at_each_end("all least", &least.build().unwrap());
    let greatest = LIMITS.iter().fold(base(), |it, (_, _, greatest)| greatest(it));
    exchanges.add_at_each_end("all greatest", &greatest.build().unwrap());
    exchanges.check();
}

/// Runs with each controller, because controllers multiply and divide windows and rates.
#[test]
fn every_controller_works_with_the_least_and_the_greatest_window() {
    let mut exchanges = Exchanges::default();
    let used = ["initial_window", "maximum_window", "initial_datagram_size", "initial_rtt"];
    for algorithm in clearway_congestion::Algorithm::ALL {
        for (name, least, greatest) in LIMITS.into_iter().filter(|(name, ..)| used.contains(name)) {
            for (bound, set) in [("least", least), ("greatest", greatest)] {
                let settings = set(base()).controller(Arc::new(algorithm)).build().unwrap();
                let name = format!("the {bound} {name} with {algorithm:?}");
                exchanges.add(name, &settings, &settings);
            }
        }
    }
    exchanges.check();
}

/// RFC 9000 §4.6: a peer may allow no streams at all. No application is woken, and nothing else is
/// affected.
#[test]
fn an_end_that_permits_nothing_is_left_in_peace() {
    let nothing = stream_windows(connection_windows(base(), 0, 0), 0, 0)
        .max_concurrent_bidirectional_streams(0)
        .max_concurrent_unidirectional_streams(0)
        .build()
        .unwrap();
    let mut pair = Pair::with(delayed(10, 1), base().build().unwrap(), nothing);
    pair.establish();
    for direction in [Direction::Bidirectional, Direction::Unidirectional] {
        assert_eq!(pair.client().open(direction), None);
    }
    let stream = pair.server().open(Direction::Bidirectional).unwrap();
    pair.server().write_slice(stream, b"answer me").unwrap();
    pair.run_for(seconds(1));
    assert_eq!(pair.client().accept(Direction::Bidirectional), Some(stream));
    assert_eq!(pair.client().write_slice(stream, b"answer"), Ok(6), "it is kept here");
    let before = pair.client().statistics().packets_sent;
    pair.run_for(seconds(60));
    let sent = pair.client().statistics().packets_sent - before;
    assert!(sent < 100, "{sent} packets in a minute");
    assert!(!pair.client().is_closed() && !pair.server().is_closed());
}

/// A handshake with too little time fails with the correct error.
#[test]
fn the_least_handshake_timeout_is_kept() {
    let hasty = base().handshake_timeout(Duration::from_nanos(1)).build().unwrap();
    let mut pair = Pair::with(delayed(10, 1), hasty, base().build().unwrap());
    pair.run_for(seconds(100));
    let error = closed(&pair.client_events).cloned();
    assert!(matches!(error, Some(ConnectionError::HandshakeTimedOut(_))), "{error:?}");
}

/// The limits of an endpoint.
#[derive(Clone, Copy, Debug)]
struct EndpointLimits {
    max_connections: usize,
    retry_token_lifetime: Duration,
    new_token_lifetime: Duration,
}

type EndpointLimit = (&'static str, fn(&mut EndpointLimits), fn(&mut EndpointLimits));

const ENDPOINT_LIMITS: [EndpointLimit; 3] = [
    ("max_connections", |it| it.max_connections = 1, |it| it.max_connections = usize::MAX),
    // The minimum with which a handshake is possible: a round trip of this path.
    (
        "retry_token_lifetime",
        |it| it.retry_token_lifetime = milliseconds(20),
        |it| it.retry_token_lifetime = Duration::MAX,
    ),
    (
        "new_token_lifetime",
        |it| it.new_token_lifetime = Duration::ZERO,
        |it| it.new_token_lifetime = Duration::MAX,
    ),
];

/// A client, and a server that validates every client's address.
fn limited(limits: EndpointLimits) -> Pair {
    let EndpointLimits { max_connections, .. } = limits;
    let mut pair = Pair::with(delayed(10, 1), base().build().unwrap(), base().build().unwrap());
    pair.longest_wait = Duration::MAX;
    pair.door = Door::Retry;
    pair.server_config = Arc::new(ServerConfig {
        retry_token_lifetime: limits.retry_token_lifetime,
        new_token_lifetime: limits.new_token_lifetime,
        ..(*pair.server_config).clone()
    });
    let endpoint = |seed, server| {
        let (id_generator, reset_key) = (Arc::new(RandomIds), ResetKey::new(&[seed; 32]));
        let config = EndpointConfig { id_generator, reset_key, max_connections };
        Endpoint::new(config, server, pair.now, Random::from_number(seed.into()))
    };
    let [client, server] = [endpoint(1, None), endpoint(2, Some(pair.server_config.clone()))];
    (pair.client, pair.server) = (client, server);
    pair.reconnect(Vec::new());
    pair
}

fn new_token(pair: &Pair) -> Vec<u8> {
    let token = pair.client_events.iter().find_map(|event| match event {
        Event::NewToken(token) => Some(token.to_vec()),
        _ => None,
    });
    token.expect("the server sends NEW_TOKEN")
}

/// A client connects, other clients are refused if only one connection is allowed, and the client
/// connects again after a hundred years.
fn visits(name: &str, limits: EndpointLimits) {
    let mut pair = limited(limits);
    assert!(pair.download(5000, seconds(10)).is_some(), "{name}");
    let token = new_token(&pair);
    let config = pair.client_config.clone();
    let other = pair.client.connect(pair.now, &config, address(SERVER), "localhost", None);
    if limits.max_connections == 1 {
        assert_eq!(other.err(), Some(ConnectError::TooManyConnections), "{name}");
        assert_eq!(refusal(&mut pair), Some(TransportErrorCode::CONNECTION_REFUSED), "{name}");
    }
    pair.end();
    assert_eq!(pair.server.connection_count(), 0, "{name}");
    pair.run_for(seconds(100 * 365 * 24 * 3600));
    let is_valid = limits.new_token_lifetime == Duration::MAX;
    for (token, trips) in [(token, if is_valid { 4 } else { 6 }), (Vec::new(), 6)] {
        let began = pair.now;
        pair.reconnect(token);
        pair.establish();
        // HANDSHAKE_DONE is the last of these packets.
        assert_eq!(pair.now.saturating_since(began), milliseconds(10 * trips), "{name}");
        assert!(pair.download(5000, seconds(10)).is_some(), "{name}");
        pair.end();
    }
}

/// Returns why the server refuses another client while it has one.
fn refusal(pair: &mut Pair) -> Option<TransportErrorCode> {
    let permissive = EndpointLimits { max_connections: 2, ..LIMITS_OF_OTHERS };
    let client = std::mem::replace(&mut pair.client, limited(permissive).client);
    let before = (pair.handle, std::mem::take(&mut pair.accepted));
    pair.reconnect(Vec::new());
    pair.run_for(seconds(1));
    let reason = match closed(&pair.client_events) {
        Some(ConnectionError::ConnectionClosed { error_code, .. }) => Some(*error_code),
        _ => None,
    };
    assert_eq!(pair.accepted, []);
    pair.client = client;
    (pair.handle, pair.accepted) = before;
    reason
}

const LIMITS_OF_OTHERS: EndpointLimits = EndpointLimits {
    max_connections: 100,
    retry_token_lifetime: Duration::from_secs(15),
    new_token_lifetime: Duration::from_secs(3600),
};

#[test]
fn clients_come_and_return_with_each_limit_of_an_endpoint_at_its_least_and_greatest() {
    let [mut least, mut greatest] = [LIMITS_OF_OTHERS; 2];
    for (name, set_least, set_greatest) in ENDPOINT_LIMITS {
        let [mut low, mut high] = [LIMITS_OF_OTHERS; 2];
        set_least(&mut low);
        set_greatest(&mut high);
        visits(&format!("the least {name}"), low);
        visits(&format!("the greatest {name}"), high);
        set_least(&mut least);
        set_greatest(&mut greatest);
    }
    visits("all least", least);
    visits("all greatest", greatest);
}
