use std::time::Duration;

use clearway::TicketKeys;
use clearway_balancer::{DropReason, Means, Server, ServerState};
use clearway_transport::{RetryOffload, SharedTokens};
use clearway_units::Random;
use clearway_wire::header::{HeaderKind, LongHeader, ProtectedHeader, set_length};
use clearway_wire::{ConnectionId, LongPacketType, PacketNumber, Version, Writer};

use super::super::retries::SharedLimit;
use super::*;

const NOW: Timestamp = Timestamp::ORIGIN;

fn server(name: &str, has_preface: bool) -> Server {
    // The port is derived from the name's letter, to distinguish servers of several pools.
    let port = u16::from(name.as_bytes()[0]);
    Server {
        name: name.to_owned(),
        address: ([192, 0, 2, 1], port).into(),
        ids: Vec::new(),
        id_len: None,
        weight: 1,
        state: ServerState::Active,
        has_preface,
    }
}

fn pool(servers: Vec<Server>) -> Arc<Pool> {
    Arc::new(Pool::new(Vec::new(), servers).unwrap())
}

fn client(number: u16) -> SocketAddr {
    ([198, 51, 100, 7], number).into()
}

fn local() -> SocketAddr {
    ([203, 0, 113, 1], 443).into()
}

/// Returns the first datagram of a client.
fn first(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    [&[0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, high, low, 0][..], &[0; 1200]].concat()
}

struct Thread {
    routing: ShardRouting,
    pool: SharedPool,
    counts: Arc<ShardCounts>,
}

impl Thread {
    fn with(servers: Vec<Server>) -> Self {
        let pool: SharedPool = Arc::new(ArcSwap::new(pool(servers)));
        let counts = Arc::<ShardCounts>::default();
        let limits = Limits::default();
        let shared = Arc::new(SharedIds::new(limits, 1, Random::from_number(1)));
        let routing = ShardRouting::new(&pool, limits, &shared, counts.clone());
        Self { routing, pool, counts }
    }

    fn route(&mut self, number: u16) -> Routed {
        self.routing.route(NOW, client(number), local(), &first(number))
    }

    fn datagrams(&self, name: &str) -> u64 {
        self.counts.datagrams(ServerKey::of(name))
    }
}

#[test]
fn a_datagram_goes_to_a_server_with_or_without_preface() {
    for has_preface in [true, false] {
        let mut thread = Thread::with(vec![server("a", has_preface)]);
        let server = ([192, 0, 2, 1], 97).into();
        let target = Target { server, has_preface, begins: true };
        assert_eq!(thread.route(1), Routed::To(target));
        assert_eq!(thread.routing.is_server(target.server), has_preface);
        assert!(!thread.routing.is_server(client(1)));
    }
}

/// Only datagrams that can be the first of a connection get a source port toward a server without
/// prefaces.
#[test]
fn datagrams_that_begin_a_connection() {
    let mut thread = Thread::with(vec![server("a", false)]);
    let mut begins = |from: u16, datagram: &[u8]| match thread.routing.route(
        NOW,
        client(from),
        local(),
        datagram,
    ) {
        Routed::To(target) => target.begins,
        routed => panic!("{routed:?}"),
    };
    assert!(begins(1, &first(1)));
    // These do not begin a connection: datagrams that are too small, other versions and packet
    // types, connection IDs that are too short, and short headers.
    assert!(!begins(2, &first(2)[..1199]));
    assert!(!begins(3, &[&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a], &first(3)[5..]].concat()));
    assert!(!begins(4, &[&[0xe0], &first(4)[1..]].concat()));
    assert!(!begins(5, &[&[0xc0, 0, 0, 0, 1, 7], &first(5)[6..]].concat()));
    assert!(!begins(6, &[0x43; 31]));
    assert!(!begins(6, &[0x44; 1200]), "its address alone does not begin a connection");
    // A packet with a server-issued connection ID, from another client address.
    let answer = [&[0xe0, 0, 0, 0, 1, 0, 8][..], &[7; 8], &[0; 100]].concat();
    thread.routing.observe(NOW, server("a", false).address, client(1), &answer);
    let mut begins = |from: u16, datagram: &[u8]| {
        let routed = thread.routing.route(NOW, client(from), local(), datagram);
        matches!(routed, Routed::To(Target { begins: true, .. }))
    };
    assert!(begins(7, &[&[0x43][..], &[7; 8], &[0; 30]].concat()));
}

