use super::*;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns a path with an RTT of 40 ms, and enough samples that the variation has decayed.
fn rtt() -> Rtt {
    let mut rtt = Rtt::new(ms(333));
    for _ in 0..100 {
        rtt.on_sample(ms(40), Duration::ZERO);
    }
    rtt
}

fn thresholds(reordering: &Reordering) -> (u64, Duration) {
    let LossThresholds { packets, time } = reordering.thresholds(&rtt(), ms(25));
    (packets, time)
}

fn spurious(reordering: &mut Reordering, packets: u64, elapsed: u64) {
    let before = reordering.thresholds(&rtt(), ms(25));
    reordering.on_spurious_loss(Overtaken { packets, elapsed: ms(elapsed) }, &rtt(), before);
}

#[test]
fn thresholds_are_those_of_the_rfc_until_a_loss_was_none() {
    let mut reordering = Reordering::new(3);
    assert_eq!(thresholds(&reordering), (3, ms(45)));
    for round in 0..100 {
        reordering.on_lost(round);
        reordering.on_overtaken(Overtaken { packets: 2, elapsed: ms(44) }, &rtt());
    }
    assert_eq!(thresholds(&reordering), (3, ms(45)));
}

#[test]
fn the_packet_threshold_is_what_a_lost_packet_was_overtaken_by_and_one_more() {
    let mut reordering = Reordering::new(3);
    spurious(&mut reordering, 12, 44);
    assert_eq!(thresholds(&reordering), (13, ms(45)), "it was not late in time");
    // A smaller value does not lower the threshold.
    spurious(&mut reordering, 5, 46);
    assert_eq!(thresholds(&reordering).0, 13);
    spurious(&mut reordering, u64::MAX, 44);
    assert_eq!(thresholds(&reordering).0, MAX_PACKET_THRESHOLD);
}

#[test]
fn the_time_threshold_counts_the_longest_round_trip_of_a_late_packet() {
    let mut reordering = Reordering::new(3);
    spurious(&mut reordering, 1, 48);
    assert_eq!(thresholds(&reordering), (3, ms(54)), "9/8 of 48 ms");
    spurious(&mut reordering, 1, 56);
    assert_eq!(thresholds(&reordering), (3, ms(63)));
}

/// A single packet does not raise the threshold to its own round-trip time, and neither do packets
/// that take as long as others.
#[test]
fn the_time_threshold_is_at_most_two_round_trips_or_the_probe_timeout() {
    let mut reordering = Reordering::new(3);
    for _ in 0..100 {
        reordering.on_overtaken(Overtaken { packets: 1, elapsed: ms(30) }, &rtt());
    }
    spurious(&mut reordering, 1, 105);
    // Two round trips are longer than the probe timeout, which is 40 + 1 + 25 ms.
    assert_eq!(thresholds(&reordering), (3, ms(80)));
    assert_eq!(reordering.thresholds(&rtt(), ms(60)).time, ms(101), "the probe timeout");
}

/// If all samples are from packets that overtook others, the limit of two round trips is based on
/// the RTT of the others.
#[test]
fn the_round_trips_of_overtaken_packets_raise_the_limit() {
    let mut reordering = Reordering::new(3);
    spurious(&mut reordering, 1, 200);
    // 60 ms is 7/8 of 40 plus 1/8 of 200.
    assert_eq!(thresholds(&reordering), (3, ms(120)));
    for _ in 0..100 {
        reordering.on_overtaken(Overtaken { packets: 1, elapsed: ms(88) }, &rtt());
    }
    assert!(thresholds(&reordering).1.abs_diff(ms(176)) < Duration::from_micros(1));
    for _ in 0..10 {
        reordering.on_overtaken(Overtaken { packets: 1, elapsed: ms(30) }, &rtt());
    }
    assert!(thresholds(&reordering).1 < ms(100), "one that is past is forgotten");
}

#[test]
fn what_was_learned_is_forgotten_after_sixteen_rounds_with_losses() {
    let mut reordering = Reordering::new(3);
    spurious(&mut reordering, 12, 60);
    // Several losses in a round count once.
    for round in 0..15 {
        reordering.on_lost(round);
        reordering.on_lost(round);
    }
    assert_eq!(thresholds(&reordering).0, 13);
    reordering.on_lost(15);
    assert_eq!(thresholds(&reordering), (3, ms(45)));
}

#[test]
fn what_was_learned_is_kept_while_it_is_of_use() {
    for of_use in
        [Overtaken { packets: 3, elapsed: ms(10) }, Overtaken { packets: 1, elapsed: ms(45) }]
    {
        let mut reordering = Reordering::new(3);
        spurious(&mut reordering, 12, 60);
        for round in 0..100 {
            reordering.on_lost(round);
            reordering.on_overtaken(of_use, &rtt());
        }
        assert_eq!(thresholds(&reordering), (13, ms(67) + Duration::from_micros(500)));
    }
}
