use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
use proptest::prelude::*;

use super::*;
use crate::ServerState::{Active, Down, Draining};
use crate::{Server, ServerState};

const LOCAL: &str = "198.51.100.1:443";

fn codec() -> IdCodec {
    IdCodec::new(ConfigId::new(0).unwrap(), 4, 12, Some([7; 16])).unwrap()
}

/// Returns a QUIC-LB connection ID.
fn id_of(server: u8, nonce: u8) -> Vec<u8> {
    let id = ServerId::new(&[server; 4]).unwrap();
    codec().encode(&id, &[nonce; 12], &[], nonce).unwrap().as_bytes().to_vec()
}

/// Returns a connection ID of a server without QUIC-LB, or of a client.
fn plain(number: u8) -> Vec<u8> {
    vec![0xe0, number, 3, 4, 5, 6, 7, number]
}

fn server(number: u8, has_ids: bool) -> Server {
    let ids = (ConfigId::new(0).unwrap(), ServerId::new(&[number; 4]).unwrap());
    Server {
        name: number.to_string(),
        address: ([192, 0, 2, number], 443).into(),
        ids: if has_ids { vec![ids] } else { Vec::new() },
        id_len: None,
        weight: 10,
        state: Active,
        has_preface: false,
    }
}

fn key(number: u8) -> ServerKey {
    ServerKey::of(&number.to_string())
}

fn long_of_version(version: u32, destination: &[u8], source: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xc0];
    datagram.extend(version.to_be_bytes());
    for id in [destination, source] {
        datagram.push(id.len() as u8);
        datagram.extend(id);
    }
    datagram.extend([0xaa; 30]);
    datagram
}

fn long(destination: &[u8], source: &[u8]) -> Vec<u8> {
    long_of_version(1, destination, source)
}

fn short(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, &[0xaa; 30]].concat()
}

fn client(number: u16) -> SocketAddr {
    ([203, 0, 113, 9], 1024 + number).into()
}

/// A router, its servers, and the current time.
struct Scene {
    router: Router,
    servers: Vec<Server>,
    now: Timestamp,
}

impl Scene {
    fn new(servers: Vec<Server>) -> Self {
        let limits = Limits { flows: 64, learned: 64, lifetime: Duration::from_secs(60) };
        Self::limited(servers, limits)
    }

    fn limited(servers: Vec<Server>, limits: Limits) -> Self {
        let pool = Arc::new(Pool::new(vec![codec()], servers.clone()).unwrap());
        let router = Router::new(pool, limits, Random::from_number(1));
        Self { router, servers, now: Timestamp::ORIGIN }
    }

    /// Creates servers 1 to `count`, all with QUIC-LB IDs.
    fn with_ids(count: u8) -> Self {
        Self::new((1..=count).map(|number| server(number, true)).collect())
    }

