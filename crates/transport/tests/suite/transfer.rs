//! Transfers between two real endpoints, in virtual time.

use crate::support::{Pair, both, delayed, lossy, milliseconds, probability, seconds};
use clearway_network::{Conditions, Jitter, QueueLimit, Reorder};
use clearway_transport::{Event, Side};
use clearway_units::Rate;

#[test]
fn a_clean_path_carries_a_megabyte() {
    let mut pair = Pair::new(delayed(5, 1));
    let took = pair.download(1 << 20, seconds(10)).expect("not finished");
    assert!(took < milliseconds(200), "{took:?}");
    let statistics = pair.server().statistics();
    assert_eq!(statistics.packets_lost, 0, "{statistics:?}");
}

#[test]
fn every_byte_arrives_under_loss_on_every_seed() {
    for seed in 0..12 {
        let mut pair = Pair::new(lossy(10.0, 5, seed));
        let took = pair.download(200_000, seconds(120));
        assert!(took.is_some(), "seed {seed}: {:?} {:?}", pair.client_events, pair.now);
    }
}

/// RFC 9000 §12.3: a duplicate packet is discarded. RFC 9002 §6.1: packets that were only reordered
/// do not cause endless retransmissions.
#[test]
fn reordered_and_duplicated_datagrams_do_no_harm() {
    for seed in 0..4 {
        let conditions = Conditions {
            delay: milliseconds(10),
            jitter: Jitter { range: milliseconds(8), reorder_by_jitter: true },
            reorder: Reorder { probability: probability(5.0), by: milliseconds(30) },
            duplicate: probability(20.0),
            ..Conditions::default()
        };
        let mut pair = Pair::new(both(conditions, seed));
        let took = pair.download(300_000, seconds(60)).expect("not finished");
        assert!(took < seconds(10), "{took:?}");
        let duplicates = pair.watch.drops(Side::Client, clearway_transport::DropReason::Duplicate);
        assert!(duplicates > 20, "{duplicates}");
    }
}

#[test]
fn a_bottleneck_is_filled() {
    let wire = Conditions {
        delay: milliseconds(15),
        rate: Some(Rate::from_bits_per_second(10_000_000)),
        queue: QueueLimit { packets: Some(25), bytes: None },
        ..Conditions::default()
    };
    let mut pair = Pair::new(both(wire, 3));
    let took = pair.download(3 << 20, seconds(30)).expect("not finished");
    let rate = 8.0 * f64::from(3 << 20) / took.as_secs_f64();
    assert!(rate > 8_000_000.0, "only {rate} bit/s: {:?}", pair.server().statistics());
}

#[test]
fn connected_is_reported_once() {
    let mut pair = Pair::new(delayed(5, 1));
    pair.download(1000, seconds(10)).expect("not finished");
    let connected = |event: &&Event| **event == Event::Connected;
    assert_eq!(pair.client_events.iter().filter(connected).count(), 1);
    assert_eq!(pair.server_events.iter().filter(connected).count(), 1);
}

/// Law 11: a run depends only on its seed. The sizes of TLS messages are the same in every run of
/// this test; their bytes are not.
#[test]
fn the_same_seed_gives_the_same_datagrams_and_another_seed_others() {
    let run = |seed| {
        let mut pair = Pair::new(lossy(5.0, 10, seed));
        pair.download(100_000, seconds(60)).expect("not finished");
        (pair.digest(), pair.now)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
