//! Tests of BBR's invariants for any input, and of smaller properties.

use clearway_units::Random;
use proptest::prelude::*;

use super::*;
use crate::testing::metrics;
use crate::{Bbr, Phase, Quantity, RateSample, RttSnapshot, SpuriousLoss, Suppressor};

fn rtt(milliseconds: u64) -> RttSnapshot {
    let rtt = ms(milliseconds);
    RttSnapshot { latest: rtt, smoothed: rtt, minimum: rtt, variation: rtt / 2, is_new: true }
}

/// The first round-trip time determines the first rate, and there is no rate before it (row 121).
#[test]
fn the_first_rate_is_the_initial_window_in_the_first_round_trip_time() {
    let mut bbr = Bbr::new(&parameters_of(1));
    assert_eq!(bbr.pacing_rate(None), None);
    let packet = packet(0, SIZE);
    let event = acknowledgement(core::slice::from_ref(&packet), &[]);
    bbr.on_acknowledgement(&event);
    let nominal = Rate::from_transfer(parameters_of(1).initial_window(), ms(100)).unwrap();
    assert_eq!(bbr.pacing_rate(Some(&rtt(100))), Some(nominal.scaled(277, 100)));
}

#[test]
fn the_phase_and_the_suppressors_are_reported() {
    let mut path = path();
    let phase = |path: &Path| path.bbr.snapshot().phase;
    let holds = |path: &Path, it| path.bbr.snapshot().suppressors.since(it).is_some();
    assert_eq!(phase(&path), Phase::Other("startup"));
    path.run_to_state(BbrState::Drain);
    assert!(holds(&path, Suppressor::Draining) && !holds(&path, Suppressor::Cruising));
    path.run_to_state(BbrState::ProbeCruise);
    assert!(holds(&path, Suppressor::Cruising) && !holds(&path, Suppressor::Draining));
    path.run_to_state(BbrState::ProbeUp);
    assert_eq!(phase(&path), Phase::Other("probe_bw_up"));
    let held = path.bbr.snapshot().suppressors.active().count();
    assert_eq!(held, 0, "nothing delays a probe");
    path.run_to_state(BbrState::ProbeRtt);
    assert!(holds(&path, Suppressor::ProbeRtt));
    path.run_to_state(BbrState::ProbeCruise);
    path.link.loss = 0.1;
    path.run_for(ms(200));
    assert!(holds(&path, Suppressor::ShortTermBound));
}

#[test]
fn metrics_contain_the_model() {
    let mut path = path();
    assert_eq!(
        metrics(&path.bbr).into_keys().collect::<Vec<_>>(),
        ["extra_acked"],
        "nothing is known about the path"
    );
    path.run_for(ms(3000));
    let told = metrics(&path.bbr);
    assert_eq!(told["max_bw"], Quantity::Rate(path.bbr.bandwidth.maximum()));
    assert_eq!(told["bw"], Quantity::Rate(path.bbr.rate));
    assert_eq!(told["min_rtt"], Quantity::Time(path.bbr.minimum_rtt.minimum().unwrap()));
    assert!(!told.contains_key("inflight_shortterm") && !told.contains_key("bw_shortterm"));
    path.run_to_state(BbrState::ProbeCruise);
    path.link.loss = 0.1;
    path.run_until(ms(2000), |path| {
        path.bbr.short_term.in_flight.is_some() && path.bbr.long_term.bound.is_some()
    });
    let told = metrics(&path.bbr);
    let bound = path.bbr.short_term.in_flight.unwrap();
    assert_eq!(told["inflight_shortterm"], Quantity::Bytes(bound));
    assert_eq!(told["bw_shortterm"], Quantity::Rate(path.bbr.short_term.rate.unwrap()));
    assert_eq!(told["inflight_longterm"], Quantity::Bytes(path.bbr.long_term.bound.unwrap()));
}

#[test]
fn a_queue_that_ce_marks_stays_short_without_loss() {
    let mut path = path();
    path.link.marks_above = megabits(20).bytes_in(ms(10));
    path.run_for(ms(3000));
    let goodput = path.goodput(Duration::from_secs(10));
    assert!(goodput > 0.9 * 2_500_000.0, "{goodput}");
    assert_eq!(path.lost_bytes, 0);
    assert!(path.bbr.snapshot().congestion_events > 0);
    assert!(path.bbr.long_term.bound.is_some());
}

