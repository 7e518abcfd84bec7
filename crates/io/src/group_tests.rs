#[path = "group_tests/balancers.rs"]
mod balancers;
#[path = "group_tests/quic_lb.rs"]
mod quic_lb;
#[path = "group_tests/restart.rs"]
mod restart;

use core::num::NonZeroUsize;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use clearway_transport::{
    ClientConfig, PreferredAddresses, ServerConfig, TlsClientConfig, TlsServerConfig,
    TransportConfig,
};
use clearway_udp::{Batch, EcnCodepoint, SendOutcome, Socket};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::{GroupOptions, GroupServerSetup, ShardGroup, spawn_group};
use crate::acceptor::Admission;
use crate::mailbox::Command;
use crate::shard::MAX_WAITING;
use crate::shard_ids::MAX_SHARDS;
use crate::system::steering::Steering;
use crate::testing::{
    Client, Entrance, Everyone, PANIC, Relay, TIMEOUT, address, client, download, endpoint_config,
    short_header, spawn_steered, total, wait_until,
};
use crate::{Acceptor, ConnectRequest, ShardHandle, ShardStatistics};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn server_config() -> ServerConfig {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let tls = TlsServerConfig::with_certificate(vec![certified.cert.into()], key, &[b"test"]);
    ServerConfig {
        sessions: Arc::new(tls.unwrap()),
        transport: Arc::new(TransportConfig::default()),
        retry_token_lifetime: Duration::from_secs(10),
        new_token_lifetime: Duration::from_secs(10),
        shared_tokens: None,
        preferred_addresses: PreferredAddresses::default(),
    }
}

fn group_of(count: usize, config: ServerConfig, steering: Steering) -> ShardGroup {
    group_at(loopback(), count, config, steering).unwrap()
}

fn group_at(
    address: SocketAddr,
    count: usize,
    config: ServerConfig,
    steering: Steering,
) -> std::io::Result<ShardGroup> {
    group_with(address, count, config, steering, GroupOptions::default())
}

fn group_with(
    address: SocketAddr,
    count: usize,
    config: ServerConfig,
    steering: Steering,
    options: GroupOptions,
) -> std::io::Result<ShardGroup> {
    let config = Arc::new(config);
    let acceptor = &mut |_| Box::new(Everyone) as Box<dyn Acceptor>;
    let setup = GroupServerSetup { config, acceptor, admission: Admission::default() };
    let count = NonZeroUsize::new(count).unwrap();
    spawn_steered(address, count, endpoint_config(), Some(setup), options, steering)
}

fn server(count: usize, steering: Steering) -> ShardGroup {
    group_of(count, server_config(), steering)
}

/// Runs downloads on 64 clients, each from several ports, and returns the shards' statistics.
fn rebind_often(group: &ShardGroup) -> ShardStatistics {
    const CLIENTS: usize = 64;
    let (relay, entrances) = Relay::start(address(group), CLIENTS);
    let client = client();
    let numbers =
        |client: usize| -> Vec<u64> { (0..5).map(|round| (client * 5 + round) as u64).collect() };
    let begin = |(number, entrance)| download(&client, entrance, &numbers(number), true);
    let clients: Vec<_> = entrances.iter().enumerate().map(begin).collect();
    for (number, client) in clients.iter().enumerate() {
        for number in numbers(number).into_iter().rev() {
            assert_eq!(client.next(), Ok(number));
        }
    }
    drop(relay);
    let each: Vec<_> = group.shards().iter().map(ShardHandle::statistics).collect();
    assert!(each.iter().all(|it| it.datagrams_sent > 0), "a shard had no client: {each:?}");
    total(group)
}

#[test]
fn connections_survive_rebindings_that_the_kernel_steers_by_a_hash() {
    let group = server(3, Steering::Hash);
    let statistics = rebind_often(&group);
    assert!(statistics.handed_over > 0, "{statistics:?}");
    assert_eq!(statistics.hand_over_dropped, 0);
    assert_eq!(statistics.panics, 0);
    wait_until(&group, |now| now.handed_in == now.handed_over);
}

#[test]
fn connections_survive_rebindings_that_the_kernel_steers_by_connection_ids() {
    for steering in [Steering::ClassicBpf, Steering::BEST] {
        let group = server(3, steering);
        assert!(group.steering() >= Some(Steering::ClassicBpf));
        let statistics = rebind_often(&group);
        assert_eq!((statistics.handed_over, statistics.handed_in), (0, 0));
    }
}

