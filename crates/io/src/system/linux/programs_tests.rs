use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use clearway_transport::ConnectionIdGenerator;
use clearway_udp::{ReceiveBuffer, Socket};
use clearway_units::Random;
use clearway_wire::quic_lb::{ConfigId, ServerId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{AtAddress, Steering, divide, steer};
use crate::quic_lb::{BalancedIds, QuicLb, SharedQuicLb};
use crate::shard_ids::{
    FIRST_OCTET, Generation, IdFormat, Layout, MAX_SHARDS_WITH_HOT_RESTART, ShardIds,
};

fn group(address: &str, count: usize) -> Vec<Socket> {
    let mut sockets = vec![Socket::bind(address.parse().unwrap()).unwrap()];
    sockets[0].allow_shared_address().unwrap();
    for _ in 1..count {
        let twin = sockets[0].bind_shared().unwrap();
        sockets.push(twin);
    }
    sockets
}

/// Groups the sockets; sockets after the first `shards` are for long headers.
fn at_address(sockets: &[Socket], shards: usize) -> AtAddress<'_> {
    let (own, long) = sockets.split_at(shards);
    AtAddress { own: own.iter().collect(), long: long.iter().collect() }
}

/// Receives everything that has arrived, by socket.
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
    let any = if to.is_ipv4() { "127.0.61.1:0" } else { "[::1]:0" };
    let sender = || {
        let socket = UdpSocket::bind(any).unwrap();
        socket.connect(to).unwrap();
        socket
    };
    (0..count).map(|_| sender()).collect()
}

/// Creates a generator for the IDs of one shard.
fn ids(format: IdFormat, shard: usize, generation: Generation) -> Box<dyn ConnectionIdGenerator> {
    let Some(id_len) = format.layout().quic_lb_len() else {
        return Box::new(ShardIds::new(format, shard, generation));
    };
    // With a key, one octet in addition to the server ID and the nonce follows the first octet.
    let (config, server_id) = (ConfigId::new(4).unwrap(), ServerId::new(&[9, 9]).unwrap());
    let config = QuicLb::new(config, server_id, usize::from(id_len) - 4, Some([7; 16])).unwrap();
    let shared = SharedQuicLb::new(config, format, generation).unwrap();
    Box::new(BalancedIds::new(Arc::new(shared), shard))
}

/// Packets from 32 ports, with both header forms and IDs of every shard, reach their shards; other
/// packets may arrive at any shard. `has_long` states whether long headers have separate sockets.
fn finds_shards(
    address: &str,
    format: IdFormat,
    generations: &[Generation],
    steering: Steering,
    has_long: bool,
) {
    let count = usize::from(format.count());
    let mut sockets = group(address, if has_long { 2 * count } else { count });
    assert_eq!(steer(&[at_address(&sockets, count)], format, steering), steering);
    let mut random = Random::from_number(7);
    let mut all = Vec::new();
    for shard in 0..count {
        for generation in generations {
            all.push(ids(format, shard, *generation).generate(&mut random));
        }
    }
    // Checking a large group takes a long time.
    let enough = if count > 8 { 2 } else { 32 };
    for sender in senders(sockets[0].local_address(), enough) {
        for id in &all {
            sender.send(&short(id.as_bytes())).unwrap();
            sender.send(&long(id.as_bytes())).unwrap();
        }
        let others = others(format);
        for other in &others {
            sender.send(other).unwrap();
        }
        let mut received = received(&mut sockets, 2 * all.len() + others.len());
        if has_long {
            let of_long = received.split_off(count);
            let is_long = |it: &Vec<u8>| it[0] == 0xc0;
            // A packet that is too short, or whose ID is not ours or names no shard, may arrive
            // anywhere.
            let ours = |it: &&Vec<u8>| it.len() > 40 && of(format, it).is_some();
            assert!(!received.iter().flatten().filter(ours).any(is_long));
            assert!(of_long.iter().flatten().filter(ours).all(is_long));
            received.iter_mut().zip(of_long).for_each(|(own, long)| own.extend(long));
        }
        for (shard, datagrams) in received.iter().enumerate() {
            let is_here = |it: &Vec<u8>| of(format, it).is_none_or(|of| of == shard);
            assert!(datagrams.iter().all(is_here), "{shard}");
            let ours = datagrams.iter().filter(|it| of(format, it).is_some()).count();
            assert_eq!(ours, 2 * generations.len(), "of shard {shard}");
        }
    }
}

