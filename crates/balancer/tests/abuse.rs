//! Tests that packets from hostile clients do not use additional memory, and do not break
//! connections of other clients.

#[path = "support/datagrams.rs"]
#[allow(unreachable_pub, reason = "each test file has this as a module")]
mod datagrams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway_balancer::{
    Decision, DropReason, Limits, Means, Pool, Router, Server, ServerKey, ServerState,
};
use clearway_units::{Random, Timestamp};
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
use datagrams::{long, octets, short};

const FLOOD: u32 = 200_000;
const LIMITS: Limits = Limits { flows: 4_096, learned: 1_024, lifetime: Duration::from_secs(60) };
const LOCAL: ([u8; 4], u16) = ([198, 51, 100, 1], 443);

fn codec() -> IdCodec {
    IdCodec::new(ConfigId::new(2).unwrap(), 4, 8, Some([9; 16])).unwrap()
}

/// Returns `count` servers, the first half with QUIC-LB IDs.
fn pool(count: u16) -> Arc<Pool> {
    let server = |number: u16| Server {
        name: number.to_string(),
        address: ([10, 0, 0, 1], 1 + number).into(),
        ids: if number < 5 { vec![(codec().config(), server_id(number))] } else { Vec::new() },
        id_len: None,
        weight: 10,
        state: ServerState::Active,
        has_preface: false,
    };
    Arc::new(Pool::new(vec![codec()], (0..count).map(server).collect()).unwrap())
}

fn server_id(number: u16) -> ServerId {
    ServerId::new(&[0xab, 0xcd, 0xef, number as u8]).unwrap()
}

/// An existing connection, which an attack must not break.
struct Victim {
    client: SocketAddr,
    id: Vec<u8>,
    server: ServerKey,
}

struct Scene {
    router: Router,
    random: Random,
    now: Timestamp,
}

impl Scene {
    fn new() -> Self {
        let router = Router::new(pool(10), LIMITS, Random::from_number(3));
        Self { router, random: Random::from_number(4), now: Timestamp::ORIGIN }
    }

    fn route(&mut self, client: SocketAddr, datagram: &[u8]) -> Decision {
        self.router.route(self.now, client, LOCAL.into(), datagram)
    }

    fn server(&mut self, client: SocketAddr, datagram: &[u8]) -> ServerKey {
        match self.route(client, datagram) {
            Decision::Forward { server, .. } => server,
            Decision::Drop(reason) => panic!("{reason:?}"),
        }
    }

    /// Returns an ID issued by a server.
    fn issue(&mut self, server: ServerKey) -> Vec<u8> {
        let place = (0..10).find(|number| ServerKey::of(&number.to_string()) == server).unwrap();
        let mut id = octets(&mut self.random, 8);
        if place < 5 {
            let random = id[0];
            id = codec().encode(&server_id(place), &id, &[], random).unwrap().as_bytes().to_vec();
        }
        id
    }

    fn connect(&mut self, client: SocketAddr) -> Victim {
        let source = octets(&mut self.random, 5);
        let first = octets(&mut self.random, 8);
        let datagram = long(&mut self.random, 1, &first, &source);
        let server = self.server(client, &datagram);
        let id = self.issue(server);
        let answer = long(&mut self.random, 1, &source, &id);
        self.router.observe(self.now, server, client, &answer);
        let victim = Victim { client, id, server };
        self.check(&victim);
        victim
    }

    /// Opens 400 connections, about half of them with servers without QUIC-LB. After that, the hash
    /// leads their clients to other servers.
    fn victims(&mut self) -> Vec<Victim> {
        let victims =
            (0..400).map(|number| self.connect(([203, 0, 113, 7], 2_000 + number).into()));
        let victims = victims.collect();
        let servers = pool(10).servers().map(|(_, server)| server.clone()).collect::<Vec<_>>();
        let old = servers.into_iter().map(|server| Server { weight: 0, ..server });
        let new = Server {
            name: "new".to_owned(),
            address: ([10, 0, 0, 2], 1).into(),
            ids: Vec::new(),
            id_len: None,
            weight: 1,
            state: ServerState::Active,
            has_preface: false,
        };
        let pool = Pool::new(vec![codec()], old.chain([new]).collect()).unwrap();
        self.router.replace(self.now, Arc::new(pool));
        victims
    }

    fn check(&mut self, victim: &Victim) {
        let datagram = short(&mut self.random, &victim.id);
        assert_eq!(self.server(victim.client, &datagram), victim.server);
    }

    /// Returns an address that no client uses.
    fn spoofed(&mut self) -> SocketAddr {
        let number = self.random.number();
        ([100, (number >> 16) as u8, (number >> 8) as u8, number as u8], (number >> 24) as u16)
            .into()
    }
}

#[test]
fn datagrams_of_any_size() {
    let mut scene = Scene::new();
    let client = ([203, 0, 113, 7], 2_000).into();
    for octet in [0, 0x40, 0x80, 0xc0, 0xff] {
        for length in [0, 1] {
            let decision = scene.route(client, &vec![octet; length]);
            assert_eq!(decision, Decision::Drop(DropReason::NotQuic));
        }
        for length in [2, 21, 1_200, 65_507] {
            let datagram = vec![octet; length];
            scene.route(client, &datagram);
            scene.router.observe(scene.now, ServerKey::of("7"), client, &datagram);
        }
    }
    for _ in 0..200 {
        let datagram = octets(&mut scene.random, 65_507);
        assert!(matches!(scene.route(client, &datagram), Decision::Forward { .. }));
    }
}