/// When clients at a preferred address change their ports, the shard that owns the connection
/// responds from that address, not from the one that clients connect to.
#[test]
fn a_datagram_to_a_preferred_address_is_handed_over_as_one() {
    let preferred = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), 0);
    let preferred_addresses = PreferredAddresses { v4: Some(preferred), v6: None };
    let config = ServerConfig { preferred_addresses, ..server_config() };
    let group = group_of(3, config, Steering::Hash);
    let entrance = Entrance {
        address: address(&group),
        rebinds: Arc::default(),
        first_octets: Arc::default(),
    };
    let preferred = group.shards()[2].preferred_addresses().v4.map(SocketAddr::from);
    let shard = client();
    let client = download(&shard, &entrance, &[0], false);
    assert_eq!(client.next(), Ok(0));
    let waker = client.waker.recv().unwrap();
    let mut number = 0;
    while *client.remote.lock().unwrap() != preferred || total(&group).handed_over == 0 {
        // While a migration is in progress, this second one does not begin.
        waker.migrate(loopback(), Box::new(|_| {}));
        number += 1;
        client.ask(&waker, number);
        assert_eq!(client.next(), Ok(number));
    }
    for number in 1000..1005 {
        client.ask(&waker, number);
        assert_eq!(client.next(), Ok(number));
    }
    assert_eq!(*client.remote.lock().unwrap(), preferred);
}

/// The shards' wildcard sockets are bound next to those at the preferred address.
#[test]
fn a_preferred_address_may_have_the_port_of_a_group_at_all_addresses() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    // Another test may take the port before the shards do.
    let started = (0..10).find_map(|_| {
        let port = UdpSocket::bind(any).unwrap().local_addr().unwrap().port();
        let preferred = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 3), port);
        let preferred_addresses = PreferredAddresses { v4: Some(preferred), v6: None };
        let config = ServerConfig { preferred_addresses, ..server_config() };
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        group_at(address, 3, config, Steering::BEST).ok().map(|group| (group, preferred))
    });
    let (group, preferred) = started.expect("the shards cannot listen");
    let port = preferred.port();
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let entrance =
        Entrance { address: remote, rebinds: Arc::default(), first_octets: Arc::default() };
    let shard = client();
    let client = download(&shard, &entrance, &[0], false);
    assert_eq!(client.next(), Ok(0));
    let waker = client.waker.recv().unwrap();
    let mut number = 0;
    while *client.remote.lock().unwrap() != Some(SocketAddr::from(preferred)) {
        number += 1;
        client.ask(&waker, number);
        assert_eq!(client.next(), Ok(number));
    }
    drop(group);
}

/// When the kernel coalesces datagrams, it selects the shard from the first datagram only.
#[test]
fn every_datagram_of_a_merged_batch_gets_to_its_shard() {
    for steering in [Steering::ClassicBpf, Steering::BEST] {
        let group = server(3, steering);
        let contents: Vec<u8> = (0..30).flat_map(short_header).collect();
        let batch = Batch {
            destination: address(&group),
            source_ip: None,
            ecn: EcnCodepoint::NotEct,
            contents: &contents,
            segment_size: Some(60),
        };
        let mut socket = Socket::bind(loopback()).unwrap();
        assert!(matches!(socket.send(&batch, &mut 0), SendOutcome::Sent));
        wait_until(&group, |now| now.handed_over == 20 && now.handed_in == 20);
        // All datagrams arrived at the shard of the first one.
        wait_until(&group, |now| now.datagrams_received == 30);
        assert_eq!(group.shards()[0].statistics().handed_over, 20);
        assert_eq!(group.shards()[1].statistics().handed_in, 10);
    }
}

#[test]
fn one_shard_is_alone_at_its_port() {
    let group = server(1, Steering::BEST);
    assert_eq!(group.steering(), None);
    let (_relay, entrances) = Relay::start(address(&group), 1);
    let client = download(&client(), &entrances[0], &[1, 2], true);
    assert_eq!((client.next(), client.next()), (Ok(2), Ok(1)));
}

#[test]
fn a_port_has_one_group_only() {
    for count in [1, 2] {
        let group = server(count, Steering::BEST);
        let count = NonZeroUsize::new(2).unwrap();
        let again = spawn_group(address(&group), count, endpoint_config(), None);
        assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        assert!(UdpSocket::bind(address(&group)).is_err());
    }
}

#[test]
fn there_are_at_most_256_shards() {
    let count = NonZeroUsize::new(MAX_SHARDS + 1).unwrap();
    let error = spawn_group(loopback(), count, endpoint_config(), None).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_panic_of_an_application_ends_one_connection_and_no_shard() {
    let group = server(3, Steering::Hash);
    let (_relay, entrances) = Relay::start(address(&group), 30);
    let client = client();
    let begin = |numbers: &'static [u64]| {
        let client = &client;
        move |entrance| download(client, entrance, numbers, false)
    };
    let quiet: Vec<_> = entrances[..15].iter().map(begin(&[2, 1])).collect();
    let bad: Vec<_> = entrances[15..].iter().map(begin(&[PANIC])).collect();
    assert!(bad.iter().all(|client| client.next().is_err()));
    for client in &quiet {
        assert_eq!((client.next(), client.next()), (Ok(1), Ok(2)));
    }
    assert_eq!(total(&group).panics, 15);
}

/// Makes a shard end with a panic, as a bug in it would.
fn kill(group: &ShardGroup, shard: usize) {
    assert!(group.shards()[shard].send(Command::Halt).is_ok());
    while group.shards()[shard].send(Command::Halt).is_ok() {
        std::thread::yield_now();
    }
}

