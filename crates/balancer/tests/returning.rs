//! Tests clients of servers without QUIC-LB that return to their previous address with an unknown
//! connection ID, and other clients that have taken over that address.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_balancer::{
    Decision, Limits, Means, Pool, Router, Server, ServerKey, ServerState, SharedIds,
};
use clearway_units::{Random, Timestamp};

const LIMITS: Limits = Limits { flows: 64, learned: 64, lifetime: Duration::from_secs(60) };
/// Maximum total number of branches of all connections.
const BRANCHES: usize = LIMITS.learned / 4;

type Id = [u8; 8];

fn server(number: u8, weight: u32) -> Server {
    Server {
        name: number.to_string(),
        address: ([192, 0, 2, number], 443).into(),
        ids: Vec::new(),
        id_len: None,
        weight,
        state: ServerState::Active,
        has_preface: false,
    }
}

/// Several routers that share the IDs that they learn, and the assignment of clients to routers.
struct Scene {
    routers: Vec<Router>,
    now: Timestamp,
    issued: u64,
}

impl Scene {
    fn new(routers: usize) -> Self {
        Self::limited(routers, LIMITS)
    }

    fn limited(routers: usize, limits: Limits) -> Self {
        let pool = (1..=9).map(|number| server(number, 1)).collect();
        let pool = Arc::new(Pool::new(Vec::new(), pool).unwrap());
        let shared = Arc::new(SharedIds::new(limits, routers, Random::from_number(1)));
        let router = |_| Router::among(pool.clone(), limits, &shared);
        let routers = (0..routers).map(router).collect();
        Self { routers, now: Timestamp::ORIGIN + Duration::from_secs(1), issued: 0 }
    }

    /// Changes the pool so that the hash leads to none of the former servers.
    fn turn_hash(&mut self) {
        let old = (1..=9).map(|number| server(number, 0));
        let pool = old.chain([server(10, 1)]).collect();
        let pool = Arc::new(Pool::new(Vec::new(), pool).unwrap());
        self.routers.iter_mut().for_each(|router| router.replace(self.now, pool.clone()));
    }

    /// Returns the router of a client's address.
    fn router(&mut self, port: u16) -> &mut Router {
        let count = self.routers.len();
        &mut self.routers[usize::from(port) % count]
    }

    fn route(&mut self, port: u16, datagram: &[u8]) -> (ServerKey, Means) {
        self.now += Duration::from_millis(1);
        let (now, local) = (self.now, ([198, 51, 100, 1], 443).into());
        match self.router(port).route(now, address(port), local, datagram) {
            Decision::Forward { server, means } => (server, means),
            Decision::Drop(reason) => panic!("{reason:?}"),
        }
    }

    /// Returns the server to which a short-header packet is routed.
    fn server(&mut self, port: u16, id: Id) -> ServerKey {
        self.route(port, &[&[0x40][..], &id, &[0; 30]].concat()).0
    }

    /// Returns how the server for a short-header packet was selected.
    fn means(&mut self, port: u16, id: Id) -> Means {
        self.route(port, &[&[0x40][..], &id, &[0; 30]].concat()).1
    }

    /// Returns a new connection ID.
    fn issue(&mut self) -> Id {
        self.issued += 1;
        (0x0102_0304_0506_0000 + self.issued).to_be_bytes()
    }

    /// Opens a connection. Returns its server and its first ID.
    fn connect(&mut self, port: u16) -> (ServerKey, Id) {
        let (id, source) = (self.issue(), self.issue());
        let (server, _) = self.route(port, &long(&[9; 8], &source));
        let now = self.now;
        self.router(port).observe(now, server, address(port), &long(&source, &id));
        assert_eq!(self.server(port, id), server);
        (server, id)
    }

    /// Returns the number of connections and branches of each router.
    fn learned(&self) -> Vec<usize> {
        self.routers.iter().map(|router| router.statistics().learned.entries).collect()
    }

    fn refused(&self) -> u64 {
        self.routers.iter().map(|router| router.statistics().learned.refused).sum()
    }
}

fn address(port: u16) -> SocketAddr {
    ([203, 0, 113, 9], port).into()
}

fn long(destination: &[u8], source: &[u8]) -> Vec<u8> {
    let ids = [destination, source].map(|id| [&[id.len() as u8], id].concat()).concat();
    [&[0xc0, 0, 0, 0, 1][..], &ids, &[0; 30]].concat()
}