    /// Creates servers 1 to `count`, all without QUIC-LB IDs.
    fn without_ids(count: u8) -> Self {
        Self::new((1..=count).map(|number| server(number, false)).collect())
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<Server>)) {
        change(&mut self.servers);
        let pool = Pool::new(vec![codec()], self.servers.clone()).unwrap();
        self.router.replace(self.now, Arc::new(pool));
    }

    fn set(&mut self, key: ServerKey, state: ServerState) {
        self.change(|servers| {
            let mut servers = servers.iter_mut();
            servers.find(|server| ServerKey::of(&server.name) == key).unwrap().state = state;
        });
    }

    /// Adds servers until the hash maps every client with a number below `count` to another server.
    fn move_all(&mut self, clients: u16) {
        let before: Vec<_> = (0..clients).map(|number| self.hash(number)).collect();
        self.change(|servers| {
            servers.iter_mut().for_each(|server| server.weight = 0);
            servers.extend((100..102).map(|number| server(number, false)));
        });
        assert!((0..clients).all(|number| self.hash(number) != before[usize::from(number)]));
    }

    fn hash(&self, number: u16) -> ServerKey {
        self.router.pool().by_hash(client(number), LOCAL.parse().unwrap()).unwrap().0
    }

    fn decide(&mut self, number: u16, datagram: &[u8]) -> Decision {
        self.router.route(self.now, client(number), LOCAL.parse().unwrap(), datagram)
    }

    fn route(&mut self, number: u16, datagram: &[u8]) -> (ServerKey, Means) {
        match self.decide(number, datagram) {
            Decision::Forward { server, means } => (server, means),
            Decision::Drop(reason) => panic!("{reason:?}"),
        }
    }

    fn answer(&mut self, server: ServerKey, number: u16, datagram: &[u8]) {
        self.router.observe(self.now, server, client(number), datagram);
    }

    /// Performs the handshake of a client with a server without QUIC-LB, which issues `id`.
    fn connect(&mut self, number: u16, id: &[u8]) -> ServerKey {
        let (server, _) = self.route(number, &long(&[1; 8], &[2; 5]));
        self.answer(server, number, &long(&[2; 5], id));
        assert_eq!(self.route(number, &long(id, &[2; 5])).0, server);
        server
    }

    /// Returns the number of learned connections.
    fn learned(&self) -> usize {
        self.router.statistics().learned.entries
    }
}

#[test]
fn a_server_id_leads_to_its_server() {
    let mut scene = Scene::with_ids(9);
    for number in 1..=9 {
        let id = id_of(number, 5);
        assert_eq!(scene.route(1, &short(&id)), (key(number), Means::ServerId));
        assert_eq!(scene.route(2, &long(&id, &[1])), (key(number), Means::ServerId));
        scene.set(key(number), Draining);
        assert_eq!(scene.route(3, &short(&id)), (key(number), Means::ServerId));
    }
    assert_eq!(scene.router.statistics().flows, TableStatistics::default());
}

#[test]
fn an_id_of_another_length_is_a_clients_own() {
    let mut scene = Scene::with_ids(9);
    let id = [&id_of(3, 5)[..], &[0]].concat();
    assert_eq!(scene.route(1, &long(&id, &[1])), (scene.hash(1), Means::Hash));
    assert_eq!(scene.route(1, &long(&id[..16], &[2])), (scene.hash(1), Means::Hash));
    assert_eq!(scene.route(1, &short(&id)), (key(3), Means::ServerId));
}

#[test]
fn a_first_flight_stays_with_its_server() {
    let mut scene = Scene::with_ids(9);
    let chosen: Vec<_> = (0..20).map(|number| scene.route(number, &long(&[1; 8], &[7]))).collect();
    scene.move_all(20);
    for number in 0..20 {
        let (server, means) = chosen[usize::from(number)];
        assert_eq!(means, Means::Hash);
        assert_eq!(scene.route(number, &long(&[9; 8], &[7])), (server, Means::Flow));
        let other = scene.route(number, &long(&[1; 8], &[8]));
        assert_eq!(other, (scene.hash(number), Means::Hash), "another client at the same address");
    }
}

#[test]
fn a_first_flight_is_forgotten_after_its_lifetime() {
    let mut scene = Scene::with_ids(9);
    scene.route(1, &long(&[1; 8], &[7]));
    scene.now += Duration::from_secs(59);
    assert_eq!(scene.route(1, &long(&[1; 8], &[7])).1, Means::Flow);
    scene.now += Duration::from_secs(60);
    assert_eq!(scene.route(1, &long(&[1; 8], &[7])).1, Means::Hash);
}

