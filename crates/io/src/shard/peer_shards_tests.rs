use std::sync::Arc;

use clearway_transport::{ConnectionIdGenerator, EcnCodepoint, SocketIndex};
use clearway_units::Random;

use super::{GroupStart, MAX_WAITING, MAX_WAITING_BYTES, Passed, PeerShards};
use crate::datagrams::Meta;
use crate::mailbox::Mailbox;
use crate::shard_ids::{Generation, IdFormat, Layout, ShardIds};
use crate::system::restart::Pipe;
use crate::via::Via;

fn peer_shards(count: usize) -> Vec<PeerShards> {
    let mailboxes: Vec<_> = (0..count).map(|_| Arc::new(Mailbox::new())).collect();
    let (format, generation) = (IdFormat::new(Layout::OWN, count), Generation::Even);
    PeerShards::all(GroupStart { format, generation, mailboxes: &mailboxes, predecessors: &[] })
}

fn meta() -> Meta {
    let via = Via { balancer: ([127, 0, 0, 9], 7).into(), local_ip: Some([127, 0, 0, 3].into()) };
    Meta {
        remote: ([127, 0, 0, 1], 9).into(),
        local_ip: None,
        ecn: EcnCodepoint::Ect0,
        via: Some(via),
    }
}

/// Returns a packet for a connection of shard number `shard` in a group of three.
fn packet(shard: usize, size: usize) -> Vec<u8> {
    let id = ShardIds::new(IdFormat::new(Layout::OWN, 3), shard, Generation::Even);
    let id = id.generate(&mut Random::from_number(1));
    let mut packet = vec![0x40];
    packet.extend_from_slice(id.as_bytes());
    packet.resize(size, 7);
    packet
}

fn pass(from: &PeerShards, packet: &[u8]) -> Passed {
    from.pass_on(SocketIndex(1), &meta(), packet)
}

#[test]
fn a_datagram_gets_to_its_shard_as_it_came() {
    let mut all = peer_shards(3);
    assert_eq!(pass(&all[0], &packet(0, 100)), Passed::No);
    assert!(!all[2].has_waiting());
    assert_eq!(pass(&all[0], &packet(2, 100)), Passed::On);
    let mut long = vec![0xc0, 0, 0, 0, 1, 8];
    long.extend_from_slice(&packet(2, 100)[1..9]);
    assert_eq!(pass(&all[0], &long), Passed::No, "it has no Source Connection ID");
    long.push(0);
    assert_eq!(pass(&all[1], &long), Passed::On);
    assert!(all[2].has_waiting() && all[2].has_waiting());
    let first = all[2].take().unwrap();
    assert_eq!(*first.datagram, packet(2, 100));
    assert_eq!((first.meta, first.socket), (meta(), SocketIndex(1)));
    assert_eq!(*all[2].take().unwrap().datagram, long);
    assert!(all[2].take().is_none() && !all[2].has_waiting() && !all[1].has_waiting());
}

#[test]
fn what_is_no_packet_stays() {
    let all = peer_shards(3);
    for datagram in [&[][..], &[0x40], &[0xc0, 0, 0, 0, 1, 8, 0xe7, 2], &[0x40, 0xe7, 255]] {
        assert_eq!(pass(&all[0], datagram), Passed::No);
    }
}

#[test]
fn a_bounded_number_of_datagrams_and_bytes_waits() {
    let mut all = peer_shards(3);
    for _ in 0..MAX_WAITING {
        assert_eq!(pass(&all[0], &packet(1, 1200)), Passed::On);
    }
    assert_eq!(pass(&all[0], &packet(1, 1200)), Passed::Dropped);
    assert_eq!(pass(&all[2], &packet(1, 1200)), Passed::Dropped);
    assert_eq!(pass(&all[2], &packet(0, 1200)), Passed::On, "another shard's queue has room");
    assert!(all[1].take().is_some());
    assert_eq!(pass(&all[2], &packet(1, 1200)), Passed::On);
    while all[1].take().is_some() {}
    for _ in 0..MAX_WAITING_BYTES >> 16 {
        assert_eq!(pass(&all[0], &packet(1, 1 << 16)), Passed::On);
    }
    assert_eq!(pass(&all[0], &packet(1, 20)), Passed::Dropped);
    while all[1].take().is_some() {}
    assert_eq!(pass(&all[0], &packet(1, 20)), Passed::On, "nothing stays counted");
}

