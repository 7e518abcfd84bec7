//! Tests forwarders between sockets that the tests control.

mod attacks;
mod peers;

use core::num::NonZeroUsize;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clearway_io::{HotRestart, HotRestartError, MAX_SHARDS};
use clearway_udp::{EcnCodepoint, Meta};
use clearway_wire::preface::{Preface, V4_LEN};

use super::{Forwarders, Options, Statistics, spawn};
use peers::{EMPTY_REPLY, LARGE_REPLY, Peer, STEP, Script, TIMEOUT};

const CODEPOINTS: [EcnCodepoint; 4] =
    [EcnCodepoint::NotEct, EcnCodepoint::Ect0, EcnCodepoint::Ect1, EcnCodepoint::Ce];

/// Returns an address that does not receive datagrams for reused ports of other tests.
fn loopback() -> SocketAddr {
    "127.9.0.1:0".parse().unwrap()
}

fn options() -> Options {
    Options {
        listen: loopback(),
        shards: NonZeroUsize::MIN,
        ports: NonZeroUsize::new(4).unwrap(),
        idle: Duration::from_secs(60),
    }
}

fn start(options: Options, script: &Script) -> Forwarders {
    spawn(options, &mut |_| Box::new(script.clone()), None).unwrap()
}

fn total(forwarders: &Forwarders) -> Statistics {
    forwarders.statistics().into_iter().sum()
}

fn wait_until(forwarders: &Forwarders, condition: impl Fn(&Statistics) -> bool) -> Statistics {
    let begun = Instant::now();
    loop {
        let now = total(forwarders);
        if condition(&now) {
            return now;
        }
        assert!(begun.elapsed() < TIMEOUT, "{now:?}");
        std::thread::yield_now();
    }
}

/// Returns datagrams of one size for a target, with their number in the second octet.
fn numbered(target: u8, numbers: impl Iterator<Item = u8>, size: usize) -> Vec<u8> {
    numbers
        .flat_map(|number| {
            let mut datagram = vec![7; size];
            datagram[..2].copy_from_slice(&[target * STEP, number]);
            datagram
        })
        .collect()
}

fn with_preface(client: SocketAddr, local: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    let (octets, length) = Preface { client, local: local.ip() }.encode();
    [&octets[..length], datagram].concat()
}

/// Makes the server send a connection ID to the client with this port, which then uses it.
fn confirm(server: &mut Peer, client: &mut Peer, address: SocketAddr, port: SocketAddr) {
    let answer = [&[0xc0, 0, 0, 0, 1, 0, 8][..], &[9; 8], &[0; 30]].concat();
    server.send(port, EcnCodepoint::NotEct, &answer, 100);
    while client.receive().1 != answer {}
    let number = client.address().port().to_be_bytes();
    client.send(address, EcnCodepoint::NotEct, &[&[0][..], &[9; 8], &number].concat(), 100);
    assert_eq!(server.receive().0.remote, port);
}

/// Splits a datagram that a server has received into the preface and the rest.
fn without_preface((meta, mut datagram): (Meta, Vec<u8>)) -> (Preface, Meta, Vec<u8>) {
    let (preface, rest) = Preface::split(&mut datagram).expect("the datagram has no preface");
    (preface, meta, rest.to_vec())
}

/// One batch is sent per server: coalesced datagrams are not sent one by one. With a probability of
/// 1 in 512, the two servers share a batch slot, and their batches then alternate.
#[test]
fn a_batch_for_several_servers_arrives_in_order_at_each() {
    for has_preface in [true, false] {
        let batches: Vec<u64> = (0..3).map(|_| forward_to_two(has_preface)).collect();
        assert!(batches.contains(&2), "{batches:?}");
    }
}