/// Connections of a shard that ends are reset, and connections of other shards continue. New
/// clients are accepted at each address, even if its shard is gone.
fn the_others_go_on(steering: Steering) {
    const CLIENTS: usize = 40;
    let group = server(3, steering);
    let (_relay, entrances) = Relay::start(address(&group), 2 * CLIENTS);
    let shard = client();
    let begin = |entrance| download(&shard, entrance, &[1], false);
    let (old, new) = entrances.split_at(CLIENTS);
    let old: Vec<_> = old.iter().map(begin).collect();
    assert!(old.iter().all(|client| client.next() == Ok(1)));
    let counts: Vec<u64> = group.shards().iter().map(|it| it.statistics().connections).collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    kill(&group, 0);
    kill(&group, 1);
    for client in &old {
        client.ask(&client.waker.recv().unwrap(), 2);
    }
    let living = old.iter().filter(|client| match client.next() {
        Ok(number) => number == 2,
        Err(error) => {
            assert!(error.contains("reset"), "{error}");
            false
        }
    });
    assert_eq!(living.count() as u64, counts[2]);
    let new: Vec<_> = new.iter().map(begin).collect();
    assert!(new.iter().all(|client| client.next() == Ok(1)));
}

#[test]
fn the_end_of_a_shard_concerns_its_own_connections_only() {
    the_others_go_on(Steering::Hash);
    the_others_go_on(Steering::ClassicBpf);
    the_others_go_on(Steering::BEST);
}

/// When the handles are dropped, shards without connections end. The others continue, and when they
/// have ended, the port is free.
#[test]
fn the_last_connection_keeps_the_port() {
    for steering in [Steering::Hash, Steering::BEST] {
        let group = server(3, steering);
        let address = address(&group);
        let (_relay, entrances) = Relay::start(address, 1);
        let shard = client();
        let client = download(&shard, &entrances[0], &[1], false);
        assert_eq!(client.next(), Ok(1));
        drop(group);
        let waker = client.waker.recv().unwrap();
        // Each download comes from another port.
        for number in 2..12 {
            client.ask(&waker, number);
            assert_eq!(client.next(), Ok(number));
            assert!(UdpSocket::bind(address).is_err());
        }
        shard.shutdown(0_u32.into(), b"");
        let begun = Instant::now();
        while UdpSocket::bind(address).is_err() {
            assert!(begun.elapsed() < TIMEOUT, "the port is not released");
            std::thread::yield_now();
        }
    }
}

/// If a shard does not read its queue, other shards drop the datagrams for it, and count the drops.
#[test]
fn a_full_queue_is_counted() {
    let group = server(2, Steering::Hash);
    let sockets: Vec<_> = (0..30).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let (release, released) = channel::<()>();
    let (blocks, blocked) = channel();
    let tls = TlsClientConfig::dangerous_without_certificate_verification(&[b"test"]).unwrap();
    let request = ConnectRequest {
        config: Arc::new(ClientConfig {
            sessions: Arc::new(tls),
            transport: Arc::new(TransportConfig::default()),
            token: Vec::new(),
        }),
        remote: address(&group),
        server_name: "localhost".to_owned(),
        application: Box::new(move |_| {
            blocks.send(()).unwrap();
            let _ = released.recv();
            panic!("this is not an application")
        }),
        observer: None,
        on_failure: Box::new(|_| {}),
    };
    assert!(group.shards()[1].connect(request).is_ok());
    blocked.recv().unwrap();
    let mut statistics = group.shards()[0].statistics();
    while statistics.hand_over_dropped == 0 {
        // Sends no more in one burst than fits into a small socket buffer.
        for socket in &sockets {
            socket.send_to(&short_header(1), address(&group)).unwrap();
        }
        assert!(statistics.handed_over <= MAX_WAITING as u64);
        let before = statistics.datagrams_received;
        while statistics.datagrams_received == before {
            statistics = group.shards()[0].statistics();
        }
    }
    drop(release);
    wait_until(&group, |now| now.handed_in >= MAX_WAITING as u64);
}

/// Returns a short header packet whose connection ID has this shard octet.
#[test]
fn a_connection_id_of_no_shard_stays_where_it_came() {
    let group = server(3, Steering::Hash);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    // With three shards, 255 belongs to no shard, and 254 to the third.
    socket.send_to(&short_header(255), address(&group)).unwrap();
    let reset = socket.recv(&mut [0; 100]).unwrap();
    assert!(reset < 60, "a stateless reset is shorter than the packet that triggers it");
    let counted = total(&group);
    assert_eq!((counted.handed_over, counted.datagrams_unknown), (0, 1));
    assert_eq!(counted.stateless_resets_sent, 1);
    for second in [252, 253, 254] {
        socket.send_to(&short_header(second), address(&group)).unwrap();
        socket.recv(&mut [0; 100]).unwrap();
    }
    wait_until(&group, |now| (now.handed_over, now.handed_in) == (2, 2));
}
