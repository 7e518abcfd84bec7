use std::net::{SocketAddr, UdpSocket};

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{Steering, steer};
use crate::shard_ids::{FIRST_OCTET, Generation, IdFormat, MAX_SHARDS_WITH_HOT_RESTART, ShardIds};
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

/// From 32 ports, packets with both headers and IDs of every shard get to their shards, and others anywhere.
fn finds_shards(address: &str, format: IdFormat, generations: &[Generation], steering: Steering) {
    let count = usize::from(format.count());
    let mut sockets = group(address, count);
    let steered = steer(&[sockets.iter().collect()], format, steering);
    assert_eq!(steered, steering);
    let mut random = Random::from_number(7);
    let mut ids = Vec::new();
    for shard in 0..count {
        for generation in generations {
            ids.push(ShardIds::new(format, shard, *generation).generate(&mut random));
        }
    }
    // A large group takes long to look at.
    let enough = if count > 8 { 2 } else { 32 };
    for sender in senders(sockets[0].local_address(), enough) {
        for id in &ids {
            sender.send(&short(id.as_bytes())).unwrap();
            sender.send(&long(id.as_bytes())).unwrap();
        }
        // A client's own IDs, an ID of no shard, and what is too short to have any.
        let others = [
            long(&[FIRST_OCTET, 1, 0, 0, 0, 0, 0, 0, 0]),
            long(&[FIRST_OCTET ^ 1, 1, 0, 0, 0, 0, 0, 0]),
            // With 256 shards, or 128 of two generations, there is no such second octet.
            short(
                &[FIRST_OCTET, 255, 0, 0, 0, 0, 0, 0][..if format.limit() == 256 { 7 } else { 8 }],
            ),
            vec![0x40, FIRST_OCTET, 1],
            vec![0xc0, 0, 0, 0, 1, 8, FIRST_OCTET],
            vec![0x40],
        ];
        for other in &others {
            sender.send(other).unwrap();
        }
        let all = received(&mut sockets, 2 * ids.len() + others.len());
        for (shard, datagrams) in all.iter().enumerate() {
            let of = |datagram: &[u8]| match datagram {
                [0x40, id @ ..] if id.len() == 48 => shard_of(format, &id[..8]),
                [0xc0, 0, 0, 0, 1, 8, id @ ..] if id.len() == 48 => shard_of(format, &id[..8]),
                _ => None,
            };
            assert!(datagrams.iter().all(|it| of(it).is_none_or(|of| of == shard)), "{shard}");
            let ours = datagrams.iter().filter(|it| of(it).is_some()).count();
            assert_eq!(ours, 2 * generations.len(), "of shard {shard}");
        }
    }
}

/// The shard that issued `id`.
fn shard_of(format: IdFormat, id: &[u8]) -> Option<usize> {
    format.issuer(id).map(|issuer| issuer.shard)
}

/// As [`finds_shards`], with IDs of one generation and of two.
fn finds_all(address: &str, count: usize, steering: Steering) {
    finds_shards(address, IdFormat::new(count), &[Generation::Even], steering);
    let both = [Generation::Even, Generation::Odd];
    finds_shards(address, IdFormat::with_generations(count), &both, steering);
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
    let steered = steer(&[sockets.iter().collect()], IdFormat::new(3), Steering::Ebpf);
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
        steer(&[sockets.iter().collect()], IdFormat::new(3), Steering::Ebpf)
    });
    assert_eq!(without.join().unwrap(), Steering::ClassicBpf);
}

/// 256 shards: every second octet names one.
#[test]
fn the_largest_group() {
    for steering in [Steering::ClassicBpf, best()] {
        finds_shards("127.0.0.1:0", IdFormat::new(256), &[Generation::Even], steering);
        let format = IdFormat::with_generations(MAX_SHARDS_WITH_HOT_RESTART);
        finds_shards("127.0.0.1:0", format, &[Generation::Even, Generation::Odd], steering);
    }
}

/// Without a connection ID of ours a client stays at one socket.
#[test]
fn first_flights_go_by_the_address() {
    for steering in [Steering::Hash, Steering::ClassicBpf, best()] {
        let mut sockets = group("127.0.0.1:0", 3);
        assert_eq!(steer(&[sockets.iter().collect()], IdFormat::new(3), steering), steering);
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