/// The client is behind a NAT that assigns another port, and then the former one again when the
/// client changes its ID.
#[test]
fn a_client_that_returns_and_moves_on_keeps_its_server() {
    for routers in 1..=3 {
        let mut scene = Scene::new(routers);
        let (server, mut id) = scene.connect(2000);
        scene.turn_hash();
        for round in 1..200 {
            assert_eq!(scene.server(2000 + round, id), server, "{routers} {round}: another port");
            id = scene.issue();
            assert_eq!(scene.server(2000, id), server, "{routers} {round}: returned");
        }
        assert!(scene.learned().iter().all(|count| *count <= 5), "{:?}", scene.learned());
        assert_eq!(scene.refused(), 0);
    }
}

#[test]
fn a_client_that_goes_to_and_fro_keeps_its_server() {
    for routers in 1..=3 {
        let mut scene = Scene::new(routers);
        let mut random = Random::from_number(7);
        let (server, mut id) = scene.connect(2000);
        scene.turn_hash();
        let (mut here, mut before) = (2000, None);
        for step in 1..2000 {
            match random.below(4) {
                0 => before = Some(std::mem::replace(&mut here, 2000 + step)),
                1 => id = scene.issue(),
                2 if before.is_some() => {
                    id = scene.issue();
                    before = before.replace(here).inspect(|former| here = *former).and(before);
                }
                _ => {}
            }
            assert_eq!(scene.server(here, id), server, "{routers} {step}");
        }
        assert!(scene.learned().iter().all(|count| *count <= 5), "{:?}", scene.learned());
    }
}

/// A client takes over another client's former address, and changes its ID there.
#[test]
fn ids_from_a_former_address_push_out_none() {
    let mut scene = Scene::new(1);
    let (server, first) = scene.connect(2000);
    let ids = [scene.issue(), scene.issue()];
    for id in ids {
        assert_eq!(scene.server(2000, id), server);
    }
    assert_eq!(scene.server(2001, ids[1]), server);
    scene.turn_hash();
    for _ in 0..20 {
        let id = scene.issue();
        assert_eq!(scene.server(2000, id), server);
    }
    for id in [first, ids[0], ids[1]] {
        assert_eq!(scene.means(2002, id), Means::Learned);
    }
}

/// A client takes over another client's former address, whose router has not seen that the other
/// client moved to another address, and changes its ID there.
#[test]
fn ids_from_an_address_that_another_router_knows_better_push_out_none() {
    let mut scene = Scene::new(2);
    let (server, _) = scene.connect(2000);
    let id = scene.issue();
    assert_eq!(scene.server(2000, id), server);
    assert_eq!(scene.server(2001, id), server);
    scene.turn_hash();
    for _ in 0..20 {
        let other = scene.issue();
        assert_eq!(scene.server(2000, other), server);
    }
    for port in [2004, 2003, 2006] {
        assert_eq!(scene.means(port, id), Means::Learned);
    }
}

/// One client has returned to the address that another client now has, no matter which of them
/// opened the connection.
#[test]
fn two_clients_that_come_from_one_connection_go_on_beside_each_other() {
    for routers in 1..=2 {
        let mut scene = Scene::new(routers);
        let (server, mut one) = scene.connect(2000);
        scene.turn_hash();
        assert_eq!(scene.server(2001, one), server);
        let mut other = scene.issue();
        assert_eq!(scene.server(2000, other), server);
        for round in 0..100 {
            // The two clients take turns in moving and returning with another ID.
            assert_eq!(scene.server(3000 + round, one), server);
            assert_eq!(scene.server(4000 + round, other), server);
            one = scene.issue();
            assert_eq!(scene.server(2001, one), server);
            other = scene.issue();
            assert_eq!(scene.server(2000, other), server, "{routers} {round}");
            for _ in 0..5 {
                // One of them switches to additional IDs without moving.
                other = scene.issue();
                assert_eq!(scene.server(2000, other), server);
            }
            assert_eq!(scene.means(2001, one), Means::Learned);
        }
        assert!(scene.learned().iter().all(|count| *count <= 5), "{:?}", scene.learned());
    }
}