#[test]
fn an_id_of_a_server_that_is_down_is_not_routable() {
    let mut scene = Scene::with_ids(9);
    for number in 1..=8 {
        let client = u16::from(number);
        scene.set(key(number), Down);
        let id = id_of(number, 5);
        let new = scene.route(client, &long(&id, &[1]));
        assert_eq!(new, (scene.hash(client), Means::Hash));
        assert_ne!(new.0, key(number));
        let old = scene.route(client, &short(&id));
        assert_eq!(old, (scene.hash(client), Means::Hash), "for a stateless reset");
        assert_eq!(scene.route(client, &short(&id)), (old.0, Means::Address));
        scene.set(key(number), Active);
        assert_eq!(scene.route(client, &short(&id)), (key(number), Means::ServerId));
        scene.change(|servers| servers.retain(|server| server.name != number.to_string()));
        assert_eq!(scene.route(client, &short(&id)), (old.0, Means::Address));
    }
}

#[test]
fn a_draining_server_gets_no_new_client() {
    let mut scene = Scene::without_ids(3);
    let (first, second) = (scene.connect(1, &plain(1)), scene.route(2, &long(&[1; 8], &[3])).0);
    scene.set(first, Draining);
    if second != first {
        scene.set(second, Draining);
    }
    assert_eq!(scene.route(2, &long(&[1; 8], &[3])), (second, Means::Flow));
    assert_eq!(scene.route(1, &long(&plain(1), &[9])), (first, Means::Learned));
    assert_eq!(scene.route(1, &short(&plain(1))), (first, Means::Learned));
    assert_eq!(scene.route(1, &short(&plain(2))), (first, Means::Address));
    let new = scene.route(1, &long(&[1; 8], &[9]));
    assert_eq!(new, (scene.hash(1), Means::Hash), "a new connection at the same address");
    assert!(new.0 != first && new.0 != second);
}

#[test]
fn a_new_connection_at_a_known_address_goes_where_the_others_go() {
    let mut scene = Scene::without_ids(3);
    let server = scene.connect(1, &plain(1));
    let others = (10..60).map(|number| self::server(number, false));
    scene.change(|servers| servers.extend(others));
    assert_eq!(scene.route(1, &long(&[1; 8], &[9])), (server, Means::Address));
    scene.change(|servers| servers.iter_mut().take(3).for_each(|server| server.weight = 0));
    assert_ne!(scene.route(1, &long(&[1; 8], &[8])).0, server, "its weight is 0");
    assert_eq!(scene.route(1, &long(&[1; 8], &[9])), (server, Means::Flow), "its flow has begun");
}

#[test]
fn ids_of_a_server_without_quic_lb_are_learned() {
    let mut scene = Scene::without_ids(3);
    let server = scene.connect(1, &plain(1));
    assert_eq!(scene.learned(), 1);
    scene.move_all(200);
    assert_eq!(scene.route(1, &short(&plain(1))), (server, Means::Learned));
    for number in 2..200 {
        assert_eq!(
            scene.route(number, &short(&plain(1))),
            (server, Means::Learned),
            "a new address"
        );
        assert_eq!(scene.learned(), 1, "it replaces the previous connection");
    }
    assert_eq!(scene.route(199, &short(&plain(2))), (server, Means::Address));
    let statistics = scene.router.statistics();
    assert_eq!((statistics.learned_ids, statistics.contradicting), (2, 0));
}

#[test]
fn addresses_and_ids_that_change_in_turn() {
    let mut scene = Scene::without_ids(3);
    let server = scene.connect(1, &plain(0));
    scene.move_all(200);
    for step in 1..100 {
        let new_id = scene.route(u16::from(step), &short(&plain(step)));
        assert_eq!(new_id, (server, Means::Address));
        let new_address = scene.route(u16::from(step) + 1, &short(&plain(step)));
        assert_eq!(new_address, (server, Means::Learned));
        assert_eq!(scene.learned(), 1);
    }
    let again = scene.route(150, &short(&plain(0)));
    assert_eq!(again, (server, Means::Learned));
    assert_eq!(scene.learned(), 1);
}

