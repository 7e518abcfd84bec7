//! Key updates between two real endpoints (RFC 9001 §6).

use crate::support::{Pair, both, delayed, lossy, milliseconds, probability, quiet, seconds};
use clearway_network::{Conditions, Reorder};
use clearway_transport::{Side, TransportConfig};
use clearway_units::Rate;
use clearway_wire::Direction;

fn updating() -> TransportConfig {
    quiet().to_builder().key_update_after(Some(100)).build().unwrap()
}

#[test]
fn either_end_updates_and_the_peer_follows() {
    for side in [Side::Client, Side::Server] {
        let mut pair = Pair::new(delayed(10, 1));
        pair.establish();
        pair.run_for(seconds(1));
        let now = pair.now;
        for round in 1..=3 {
            let now = pair.now;
            let end = if side.is_client() { pair.client() } else { pair.server() };
            assert!(end.update_keys(now), "{side:?} {round}");
            assert!(!end.update_keys(now), "§6.1: not before the last update was acknowledged");
            end.ping();
            pair.run_for(seconds(1));
            let updates =
                (pair.client().statistics().key_updates, pair.server().statistics().key_updates);
            assert_eq!(updates, (round, round));
        }
        let last = pair.watch.sent(side).last().cloned().unwrap();
        assert!(last.key_phase && last.at > now, "§6: the Key Phase bit toggles with each update");
    }
}

/// §6.1: no key update before the handshake is confirmed.
#[test]
fn no_update_before_confirmation() {
    let mut pair = Pair::new(delayed(10, 1));
    let now = pair.now;
    assert!(!pair.client().update_keys(now));
}

#[test]
fn both_ends_may_update_at_once() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    let now = pair.now;
    assert!(pair.client().update_keys(now) && pair.server().update_keys(now));
    pair.client().ping();
    pair.server().ping();
    pair.run_for(seconds(1));
    assert_eq!(pair.client().statistics().key_updates, 1);
    assert_eq!(pair.server().statistics().key_updates, 1);
    assert!(!pair.client().is_closed() && !pair.server().is_closed());
}

#[test]
fn updates_succeed_under_loss_and_reordering() {
    for seed in 0..6 {
        let link = if seed % 2 == 0 {
            lossy(10.0, 5, seed)
        } else {
            let reorder = Reorder { probability: probability(20.0), by: milliseconds(12) };
            // The rate is low enough for several updates, and for the packet number of a late
            // packet to be decoded correctly.
            let rate = Some(Rate::from_bits_per_second(20_000_000));
            let delay = milliseconds(5);
            both(Conditions { delay, rate, reorder, ..Conditions::default() }, seed)
        };
        let mut pair = Pair::with(link, updating(), updating());
        pair.download(8 << 20, seconds(120)).expect("not finished");
        let updates = pair.server().statistics().key_updates;
        assert!(updates >= 3, "{updates}");
        assert_eq!(pair.client().statistics().authentication_failures, 0);
        assert_eq!(pair.server().statistics().authentication_failures, 0);
    }
}

/// §6.5: old keys are discarded after a while; packets protected with them are then dropped.
#[test]
fn a_packet_protected_with_old_keys_does_no_harm() {
    let mut pair = Pair::new(delayed(10, 1));
    pair.establish();
    pair.run_for(seconds(1));
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"late").unwrap();
    let mut buffer = vec![0; 2000];
    let transmit = pair.client.transmit(pair.handle, pair.now, &mut buffer, 1).unwrap();
    pair.client.transmitted(pair.handle, pair.now);
    let mut late = buffer[..transmit.size].to_vec();
    for _ in 0..3 {
        let now = pair.now;
        assert!(pair.client().update_keys(now));
        pair.client().ping();
        pair.run_for(seconds(2));
    }
    let from = pair.bindings[0];
    pair.deliver(clearway_network::Way::ToServer, from, &mut late);
    pair.run_for(seconds(1));
    assert!(!pair.server().is_closed());
}
