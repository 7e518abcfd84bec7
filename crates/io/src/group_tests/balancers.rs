//! Tests of groups that accept datagrams only from load balancers.

use core::num::NonZeroUsize;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

use clearway_transport::Incoming;
use clearway_wire::preface::Preface;

use super::{
    Entrance, Everyone, GroupServerSetup, address, client, download, endpoint_config,
    server_config, short_header, spawn_group, total, wait_until,
};
use crate::acceptor::Admission;
use crate::{Acceptor, Decision};

/// Accepts every client, and records its address.
struct Remembering(Arc<Mutex<BTreeSet<SocketAddr>>>);

impl Acceptor for Remembering {
    fn incoming(&mut self, incoming: &Incoming) -> Decision {
        self.0.lock().unwrap().insert(incoming.remote_address());
        Everyone.incoming(incoming)
    }
}

/// Returns the servers' address for this test. Each test has its own address, so that it receives
/// no datagrams that another test sends to a reused port.
fn here(test: u8) -> SocketAddr {
    ([127, 9, 1, test], 0).into()
}

/// A balancer's own datagrams are accepted unchanged; datagrams from other senders are dropped.
#[test]
fn only_a_balancer_may_send_to_its_server() {
    let balancer = "127.0.0.1".parse().unwrap();
    let balancers = vec![balancer, "2001:db8::1".parse().unwrap()];
    let clients = Arc::<Mutex<BTreeSet<SocketAddr>>>::default();
    let acceptor = &mut |_| Box::new(Remembering(clients.clone())) as Box<dyn Acceptor>;
    let config = Arc::new(server_config());
    let setup = GroupServerSetup {
        config,
        acceptor,
        admission: Admission { balancers, ..Admission::default() },
    };
    let group = spawn_group(here(8), NonZeroUsize::MIN, endpoint_config(), Some(setup)).unwrap();
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.send_to(&short_header(7), address(&group)).unwrap();
    wait_until(&group, |now| now.foreign_dropped == 1);
    // Even a datagram that looks as if it came from a balancer is dropped.
    let preface = Preface { client: here(8), local: balancer };
    let (octets, length) = preface.encode();
    let forged = [&octets[..length], &short_header(7)].concat();
    stranger.send_to(&forged, address(&group)).unwrap();
    wait_until(&group, |now| now.foreign_dropped == 2);
    assert_eq!(total(&group).datagrams_sent, 0);
    // This is a health check.
    let direct = Entrance {
        address: address(&group),
        rebinds: Arc::default(),
        first_octets: Arc::default(),
    };
    let shard = client();
    let check = download(&shard, &direct, &[1], false);
    assert_eq!(check.next(), Ok(1));
    assert_eq!(*clients.lock().unwrap(), [shard.local_address()].into());
    assert_eq!(total(&group).foreign_dropped, 2);
}

/// Ignores every client.
struct Ignoring;

impl Acceptor for Ignoring {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        Decision::Ignore
    }
}

/// A Version Negotiation packet (RFC 9000 §6.1) takes the reverse path of the packet to which it
/// responds.
#[test]
fn a_reply_outside_of_a_connection_has_a_preface_for_the_balancer() {
    let acceptor = &mut |_| Box::new(Ignoring) as Box<dyn Acceptor>;
    let config = Arc::new(server_config());
    let balancers = vec!["127.0.0.1".parse().unwrap()];
    let admission = Admission { balancers, ..Admission::default() };
    let setup = GroupServerSetup { config, acceptor, admission };
    let group = spawn_group(here(9), NonZeroUsize::MIN, endpoint_config(), Some(setup)).unwrap();
    let balancer = UdpSocket::bind("127.0.0.1:0").unwrap();
    balancer.set_read_timeout(Some(core::time::Duration::from_secs(20))).unwrap();
    let sent =
        Preface { client: "192.0.2.1:7".parse().unwrap(), local: "192.0.2.9".parse().unwrap() };
    let (octets, length) = sent.encode();
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 1, 1, 1, 1, 1, 1, 1, 4, 2, 2, 2, 2];
    packet.resize(1200, 0);
    balancer.send_to(&[&octets[..length], &packet].concat(), address(&group)).unwrap();
    let mut reply = [0; 1500];
    let length = balancer.recv(&mut reply).unwrap();
    let (received, reply) = Preface::split(&mut reply[..length]).unwrap();
    assert_eq!(received, sent);
    // The version is 0, and the connection IDs are swapped.
    assert_eq!(reply[1..11], [0, 0, 0, 0, 4, 2, 2, 2, 2, 8]);
    wait_until(&group, |now| now.datagrams_sent == 1);
}

#[test]
fn a_client_that_is_ignored_gets_no_reply_and_is_counted() {
    let acceptor = &mut |_| Box::new(Ignoring) as Box<dyn Acceptor>;
    let setup = GroupServerSetup {
        config: Arc::new(server_config()),
        acceptor,
        admission: Admission::default(),
    };
    let group = spawn_group(here(10), NonZeroUsize::MIN, endpoint_config(), Some(setup)).unwrap();
    let direct = Entrance {
        address: address(&group),
        rebinds: Arc::default(),
        first_octets: Arc::default(),
    };
    let shard = client();
    let _download = download(&shard, &direct, &[1], false);
    wait_until(&group, |now| now.incoming_refused > 0);
    assert_eq!(total(&group).datagrams_sent, 0);
}

#[test]
fn too_many_balancers_are_an_error() {
    let many: Vec<IpAddr> = (0..=crate::MAX_BALANCERS as u32)
        .map(|number| core::net::Ipv4Addr::from_bits(number).into())
        .collect();
    for count in [1, 2] {
        let acceptor = &mut |_| Box::new(Everyone) as Box<dyn Acceptor>;
        let config = Arc::new(server_config());
        let balancers = many.clone();
        let setup = GroupServerSetup {
            config,
            acceptor,
            admission: Admission { balancers, ..Admission::default() },
        };
        let count = NonZeroUsize::new(count).unwrap();
        let started = spawn_group(here(10), count, endpoint_config(), Some(setup));
        assert_eq!(started.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
}

/// Returns how many UDP sockets are bound to an IPv4 address and its port.
#[cfg(target_os = "linux")]
fn sockets_at(address: SocketAddr) -> usize {
    let IpAddr::V4(ip) = address.ip() else { panic!("{address} is not an IPv4 address") };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port());
    let sockets = std::fs::read_to_string("/proc/net/udp").unwrap();
    sockets.lines().filter(|line| line.split_whitespace().nth(1) == Some(&local)).count()
}

/// A preface hides whether a header is long, so a server with balancers has no separate socket for
/// long headers.
#[cfg(target_os = "linux")]
#[test]
fn long_headers_have_a_socket_unless_a_preface_hides_them() {
    let balancer: IpAddr = "127.0.0.1".parse().unwrap();
    for (shards, balancers, expected) in
        [(1, vec![], 2), (1, vec![balancer], 1), (2, vec![], 4), (2, vec![balancer], 2)]
    {
        let acceptor = &mut |_| Box::new(Everyone) as Box<dyn Acceptor>;
        let config = Arc::new(server_config());
        let admission = Admission { balancers, ..Admission::default() };
        let setup = GroupServerSetup { config, acceptor, admission };
        let shards = NonZeroUsize::new(shards).unwrap();
        let group = spawn_group(here(11), shards, endpoint_config(), Some(setup)).unwrap();
        assert_eq!(sockets_at(address(&group)), expected, "{shards} shards");
    }
}
