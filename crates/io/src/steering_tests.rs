use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use clearway_wire::quic_lb::{ConfigId, ServerId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{Steering, steer};
use crate::quic_lb::{BalancedIds, QuicLb, SharedQuicLb};
use crate::shard_ids::{
    FIRST_OCTET, Generation, IdFormat, Layout, MAX_SHARDS_WITH_HOT_RESTART, ShardIds,
};
use crate::socket::{ReceiveBuffer, Socket};

fn group(address: &str, count: usize) -> Vec<Socket> {
    let mut sockets = vec![Socket::bind(address.parse().unwrap()).unwrap()];
    sockets[0].permit_twins().unwrap();
    for _ in 1..count {
        let twin = sockets[0].bind_twin().unwrap();
        sockets.push(twin);
    }
    sockets
}

/// Receives all that has come, by socket.
fn received(sockets: &mut [Socket], count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut datagrams = vec![Vec::new(); sockets.len()];
    let mut buffer = ReceiveBuffer::new();
    while datagrams.iter().map(Vec::len).sum::<usize>() < count {
        let mut descriptors: Vec<_> =
            sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert!(poll(&mut descriptors, Some(&timeout)).unwrap() > 0, "not all arrived");
        for (socket, datagrams) in sockets.iter_mut().zip(&mut datagrams) {
            socket.receive(&mut buffer, |_, datagram| datagrams.push(datagram.to_vec())).unwrap();
        }
    }
    datagrams
}

fn short(id: &[u8]) -> Vec<u8> {
    [&[0x40], id, &[0; 40]].concat()
}

fn long(id: &[u8]) -> Vec<u8> {
    [&[0xc0, 0, 0, 0, 1, id.len() as u8], id, &[0; 40]].concat()
}

fn senders(to: SocketAddr, count: usize) -> Vec<UdpSocket> {
    let any = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let sender = || {
        let socket = UdpSocket::bind(any).unwrap();
        socket.connect(to).unwrap();
        socket
    };
    (0..count).map(|_| sender()).collect()
}

/// Generates the IDs of one shard.
fn ids(format: IdFormat, shard: usize, generation: Generation) -> Box<dyn ConnectionIdGenerator> {
    let Some(id_len) = format.layout().quic_lb_len() else {
        return Box::new(ShardIds::new(format, shard, generation));
    };
    // With a key an octet more than server ID and nonce follows the first.
    let (config, server_id) = (ConfigId::new(4).unwrap(), ServerId::new(&[9, 9]).unwrap());
    let config = QuicLb::new(config, server_id, usize::from(id_len) - 4, Some([7; 16])).unwrap();
    let shared = SharedQuicLb::new(config, format, generation).unwrap();
    Box::new(BalancedIds::new(Arc::new(shared), shard))
}

/// From 32 ports, packets with both headers and IDs of every shard get to their shards, and others anywhere.
fn finds_shards(address: &str, format: IdFormat, generations: &[Generation], steering: Steering) {
    let count = usize::from(format.count());
    let mut sockets = group(address, count);
    let steered = steer(&[sockets.iter().collect()], format, steering);
    assert_eq!(steered, steering);
    let mut random = Random::from_number(7);
    let mut all = Vec::new();
    for shard in 0..count {
        for generation in generations {
            all.push(ids(format, shard, *generation).generate(&mut random));
        }
    }
    // A large group takes long to look at.
    let enough = if count > 8 { 2 } else { 32 };
    let id_len = format.layout().id_len();
    for sender in senders(sockets[0].local_address(), enough) {
        for id in &all {
            sender.send(&short(id.as_bytes())).unwrap();
            sender.send(&long(id.as_bytes())).unwrap();
        }
        let others = others(format);
        for other in &others {
            sender.send(other).unwrap();
        }
        let received = received(&mut sockets, 2 * all.len() + others.len());
        for (shard, datagrams) in received.iter().enumerate() {
            let of = |datagram: &[u8]| match datagram {
                [0x40, id @ ..] if id.len() == id_len + 40 => shard_of(format, &id[..id_len]),
                [0xc0, 0, 0, 0, 1, length, id @ ..]
                    if usize::from(*length) == id_len && id.len() == id_len + 40 =>
                {
                    shard_of(format, &id[..id_len])
                }
                _ => None,
            };
            assert!(datagrams.iter().all(|it| of(it).is_none_or(|of| of == shard)), "{shard}");
            let ours = datagrams.iter().filter(|it| of(it).is_some()).count();
            assert_eq!(ours, 2 * generations.len(), "of shard {shard}");
        }
    }
}

/// A client's own IDs, an ID of no shard, and what is too short to have any.
fn others(format: IdFormat) -> Vec<Vec<u8>> {
    let layout = format.layout();
    let (id_len, shard_octet) = (layout.id_len(), layout.shard_octet());
    let of_length = |length: usize| {
        let mut id = vec![FIRST_OCTET; length];
        id[shard_octet.min(length - 1)] = 255;
        id
    };
    let longer = long(&[&[FIRST_OCTET, 1], &vec![0; id_len - 1][..]].concat());
    let mut others = vec![
        longer,
        // With 256 shards, or 128 of two generations, there is no such shard octet.
        short(&of_length(if format.limit() == 256 { id_len - 1 } else { id_len })),
        vec![0x40, FIRST_OCTET, 1],
        vec![0xc0, 0, 0, 0, 1, id_len as u8, FIRST_OCTET],
        vec![0x40],
    ];
    if layout.first_octet().is_some() {
        others.push(long(&[&[FIRST_OCTET ^ 1, 1], &vec![0; id_len - 2][..]].concat()));
    }
    others
}

/// The shard that issued `id`.
fn shard_of(format: IdFormat, id: &[u8]) -> Option<usize> {
    format.issuer(id).map(|issuer| issuer.shard)
}

/// As [`finds_shards`], with IDs of one generation and of two, and with those of QUIC-LB.
fn finds_all(address: &str, count: usize, steering: Steering) {
    let both = [Generation::Even, Generation::Odd];
    for layout in [Layout::OWN, Layout::quic_lb(9), Layout::quic_lb(16), Layout::quic_lb(20)] {
        finds_shards(address, IdFormat::new(layout, count), &[Generation::Even], steering);
        finds_shards(address, IdFormat::with_generations(layout, count), &both, steering);
    }
}

#[test]
fn classic_bpf_finds_the_shard_whatever_the_port_of_the_client() {
    finds_all("127.0.0.1:0", 3, Steering::ClassicBpf);
    finds_all("[::]:0", 5, Steering::ClassicBpf);
}

/// What this process may do: where it may not load the program, that is found out, and classic BPF takes its place.
fn best() -> Steering {
    let may = capabilities(None).unwrap().effective;
    let either = CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
    // What a user namespace grants is not enough.
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_host = users.split_whitespace().eq(["0", "0", "4294967295"]);
    if may.intersects(either) && is_host { Steering::Ebpf } else { Steering::ClassicBpf }
}

#[test]
fn ebpf_finds_the_shard_whatever_the_port_of_the_client() {
    if best() == Steering::Ebpf {
        finds_all("127.0.0.1:0", 3, Steering::Ebpf);
        finds_all("[::]:0", 5, Steering::Ebpf);
    }
    let sockets = group("127.0.0.1:0", 3);
    let steered = steer(&[sockets.iter().collect()], IdFormat::new(Layout::OWN, 3), Steering::Ebpf);
    assert_eq!(steered, best());
}

#[test]
fn without_the_right_to_ebpf_it_is_classic_bpf() {
    // Capabilities are those of a thread.
    let without = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
        set_capabilities(None, sets).unwrap();
        assert_eq!(best(), Steering::ClassicBpf);
        let sockets = group("127.0.0.1:0", 3);
        steer(&[sockets.iter().collect()], IdFormat::new(Layout::OWN, 3), Steering::Ebpf)
    });
    assert_eq!(without.join().unwrap(), Steering::ClassicBpf);
}