#[test]
fn a_pool_is_taken_with_the_next_turn() {
    let mut thread = Thread::with(vec![server("a", true)]);
    thread.route(1);
    thread.pool.store(pool(vec![server("b", true), server("a", true)]));
    assert!(!thread.routing.is_server(server("b", true).address));
    thread.routing.turn(NOW);
    assert!(thread.routing.is_server(server("b", true).address));
    // The counters of a server that remains in the pool are kept.
    (2..100).for_each(|number| drop(thread.route(number)));
    assert_eq!(thread.datagrams("a") + thread.datagrams("b"), 99);
    assert!(thread.datagrams("b") > 20, "{:?}", thread.counts);
    thread.pool.store(pool(vec![server("b", true)]));
    thread.routing.turn(NOW);
    assert_eq!(thread.datagrams("a"), 0, "it is no longer a server");
    assert!(!thread.routing.is_server(server("a", true).address));
    thread.routing.turn(NOW);
    assert!(thread.datagrams("b") > 20);
}

#[test]
fn decisions_and_tables_are_counted() {
    let mut thread = Thread::with(vec![server("a", false)]);
    thread.route(1);
    thread.route(1);
    assert_eq!(thread.routing.route(NOW, client(1), local(), &[0xc0]), Routed::Dropped);
    let counted = thread.counts.read();
    assert_eq!(counted.means[Means::Hash as usize], 1);
    assert_eq!(counted.means[Means::Flow as usize], 1);
    assert_eq!(counted.dropped[DropReason::NotQuic as usize], 1);
    assert!(counted.flows.entries > 0, "{counted:?}");
    assert_eq!(counted.learned_ids, 0);
    let answer = [&[0xe0, 0, 0, 0, 1, 0, 8][..], &[7; 8], &[0; 100]].concat();
    thread.routing.observe(NOW, server("a", false).address, client(1), &answer);
    assert_eq!(thread.counts.read().learned_ids, 1);
    // Nothing is learned from short headers or from datagrams of unknown senders.
    thread.routing.observe(NOW, server("a", false).address, client(1), &[0x40; 100]);
    thread.routing.observe(NOW, client(2), client(1), &answer);
    assert_eq!(thread.counts.read().learned_ids, 1);
}

#[test]
fn without_servers_datagrams_are_dropped() {
    let down = Server { state: ServerState::Down, ..server("a", true) };
    let mut thread = Thread::with(vec![down]);
    assert_eq!(thread.route(1), Routed::Dropped);
    assert_eq!(thread.counts.read().dropped[DropReason::NoServer as usize], 1);
}

/// While there are too many new clients, a client answers the Retry with another Initial packet,
/// which is forwarded.
#[test]
fn with_too_many_new_clients_each_answers_a_retry() {
    let mut thread = Thread::with(vec![server("a", true)]);
    let clock = Arc::new(clearway::rustls::time_provider::DefaultTimeProvider);
    let tokens = SharedTokens { keys: TicketKeys::new(&[1; 32]), clock };
    let offload = RetryOffload::new(tokens, Random::from_number(2));
    let retries = Retries::new(Arc::new(SharedLimit::new(Some(20))), 2, offload);
    thread.routing = thread.routing.with_retries(retries);
    let initial = |number: u16, destination: &[u8], token: &[u8]| {
        let id = |octets: &[u8]| ConnectionId::new(octets).unwrap();
        let (destination, source) = (id(destination), id(&number.to_be_bytes()));
        let packet_type = LongPacketType::Initial;
        let header = LongHeader { packet_type, version: Version::V1, destination, source, token };
        let mut buffer = vec![0; 1200];
        let offsets = header.encode(&mut Writer::new(&mut buffer), PacketNumber::ZERO, 1).unwrap();
        set_length(&mut buffer, offsets.length, 1200 - offsets.packet_number).unwrap();
        buffer
    };
    thread.routing.turn(NOW);
    let later = NOW + Duration::from_millis(500);
    // Each of two threads gets 10 of a limit of 20.
    for number in 0..10 {
        let routed =
            thread.routing.route(NOW, client(number), local(), &initial(number, &[7; 8], b""));
        assert!(matches!(routed, Routed::To(_)), "{routed:?}");
    }
    let routed = thread.routing.route(NOW, client(11), local(), &initial(11, &[7; 8], b""));
    assert!(matches!(routed, Routed::ToWithReply(..)), "{routed:?}");
    let routed = thread.routing.route(later, client(12), local(), &initial(12, &[7; 8], b""));
    let Routed::Reply(packet) = routed else { panic!("{routed:?}") };
    let HeaderKind::Retry(retry) = ProtectedHeader::decode(&packet, 0).unwrap().kind else {
        panic!("{packet:?}")
    };
    let answer = initial(12, retry.source.as_bytes(), retry.token);
    let mut route = |from| thread.routing.route(later, client(from), local(), &answer);
    assert!(matches!(route(12), Routed::To(_)));
    assert_eq!(route(13), Routed::Dropped);
    let gate = thread.counts.read().gate;
    assert_eq!((gate.retries, gate.valid_tokens, gate.invalid_tokens, gate.dropped), (2, 1, 1, 1));
    assert!(gate.is_closed);
}