#[test]
fn a_client_that_goes_back_to_an_id() {
    let mut scene = Scene::without_ids(3);
    let server = scene.connect(1, &plain(0));
    scene.move_all(10);
    for _ in 0..3 {
        for number in [1, 2] {
            assert_eq!(scene.route(1, &short(&plain(number))).0, server);
            assert_eq!(scene.learned(), 1);
        }
    }
    assert_eq!(scene.router.statistics().learned_ids, 3, "its two latest IDs are known");
    for number in [3, 1, 2] {
        assert_eq!(scene.route(1, &short(&plain(number))).0, server);
        assert_eq!(scene.learned(), 1);
    }
    assert_eq!(scene.router.statistics().learned_ids, 6, "one of three is learned again");
}

#[test]
fn several_connections_at_one_address() {
    let mut scene = Scene::without_ids(3);
    let first = scene.connect(1, &plain(1));
    scene.set(first, Draining);
    let (second, _) = scene.route(1, &long(&[1; 8], &[3; 5]));
    assert_ne!(first, second);
    scene.answer(second, 1, &long(&[3; 5], &plain(2)));
    for _ in 0..3 {
        assert_eq!(scene.route(1, &short(&plain(1))), (first, Means::Learned));
        assert_eq!(scene.route(1, &short(&plain(2))), (second, Means::Learned));
        assert_eq!(scene.learned(), 2);
    }
    assert_eq!(scene.route(1, &short(&plain(3))), (second, Means::Address));
    assert_eq!(scene.route(2, &short(&plain(1))), (first, Means::Learned));
    assert_eq!(scene.route(2, &short(&plain(2))), (second, Means::Learned));
}

#[test]
fn a_flow_of_an_earlier_connection_does_not_count() {
    let mut scene = Scene::without_ids(3);
    let first = scene.connect(1, &plain(1));
    let (second, _) = (2..)
        .map(|number| scene.route(number, &long(&[1; 8], &[])))
        .find(|it| it.0 != first)
        .unwrap();
    let number = (2..).find(|number| scene.hash(*number) == second).unwrap();
    assert_eq!(scene.route(number, &long(&[3; 8], &[])), (second, Means::Flow));
    assert_eq!(scene.route(number, &long(&plain(1), &[])), (first, Means::Learned));
}

#[test]
fn a_length_that_is_configured() {
    let mut servers: Vec<_> = (1..=3).map(|number| server(number, false)).collect();
    servers.iter_mut().for_each(|server| server.id_len = Some(8));
    let mut scene = Scene::new(servers);
    let (server, means) = scene.route(1, &short(&plain(1)));
    assert_eq!(means, Means::Hash, "the router started after the connection");
    assert_eq!(scene.route(1, &short(&plain(1))).1, Means::Address);
    assert_eq!(scene.route(1, &short(&plain(1))).1, Means::Learned);
    scene.move_all(10);
    assert_eq!(scene.route(2, &short(&plain(1))), (server, Means::Learned));
    assert_eq!(scene.learned(), 0, "the client is unverified");
}

#[test]
fn ids_of_several_lengths() {
    let mut scene = Scene::without_ids(3);
    let ids = [4, 8, 20, 5].map(|length| vec![0x61; length]);
    let mut connected = Vec::new();
    for (number, id) in (1..).zip(&ids) {
        connected.push(scene.connect(number, id));
    }
    scene.move_all(100);
    let longest = scene.route(50, &short(&ids[2]));
    assert_eq!(longest, (connected[2], Means::Learned));
    for (number, id, server) in [(60, &ids[0], 0), (61, &ids[1], 1), (62, &ids[3], 3)] {
        assert_eq!(scene.route(number, &long(id, &[])), (connected[server], Means::Learned));
    }
}

#[test]
fn connections_of_servers_with_empty_ids_are_known_by_their_address() {
    let mut scene = Scene::without_ids(3);
    let server = scene.connect(1, &[]);
    scene.move_all(100);
    assert_eq!(scene.route(1, &short(&[])), (server, Means::Address));
    assert_eq!(scene.route(1, &long(&[], &[2; 5])), (server, Means::Flow));
    assert_eq!(scene.route(2, &short(&[])), (scene.hash(2), Means::Hash));
    assert_eq!(scene.learned(), 0);
}

