//! Tests a change to the QUIC-LB configuration: the connection IDs of the server's connections are
//! replaced (RFC 9000 §5.1.2).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::support::ids::{NoIds, Rotating};
use crate::support::{
    PREFERRED, Pair, Route, address, delayed, lossy, milliseconds, quiet, seconds, tls,
};
use clearway_network::{LinkConfig, Way};
use clearway_transport::{
    ConnectionIdGenerator, Event, PreferredAddresses, RandomIds, Side, TransportConfig,
};
use clearway_wire::VarInt;
use proptest::prelude::*;

const NEW_CONNECTION_ID: u64 = 0x18;

/// A pair whose server's IDs rotate, and the configurations in the short header packets from the
/// client.
struct Rotation {
    pair: Pair,
    ids: Arc<Rotating>,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Rotation {
    fn new(link: LinkConfig) -> Self {
        Self::with(link, quiet(), Arc::new(RandomIds))
    }

    fn with(
        link: LinkConfig,
        config: TransportConfig,
        client: Arc<dyn ConnectionIdGenerator>,
    ) -> Self {
        let ids = Rotating::new();
        let mut pair = Pair::with_ids(link, [config.clone(), config], tls(), [client, ids.clone()]);
        let sent = Arc::<Mutex<Vec<u8>>>::default();
        let record = sent.clone();
        pair.filter = Some(Box::new(move |_, way, datagram| {
            if way == Way::ToServer && datagram[0] & 0x80 == 0 {
                record.lock().unwrap().push(datagram[1]);
            }
            true
        }));
        Self { pair, ids, sent }
    }

    /// Changes the configuration, and makes the server's connections use it.
    fn rotate(&mut self) {
        self.ids.rotate();
        self.pair.server().replace_connection_ids();
        self.pair.settle();
    }

    /// Returns the configurations of the IDs in the client's packets since the last call.
    fn sent(&self) -> Vec<u8> {
        let mut sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.dedup();
        sent
    }

    /// Makes both endpoints send a packet.
    fn talk(&mut self) {
        self.pair.client().ping();
        self.pair.server().ping();
        self.pair.settle();
        self.pair.run_for(seconds(1));
    }

    fn assert_well(&mut self) {
        assert_eq!(self.pair.unroutable, 0);
        for events in [&self.pair.client_events, &self.pair.server_events] {
            assert!(!events.iter().any(|event| matches!(event, Event::Closed(_))), "{events:?}");
        }
    }
}

#[test]
fn after_a_round_trip_the_client_uses_ids_of_the_new_configuration() {
    let mut rotation = Rotation::new(delayed(10, 1));
    rotation.pair.establish();
    rotation.talk();
    assert_eq!(rotation.sent(), [0]);
    for number in 1..=20 {
        rotation.rotate();
        rotation.pair.run_for(milliseconds(25));
        rotation.sent();
        rotation.talk();
        assert_eq!(rotation.sent(), [number]);
    }
    rotation.assert_well();
}

/// If the configuration is the same, not a single packet is sent.
#[test]
fn without_another_configuration_nothing_is_sent() {
    let mut rotation = Rotation::new(delayed(10, 1));
    rotation.pair.establish();
    rotation.talk();
    let before = rotation.pair.watch.sent(Side::Server).len();
    assert!(!rotation.pair.server().replace_connection_ids());
    rotation.pair.run_for(seconds(1));
    assert_eq!(rotation.pair.watch.sent(Side::Server).len(), before);
}

#[test]
fn ids_of_a_handshake_that_is_not_confirmed_are_replaced_when_it_is() {
    for moment in [1, 11, 21, 31, 41] {
        let mut rotation = Rotation::new(delayed(10, 1));
        rotation.pair.run_for(milliseconds(moment));
        rotation.ids.rotate();
        if !rotation.pair.accepted.is_empty() {
            rotation.pair.server().replace_connection_ids();
        }
        rotation.pair.establish();
        rotation.talk();
        rotation.sent();
        rotation.talk();
        assert_eq!(rotation.sent(), [1], "after {moment} ms");
        rotation.assert_well();
    }
}

/// The IDs of a compacted connection are replaced, too, and then it is compacted again.
#[test]
fn a_resting_connection_is_roused_for_it() {
    let mut rotation = Rotation::new(delayed(10, 1));
    rotation.pair.establish();
    let rest = |pair: &mut Pair| pair.client().is_compacted() && pair.server().is_compacted();
    assert!(rotation.pair.run_until(seconds(5), rest));
    rotation.rotate();
    assert!(!rotation.pair.server().is_compacted());
    assert!(rotation.pair.run_until(seconds(5), rest));
    assert_eq!(rotation.pair.server().deadline(), None, "there is nothing left to do");
    rotation.sent();
    rotation.talk();
    assert_eq!(rotation.sent(), [1]);
    rotation.assert_well();
}

/// The configuration changes repeatedly while nothing gets through; in the end, the peer gets the
/// newest one.
#[test]
fn changes_while_the_path_is_dead_end_with_the_newest() {
    let mut rotation = Rotation::new(delayed(10, 1));
    rotation.pair.establish();
    rotation.pair.run_for(seconds(1));
    let filter = rotation.pair.filter.replace(Box::new(|_, _, _| false));
    for _ in 0..30 {
        rotation.rotate();
        rotation.pair.run_for(milliseconds(100));
    }
    rotation.pair.filter = filter;
    rotation.pair.run_for(seconds(30));
    rotation.talk();
    rotation.sent();
    rotation.talk();
    assert_eq!(rotation.sent(), [30]);
    let frames = rotation.pair.watch.sent(Side::Server);
    let issued = frames.iter().filter(|packet| packet.has(NEW_CONNECTION_ID)).count();
    assert!(issued < 30, "{issued}: a replacement waits for the one before");
    rotation.assert_well();
}

#[test]
fn a_closed_connection_does_nothing() {
    let mut rotation = Rotation::new(delayed(10, 1));
    rotation.pair.establish();
    let now = rotation.pair.now;
    rotation.pair.server().close(now, VarInt::ZERO, b"");
    rotation.pair.settle();
    let before = rotation.pair.watch.sent(Side::Server).len();
    rotation.rotate();
    assert_eq!(rotation.pair.watch.sent(Side::Server).len(), before);
}

/// The client uses zero-length IDs, which does not prevent replacing the server's.
#[test]
fn a_client_without_ids_replaces_the_server_s() {
    let mut rotation = Rotation::with(delayed(10, 1), quiet(), Arc::new(NoIds));
    rotation.pair.establish();
    rotation.talk();
    rotation.rotate();
    rotation.pair.run_for(seconds(1));
    rotation.sent();
    rotation.talk();
    assert_eq!(rotation.sent(), [1]);
    rotation.assert_well();
}

/// The ID of the preferred address, sequence number 1, is replaced together with the other IDs,
/// before or after the client moves there.
#[test]
fn the_id_of_the_preferred_address_is_replaced() {
    for moment in [15, 25, 35, 45, 55, 65, 500] {
        let mut rotation = Rotation::new(delayed(10, 1));
        let SocketAddr::V4(preferred) = address(PREFERRED) else { panic!("an IPv4 address") };
        rotation.pair.prefer(PreferredAddresses { v4: Some(preferred), v6: None });
        rotation.pair.routes.push(Route::preferred(delayed(10, 2)));
        rotation.pair.run_for(milliseconds(moment));
        rotation.rotate();
        rotation.pair.run_for(seconds(2));
        rotation.talk();
        rotation.sent();
        rotation.talk();
        assert_eq!(rotation.sent(), [1], "after {moment} ms");
        assert_eq!(rotation.pair.client().remote_address(), address(PREFERRED), "{moment} ms");
        rotation.assert_well();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Regardless of what is lost and when the configuration changes, no packet from the client
    /// reaches the server with an ID that belongs to no connection, a download continues, and in
    /// the end all packets have IDs of the newest configuration.
    #[test]
    fn under_loss_no_packet_becomes_unroutable(
        loss in 0..25_u32,
        seed in any::<u64>(),
        pauses in proptest::collection::vec(0..400_u64, 1..5),
    ) {
        let mut rotation = Rotation::new(lossy(f64::from(loss), 10, seed));
        rotation.pair.establish_within(seconds(600));
        let mut changes: Vec<_> = pauses
            .iter()
            .scan(rotation.pair.now, |at, pause| {
                *at += milliseconds(*pause);
                Some(*at)
            })
            .collect();
        let ids = rotation.ids.clone();
        let took = rotation.pair.download_while(300_000, seconds(1200), |pair| {
            if changes.first().is_some_and(|change| *change <= pair.now) {
                changes.remove(0);
                ids.rotate();
                pair.server().replace_connection_ids();
            }
        });
        prop_assert!(took.is_some());
        for _ in changes {
            rotation.rotate();
        }
        let newest = rotation.ids.rotation() as u8;
        let sent = rotation.sent();
        prop_assert!(sent.is_sorted(), "{:?}", sent);
        rotation.pair.run_for(seconds(60));
        rotation.sent();
        rotation.talk();
        prop_assert_eq!(rotation.sent(), vec![newest]);
        rotation.assert_well();
    }
}