#[test]
fn what_belongs_to_a_shard_that_ended_stays() {
    let mut all = peer_shards(3);
    while pass(&all[0], &packet(1, 65_000)) != Passed::Dropped {}
    drop(all.remove(1));
    assert_eq!(pass(&all[0], &packet(1, 65_000)), Passed::No);
    assert_eq!(pass(&all[1], &packet(1, 65_000)), Passed::No);
}

/// Returns a group of three shards that has replaced another group, and the other group's pipe
/// ends.
fn replacing(generation: Generation) -> (Vec<PeerShards>, Vec<Pipe>) {
    let format = IdFormat::with_generations(Layout::OWN, 3);
    let mailboxes: Vec<_> = (0..3).map(|_| Arc::new(Mailbox::new())).collect();
    let (predecessors, theirs): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let (ours, theirs) = Pipe::pair().unwrap();
            (Arc::new(Pipe::new(ours)), Pipe::new(theirs))
        })
        .unzip();
    let (mailboxes, predecessors) = (&mailboxes[..], &predecessors[..]);
    let start = GroupStart { format, generation, mailboxes, predecessors };
    (PeerShards::all(start), theirs)
}

fn packet_of(shard: usize, generation: Generation) -> Vec<u8> {
    let ids = ShardIds::new(IdFormat::with_generations(Layout::OWN, 3), shard, generation);
    let id = ids.generate(&mut Random::from_number(shard as u64));
    [&[0x40], id.as_bytes(), &[7; 40]].concat()
}

#[test]
fn what_the_process_before_issued_is_forwarded_to_the_same_shard_of_it() {
    for generation in [Generation::Even, Generation::Odd] {
        let (mut all, theirs) = replacing(generation);
        let mut buffer = [0; 2000];
        for from in 0..3 {
            for to in 0..3 {
                let old = packet_of(to, generation.other());
                assert_eq!(pass(&all[from], &old), Passed::Forwarded);
                let piped = theirs[to].receive(&mut buffer).unwrap();
                assert_eq!((piped.meta, piped.socket), (meta(), SocketIndex(1)));
                assert_eq!(piped.datagram, old);
                let expected = if from == to { Passed::No } else { Passed::On };
                assert_eq!(pass(&all[from], &packet_of(to, generation)), expected);
                assert_eq!(all[to].take().is_some(), from != to);
            }
        }
        assert!(theirs.iter().all(|pipe| pipe.receive(&mut buffer).is_none()));
    }
}

#[test]
fn a_full_pipe_is_counted_and_a_closed_one_is_none() {
    let (all, mut theirs) = replacing(Generation::Odd);
    let old = packet_of(1, Generation::Even);
    while pass(&all[0], &old) == Passed::Forwarded {}
    assert_eq!(pass(&all[0], &old), Passed::ForwardDropped);
    assert_eq!(pass(&all[0], &packet_of(2, Generation::Even)), Passed::Forwarded);
    assert!(theirs[1].receive(&mut [0; 2000]).is_some());
    assert_eq!(pass(&all[2], &old), Passed::Forwarded);
    drop(theirs.remove(1));
    assert_eq!(pass(&all[0], &old), Passed::No, "a stateless reset is the answer");
}

/// The shard octet is the last octet of the ID, and the first octet can have any value.
#[test]
fn a_datagram_with_an_id_of_quic_lb_gets_to_its_shard() {
    let mailboxes: Vec<_> = (0..3).map(|_| Arc::new(Mailbox::new())).collect();
    let (format, generation) = (IdFormat::new(Layout::quic_lb(12), 3), Generation::Even);
    let mut all = PeerShards::all(GroupStart {
        format,
        generation,
        mailboxes: &mailboxes,
        predecessors: &[],
    });
    for first in 0..=255 {
        let mut id = [first; 12];
        id[11] = 3 * 7 + 2;
        let short = [&[0x40][..], &id, &[1; 30]].concat();
        let long = [&[0xc0, 0, 0, 0, 1, 12][..], &id, &[0; 30]].concat();
        for packet in [short, long] {
            assert_eq!(pass(&all[2], &packet), Passed::No);
            assert_eq!(pass(&all[0], &packet), Passed::On);
            assert_eq!(*all[2].take().unwrap().datagram, packet);
        }
    }
    assert_eq!(pass(&all[0], &[&[0x40; 12][..], &[255]].concat()), Passed::No, "of no shard");
}
