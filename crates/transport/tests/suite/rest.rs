//! Tests that an idle connection is compacted and afterwards works as before.

use core::time::Duration;
use std::sync::Arc;

use crate::support::{Pair, delayed, lossy, milliseconds, pattern, seconds};
use clearway_congestion::Algorithm;
use clearway_transport::{ReadOutcome, Side, TransportConfig};
use clearway_wire::Direction;

fn both_rest(pair: &mut Pair) -> bool {
    pair.client().is_compacted() && pair.server().is_compacted()
}

#[test]
fn a_quiet_connection_rests_soon() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(milliseconds(45));
    assert!(!pair.client().is_compacted() && !pair.server().is_compacted());
    pair.run_for(milliseconds(200));
    assert!(both_rest(&mut pair));
    assert_eq!(pair.server().deadline(), None, "there is nothing left to do");
    pair.server().ping();
    pair.settle();
    assert!(!pair.server().is_compacted());
    pair.run_for(milliseconds(40));
    assert!(!pair.client().is_compacted());
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

/// Runs with every controller, each of which gets packed, on a path that loses and delays packets,
/// so that no controller is in its initial state. In a debug build the connection compares its
/// unpacked state with the original.
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
            let totals = pair.server().totals();
            let lost = (totals.packets_lost, totals.packets_spuriously_lost);
            assert_eq!(lost, (statistics.packets_lost, statistics.packets_spuriously_lost));
            let others = (totals.packets_sent, totals.probe_timeouts);
            assert_eq!(others, (statistics.packets_sent, statistics.probe_timeouts));
            assert!(
                totals.packets_sent > 0 && totals.packets_lost > 0,
                "{algorithm}, round {round}"
            );
            pair.run_for(seconds(3));
            assert_eq!(pair.server().statistics(), statistics, "{algorithm}, round {round}");
        }
    }
}

/// Data that is waiting on a stream while the connection is compacted is still there afterward.
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

/// A datagram that cannot be authenticated unpacks a connection, which is compacted again
/// afterward.
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
    assert!(before.authentication_failures > 0 && !pair.server().is_compacted());
    assert!(pair.run_until(seconds(5), |pair| pair.server().is_compacted()));
    pair.filter = None;
    assert!(pair.run_until(seconds(60), both_rest));
    assert!(pair.server().statistics().packets_received > before.packets_received);
}

/// Runs a request and its response over a round trip of 20 ms, and returns how long it takes until
/// both endpoints are compacted again.
fn request_and_rest(pair: &mut Pair) -> Duration {
    let begin = pair.now;
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"a request").unwrap();
    pair.client().finish(stream).unwrap();
    pair.settle();
    pair.run_for(milliseconds(10));
    assert_eq!(pair.server().accept(Direction::Bidirectional), Some(stream));
    let now = pair.now;
    while let Ok(ReadOutcome::Data(_)) = pair.server().read(now, stream, 100) {}
    pair.server().write_slice(stream, &pattern(1_000)).unwrap();
    pair.server().finish(stream).unwrap();
    pair.settle();
    pair.run_for(milliseconds(10));
    let now = pair.now;
    while let Ok(ReadOutcome::Data(_)) = pair.client().read(now, stream, 1_000) {}
    pair.settle();
    assert!(pair.run_until(seconds(5), both_rest));
    pair.now.saturating_since(begin)
}

/// After a long idle period a connection is active for no longer than a request takes, including
/// its acknowledgment. Neither endpoint delays the acknowledgment or waits for more data. A
/// connection that is used more often is compacted later.
#[test]
fn a_connection_that_is_seldom_used_rests_as_soon_as_it_can() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    assert!(pair.run_until(seconds(60), both_rest));
    for _ in 0..5 {
        pair.run_for(seconds(30));
        assert!(both_rest(&mut pair));
        let before = [Side::Client, Side::Server].map(|side| pair.watch.sent(side).len());
        let rested = request_and_rest(&mut pair);
        assert!(rested < milliseconds(31), "{rested:?}");
        let after = [Side::Client, Side::Server].map(|side| pair.watch.sent(side).len());
        // The client sends the request and the acknowledgment of the response; the server sends the
        // response together with the acknowledgment of the request.
        assert_eq!([after[0] - before[0], after[1] - before[1]], [2, 1]);
    }
    pair.run_for(milliseconds(500));
    let rested = request_and_rest(&mut pair);
    assert!(rested >= milliseconds(70), "{rested:?}");
}

/// After a long idle period, both endpoints acknowledge immediately, but an acknowledgment must not
/// trigger another one.
#[test]
fn after_a_long_rest_acknowledgments_are_not_acknowledged() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    for _ in 0..5 {
        assert!(pair.run_until(seconds(60), both_rest));
        pair.run_for(seconds(25));
        let sent =
            |pair: &Pair| [Side::Client, Side::Server].map(|side| pair.watch.sent(side).len());
        let before = sent(&pair);
        pair.client().ping();
        pair.settle();
        pair.run_for(milliseconds(500));
        let after = sent(&pair);
        assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1], "a PING and an ACK");
    }
}

/// The server responds after a while. In the meantime, the client is not compacted, and its earlier
/// idle period does not cause retransmissions.
#[test]
fn a_slow_response_after_a_long_rest_is_received() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    assert!(pair.run_until(seconds(60), both_rest));
    for thinking in [0, 30, 120, 999, 1_001, 5_000] {
        pair.run_for(seconds(20));
        let stream = pair.client().open(Direction::Bidirectional).unwrap();
        pair.client().write_slice(stream, b"a request").unwrap();
        pair.client().finish(stream).unwrap();
        pair.settle();
        pair.run_for(milliseconds(10 + thinking));
        assert_eq!(pair.server().accept(Direction::Bidirectional), Some(stream));
        pair.server().write_slice(stream, b"a response").unwrap();
        pair.server().finish(stream).unwrap();
        pair.settle();
        pair.run_for(milliseconds(11));
        let now = pair.now;
        let read = pair.client().read(now, stream, 100);
        assert!(matches!(read, Ok(ReadOutcome::Data(data)) if *data == *b"a response"));
        let _ = pair.client().read(now, stream, 100);
        let _ = pair.server().read(now, stream, 100);
        let _ = pair.server().read(now, stream, 100);
        assert!(pair.run_until(seconds(60), both_rest), "{thinking} ms");
        assert_eq!(pair.server().statistics().probe_timeouts, 0);
    }
}

/// Data that an application has read ahead without returning its credit also counts as held while
/// the connection is compacted; otherwise, a memory budget would omit it.
#[test]
fn what_is_held_is_known_during_a_rest() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    let id = pair.client().open(Direction::Unidirectional).unwrap();
    assert_eq!(pair.client().write_slice(id, &pattern(5000)).unwrap(), 5000);
    pair.settle();
    pair.run_for(milliseconds(45));
    assert_eq!(pair.server().accept(Direction::Unidirectional), Some(id));
    assert!(matches!(pair.server().read_ahead(id, 5000), Ok(ReadOutcome::Data(_))));
    let held = pair.server().held_bytes();
    assert!(held >= 5000, "{held}");
    assert!(pair.run_until(seconds(20), both_rest));
    pair.run_for(seconds(1));
    assert_eq!(pair.server().held_bytes(), held);
}