/// 256 shards: every second octet names one.
#[test]
fn the_largest_group() {
    for steering in [Steering::ClassicBpf, best()] {
        finds_shards("127.0.0.1:0", IdFormat::new(Layout::OWN, 256), &[Generation::Even], steering);
        let format = IdFormat::with_generations(Layout::OWN, MAX_SHARDS_WITH_HOT_RESTART);
        finds_shards("127.0.0.1:0", format, &[Generation::Even, Generation::Odd], steering);
    }
}

/// Without a connection ID of ours a client stays at one socket.
#[test]
fn first_flights_go_by_the_address() {
    for steering in [Steering::Hash, Steering::ClassicBpf, best()] {
        let mut sockets = group("127.0.0.1:0", 3);
        assert_eq!(
            steer(&[sockets.iter().collect()], IdFormat::new(Layout::OWN, 3), steering),
            steering
        );
        let mut used = vec![false; 3];
        // So many that no socket is left out.
        for sender in senders(sockets[0].local_address(), 64) {
            for first in [1_u8, 2, 3] {
                sender.send(&long(&[first; 8])).unwrap();
                sender.send(&long(&[first; 20])).unwrap();
            }
            let all = received(&mut sockets, 6);
            let used_now: Vec<_> = (0..3).filter(|shard| !all[*shard].is_empty()).collect();
            assert_eq!(used_now.len(), 1, "{steering:?}");
            used[used_now[0]] = true;
        }
        assert_eq!(used, [true; 3], "{steering:?}");
    }
}