/// Returns the shard to which a datagram's connection ID belongs.
fn of(format: IdFormat, datagram: &[u8]) -> Option<usize> {
    let id_len = format.layout().id_len();
    match datagram {
        [0x40, id @ ..] if id.len() == id_len + 40 => shard_of(format, &id[..id_len]),
        [0xc0, 0, 0, 0, 1, length, id @ ..]
            if usize::from(*length) == id_len && id.len() == id_len + 40 =>
        {
            shard_of(format, &id[..id_len])
        }
        _ => None,
    }
}

/// Returns packets with IDs chosen by the client, with an ID that belongs to no shard, and without
/// a complete ID.
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
        // With 256 shards, or 128 in two generations, there is no such shard octet.
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

/// Returns the shard that issued `id`.
fn shard_of(format: IdFormat, id: &[u8]) -> Option<usize> {
    format.issuer(id).map(|issuer| issuer.shard)
}

/// Like [`finds_shards`], with IDs of one and of two generations, with QUIC-LB IDs, and with and
/// without separate sockets for long headers.
fn finds_all(address: &str, count: usize, steering: Steering) {
    let both = [Generation::Even, Generation::Odd];
    for layout in [Layout::OWN, Layout::quic_lb(9), Layout::quic_lb(16), Layout::quic_lb(20)] {
        for has_long in [true, false] {
            let format = IdFormat::new(layout, count);
            finds_shards(address, format, &[Generation::Even], steering, has_long);
            let format = IdFormat::with_generations(layout, count);
            finds_shards(address, format, &both, steering, has_long);
        }
    }
}

#[test]
fn classic_bpf_finds_the_shard_whatever_the_port_of_the_client() {
    finds_all("127.0.61.1:0", 3, Steering::ClassicBpf);
    finds_all("[::]:0", 5, Steering::ClassicBpf);
}

/// Returns the best method available to this process. If the process may not load the eBPF program,
/// classic BPF is used.
fn best() -> Steering {
    let may = capabilities(None).unwrap().effective;
    let either = CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
    // The capabilities of a user namespace are not sufficient.
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_host = users.split_whitespace().eq(["0", "0", "4294967295"]);
    if may.intersects(either) && is_host { Steering::Ebpf } else { Steering::ClassicBpf }
}

#[test]
fn ebpf_finds_the_shard_whatever_the_port_of_the_client() {
    if best() == Steering::Ebpf {
        finds_all("127.0.61.1:0", 3, Steering::Ebpf);
        finds_all("[::]:0", 5, Steering::Ebpf);
    }
    let sockets = group("127.0.61.1:0", 3);
    let steered = steer(&[at_address(&sockets, 3)], IdFormat::new(Layout::OWN, 3), Steering::Ebpf);
    assert_eq!(steered, best());
}

#[test]
fn without_the_right_to_ebpf_it_is_classic_bpf() {
    // Capabilities are per thread.
    let without = std::thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
        set_capabilities(None, sets).unwrap();
        assert_eq!(best(), Steering::ClassicBpf);
        let sockets = group("127.0.61.1:0", 3);
        steer(&[at_address(&sockets, 3)], IdFormat::new(Layout::OWN, 3), Steering::Ebpf)
    });
    assert_eq!(without.join().unwrap(), Steering::ClassicBpf);
}

