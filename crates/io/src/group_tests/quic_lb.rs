//! Tests of QUIC-LB connection IDs and configuration changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clearway_wire::quic_lb::{ConfigId, ServerId};

use super::{
    Client, Entrance, GroupOptions, Relay, ShardGroup, ShardHandle, Steering, TIMEOUT, address,
    client, download, group_with, loopback, rebind_often, server, server_config, total,
};
use crate::{ConnectionWaker, QuicLb, RotateQuicLbError};

fn config(number: u8, nonce_len: usize, key: Option<[u8; 16]>) -> QuicLb {
    let server_id = ServerId::new(&[0xab, number]).unwrap();
    QuicLb::new(ConfigId::new(number).unwrap(), server_id, nonce_len, key).unwrap()
}

/// Returns a configuration with a key.
pub(super) fn encrypted(number: u8) -> QuicLb {
    config(number, 6, Some([number; 16]))
}

/// Returns a configuration whose IDs are one byte longer.
pub(super) fn longer(number: u8) -> QuicLb {
    config(number, 7, Some([number; 16]))
}

fn group(count: usize, steering: Steering, quic_lb: QuicLb) -> ShardGroup {
    let options = GroupOptions { quic_lb: Some(quic_lb), ..GroupOptions::default() };
    group_with(loopback(), count, server_config(), steering, options).unwrap()
}

#[test]
fn connections_with_ids_of_quic_lb_survive_rebindings() {
    for quic_lb in [encrypted(3), config(3, 7, None)] {
        for steering in [Steering::ClassicBpf, Steering::BEST] {
            let group = group(3, steering, quic_lb.clone());
            assert!(group.steering() >= Some(Steering::ClassicBpf));
            let statistics = rebind_often(&group);
            assert_eq!((statistics.handed_over, statistics.handed_in), (0, 0));
        }
        let statistics = rebind_often(&group(3, Steering::Hash, quic_lb));
        assert!(statistics.handed_over > 0, "{statistics:?}");
        assert_eq!(statistics.hand_over_dropped, 0);
    }
}

/// Returns the configurations of the destination connection IDs that clients have used since the
/// last call.
fn configurations(entrances: &[Entrance]) -> BTreeSet<u8> {
    let taken = entrances.iter().map(|it| std::mem::take(&mut *it.first_octets.lock().unwrap()));
    taken.flatten().map(|first_octet| first_octet >> 5).collect()
}

/// Clients of one group, and their paths.
struct Clients {
    _shards: Vec<ShardHandle>,
    clients: Vec<Client>,
    wakers: Vec<ConnectionWaker>,
    entrances: Vec<Entrance>,
    _relay: Relay,
    /// The number of the last download.
    number: u64,
}

impl Clients {
    /// Starts `count` client endpoints, each with more connections than a shard serves in a turn.
    fn start(group: &ShardGroup, count: usize) -> Self {
        const EACH: usize = 80;
        let shards: Vec<_> = (0..count).map(|_| client()).collect();
        let of_each = || shards.iter().flat_map(|shard| std::iter::repeat_n(shard, EACH));
        let addresses = of_each().map(ShardHandle::local_address);
        let (relay, entrances) = Relay::start_for(address(group), addresses);
        // Ports stay the same until the test changes them: a client might get another client's
        // former port.
        let begin = |(shard, Entrance { address, .. }): (&ShardHandle, &Entrance)| {
            let (rebinds, first_octets) = (Arc::default(), Arc::default());
            download(shard, &Entrance { address: *address, rebinds, first_octets }, &[1], false)
        };
        let clients: Vec<_> = of_each().zip(&entrances).map(begin).collect();
        for client in &clients {
            assert_eq!(client.next(), Ok(1));
        }
        let wakers = clients.iter().map(|client| client.waker.recv().unwrap()).collect();
        Self { _shards: shards, clients, wakers, entrances, _relay: relay, number: 1 }
    }

    /// Runs a download on every client.
    fn download(&mut self) {
        self.number += 1;
        for (client, waker) in self.clients.iter().zip(&self.wakers) {
            client.ask(waker, self.number);
        }
        assert!(self.clients.iter().all(|client| client.next() == Ok(self.number)));
    }

    /// Returns the configurations of the destination connection IDs that the clients have used
    /// since the last call.
    fn configurations(&self) -> BTreeSet<u8> {
        configurations(&self.entrances)
    }

    /// Runs downloads until all clients use only connection IDs of `configuration`.
    fn download_until(&mut self, configuration: u8) {
        let begun = Instant::now();
        loop {
            self.download();
            if self.configurations() == BTreeSet::from([configuration]) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "IDs of another configuration are in use");
        }
    }
}

/// Every connection continues, and soon has IDs of the new configuration, with or without a key.
fn follow_the_configuration(count: usize, steering: Steering) {
    let group = group(count, steering, encrypted(1));
    let mut clients = Clients::start(&group, count);
    assert_eq!(clients.configurations(), BTreeSet::from([1]));
    for (configuration, next) in [(2, encrypted(2)), (6, config(6, 7, None)), (2, encrypted(2))] {
        group.rotate_quic_lb(next).unwrap();
        clients.download_until(configuration);
    }
    for configuration in [3, 4, 5] {
        group.rotate_quic_lb(encrypted(configuration)).unwrap();
        clients.entrances.iter().for_each(|it| it.rebinds.store(true, Ordering::SeqCst));
        clients.download();
    }
    let statistics = total(&group);
    assert_eq!(statistics.connections, clients.clients.len() as u64);
    assert_eq!(statistics.hand_over_dropped, 0);
}

#[test]
fn all_connections_follow_another_configuration() {
    follow_the_configuration(3, Steering::ClassicBpf);
    follow_the_configuration(1, Steering::BEST);
}

#[test]
fn a_configuration_that_cannot_follow_is_refused() {
    let error = server(2, Steering::BEST).rotate_quic_lb(encrypted(1)).unwrap_err();
    assert!(matches!(error, RotateQuicLbError::NotConfigured), "{error}");
    let group = group(2, Steering::BEST, encrypted(1));
    let error = group.rotate_quic_lb(longer(2)).unwrap_err();
    assert!(matches!(error, RotateQuicLbError::IdLength { present: 10, asked: 11 }), "{error}");
    assert!(group.rotate_quic_lb(encrypted(1)).is_ok(), "the same");
}

/// A single shard with QUIC-LB does not share its socket.
#[test]
fn one_shard_with_quic_lb_is_alone_at_its_port() {
    let group = group(1, Steering::BEST, encrypted(1));
    assert_eq!(group.steering(), None);
    let shard = client();
    let (_relay, entrances) = Relay::start_for(address(&group), [shard.local_address()]);
    let client = download(&shard, &entrances[0], &[1, 2], true);
    assert_eq!((client.next(), client.next()), (Ok(2), Ok(1)));
    assert_eq!(configurations(&entrances), BTreeSet::from([1]));
}
