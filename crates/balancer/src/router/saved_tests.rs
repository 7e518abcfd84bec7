use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use clearway_units::{Random, Timestamp};

use crate::{Decision, Limits, Means, Pool, Router, Server, ServerState};

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

/// Returns a router in front of servers 1 and 2, only one of which receives new clients.
fn router(weights: [u32; 2], entries: usize, seed: u64) -> Router {
    let [one, two] = weights;
    let pool = Pool::new(Vec::new(), vec![server(1, one), server(2, two)]).unwrap();
    let limits = Limits { flows: entries, learned: entries, lifetime: Duration::from_secs(60) };
    Router::new(Arc::new(pool), limits, Random::from_number(seed))
}

fn client(number: u16) -> SocketAddr {
    ([203, 0, 113, 9], 1024 + number).into()
}

/// Returns the connection ID that a server issues to a client.
fn id(number: u16) -> [u8; 8] {
    let [high, low] = number.to_be_bytes();
    [0xe0, 1, 2, 3, 4, 5, high, low]
}

fn long(destination: &[u8], source: &[u8]) -> Vec<u8> {
    let lengths = [destination.len(), source.len()].map(|length| length as u8);
    let ids = [&lengths[..1], destination, &lengths[1..], source].concat();
    [&[0xc0, 0, 0, 0, 1], &ids[..], &[0xaa; 30]].concat()
}

fn short(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, &[0xaa; 30]].concat()
}

fn route(router: &mut Router, now: Timestamp, from: u16, datagram: &[u8]) -> (u64, Means) {
    let local = "198.51.100.1:443".parse().unwrap();
    match router.route(now, client(from), local, datagram) {
        Decision::Forward { server, means } => (server.number(), means),
        Decision::Drop(reason) => panic!("{reason:?}"),
    }
}

/// Connects a client, whose server responds.
fn connect(router: &mut Router, now: Timestamp, number: u16) -> u64 {
    let (server, _) = route(router, now, number, &long(&[0xe9; 8], &number.to_be_bytes()));
    let (key, _) = {
        let mut all = router.pool().servers();
        let (key, server) = all.find(|(key, _)| key.number() == server).unwrap();
        (key, server.address)
    };
    router.observe(now, key, client(number), &long(&number.to_be_bytes(), &id(number)));
    let (again, _) = route(router, now, number, &short(&id(number)));
    assert_eq!(server, again);
    server
}

#[test]
fn the_next_router_knows_connections_and_flows() {
    let now = Timestamp::ORIGIN + Duration::from_secs(1000);
    let mut before = router([1, 0], 64, 1);
    let one = connect(&mut before, now, 1);
    let (flow, _) = route(&mut before, now, 2, &long(&[0xe8; 8], &[2; 4]));
    // In the next process's router, all hashes lead elsewhere, and the clock has just started.
    let mut after = router([0, 1], 64, 2);
    let start = Timestamp::ORIGIN;
    after.restore(start, &before.save(now));
    assert_eq!(route(&mut after, start, 9, &short(&id(1))), (one, Means::Learned));
    assert_eq!(route(&mut after, start, 2, &long(&[0xe8; 8], &[2; 4])), (flow, Means::Flow));
    let (newcomer, means) = route(&mut after, start, 3, &long(&[0xe8; 8], &[3; 4]));
    assert!(newcomer != one && means == Means::Hash);
    assert_eq!(after.statistics().learned.entries, 1);
}

#[test]
fn one_with_less_room_has_what_was_used_last() {
    let mut now = Timestamp::ORIGIN;
    let mut before = router([1, 0], 64, 1);
    let servers: Vec<_> = (0..20)
        .map(|number| {
            now += Duration::from_millis(1);
            connect(&mut before, now, number)
        })
        .collect();
    let mut after = router([0, 1], 8, 2);
    after.restore(now, &before.save(now));
    for (number, server) in (0..20).zip(servers).rev() {
        let (routed, means) = route(&mut after, now, 100 + number, &short(&id(number)));
        let is_known = number >= 12;
        assert_eq!(means == Means::Learned, is_known, "{number}");
        assert_eq!(routed == server, is_known, "{number}");
    }
}

#[test]
fn what_is_old_expires_in_the_next_one() {
    let mut now = Timestamp::ORIGIN;
    let mut before = router([1, 0], 64, 1);
    connect(&mut before, now, 1);
    now += Duration::from_secs(50);
    connect(&mut before, now, 2);
    let mut after = router([0, 1], 64, 2);
    after.restore(now, &before.save(now));
    now += Duration::from_secs(15);
    assert_eq!(route(&mut after, now, 102, &short(&id(2))).1, Means::Learned);
    assert_eq!(route(&mut after, now, 101, &short(&id(1))).1, Means::Hash);
}

/// Truncated or modified input causes no panic, and the router continues to work.
#[test]
fn anything_can_be_restored() {
    let now = Timestamp::ORIGIN + Duration::from_secs(1000);
    let mut before = router([1, 0], 64, 1);
    for number in 0..5 {
        connect(&mut before, now, number);
    }
    let saved = before.save(now);
    for length in 0..saved.len() {
        let mut after = router([0, 1], 4, 2);
        after.restore(now, &saved[..length]);
        connect(&mut after, now, 7);
    }
    let mut random = Random::from_number(3);
    for _ in 0..2000 {
        let mut changed = saved.clone();
        let at = random.below(changed.len() as u64) as usize;
        changed[at] = random.number() as u8;
        let mut after = router([0, 1], 4, 2);
        after.restore(now, &changed);
        for number in 0..5 {
            route(&mut after, now, number, &short(&id(number)));
        }
    }
    // The same state is restored twice: the second time, all entries already exist.
    let mut after = router([0, 1], 64, 2);
    after.restore(now, &saved);
    let entries = after.statistics().flows.entries;
    after.restore(now, &saved);
    assert_eq!(after.statistics().flows.entries, entries);
}

/// Fingerprints depend on the secret key, so an attacker cannot choose addresses or IDs that
/// collide.
#[test]
fn fingerprints_depend_on_the_key() {
    const LENGTHS_END: usize = 1 + 2 * 8 + 21 * 8;
    let saved = |seed| {
        let mut router = router([1, 0], 8, seed);
        connect(&mut router, Timestamp::ORIGIN, 1);
        router.save(Timestamp::ORIGIN)
    };
    let [one, again, other] = [1, 1, 2].map(saved);
    assert_eq!(one, again);
    assert_ne!(one[LENGTHS_END..], other[LENGTHS_END..]);
}