#[test]
fn an_address_that_had_another_connection_before() {
    let mut scene = Scene::without_ids(3);
    let first = scene.connect(1, &plain(1));
    scene.set(first, Draining);
    let (second, _) = scene.route(1, &long(&[1; 8], &[3; 5]));
    assert_ne!(first, second);
    scene.answer(second, 1, &long(&[3; 5], &[]));
    assert_eq!(scene.route(1, &short(&[7; 9])), (second, Means::Address));
    assert_eq!(scene.route(1, &short(&plain(1))), (first, Means::Learned));
}

#[test]
fn ids_that_no_version_has_are_not_learned() {
    for length in [1, 3, 21, 255] {
        let mut scene = Scene::without_ids(3);
        let id = vec![0x61; length];
        let server = scene.connect(1, &id);
        scene.move_all(100);
        assert_eq!(scene.route(1, &short(&id)), (server, Means::Address));
        assert_eq!(scene.route(1, &long(&id, &[2; 5])), (server, Means::Flow));
        assert_eq!(scene.router.statistics().learned_ids, 0);
    }
}

#[test]
fn unknown_versions() {
    let mut scene = Scene::without_ids(3);
    let (server, _) = scene.route(1, &long_of_version(0x1a2a_3a4a, &[1; 255], &[2; 255]));
    scene.answer(server, 1, &long_of_version(0x1a2a_3a4a, &[2; 255], &plain(1)));
    scene.move_all(10);
    let same_flow = long_of_version(0x1a2a_3a4a, &[1; 255], &[2; 255]);
    assert_eq!(scene.route(1, &same_flow), (server, Means::Flow));
    assert_eq!(scene.route(1, &short(&plain(1))), (server, Means::Learned));
}

#[test]
fn version_negotiation_shows_no_id() {
    let mut scene = Scene::without_ids(3);
    let (server, _) = scene.route(1, &long_of_version(9, &plain(1), &[2; 5]));
    scene.answer(server, 1, &long_of_version(0, &[2; 5], &plain(1)));
    scene.move_all(10);
    assert_eq!(scene.router.statistics().learned_ids, 0);
    assert_eq!(scene.route(2, &long(&plain(1), &[2; 5])), (scene.hash(2), Means::Hash));
    assert_eq!(
        scene.route(1, &long(&plain(1), &[2; 5])),
        (server, Means::Flow),
        "the next attempt"
    );
}

/// The server has no QUIC-LB configuration (§3.2), or one that the balancer does not have.
#[test]
fn ids_of_quic_lb_that_cannot_be_routed_are_learned() {
    let mut scene = Scene::with_ids(3);
    let mut unknown = id_of(2, 1);
    unknown[0] |= 0x40;
    for (number, id) in [(1, unknown), (2, plain(1))] {
        let server = scene.connect(number, &id);
        assert_eq!(scene.route(number + 10, &short(&id)), (server, Means::Learned));
    }
    assert_eq!(scene.router.statistics().learned_ids, 2);
    let server = scene.connect(3, &plain(9));
    scene.answer(server, 3, &long(&[2; 5], &id_of(1, 1)));
    scene.answer(server, 3, &long(&[2; 5], &id_of(2, 1)));
    assert_eq!(scene.router.statistics().learned_ids, 3);
    assert_eq!(scene.router.statistics().contradicting, 1 + u64::from(server == key(3)));
}

#[test]
fn a_server_without_quic_lb_that_comes_back_has_its_connections() {
    let mut scene = Scene::without_ids(5);
    let server = scene.connect(1, &plain(1));
    scene.set(server, Down);
    let meanwhile = scene.route(1, &short(&plain(1)));
    assert_eq!(meanwhile, (scene.hash(1), Means::Hash));
    assert_eq!(scene.route(1, &short(&plain(7))), (meanwhile.0, Means::Address));
    scene.set(server, Active);
    assert_eq!(scene.route(1, &short(&plain(1))), (server, Means::Learned));
    assert_eq!(scene.route(1, &short(&plain(7))), (server, Means::Address));
}

