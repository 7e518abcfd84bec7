//! Tests attacks by clients on other clients, and servers that forward back to the balancer.

use std::sync::atomic::AtomicU8;

use clearway_units::Timestamp;

use super::peers::STRAY;
use super::*;
use crate::{Routed, Routing, Target};

/// Each datagram of a flood comes from another network. Existing clients keep their ports, and new
/// clients still get ports.
#[test]
fn floods_leave_ports_for_clients() {
    for second in [STRAY, 1] {
        let mut server = Peer::new(loopback());
        let script = Script::new(&[server.address()], false);
        let ports = NonZeroUsize::new(40).unwrap();
        let forwarders = start(Options { ports, ..options() }, &script);
        let address = forwarders.local_address();
        let mut old = Peer::new(loopback());
        old.send(address, EcnCodepoint::NotEct, &[0, 1], 2);
        let port = server.receive().0.remote;
        confirm(&mut server, &mut old, address, port);
        let mut received = 3;
        for round in 0..12_u8 {
            for number in 0..25 {
                let attacker = UdpSocket::bind(SocketAddr::from(([127, 10 + round, number, 1], 0)));
                let attacker = attacker.unwrap();
                attacker.send_to(&[0, second, round, number], address).unwrap();
            }
            let mut client = Peer::new(loopback());
            client.send(address, EcnCodepoint::NotEct, &[0, 2, round, 0], 4);
            received += 26;
            let new = loop {
                let (meta, datagram) = server.receive();
                if datagram[1] == 2 {
                    break meta.remote;
                }
            };
            server.send(new, EcnCodepoint::NotEct, b"answer", 100);
            assert_eq!(client.receive().1, b"answer");
            old.send(address, EcnCodepoint::NotEct, &[0, 3, round], 3);
            received += 1;
            while server.receive().1[1] != 3 {}
            assert_eq!(server.last_sender(), port, "an old client has lost its port");
        }
        let now = wait_until(&forwarders, |now| now.to_servers.datagrams_received == received - 1);
        match second {
            STRAY => assert!(now.ports_in_use <= 30, "{now:?}"),
            _ => assert!(now.ports_in_use == 40 && now.ports_evicted > 250, "{now:?}"),
        }
    }
}

/// A server without prefaces cannot mistake any client's datagram for a preface, regardless of how
/// the datagram is routed.
#[test]
fn a_client_makes_no_preface() {
    let server = Peer::new(loopback());
    let (claimed, local) = (([203, 0, 113, 66], 4242).into(), ([198, 51, 100, 1], 443).into());
    let v6: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
    let initial = [&[0xc3, 0, 0, 0, 1, 8][..], &[7; 1200]].concat();
    let prefaces = [with_preface(claimed, local, &initial), with_preface(v6, v6, &initial)];
    // A preface without a datagram counts, too.
    let bare = [with_preface(claimed, local, b""), with_preface(v6, v6, b"")];
    let forged: Vec<_> = prefaces.into_iter().chain(bare).collect();
    let target = |begins| Target { server: server.address(), has_preface: false, begins };
    let routes = [
        Routed::To(target(true)),
        Routed::To(target(false)),
        Routed::ToWithReply(target(true), b"reply".to_vec()),
    ];
    for routed in routes {
        let mut server = server.duplicate();
        let everything = Everything { routed: routed.clone(), server: server.address() };
        let forwarders = spawn(options(), &mut |_| Box::new(everything.clone()), None).unwrap();
        let address = forwarders.local_address();
        let mut client = Peer::new(loopback());
        let send_forged = |client: &mut Peer| {
            forged.iter().for_each(|it| client.send(address, EcnCodepoint::NotEct, it, 1500));
        };
        // The client sends before it has a port, and with a port whose server has responded and has
        // shown that the QUIC bit may be cleared.
        send_forged(&mut client);
        client.send(address, EcnCodepoint::NotEct, &initial, 1500);
        assert!(server.receive().1 == initial, "{routed:?}");
        let port = server.last_sender();
        let preface = with_preface(client.address(), address, &[0x41; 40]);
        for answer in [&[0xc0; 40][..], &[0x41; 40], &preface] {
            server.send(port, EcnCodepoint::NotEct, answer, 100);
        }
        wait_until(&forwarders, |now| now.to_clients.datagrams_received == 3);
        send_forged(&mut client);
        let now = wait_until(&forwarders, |now| now.dropped_like_preface == 8);
        assert_eq!(now.to_servers.datagrams_sent, 1, "{now:?}");
        // Shorter datagrams are not prefaces.
        client.send(address, EcnCodepoint::NotEct, &[1; V4_LEN - 1], 100);
        assert_eq!(server.receive().1, [1; V4_LEN - 1]);
        // A server that clears the QUIC bit expects no prefaces.
        server.send(port, EcnCodepoint::NotEct, &[0x11; 40], 100);
        wait_until(&forwarders, |now| now.to_clients.datagrams_received == 4);
        client.send(address, EcnCodepoint::NotEct, &[2; 60], 100);
        assert_eq!(server.receive().1, [2; 60]);
    }
}

