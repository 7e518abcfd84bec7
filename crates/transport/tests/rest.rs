//! A connection on which nothing happens rests, and works as before afterwards.

mod support;

use std::sync::Arc;

use clearway_congestion::Algorithm;
use clearway_transport::{ReadOutcome, Side, TransportConfig};
use clearway_wire::Direction;
use support::{Pair, delayed, lossy, milliseconds, pattern, seconds};

fn both_rest(pair: &mut Pair) -> bool {
    pair.client().is_resting() && pair.server().is_resting()
}

#[test]
fn a_quiet_connection_rests_soon() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(milliseconds(45));
    assert!(!pair.client().is_resting() && !pair.server().is_resting());
    pair.run_for(milliseconds(200));
    assert!(both_rest(&mut pair));
    assert_eq!(pair.server().deadline(), None, "there is nothing left to do");
    pair.server().ping();
    pair.settle();
    assert!(!pair.server().is_resting());
    pair.run_for(milliseconds(40));
    assert!(!pair.client().is_resting());
    pair.run_for(seconds(2));
    assert!(both_rest(&mut pair));
}

#[test]
fn transfers_and_key_updates_go_on_after_a_rest() {
    let mut pair = Pair::new(lossy(2.0, 10, 3));
    pair.establish();
    for round in 1..=6 {
        assert!(pair.download_more(300_000, seconds(20)).is_some(), "round {round}");
        assert!(pair.run_until(seconds(20), both_rest), "round {round}");
        let now = pair.now;
        let end = if round % 2 == 0 { pair.client() } else { pair.server() };
        assert!(end.update_keys(now), "round {round}");
        end.ping();
        pair.settle();
        assert!(pair.run_until(seconds(20), both_rest), "round {round}");
        let updates =
            (pair.client().statistics().key_updates, pair.server().statistics().key_updates);
        assert_eq!(updates, (round, round));
    }
    for side in [Side::Client, Side::Server] {
        let last = pair.watch.sent(side).last().cloned().unwrap();
        assert!(!last.key_phase, "six updates");
    }
}

/// With every controller, of which all are packed, and on a path that loses and delays packets, so that none is in its first
/// state. In a debug build the connection compares what it unpacks with what it had.
#[test]
fn transfers_go_on_after_a_rest_with_every_controller() {
    for (seed, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        let config = || {
            let builder = TransportConfig::builder().max_idle_timeout(None);
            builder.controller(Arc::new(algorithm)).build().unwrap()
        };
        let mut pair = Pair::with(lossy(3.0, 20, seed as u64), config(), config());
        pair.establish();
        for round in 1..=4 {
            let took = pair.download_more(400_000, seconds(30));
            assert!(took.is_some(), "{algorithm}, round {round}");
            assert!(pair.run_until(seconds(20), both_rest), "{algorithm}, round {round}");
            let statistics = pair.server().statistics();
            pair.run_for(seconds(3));
            assert_eq!(pair.server().statistics(), statistics, "{algorithm}, round {round}");
        }
    }
}

/// What waits on a stream while the connection rests is there afterwards.
#[test]
fn streams_keep_what_they_have() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, &pattern(5_000)).unwrap();
    pair.settle();
    assert!(pair.run_until(seconds(5), both_rest));
    pair.client().write_slice(stream, b"the end").unwrap();
    pair.client().finish(stream).unwrap();
    pair.settle();
    assert!(pair.run_until(seconds(5), both_rest));
    assert_eq!(pair.server().accept(Direction::Bidirectional), Some(stream));
    let mut received = Vec::new();
    let now = pair.now;
    while let Ok(ReadOutcome::Data(data)) = pair.server().read(now, stream, 999) {
        received.extend_from_slice(&data);
    }
    assert_eq!(received, [&pattern(5_000)[..], b"the end"].concat());
}

/// A datagram that is not authentic wakes a connection, which rests again afterwards.
#[test]
fn what_is_not_authentic_does_not_keep_a_connection_awake() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    assert!(pair.run_until(seconds(5), both_rest));
    pair.filter =
        Some(Box::new(|_, _, payload| payload.last_mut().map(|byte| *byte ^= 1).is_some()));
    pair.client().ping();
    pair.run_for(milliseconds(15));
    let before = pair.server().statistics();
    assert!(before.authentication_failures > 0 && !pair.server().is_resting());
    assert!(pair.run_until(seconds(5), |pair| pair.server().is_resting()));
    pair.filter = None;
    assert!(pair.run_until(seconds(60), both_rest));
    assert!(pair.server().statistics().packets_received > before.packets_received);
}