/// Sends a batch in which groups of datagrams for two servers alternate. Returns the number of
/// batches sent.
fn forward_to_two(has_preface: bool) -> u64 {
    let (mut first, mut second) = (Peer::new(loopback()), Peer::new(loopback()));
    let script = Script::new(&[first.address(), second.address()], has_preface);
    let forwarders = start(options(), &script);
    let mut client = Peer::new(loopback());
    let batch: Vec<u8> =
        (0..8).flat_map(|run: u8| numbered(run % 2, run * 7..run * 7 + 7, 100)).collect();
    assert_eq!(batch.len(), 5600);
    client.send(forwarders.local_address(), EcnCodepoint::Ect0, &batch, 100);
    for (target, server) in (0..).zip([&mut first, &mut second]) {
        let numbers: Vec<u8> = (0..28)
            .map(|_| {
                let received = server.receive();
                let datagram = if has_preface {
                    let (preface, _, datagram) = without_preface(received);
                    assert_eq!(preface.client, client.address());
                    assert_eq!(preface.local, loopback().ip());
                    datagram
                } else {
                    received.1
                };
                assert_eq!((datagram.len(), datagram[0]), (100, target * STEP));
                datagram[1]
            })
            .collect();
        let expected = (0..56).filter(|number| number / 7 % 2 == target);
        assert_eq!(numbers, expected.collect::<Vec<u8>>());
    }
    let now = wait_until(&forwarders, |now| now.to_servers.datagrams_sent == 56);
    assert_eq!(now.to_servers.datagrams_received, 56);
    let prefaces = if has_preface { 56 * V4_LEN as u64 } else { 0 };
    assert_eq!(now.to_servers.bytes_sent, 5600 + prefaces);
    assert_eq!(now.ports_in_use, if has_preface { 0 } else { 2 });
    now.to_servers.batches_sent
}

/// Sends a batch in each direction, with each ECN codepoint and several sizes.
#[test]
fn ecn_and_sizes_pass_unchanged() {
    for has_preface in [true, false] {
        let mut server = Peer::new(loopback());
        let script = Script::new(&[server.address()], has_preface);
        let forwarders = start(options(), &script);
        let address = forwarders.local_address();
        let mut client = Peer::new(loopback());
        for ecn in CODEPOINTS {
            for (size, last) in [(2, 2), (60, 13), (1200, 1200), (1452, 700), (9000, 8999)] {
                let mut batch = numbered(0, 0..5, size);
                batch.extend(numbered(0, 5..6, last));
                client.send(address, ecn, &batch, size);
                let mut balancer = None;
                for number in 0..6_u8 {
                    let (meta, datagram) = server.receive();
                    assert_eq!(meta.ecn, ecn);
                    balancer = Some(meta.remote);
                    let datagram =
                        if has_preface { without_preface((meta, datagram)).2 } else { datagram };
                    assert_eq!(datagram[1], number);
                    assert_eq!(datagram.len(), if number < 5 { size } else { last });
                }
                let answers: Vec<Vec<u8>> = batch.chunks(size).map(<[u8]>::to_vec).collect();
                let answers = answers.into_iter().map(|answer| match has_preface {
                    true => with_preface(client.address(), address, &answer),
                    false => answer,
                });
                let prefaced = size + if has_preface { V4_LEN } else { 0 };
                let answers = answers.collect::<Vec<_>>().concat();
                server.send(balancer.unwrap(), ecn, &answers, prefaced);
                for answer in batch.chunks(size) {
                    let (meta, datagram) = client.receive();
                    assert_eq!((meta.ecn, meta.remote), (ecn, address));
                    assert!(datagram == answer, "{} {}", datagram.len(), answer.len());
                }
            }
        }
        let now = wait_until(&forwarders, |now| now.to_clients.datagrams_sent == 120);
        assert_eq!((now.to_clients.batches_sent, now.to_servers.batches_sent), (20, 20), "{now:?}");
        assert_eq!(script.observed(), 120);
    }
}