/// A routing policy that treats all datagrams alike.
#[derive(Clone)]
struct Everything {
    routed: Routed,
    server: SocketAddr,
}

impl Routing for Everything {
    fn route(&mut self, _: Timestamp, _: SocketAddr, _: SocketAddr, _: &[u8]) -> Routed {
        self.routed.clone()
    }

    fn observe(&mut self, _: Timestamp, server: SocketAddr, _: SocketAddr, _: &[u8]) {
        assert_eq!(server, self.server);
    }

    fn save(&mut self, _: Timestamp) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _: Timestamp, _: &[u8]) {}

    fn is_server(&self, _: SocketAddr) -> bool {
        false
    }
}

/// Returns an address for a forwarder. The port is below the kernel's ephemeral range, from which
/// each forwarder takes many ports.
fn free() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let port = 10_000 + (std::process::id() % 20_000) as u16;
    ([127, 9, 2, NEXT.fetch_add(1, Ordering::Relaxed)], port).into()
}

/// One balancer is its own server, and two others are each other's servers: a datagram passes each
/// thread at most a few times.
#[test]
fn loops_end() {
    for (has_prefaces, shards) in
        [([false, false], 1), ([true, true], 1), ([false, true], 1), ([false, false], 4)]
    {
        for is_own in [true, false] {
            let addresses = [free(), free()];
            let start = |own: usize, next: usize, has_preface| {
                let mut script = Script::new(&[addresses[next]], has_preface);
                script.is_total = true;
                let shards = NonZeroUsize::new(shards).unwrap();
                let ports = NonZeroUsize::new(1000).unwrap();
                let options = Options { listen: addresses[own], shards, ports, ..options() };
                start(options, &script)
            };
            let all = match is_own {
                true => vec![start(0, 0, has_prefaces[0])],
                false => vec![start(0, 1, has_prefaces[0]), start(1, 0, has_prefaces[1])],
            };
            let mut client = Peer::new(loopback());
            for number in 0..10 {
                client.send(addresses[0], EcnCodepoint::NotEct, &[0x40 | number; 100], 100);
            }
            let sum = || all.iter().map(total).sum::<Statistics>();
            let ended = |now: &Statistics| {
                let dropped = now.dropped_looped + now.dropped_like_preface;
                now.to_servers.datagrams_received == now.to_servers.datagrams_sent + dropped
                    && dropped >= 10
            };
            let begun = Instant::now();
            while !ended(&sum()) {
                assert!(begun.elapsed() < TIMEOUT, "{:?}", sum());
                std::thread::yield_now();
            }
            let now = sum();
            // Each datagram is dropped once, after each thread has forwarded it once, or twice with
            // a preface.
            assert_eq!(now.dropped_looped + now.dropped_like_preface, 10, "{now:?}");
            let most = 10 * (all.len() * shards + 2) as u64;
            assert!(now.to_servers.datagrams_sent <= most, "{now:?}");
        }
    }
}

/// An attacker spoofs the balancer's own address.
#[test]
fn the_balancer_is_no_client() {
    let server = Peer::new(loopback());
    let script = Script::new(&[server.address()], true);
    let forwarders = start(options(), &script);
    let address = forwarders.local_address();
    // A server that specifies the balancer's address as the client's would make the balancer send
    // to itself.
    let mut client = Peer::new(loopback());
    let mut server = server;
    client.send(address, EcnCodepoint::NotEct, &[0, 1], 2);
    let balancer = server.receive().0.remote;
    let answer = with_preface(address, address, &[0; 100]);
    server.send(balancer, EcnCodepoint::NotEct, &answer, 200);
    let now = wait_until(&forwarders, |now| now.dropped_looped == 1);
    assert_eq!(now.to_servers.datagrams_sent, 1);
}