#[test]
fn an_initial_window_below_the_floor_is_raised_to_it() {
    let initial_window = Some(2 * SIZE);
    let bbr = Bbr::new(&ControllerParameters { initial_window, ..parameters_of(1) });
    assert_eq!(bbr.window(), 4 * SIZE);
}

#[test]
fn the_window_stays_within_its_bounds_when_datagrams_grow() {
    let mut bbr = Bbr::new(&parameters_of(1));
    bbr.on_max_datagram_size(1400);
    assert_eq!(bbr.window(), 14_000, "the initial window is computed again");
    let packet = packet(0, SIZE);
    bbr.on_acknowledgement(&acknowledgement(core::slice::from_ref(&packet), &[]));
    bbr.on_max_datagram_size(9000);
    assert_eq!(bbr.window(), 36_000);
    assert_eq!(bbr.snapshot().minimum_window, 36_000);
}

#[test]
fn the_same_seed_and_the_same_events_give_the_same_flow() {
    let run = |seed| {
        let mut path = path_with(megabits(8), ms(25), 0.5, seed);
        path.link.loss = 0.005;
        path.run_for(Duration::from_secs(6));
        (path.history.clone(), path.arrived)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

/// Reports arbitrary, possibly inconsistent events to `bbr`.
fn tell(bbr: &mut Bbr, random: &mut Random, now: Timestamp, next: u64) {
    let wild = |random: &mut Random| random.number() >> random.below(64);
    let some = |random: &mut Random| {
        let count = random.below(5);
        let packets = (0..count).map(|_| {
            let mut one = packet(random.below(next + 1), wild(random));
            one.bytes = wild(random);
            one.sent_at = Timestamp::from_nanos(random.below(now.as_nanos() + 1));
            one.delivery.delivered = wild(random);
            one.delivery.lost = wild(random);
            one.delivery.is_application_limited = random.chance(0.2);
            one
        });
        packets.collect::<Vec<_>>()
    };
    let (acked, lost) = (some(random), some(random));
    let rate_sample = random.chance(0.8).then(|| RateSample {
        rate: Rate::from_bytes_per_second(wild(random)),
        delivered: wild(random),
        interval: ms(wild(random)),
        prior_delivered: wild(random),
        is_application_limited: random.chance(0.2),
    });
    bbr.on_acknowledgement(&Acknowledgement {
        now,
        next_index: SendIndex(next),
        rtt: Some(rtt(1 + random.below(100))),
        prior_in_flight: wild(random),
        bytes_in_flight: wild(random),
        persistent_congestion: random.chance(0.05),
        newly_ce_marked: wild(random) * random.below(2),
        rate_sample,
        total_delivered: wild(random),
        total_lost: wild(random),
        was_window_limited: random.chance(0.5),
        ..acknowledgement(&acked, &lost)
    });
    if let Some(&packet) = lost.first() {
        let still_lost = random.below(2);
        let total_delivered = wild(random);
        bbr.on_spurious_loss(&SpuriousLoss { now, packet, still_lost, total_delivered });
        bbr.on_sent(&packet, random.below(2) * wild(random));
    }
}

proptest! {
    /// Checks S3, and that nothing overflows, for any input.
    #[test]
    fn no_event_takes_it_out_of_its_bounds(seed: u64) {
        let mut random = Random::from_number(seed);
        let mut bbr = Bbr::new(&parameters_of(seed));
        let mut now = Timestamp::ORIGIN;
        for next in 1..200 {
            now += Duration::from_nanos(random.number() >> random.below(64) >> 8);
            tell(&mut bbr, &mut random, now, next);
            prop_assert!(bbr.window() >= 4 * SIZE);
            prop_assert!(bbr.window() <= crate::testing::MAXIMUM_WINDOW);
            prop_assert!(bbr.pacing_rate(Some(&rtt(10))) != Some(Rate::ZERO));
            if random.chance(0.01) {
                bbr.on_max_datagram_size(SIZE);
            }
        }
    }
}