/// Floods with spoofed addresses, with first packets that servers respond to, and with follow-up
/// packets as if the responses had been received.
#[test]
fn a_flood_of_first_packets() {
    let mut scene = Scene::new();
    let victims = scene.victims();
    let before = scene.router.statistics().learned;
    for _ in 0..FLOOD {
        let (client, id) = (scene.spoofed(), octets(&mut scene.random, 8));
        let datagram = long(&mut scene.random, 1, &id, &id);
        let server = scene.server(client, &datagram);
        let answer = octets(&mut scene.random, 8);
        let answer = long(&mut scene.random, 1, &id, &answer);
        scene.router.observe(scene.now, server, client, &answer);
        scene.server(client, &datagram);
    }
    let statistics = scene.router.statistics();
    assert_eq!(statistics.learned, before);
    assert_eq!(statistics.flows.entries, LIMITS.flows);
    victims.iter().for_each(|victim| scene.check(victim));
}

#[test]
fn a_flood_of_invented_ids() {
    let mut scene = Scene::new();
    let victims = scene.victims();
    let before = scene.router.statistics().learned;
    for _ in 0..FLOOD {
        let (client, id) = (scene.spoofed(), octets(&mut scene.random, 20));
        let datagram = short(&mut scene.random, &id);
        let server = scene.server(client, &datagram);
        let reset = octets(&mut scene.random, 40);
        scene.router.observe(scene.now, server, client, &[&[0x40], &reset[..]].concat());
        scene.server(client, &datagram);
    }
    assert_eq!(scene.router.statistics().learned, before);
    victims.iter().for_each(|victim| scene.check(victim));
}

/// An attacker who knows the addresses of other clients sends forged connection IDs from these
/// addresses.
#[test]
fn invented_ids_at_the_addresses_of_others() {
    let mut scene = Scene::new();
    let mut victims = scene.victims();
    let before = scene.router.statistics().learned;
    for round in 0..50 {
        for victim in &mut victims {
            let id = octets(&mut scene.random, 20);
            let hostile = match round % 2 {
                0 => short(&mut scene.random, &id),
                _ => long(&mut scene.random, 1, &id, &id),
            };
            scene.route(victim.client, &hostile);
            scene.check(victim);
            // The client switches to another ID.
            if round % 5 == 0 && victim.id.len() == 8 {
                victim.id = octets(&mut scene.random, 8);
                scene.check(victim);
            }
        }
    }
    assert_eq!(scene.router.statistics().learned, before);
}

/// An attacker who has seen other clients' IDs sends them from many addresses.
#[test]
fn replayed_ids() {
    let mut scene = Scene::new();
    let victims = scene.victims();
    let before = scene.router.statistics().learned;
    for round in 0..50 {
        for victim in &victims {
            let datagram = match round % 2 {
                0 => short(&mut scene.random, &victim.id),
                _ => long(&mut scene.random, 1, &victim.id, &[]),
            };
            let client = scene.spoofed();
            assert_eq!(scene.server(client, &datagram), victim.server);
        }
    }
    assert_eq!(scene.router.statistics().learned, before);
    victims.iter().for_each(|victim| scene.check(victim));
    scene.now += LIMITS.lifetime;
    for victim in victims {
        let datagram = short(&mut scene.random, &victim.id);
        let expected = match victim.id.len() {
            8 => ServerKey::of("new"),
            _ => victim.server,
        };
        assert_eq!(scene.server(victim.client, &datagram), expected, "after its lifetime");
    }
}

#[test]
fn ids_of_configurations_that_the_balancer_does_not_have() {
    let mut scene = Scene::new();
    let mut id = scene.issue(ServerKey::of("3"));
    for config in 0..8 {
        id[0] = config << 5 | id[0] & 0x1f;
        let datagram = short(&mut scene.random, &id);
        let client = ([203, 0, 113, 7], 2_000 + u16::from(config)).into();
        let Decision::Forward { server, means } = scene.route(client, &datagram) else { panic!() };
        match config {
            2 => assert_eq!((server, means), (ServerKey::of("3"), Means::ServerId)),
            _ => assert_eq!(means, Means::Hash),
        }
    }
}

#[test]
fn memory_is_taken_at_the_beginning() {
    let (pool, random) = (pool(10), Random::from_number(3));
    let mut router = None;
    let used = allocation_counter::measure(|| router = Some(Router::new(pool, LIMITS, random)));
    let tables = LIMITS.flows * Limits::BYTES_PER_FLOW + LIMITS.learned * Limits::BYTES_PER_LEARNED;
    assert!(used.bytes_max <= tables as u64 + 1_024, "{} of {tables}", used.bytes_max);
    let mut scene = Scene { router: router.unwrap(), ..Scene::new() };
    let victims = scene.victims();
    let mut datagrams = Vec::new();
    for number in 0..20_000 {
        let (client, id) = (scene.spoofed(), octets(&mut scene.random, 8));
        let datagram = match number % 3 {
            0 => long(&mut scene.random, 1, &id, &id),
            1 => short(&mut scene.random, &id),
            _ => short(&mut scene.random, &victims[number % victims.len()].id),
        };
        datagrams.push((client, datagram));
    }
    let used = allocation_counter::measure(|| {
        for (number, (client, datagram)) in datagrams.iter().enumerate() {
            scene.now += Duration::from_millis(number as u64 % 50);
            scene.route(*client, datagram);
            scene.router.observe(scene.now, ServerKey::of("7"), *client, datagram);
        }
    });
    assert_eq!(used.count_total, 0);
    assert!(scene.router.statistics().flows.expired > 0);
}