#[test]
fn a_client_that_was_sent_to_another_server_stays_there() {
    let mut scene = Scene::without_ids(5);
    let (server, _) = scene.route(1, &long(&[1; 8], &[2; 5]));
    scene.set(server, Down);
    let (other, means) = scene.route(1, &long(&[1; 8], &[2; 5]));
    assert_eq!((other, means), (scene.hash(1), Means::Hash));
    scene.set(server, Active);
    assert_eq!(scene.route(1, &long(&[1; 8], &[2; 5])), (other, Means::Flow));
}

#[test]
fn only_an_id_that_was_sent_to_the_client_confirms() {
    let mut scene = Scene::without_ids(3);
    let (server, _) = scene.route(1, &long(&[1; 8], &[2; 5]));
    scene.answer(server, 1, &long(&[2; 5], &plain(1)));
    for _ in 0..5 {
        scene.route(1, &long(&[1; 8], &[2; 5]));
        scene.route(1, &short(&plain(2)));
        scene.route(1, &long(&plain(2), &[2; 5]));
    }
    assert_eq!(scene.learned(), 0);
    scene.route(1, &short(&plain(1)));
    assert_eq!(scene.learned(), 1);
}

#[test]
fn no_server_takes_over_an_id_in_use() {
    let mut scene = Scene::without_ids(3);
    let server = scene.connect(1, &plain(1));
    let other = (1..=3).map(key).find(|other| *other != server).unwrap();
    scene.answer(other, 2, &long(&[2; 5], &plain(1)));
    assert_eq!(scene.route(1, &short(&plain(1))), (server, Means::Learned));
    scene.answer(ServerKey::of("unknown"), 2, &long(&[2; 5], &plain(2)));
    assert_eq!(scene.router.statistics().learned_ids, 1);
}

#[test]
fn datagrams_that_are_not_quic() {
    let mut scene = Scene::with_ids(3);
    let whole = long(&[1; 8], &[2; 5]);
    let header = 1 + 4 + 1 + 8 + 1 + 5;
    for datagram in [&[][..], &[0x40], &[0xc0]] {
        assert_eq!(scene.decide(1, datagram), Decision::Drop(DropReason::NotQuic));
    }
    for end in 1..header {
        assert_eq!(scene.decide(1, &whole[..end]), Decision::Drop(DropReason::NotQuic));
        scene.answer(key(1), 1, &whole[..end]);
    }
    assert_eq!(scene.route(1, &whole[..header]).1, Means::Hash);
    assert_eq!(scene.route(1, &[0x40, 0]).1, Means::Hash);
    let statistics = scene.router.statistics();
    assert_eq!(statistics.dropped(DropReason::NotQuic), 3 + header as u64 - 1);
    assert_eq!((statistics.forwarded(Means::Hash), statistics.forwarded(Means::Flow)), (2, 0));
}

#[test]
fn without_a_server_that_takes_new_clients() {
    let mut scene = Scene::with_ids(2);
    (1..=2).for_each(|number| scene.set(key(number), Draining));
    let none = Decision::Drop(DropReason::NoServer);
    assert_eq!(scene.decide(1, &long(&[1; 8], &[2; 5])), none);
    assert_eq!(scene.decide(1, &short(&plain(1))), none);
    assert_eq!(scene.route(1, &short(&id_of(2, 1))), (key(2), Means::ServerId));
    (1..=2).for_each(|number| scene.set(key(number), Down));
    assert_eq!(scene.decide(1, &short(&id_of(2, 1))), none);
    assert_eq!(scene.router.statistics().dropped(DropReason::NoServer), 3);
    assert_eq!(scene.router.statistics().flows, TableStatistics::default());
}