/// Learned connection IDs survive a hot restart: the old process saves them, and the new one
/// restores them.
#[test]
fn what_was_learned_passes_to_the_next_process() {
    let start = || Thread::with(vec![server("a", false), server("b", false)]);
    let server_of = |thread: &mut Thread, from: u16, datagram: &[u8]| match thread.routing.route(
        NOW,
        client(from),
        local(),
        datagram,
    ) {
        Routed::To(target) => target.server,
        routed => panic!("{routed:?}"),
    };
    let short = [&[0x43][..], &[7; 8], &[0; 30]].concat();
    let by_hash = server_of(&mut start(), 1, &short);
    // Another client receives the same connection ID from the other server.
    let mut before = start();
    let other = (2..100).find(|other| server_of(&mut before, *other, &first(*other)) != by_hash);
    let other = other.unwrap();
    let issuer = server_of(&mut before, other, &first(other));
    let answer = [&[0xe0, 0, 0, 0, 1, 0, 8][..], &[7; 8], &[0; 100]].concat();
    before.routing.observe(NOW, issuer, client(other), &answer);
    assert_eq!(
        server_of(&mut before, other, &short),
        issuer,
        "it is used, and therefore confirmed"
    );
    let entries = |thread: &Thread| {
        let counted = thread.counts.read();
        [counted.flows.entries, counted.learned.entries]
    };
    let saved = before.routing.save(NOW);
    let mut after = start();
    assert_eq!(entries(&after), [0, 0]);
    after.routing.restore(NOW, &saved);
    assert!(entries(&after)[1] > 0, "{:?}", entries(&after));
    assert_eq!(entries(&after), entries(&before), "the entries are counted immediately");
    assert_eq!(server_of(&mut after, 1, &short), issuer);
}

/// A changed limit on new clients applies from the next turn on.
#[test]
fn another_limit_of_new_clients_applies_from_the_next_turn_on() {
    let mut thread = Thread::with(vec![server("a", true)]);
    let clock = Arc::new(clearway::rustls::time_provider::DefaultTimeProvider);
    let tokens = SharedTokens { keys: TicketKeys::new(&[1; 32]), clock };
    let offload = RetryOffload::new(tokens, Random::from_number(2));
    let limit = Arc::new(SharedLimit::new(None));
    thread.routing = thread.routing.with_retries(Retries::new(limit.clone(), 1, offload));
    let mut later = NOW + Duration::from_secs(1);
    for (above, is_replied) in [(None, false), (Some(0), true), (None, false), (Some(1000), false)]
    {
        limit.set(above);
        thread.routing.turn(later);
        assert_eq!(thread.counts.read().gate.is_closed, is_replied, "{above:?}");
        later += Duration::from_secs(1);
        let routed = thread.routing.route(later, client(1), local(), &first(1));
        assert_eq!(matches!(routed, Routed::Reply(_)), is_replied, "{above:?}: {routed:?}");
    }
}