/// Two clients take turns in using the same address, for example behind a NAT, and use new IDs
/// there.
#[test]
fn two_connections_at_one_address_in_turn() {
    let mut scene = Scene::new(1);
    let (one_server, mut one) = scene.connect(2000);
    let (other_server, mut other) = scene.connect(3000);
    assert_ne!(one_server, other_server);
    scene.turn_hash();
    for _ in 0..100 {
        for (server, id, home) in [(one_server, &mut one, 2000), (other_server, &mut other, 3000)] {
            assert_eq!(scene.server(5000, *id), server);
            for _ in 0..5 {
                *id = scene.issue();
                assert_eq!(scene.server(5000, *id), server);
            }
            assert_eq!(scene.server(home, *id), server);
        }
    }
    assert_eq!(scene.learned(), [2], "each client is known by its earlier ID");
}

/// A hostile client, or anyone who knows its connection IDs, sends any number of forged IDs from
/// its previous address.
#[test]
fn a_client_has_few_branches_whatever_it_sends() {
    for routers in 1..=2 {
        let mut scene = Scene::new(routers);
        let others: Vec<_> = (0..20).map(|number| (number, scene.connect(1000 + number))).collect();
        let (_, mut id) = scene.connect(2000);
        let first = id;
        for step in 0..5000 {
            for port in [2000 + step % 7, 3000 + step % 11] {
                scene.server(port, id);
            }
            let invented = scene.issue();
            scene.server(2000 + step % 7, invented);
            id = if step % 3 == 0 { first } else { invented };
        }
        assert!(scene.learned()[0] <= 20 + 5, "{:?}", scene.learned());
        assert_eq!(scene.refused(), 0);
        scene.turn_hash();
        for (number, (server, id)) in others {
            assert_eq!(scene.server(6000 + number, id), server);
        }
    }
}

/// Many clients return: some of them are known to only one router and for a short time, but none of
/// them blocks another client.
#[test]
fn branches_leave_room_for_connections() {
    let mut scene = Scene::new(1);
    for number in 0..30 {
        let (_, id) = scene.connect(1000 + number);
        scene.server(2000 + number, id);
        let invented = scene.issue();
        assert_ne!(scene.means(1000 + number, invented), Means::Hash);
        assert_eq!(scene.means(1000 + number, invented), Means::Learned);
    }
    assert_eq!(scene.learned(), [30 + BRANCHES]);
    assert_eq!(scene.refused(), 30 - BRANCHES as u64);
    for number in 0..18 {
        let (server, id) = scene.connect(3000 + number);
        assert_eq!(scene.server(4000 + number, id), server);
    }
    assert_eq!(
        scene.learned(),
        [LIMITS.learned],
        "three quarters connections, one quarter branches"
    );
    scene.now += LIMITS.lifetime;
    for number in 0..20 {
        scene.connect(5000 + number);
    }
    let (_, id) = scene.connect(6000);
    scene.server(6001, id);
    let invented = scene.issue();
    scene.server(6000, invented);
    assert_eq!(scene.learned(), [22], "unused entries expire");
}

#[test]
fn routers_that_take_over_know_branches() {
    let mut scene = Scene::new(2);
    let (server, first) = scene.connect(2000);
    assert_eq!(scene.server(2002, first), server);
    let mut id = scene.issue();
    assert_eq!(scene.server(2000, id), server);
    let saved = scene.routers[0].save(scene.now);
    let mut after = Scene { now: scene.now, issued: 100, ..Scene::new(2) };
    after.routers[0].restore(after.now, &saved);
    after.turn_hash();
    for round in 0..20 {
        assert_eq!(after.server(3001 + round, id), server, "{round}");
        id = after.issue();
        assert_eq!(after.server(2000, id), server, "{round}");
    }
    assert_eq!(after.server(5000, first), server);
    assert!(after.learned().iter().all(|count| *count <= 5), "{:?}", after.learned());
}

/// A rejected connection has an address that another connection had before.
#[test]
fn a_connection_that_was_refused_has_its_address() {
    let mut scene = Scene::limited(1, Limits { learned: 1, ..LIMITS });
    let (server, id) = scene.connect(2000);
    assert_eq!(scene.server(2001, id), server);
    scene.turn_hash();
    let (other, _) = scene.connect(2000);
    assert_ne!(other, server);
    let next = scene.issue();
    assert_eq!(scene.server(2000, next), other);
}