#[test]
fn a_full_table_refuses_connections() {
    let limits = Limits { flows: 100, learned: 12, lifetime: Duration::from_secs(60) };
    let mut scene = Scene::limited((1..=3).map(|number| server(number, false)).collect(), limits);
    let connected: Vec<_> =
        (0..15).map(|number| scene.connect(number, &plain(number as u8))).collect();
    scene.move_all(15);
    for _ in 0..3 {
        for number in 0..15 {
            let found = scene.route(number, &short(&plain(number as u8)));
            assert_eq!(found, (connected[usize::from(number)], Means::Learned));
        }
    }
    assert_eq!(scene.route(14, &short(&plain(200))), (connected[14], Means::Address));
    let statistics = scene.router.statistics();
    assert_eq!((statistics.learned.entries, statistics.learned.refused), (12, 3));
    for number in 100..200 {
        scene.route(number, &short(&plain(201)));
    }
    for number in 0..15 {
        let means = scene.route(number, &short(&plain(number as u8))).1;
        assert_eq!(means, if number < 12 { Means::Learned } else { Means::Hash });
    }
    scene.now += Duration::from_secs(60);
    scene.connect(20, &plain(20));
    assert_eq!(scene.route(21, &short(&plain(20))).1, Means::Learned);
    let statistics = scene.router.statistics();
    assert_eq!((statistics.learned.entries, statistics.learned.refused), (1, 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// No matter what clients and servers send, and in which order, there are at most as many
    /// connections as IDs issued by servers, with at most four branches each, and each ID keeps
    /// leading to its server.
    #[test]
    fn connections_are_as_many_as_shown(
        steps in prop::collection::vec((0..12_u8, 0..12_u16, 0..12_u8), 1..200)
    ) {
        let limits = Limits { flows: 400, learned: 400, lifetime: Duration::from_secs(60) };
        let mut scene = Scene::limited((1..=3).map(|number| server(number, false)).collect(), limits);
        let mut issued = std::collections::BTreeSet::new();
        for (step, number, id) in steps {
            // Clients never make up an ID that a server issues.
            let used = if issued.contains(&id) { id } else { id + 100 };
            match step {
                0..3 => {
                    let server = key(id % 3 + 1);
                    scene.answer(server, number, &long(&[2; 5], &plain(id)));
                    issued.insert(id);
                }
                3..6 => drop(scene.route(number, &long(&plain(used), &[id]))),
                6 => {
                    let states = [Active, Draining, Down];
                    let state = |place: u8| states[usize::from((id + place) % 3)];
                    scene.change(|servers| {
                        (0..).zip(servers).for_each(|(place, server)| server.state = state(place));
                    });
                }
                _ => drop(scene.route(number, &short(&plain(used)))),
            }
            let entries: Vec<_> = scene.router.memory.learned().by_use().collect();
            let branches = entries.iter().filter(|entry| entry.is_branch).count();
            prop_assert!(entries.len() - branches <= issued.len());
            prop_assert!(branches <= 4 * issued.len());
        }
        scene.change(|servers| servers.iter_mut().for_each(|server| server.state = Active));
        for id in issued {
            let found = scene.route(50, &short(&plain(id)));
            prop_assert_eq!(found, (key(id % 3 + 1), Means::Learned));
        }
    }

    #[test]
    fn any_datagram(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..50)
    ) {
        let mut scene = Scene::new(vec![server(1, true), server(2, false)]);
        for (number, datagram) in (0..).zip(&datagrams) {
            let decision = scene.decide(number % 3, datagram);
            scene.answer(key(2), number % 3, datagram);
            let is_drop = decision == Decision::Drop(DropReason::NotQuic);
            prop_assert_eq!(is_drop, datagram.len() < 2 || Invariant::decode(datagram, 0).is_err());
        }
    }
}