/// With 256 shards, every value of the octet identifies a shard.
#[test]
fn the_largest_group() {
    for steering in [Steering::ClassicBpf, best()] {
        let format = IdFormat::new(Layout::OWN, 256);
        finds_shards("127.0.61.1:0", format, &[Generation::Even], steering, true);
        let format = IdFormat::with_generations(Layout::OWN, MAX_SHARDS_WITH_HOT_RESTART);
        let both = [Generation::Even, Generation::Odd];
        finds_shards("127.0.61.1:0", format, &both, steering, true);
    }
}

/// Without separate sockets for long headers, all packets of a client that does not have one of our
/// connection IDs reach one socket.
#[test]
fn first_flights_go_by_the_address() {
    for steering in [Steering::Hash, Steering::ClassicBpf, best()] {
        let mut sockets = group("127.0.61.1:0", 3);
        let steered = steer(&[at_address(&sockets, 3)], IdFormat::new(Layout::OWN, 3), steering);
        assert_eq!(steered, steering);
        let mut used = vec![false; 3];
        // There are enough senders that every socket receives some packets.
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

/// A client's first packets reach one shard, regardless of the client's address, and the first
/// packets of different clients reach all shards.
#[test]
fn first_flights_go_by_the_connection_id_of_the_client() {
    for steering in [Steering::ClassicBpf, best()] {
        let mut sockets = group("127.0.61.1:0", 6);
        let format = IdFormat::new(Layout::OWN, 3);
        assert_eq!(steer(&[at_address(&sockets, 3)], format, steering), steering);
        let senders = senders(sockets[0].local_address(), 4);
        for first in 0..=255 {
            for sender in &senders {
                sender.send(&long(&[first; 8])).unwrap();
                sender.send(&long(&[first; 20])).unwrap();
            }
            let all = received(&mut sockets, 8);
            let at = 3 + usize::from(first) % 3;
            assert_eq!(all[at].len(), 8, "{steering:?} {first}");
        }
    }
}

#[test]
fn one_shard_has_a_socket_for_each_form_of_header() {
    for address in ["127.0.61.1:0", "[::]:0"] {
        let mut sockets = group(address, 2);
        divide(&[at_address(&sockets, 1)]).unwrap();
        for sender in senders(sockets[0].local_address(), 4) {
            for length in [0, 8, 20] {
                sender.send(&short(&vec![7; length])).unwrap();
                sender.send(&long(&vec![7; length])).unwrap();
            }
            sender.send(&[0x40]).unwrap();
            sender.send(&[0xc0]).unwrap();
            sender.send(&[]).unwrap();
            let all = received(&mut sockets, 9);
            assert_eq!([all[0].len(), all[1].len()], [5, 4]);
            assert!(all[1].iter().all(|it| it[0] == 0xc0));
        }
    }
}

/// Enough Initial packets to fill the socket for long headers.
#[test]
fn a_flood_of_long_headers_leaves_room_for_short_ones() {
    let mut sockets = group("127.0.61.1:0", 2);
    divide(&[at_address(&sockets, 1)]).unwrap();
    let senders = senders(sockets[0].local_address(), 2);
    let mut flood = long(&[7; 8]);
    flood.resize(1200, 0);
    for _ in 0..20_000 {
        senders[0].send(&flood).unwrap();
    }
    for number in 0..100 {
        senders[1].send(&short(&[number; 8])).unwrap();
    }
    let mut buffer = ReceiveBuffer::new();
    let mut all = |socket: &mut Socket, form: u8| {
        let mut count = 0;
        let each = |datagram: &mut [u8]| assert_eq!(datagram[0], form);
        loop {
            match socket.receive(&mut buffer, |_, datagram| each(datagram)).unwrap() {
                0 => return count,
                some => count += some,
            }
        }
    };
    assert_eq!(all(&mut sockets[0], 0x40), 100);
    assert!(all(&mut sockets[1], 0xc0) < 20_000, "the flood has room");
}
