//! ECN between two endpoints (RFC 9000 §13.4): which packets are marked, which counts are reported,
//! and how paths that corrupt marks are handled.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{self, Pair, both, milliseconds, quiet, seconds};
use clearway_congestion::Algorithm;
use clearway_network::{Conditions, EcnTreatment, LinkConfig, QueueLimit, Rebind, Step};
use clearway_transport::{EcnFailure, EcnState, TransportConfig};
use clearway_units::Rate;

/// Returns link conditions with a delay of 10 ms and a rate of 20 Mbit/s in each direction;
/// datagrams that are queued for longer than `mark_above` are marked.
fn conditions(mark_above: Option<Duration>) -> Conditions {
    Conditions {
        delay: milliseconds(10),
        rate: Some(Rate::from_bits_per_second(20_000_000)),
        overhead: 28,
        queue: QueueLimit { packets: None, bytes: Some(200_000) },
        mark_above,
        ..Conditions::default()
    }
}

fn with(algorithm: Algorithm) -> TransportConfig {
    quiet().to_builder().controller(Arc::new(algorithm)).build().unwrap()
}

/// Returns a path that treats ECN marks this way in both directions.
fn treating(ecn: EcnTreatment) -> LinkConfig {
    both(Conditions { ecn, ..conditions(None) }, 3)
}

#[test]
fn a_queue_that_marks_loses_nothing() {
    for algorithm in Algorithm::ALL {
        let config = with(algorithm);
        let mut pair =
            Pair::with(both(conditions(Some(milliseconds(5))), 3), config.clone(), config);
        let took = pair.download(5_000_000, seconds(10)).unwrap();
        let statistics = pair.server().statistics();
        assert_eq!(statistics.ecn_state, EcnState::Capable, "{algorithm}");
        assert!(statistics.ce_marks > 0 && statistics.congestion_events > 0, "{algorithm}");
        assert_eq!(statistics.packets_lost, 0, "{algorithm}");
        // The download takes 2.1 s at the full rate.
        assert!(took < milliseconds(2800), "{algorithm}: {took:?}");
        assert_eq!(pair.client().statistics().ecn_state, EcnState::Capable);
    }
}

#[test]
fn paths_that_mistreat_marks_fail_validation_and_deliver_all_the_same() {
    for (treatment, failure) in [
        (EcnTreatment::Cleared, EcnFailure::CountsMissing),
        (EcnTreatment::ToEct1, EcnFailure::CountsTooLow),
        (EcnTreatment::ToCe, EcnFailure::AllMarked),
        (EcnTreatment::Dropped, EcnFailure::AllLost),
    ] {
        let mut pair = Pair::new(treating(treatment));
        let took = pair.download(2_000_000, seconds(20)).unwrap();
        for statistics in [pair.server().statistics(), pair.client().statistics()] {
            assert_eq!(statistics.ecn_state, EcnState::Failed(failure), "{treatment:?}");
            assert_eq!(statistics.ce_marks, 0, "{treatment:?}");
        }
        // The download takes 0.83 s at the full rate. If marked packets are dropped, the remaining
        // test packets cost probe timeouts and window reductions.
        let most = if treatment == EcnTreatment::Dropped { 3000 } else { 1500 };
        assert!(took < milliseconds(most), "{treatment:?}: {took:?}");
    }
}

#[test]
fn a_handshake_survives_a_path_that_drops_marked_packets() {
    let mut pair = Pair::new(treating(EcnTreatment::Dropped));
    let start = pair.now;
    // Probes are not marked. Otherwise, the handshake would never complete. The first probe timeout
    // is 999 ms.
    pair.establish_within(seconds(5));
    assert!(pair.now.saturating_since(start) < seconds(5));
}

#[test]
fn a_path_may_begin_to_mistreat_marks() {
    for (treatment, failure) in [
        (EcnTreatment::Cleared, EcnFailure::CountsTooLow),
        (EcnTreatment::ToEct1, EcnFailure::CountsTooLow),
        (EcnTreatment::ToCe, EcnFailure::AllMarked),
        (EcnTreatment::Dropped, EcnFailure::AllLost),
    ] {
        let ecn_steps = vec![Step { after: milliseconds(500), value: treatment }];
        let link = both(Conditions { ecn_steps, ..conditions(None) }, 3);
        let mut pair = Pair::new(link);
        pair.download(5_000_000, seconds(20)).unwrap();
        let statistics = pair.server().statistics();
        assert_eq!(statistics.ecn_state, EcnState::Failed(failure), "{treatment:?}");
    }
}

#[test]
fn each_path_is_validated_for_itself() {
    // The client's address changes when the path starts or stops clearing marks.
    for (before, after, expected) in [
        (EcnTreatment::Kept, EcnTreatment::Cleared, EcnState::Failed(EcnFailure::CountsTooLow)),
        (EcnTreatment::Cleared, EcnTreatment::Kept, EcnState::Capable),
        (EcnTreatment::ToEct1, EcnTreatment::Kept, EcnState::Capable),
    ] {
        let ecn_steps = vec![Step { after: milliseconds(500), value: after }];
        let mut link = both(Conditions { ecn: before, ecn_steps, ..conditions(None) }, 3);
        link.rebind = Some(Rebind { first: milliseconds(500), every: None, address: true });
        let mut pair = Pair::new(link);
        pair.download(3_000_000, seconds(20)).unwrap();
        assert!(pair.bindings.len() > 1);
        assert_eq!(pair.server().statistics().ecn_state, expected, "{before:?} {after:?}");
    }
}

#[test]
fn ecn_can_be_turned_off_and_marks_are_reported_all_the_same() {
    let off = quiet().to_builder().ecn(false).build().unwrap();
    let mut pair = Pair::with(treating(EcnTreatment::Kept), quiet(), off.clone());
    pair.download(500_000, seconds(10)).unwrap();
    assert_eq!(pair.server().statistics().ecn_state, EcnState::Disabled);
    assert_eq!(pair.client().statistics().ecn_state, EcnState::Capable);
    let mut pair = Pair::with(treating(EcnTreatment::Dropped), off.clone(), off);
    pair.download(500_000, seconds(10)).unwrap();
    let counters = pair.link.counters();
    assert_eq!((counters.to_client.dropped_ecn, counters.to_server.dropped_ecn), (0, 0));
}

/// RFC 9000 §13.4.1: duplicates do not increase the counts.
#[test]
fn a_duplicated_datagram_is_counted_once() {
    let link = both(Conditions { duplicate: support::probability(100.0), ..conditions(None) }, 3);
    let mut pair = Pair::new(link);
    pair.download(500_000, seconds(10)).unwrap();
    assert_eq!(pair.server().statistics().ecn_state, EcnState::Capable);
}
