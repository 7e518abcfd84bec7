//! Tests routers that share learned connection IDs: after an address change, a client's packets may
//! arrive at any of them.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_balancer::{
    Decision, Limits, Means, Pool, Router, Server, ServerKey, ServerState, SharedIds,
};
use clearway_units::{Random, Timestamp};

const LIMITS: Limits = Limits { flows: 64, learned: 16, lifetime: Duration::from_secs(60) };

fn server(number: u8) -> Server {
    Server {
        name: number.to_string(),
        address: ([192, 0, 2, number], 443).into(),
        ids: Vec::new(),
        id_len: Some(8),
        weight: 1,
        state: ServerState::Active,
        has_preface: false,
    }
}

/// Two routers, and the assignment of clients to routers.
struct Scene {
    routers: [Router; 2],
    now: Timestamp,
}

impl Scene {
    fn new() -> Self {
        let pool = Arc::new(Pool::new(Vec::new(), (1..=9).map(server).collect()).unwrap());
        let shared = Arc::new(SharedIds::new(LIMITS, 2, Random::from_number(1)));
        let router = || Router::among(pool.clone(), LIMITS, &shared);
        Self { routers: [router(), router()], now: Timestamp::ORIGIN + Duration::from_secs(1) }
    }

    fn route(&mut self, router: usize, client: u16, datagram: &[u8]) -> (ServerKey, Means) {
        let local = ([198, 51, 100, 1], 443).into();
        match self.routers[router].route(self.now, address(client), local, datagram) {
            Decision::Forward { server, means } => (server, means),
            Decision::Drop(reason) => panic!("{reason:?}"),
        }
    }

    /// Opens a connection at the first router, with this server-issued ID.
    fn connect(&mut self, client: u16, id: [u8; 8]) -> ServerKey {
        let (server, _) = self.route(0, client, &long(&[9; 8], &[7, 7]));
        self.routers[0].observe(self.now, server, address(client), &long(&[7, 7], &id));
        assert_eq!(self.route(0, client, &short(id)), (server, Means::Learned));
        server
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

fn address(client: u16) -> SocketAddr {
    ([203, 0, 113, 9], client).into()
}

fn long(destination: &[u8], source: &[u8]) -> Vec<u8> {
    let ids = [destination, source].map(|id| [&[id.len() as u8], id].concat()).concat();
    [&[0xc0, 0, 0, 0, 1][..], &ids, &[0; 30]].concat()
}

fn short(id: [u8; 8]) -> Vec<u8> {
    [&[0x40][..], &id, &[0; 30]].concat()
}

#[test]
fn a_client_that_comes_to_another_router_keeps_its_server() {
    let mut scene = Scene::new();
    for number in 0..10 {
        let server = scene.connect(1000 + number, [number as u8; 8]);
        let moved = scene.route(1, 2000 + number, &short([number as u8; 8]));
        assert_eq!(moved, (server, Means::Learned));
        // At the other router, the client switches to an ID that was issued in an encrypted packet,
        // and returns with it.
        let next = [100 + number as u8; 8];
        assert_eq!(scene.route(1, 2000 + number, &short(next)), (server, Means::Address));
        assert_eq!(scene.route(0, 3000 + number, &short(next)), (server, Means::Learned));
    }
    let statistics = scene.routers.each_ref().map(|it| it.statistics().learned.entries);
    assert_eq!(statistics, [10, 10], "each connection has one entry");
}

/// While a client validates a path, it uses two IDs.
#[test]
fn a_client_may_move_while_it_uses_two_ids() {
    let mut scene = Scene::new();
    let server = scene.connect(1000, [1; 8]);
    for id in [2, 3, 2, 3] {
        assert_eq!(scene.route(0, 1000, &short([id; 8])).0, server);
    }
    for (router, client) in [(0, 1001), (1, 1002), (0, 1003), (1, 1004)] {
        for id in [2, 3] {
            let found = scene.route(router, client, &short([id; 8]));
            assert_eq!(found, (server, Means::Learned), "{router} {client} {id}");
        }
    }
}

/// An unknown ID arrives from an address that the client has left.
#[test]
fn a_client_that_returns_to_an_address_may_have_another_id() {
    let mut scene = Scene::new();
    let server = scene.connect(1000, [1; 8]);
    assert_eq!(scene.route(0, 1001, &short([1; 8])).0, server);
    assert_eq!(scene.route(0, 1000, &short([2; 8])), (server, Means::Address));
    assert_eq!(scene.route(0, 1005, &short([2; 8])), (server, Means::Learned));
}

#[test]
fn a_connection_in_use_at_one_router_is_not_forgotten_by_others() {
    let mut scene = Scene::new();
    let server = scene.connect(1000, [1; 8]);
    for _ in 0..40 {
        scene.pass(10);
        assert_eq!(scene.route(0, 1000, &short([1; 8])).0, server);
    }
    assert_eq!(scene.route(1, 1001, &short([1; 8])), (server, Means::Learned));
}

/// Neither forged connection IDs nor many IDs of one client evict another client's connection.
#[test]
fn a_flood_pushes_nothing_out() {
    let mut scene = Scene::new();
    let server = scene.connect(1000, [1; 8]);
    scene.connect(5000, [2; 8]);
    for number in 0..5000_u64 {
        let id = (number + (9 << 56)).to_be_bytes();
        scene.route(1, 10_000 + number as u16, &short(id));
        scene.route(0, 5000, &short(id));
    }
    assert_eq!(scene.route(1, 1001, &short([1; 8])), (server, Means::Learned));
    assert_eq!(scene.routers[0].statistics().learned.entries, 2);
    assert_eq!(scene.routers[0].statistics().unpublished, 0);
}

#[test]
fn routers_that_take_over_tell_each_other_what_was_known() {
    let mut scene = Scene::new();
    let servers: Vec<_> = (0..10).map(|it| scene.connect(1000 + it, [it as u8; 8])).collect();
    let saved = scene.routers[0].save(scene.now);
    let mut after = Scene::new();
    after.now = scene.now;
    after.routers[0].restore(after.now, &saved);
    for (number, server) in (0..10).zip(servers) {
        let moved = after.route(1, 2000 + number, &short([number as u8; 8]));
        assert_eq!(moved, (server, Means::Learned), "{number}");
    }
}

/// Updates that are dropped because the shared IDs are full are counted, and the client is still
/// known to the router that received its packets.
#[test]
fn what_routers_cannot_be_told_is_counted() {
    let mut scene = Scene::new();
    let limits = Limits { learned: 2000, ..LIMITS };
    let shared = Arc::new(SharedIds::new(LIMITS, 1, Random::from_number(1)));
    scene.routers = [0, 1].map(|_| Router::among(scene.routers[0].pool().clone(), limits, &shared));
    for number in 0..1000_u16 {
        scene.connect(
            1000 + number,
            [[7; 6].as_slice(), &number.to_be_bytes()].concat().try_into().unwrap(),
        );
    }
    let statistics = scene.routers[0].statistics();
    let (learned, unpublished) = (statistics.learned.entries, statistics.unpublished);
    assert_eq!(learned, 1000);
    assert!((1..1000).contains(&unpublished), "{unpublished}");
}