#[test]
fn the_smallest_and_the_largest_datagrams() {
    for has_preface in [true, false] {
        let mut server = Peer::new(loopback());
        let script = Script::new(&[server.address()], has_preface);
        let forwarders = start(options(), &script);
        let client = UdpSocket::bind(loopback()).unwrap();
        let largest = vec![0; 65_507];
        for datagram in [&[][..], &[0], &largest, &[0, 1]] {
            client.send_to(datagram, forwarders.local_address()).unwrap();
        }
        let now = wait_until(&forwarders, |now| now.to_servers.datagrams_received == 4);
        assert_eq!(now.to_servers.dropped_empty, 1);
        // With a preface, the datagram exceeds the maximum size.
        let too_large = u64::from(has_preface);
        assert_eq!(now.to_servers.dropped_too_large, too_large);
        assert_eq!(now.to_servers.datagrams_sent, 3 - too_large);
        let overhead = if has_preface { V4_LEN } else { 0 };
        let lengths: Vec<_> =
            (0..3 - too_large).map(|_| server.receive().1.len() - overhead).collect();
        assert_eq!(lengths, if has_preface { vec![1, 2] } else { vec![1, 65_507, 2] });
        // The server sends an empty response.
        let balancer = server.last_sender();
        let empty = match has_preface {
            true => with_preface(client.local_addr().unwrap(), loopback(), b""),
            false => Vec::new(),
        };
        server.send_empty(balancer, &empty);
        wait_until(&forwarders, |now| now.to_clients.dropped_empty == 1);
    }
}

#[test]
fn what_is_not_forwarded_is_answered_or_counted() {
    let server = Peer::new(loopback());
    let script = Script::new(&[server.address()], true);
    let forwarders = start(options(), &script);
    let mut client = Peer::new(loopback());
    let address = forwarders.local_address();
    client.send(address, EcnCodepoint::NotEct, b"rd\0drrd", 1);
    for _ in 0..3 {
        let (meta, reply) = client.receive();
        assert_eq!((&reply[..], meta.remote), (&b"reply"[..], address));
    }
    let now = wait_until(&forwarders, |now| now.to_clients.datagrams_sent == 3);
    assert_eq!((now.replies, now.dropped_not_routed, now.replies_dropped), (3, 3, 0));
    assert_eq!(now.to_servers.datagrams_sent, 1);
    // These are more replies than the queue holds until the end of a batch.
    for _ in 0..2 {
        client.send(address, EcnCodepoint::NotEct, &[b'r'; 50], 1);
    }
    let now = wait_until(&forwarders, |now| now.replies + now.replies_dropped == 103);
    assert!(now.replies >= 53, "{now:?}");
    assert!(script.turns() > 0);
}

/// Tests lengths that no UDP payload can have.
#[test]
fn replies_that_cannot_be_sent_are_counted() {
    let forwarders = start(options(), &Script::new(&[], true));
    let mut client = Peer::new(loopback());
    for datagram in [[b'r', EMPTY_REPLY], [b'r', LARGE_REPLY], [b'r', 0], [b'r', EMPTY_REPLY]] {
        client.send(forwarders.local_address(), EcnCodepoint::NotEct, &datagram, 2);
    }
    assert_eq!(client.receive().1, b"reply");
    let now = wait_until(&forwarders, |now| now.to_servers.datagrams_received == 4);
    assert_eq!((now.replies, now.replies_dropped, now.to_clients.datagrams_sent), (4, 3, 1));
}

/// A sleeping thread wakes up for each datagram, but never without one.
#[test]
fn wake_ups_are_counted() {
    let mut server = Peer::new(loopback());
    let forwarders = start(options(), &Script::new(&[server.address()], true));
    let mut client = Peer::new(loopback());
    for number in 0..20 {
        client.send(forwarders.local_address(), EcnCodepoint::NotEct, &[0, number], 2);
        server.receive();
    }
    let now = wait_until(&forwarders, |now| now.to_servers.datagrams_received == 20);
    // Datagrams are sent one at a time, but a thread that is still awake may find the next one
    // without sleeping.
    assert!((10..=40).contains(&now.wakeups), "{now:?}");
}

#[test]
fn reports_of_an_unreachable_server_are_counted() {
    let gone = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let forwarders = start(options(), &Script::new(&[gone], false));
    let mut client = Peer::new(loopback());
    let begun = Instant::now();
    // The kernel may rate-limit these reports.
    while total(&forwarders).unreachable_reports == 0 {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", total(&forwarders));
        client.send(forwarders.local_address(), EcnCodepoint::NotEct, &[0, 1, 2], 3);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Only servers may specify a client's address, and only servers with prefaces do so.
#[test]
fn what_strangers_send_is_dropped() {
    let (mut server, mut stranger) = (Peer::new(loopback()), Peer::new(loopback()));
    let script = Script::new(&[server.address()], true);
    let forwarders = start(options(), &script);
    let address = forwarders.local_address();
    let mut client = Peer::new(loopback());
    client.send(address, EcnCodepoint::NotEct, &[0, 1], 2);
    let balancer = server.receive().0.remote;
    let answer = |contents: &[u8]| with_preface(client.address(), address, contents);
    stranger.send(balancer, EcnCodepoint::NotEct, &answer(b"forged"), 100);
    // Datagrams for sockets of other tests may arrive here as well.
    wait_until(&forwarders, |now| now.dropped_unknown_sender > 0);
    server.send(balancer, EcnCodepoint::NotEct, b"without", 100);
    wait_until(&forwarders, |now| now.dropped_no_preface == 1);
    // This response is for an invalid address.
    let nobody = with_preface(([127, 0, 0, 1], 0).into(), address, b"nobody");
    server.send(balancer, EcnCodepoint::NotEct, &nobody, 100);
    wait_until(&forwarders, |now| now.to_clients.dropped_unreachable == 1);
    // This response would be sent from an address that does not belong to this host.
    let elsewhere = with_preface(client.address(), ([192, 0, 2, 1], 1).into(), b"elsewhere");
    server.send(balancer, EcnCodepoint::NotEct, &elsewhere, 100);
    wait_until(&forwarders, |now| now.to_clients.dropped_unreachable == 2);
    server.send(balancer, EcnCodepoint::Ect1, &answer(b"true"), 100);
    let (meta, datagram) = client.receive();
    assert_eq!((&datagram[..], meta.ecn), (&b"true"[..], EcnCodepoint::Ect1));
    assert_eq!(script.observed(), 2, "the dropped datagram also came from a server");
}

/// Each port belongs to one client of a server, and datagrams to it from other senders are dropped.
#[test]
fn a_port_is_one_clients_until_it_is_idle() {
    let (mut server, mut stranger) = (Peer::new(loopback()), Peer::new(loopback()));
    let script = Script::new(&[server.address()], false);
    let ports = NonZeroUsize::new(2).unwrap();
    let idle = Duration::from_millis(200);
    let forwarders = start(Options { ports, idle, ..options() }, &script);
    let address = forwarders.local_address();
    let mut clients = [(); 3].map(|()| Peer::new(loopback()));
    // Both ports are taken, and the third client gets none until one of the first two has been
    // idle.
    let begun = Instant::now();
    let mut port_of = Vec::new();
    for (number, client) in (0..).zip(&mut clients[..2]) {
        client.send(address, EcnCodepoint::NotEct, &[0, number], 2);
        let port = server.receive().0.remote;
        confirm(&mut server, client, address, port);
        port_of.push(port);
    }
    assert_ne!(port_of[0], port_of[1]);
    clients[2].send(address, EcnCodepoint::NotEct, &[0, 2], 2);
    let now = wait_until(&forwarders, |now| now.to_servers.datagrams_received == 5);
    // The client gets no port, unless this thread was stalled for that long.
    assert!(now.dropped_no_port == 1 || begun.elapsed() >= idle, "{now:?}");
    stranger.send(port_of[0], EcnCodepoint::NotEct, b"forged", 100);
    wait_until(&forwarders, |now| now.dropped_unknown_sender > 0);
    wait_until(&forwarders, |now| now.ports_in_use == 0);
    let before = total(&forwarders).dropped_unknown_sender;
    server.send(port_of[0], EcnCodepoint::NotEct, b"too late", 100);
    wait_until(&forwarders, |now| now.dropped_unknown_sender > before);
    // The response reaches the client that has the port now, unless this thread stalls until that
    // client is idle.
    let answered = (0..1000).any(|_| {
        clients[2].send(address, EcnCodepoint::NotEct, &[0, 3], 2);
        let port = server.receive().0.remote;
        assert!(port_of.contains(&port), "there are two ports");
        server.send(port, EcnCodepoint::NotEct, b"answer", 100);
        clients[2].try_receive(idle / 2).is_some_and(|(_, datagram)| datagram == b"answer")
    });
    assert!(answered);
    assert!(clients[..2].iter_mut().all(|client| client.try_receive(Duration::ZERO).is_none()));
}

/// A limit: its name, and functions that set it to its minimum and its maximum.
type Limit = (&'static str, fn(&mut Options), fn(&mut Options));

const LIMITS: [Limit; 3] = [
    (
        "shards",
        |it| it.shards = NonZeroUsize::MIN,
        |it| it.shards = NonZeroUsize::new(MAX_SHARDS).unwrap(),
    ),
    ("ports", |it| it.ports = NonZeroUsize::MIN, |it| it.ports = NonZeroUsize::MAX),
    ("idle", |it| it.idle = Duration::ZERO, |it| it.idle = Duration::MAX),
];

/// Exchanges datagrams between a client and a server, in both directions unless the client
/// immediately loses its port.
fn exchange_with(name: &str, options: Options) {
    for has_preface in [true, false] {
        let (mut client, mut server) = (Peer::new(loopback()), Peer::new(loopback()));
        let script = Script::new(&[server.address()], has_preface);
        let can_answer = has_preface || !options.idle.is_zero();
        let forwarders = start(options.clone(), &script);
        for number in 0..20 {
            client.send(forwarders.local_address(), EcnCodepoint::NotEct, &[0, number], 2);
            let (meta, datagram) = server.receive();
            assert_eq!(datagram.last(), Some(&number), "{name}");
            if can_answer {
                let answer = [b"answer", &[number][..]].concat();
                let whole = match has_preface {
                    true => with_preface(client.address(), forwarders.local_address(), &answer),
                    false => answer.clone(),
                };
                server.send(meta.remote, EcnCodepoint::NotEct, &whole, 1000);
                assert_eq!(client.receive().1, answer, "{name}");
            }
        }
        if options.idle.is_zero() {
            wait_until(&forwarders, |now| now.ports_in_use == 0);
        }
    }
}

#[test]
fn datagrams_pass_with_each_limit_at_its_least_and_greatest() {
    let [mut least, mut greatest] = [options(), options()];
    for (name, set_least, set_greatest) in LIMITS {
        let [mut low, mut high] = [options(), options()];
        set_least(&mut low);
        set_greatest(&mut high);
        exchange_with(&format!("the minimum {name}"), low);
        exchange_with(&format!("the maximum {name}"), high);
        set_least(&mut least);
        set_greatest(&mut greatest);
    }
    exchange_with("all minimum", least);
    exchange_with("all maximum", greatest);
}

/// A dual-stack socket uses IPv4-mapped IPv6 addresses, but servers and the routing never see them.
#[test]
fn both_families_are_served_at_one_socket() {
    let (any, v6) = ("[::]:0".parse().unwrap(), "[::1]:0".parse().unwrap());
    if UdpSocket::bind(v6).is_err() {
        return;
    }
    let servers = [Peer::new(loopback()), Peer::new(v6)];
    for has_preface in [true, false] {
        let script = Script::new(&servers.each_ref().map(Peer::address), has_preface);
        let forwarders = start(Options { listen: any, ..options() }, &script);
        let port = forwarders.local_address().port();
        let mut servers = servers.each_ref().map(Peer::duplicate);
        // Stale datagrams of the other client would be detected as a loop.
        for (from, size) in [(loopback(), 1200), (v6, 1300)] {
            let mut client = Peer::new(from);
            let address = SocketAddr::new(from.ip(), port);
            for (target, server) in (0..).zip(&mut servers) {
                client.send(address, EcnCodepoint::Ect0, &numbered(target, 0..3, size), size);
                for _ in 0..3 {
                    let received = server.receive();
                    assert_eq!(received.0.ecn, EcnCodepoint::Ect0);
                    let balancer = received.0.remote;
                    let answer = if has_preface {
                        let (preface, _, datagram) = without_preface(received);
                        assert_eq!(preface.client, client.address());
                        assert_eq!(preface.local, address.ip());
                        with_preface(preface.client, address, &datagram)
                    } else {
                        received.1
                    };
                    server.send(balancer, EcnCodepoint::Ce, &answer, 2000);
                    let (meta, datagram) = client.receive();
                    assert_eq!((meta.remote, meta.ecn), (address, EcnCodepoint::Ce));
                    assert_eq!((datagram.len(), datagram[0]), (size, target * STEP));
                }
            }
            assert_eq!(script.clients(), [client.address()].into());
        }
    }
}

/// Several threads share a port, and the port is free after they have ended.
#[test]
fn the_port_is_shared_and_given_back() {
    let mut server = Peer::new(loopback());
    let script = Script::new(&[server.address()], true);
    let shards = NonZeroUsize::new(3).unwrap();
    let made = Arc::new(AtomicU64::new(0));
    let forwarders = spawn(
        Options { shards, ..options() },
        &mut |number| {
            assert_eq!(made.fetch_add(1, Ordering::Relaxed), number as u64);
            Box::new(script.clone())
        },
        None,
    );
    let forwarders = forwarders.unwrap();
    let address = forwarders.local_address();
    assert!(UdpSocket::bind(address).is_err());
    let taken = spawn(
        Options { listen: address, shards, ..options() },
        &mut |_| Box::new(script.clone()),
        None,
    );
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    // Each thread has its own server-side port, to which responses are sent.
    let mut clients: Vec<_> = (0..30).map(|_| Peer::new(loopback())).collect();
    for (number, client) in (0..).zip(&mut clients) {
        client.send(address, EcnCodepoint::NotEct, &[0, number], 2);
        let (preface, meta, datagram) = without_preface(server.receive());
        assert_eq!((preface.client, datagram[1]), (client.address(), number));
        let answer = with_preface(preface.client, address, &datagram);
        server.send(meta.remote, EcnCodepoint::NotEct, &answer, 100);
        assert_eq!(client.receive().1, datagram);
    }
    let each = forwarders.statistics();
    assert_eq!(each.len(), 3);
    wait_until(&forwarders, |now| now.to_clients.datagrams_sent == 30);
    drop(forwarders);
    assert!(UdpSocket::bind(address).is_ok());
}

/// A target that the forwarder's socket cannot reach.
#[test]
fn a_server_that_cannot_be_reached_is_counted() {
    let nowhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for has_preface in [true, false] {
        let script = Script::new(&[nowhere], has_preface);
        let forwarders = start(options(), &script);
        let mut client = Peer::new(loopback());
        client.send(forwarders.local_address(), EcnCodepoint::NotEct, &[0, 1], 2);
        wait_until(&forwarders, |now| now.to_servers.dropped_unreachable == 1);
    }
}

/// One process replaces another, and a third one replaces the second: no datagram is lost in either
/// direction, each server still sees each client at the same port, and the saved state is
/// preserved.
#[test]
fn forwarders_are_replaced_and_nothing_is_lost() {
    for has_preface in [true, false] {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("clearway-forward-{}-{has_preface}", std::process::id()));
        let mut server = Peer::new(loopback());
        let script = Script::new(&[server.address()], has_preface);
        let shards = NonZeroUsize::new(2).unwrap();
        let start = |listen, script: &Script| {
            let hot_restart = HotRestart::of_balancer_at(&path).unwrap();
            let options = Options { listen, shards, ..options() };
            spawn(options, &mut |_| Box::new(script.clone()), Some(hot_restart)).unwrap()
        };
        let mut running = start(loopback(), &script);
        let address = running.local_address();
        let mut clients: Vec<_> = (0..4).map(|_| Peer::new(loopback())).collect();
        let mut seen = [None; 4];
        for round in 0..3_u8 {
            let mut ways = Vec::new();
            for (number, client) in (0..4).zip(&mut clients) {
                client.send(address, EcnCodepoint::NotEct, &[0, number, round], 3);
                let received = server.receive();
                let way = received.0.remote;
                let datagram = match has_preface {
                    true => without_preface(received).2,
                    false => received.1,
                };
                assert_eq!(datagram, [0, number, round]);
                if !has_preface {
                    assert_eq!(*seen[usize::from(number)].get_or_insert(way), way);
                }
                ways.push(way);
            }
            // Responses to the previous process, and clients' datagrams, are queued while no
            // process receives.
            let next = script.clone();
            let before = std::mem::replace(&mut running, {
                let preface = |client| match has_preface {
                    true => with_preface(client, address, &[9, round]),
                    false => vec![9, round],
                };
                for (client, way) in clients.iter().zip(&ways) {
                    let answer = preface(client.address());
                    server.send(*way, EcnCodepoint::NotEct, &answer, 100);
                }
                start(address, &next)
            });
            drop(before);
            for client in &mut clients {
                assert_eq!(client.receive().1, [9, round]);
            }
        }
        // Two threads have restored their state three times.
        wait_until(&running, |_| script.restored() == 6);
        let more = HotRestart::of_balancer_at(&path).unwrap();
        let options = Options { listen: address, ..options() };
        let refused = spawn(options, &mut |_| Box::new(script.clone()), Some(more));
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("2 shards"), "{error}");
        // The running process continues.
        clients[0].send(address, EcnCodepoint::NotEct, &[0, 7], 2);
        assert!(server.receive().1.ends_with(&[0, 7]));
        drop(running);
        assert!(!path.exists() && UdpSocket::bind(address).is_ok());
    }
}

#[test]
fn a_balancer_does_not_replace_a_server() {
    let path = std::env::temp_dir().join(format!("clearway-roles-{}", std::process::id()));
    let script = Script::new(&[loopback()], true);
    let hot_restart = HotRestart::of_balancer_at(&path).unwrap();
    let running = spawn(options(), &mut |_| Box::new(script.clone()), Some(hot_restart));
    let running = running.unwrap();
    assert!(matches!(HotRestart::at(&path), Err(HotRestartError::Foreign)));
    drop(running);
    assert!(!HotRestart::at(&path).unwrap().replaces());
}

/// Clients keep sending while one process replaces another, several times, and each datagram
/// arrives exactly once.
#[test]
fn what_clients_send_meanwhile_arrives_once() {
    let path = std::env::temp_dir().join(format!("clearway-meanwhile-{}", std::process::id()));
    let mut server = Peer::new(loopback());
    let script = Script::new(&[server.address()], false);
    let start = |listen| {
        let hot_restart = HotRestart::of_balancer_at(&path).unwrap();
        let shards = NonZeroUsize::new(2).unwrap();
        let options = Options { listen, shards, ..options() };
        spawn(options, &mut |_| Box::new(script.clone()), Some(hot_restart)).unwrap()
    };
    let mut running = start(loopback());
    let address = running.local_address();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let mut clients: Vec<_> = (0..4).map(|_| Peer::new(loopback())).collect();
            let (mut sent, mut arrived) = (0_u32, BTreeSet::new());
            while !is_over.load(Ordering::SeqCst) || arrived.len() < sent as usize {
                // So few datagrams are in transit that no buffer fills up.
                if !is_over.load(Ordering::SeqCst) && sent as usize - arrived.len() < 32 {
                    let datagram = [&[0], &sent.to_be_bytes()[..]].concat();
                    let client = &mut clients[sent as usize % 4];
                    client.send(address, EcnCodepoint::NotEct, &datagram, 5);
                    sent += 1;
                } else {
                    assert!(arrived.insert(server.receive().1), "a datagram arrives twice");
                }
            }
            sent
        });
        for _ in 0..20 {
            let before = total(&running).to_servers.datagrams_sent;
            wait_until(&running, |now| now.to_servers.datagrams_sent > before + 20);
            let next = start(address);
            drop(std::mem::replace(&mut running, next));
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(traffic.join().unwrap() > 400);
    });
}
