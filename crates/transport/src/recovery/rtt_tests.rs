use super::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn without_a_sample_there_is_no_estimate_but_timers_run() {
    let rtt = Rtt::new(ms(333));
    assert_eq!(rtt.snapshot(false), None);
    assert_eq!(rtt.pto_base(Duration::ZERO), ms(999));
    assert_eq!(rtt.time_threshold(Duration::ZERO), Duration::from_micros(374_625));
}

#[test]
fn the_first_sample_is_taken_as_it_is() {
    let mut rtt = Rtt::new(ms(333));
    rtt.on_sample(ms(40), ms(30));
    let snapshot = rtt.snapshot(true).unwrap();
    assert_eq!(
        snapshot,
        RttSnapshot {
            latest: ms(40),
            smoothed: ms(40),
            minimum: ms(40),
            variation: ms(20),
            is_new: true
        }
    );
    assert_eq!(rtt.pto_base(ms(25)), ms(40 + 80 + 25));
}

#[test]
fn the_time_threshold_is_of_the_greater_of_the_smoothed_and_the_latest() {
    // RFC 9002 §6.1.2: after a sudden increase in the RTT, the smoothed RTT is too low.
    let mut rtt = Rtt::new(ms(333));
    rtt.on_sample(ms(40), Duration::ZERO);
    rtt.on_sample(ms(80), Duration::ZERO);
    assert_eq!(rtt.snapshot(false).unwrap().smoothed, ms(45));
    assert_eq!(rtt.time_threshold(Duration::ZERO), ms(90));
    rtt.on_sample(ms(45), Duration::ZERO);
    rtt.on_sample(ms(13), Duration::ZERO);
    assert_eq!(rtt.snapshot(false).unwrap().smoothed, ms(41));
    assert_eq!(rtt.time_threshold(Duration::ZERO), ms(46) + Duration::from_micros(125));
}

#[test]
fn later_samples_are_averaged_without_the_peers_delay() {
    let mut rtt = Rtt::new(ms(333));
    rtt.on_sample(ms(40), Duration::ZERO);
    rtt.on_sample(ms(80), ms(24));
    let snapshot = rtt.snapshot(true).unwrap();
    assert_eq!(snapshot.latest, ms(80));
    assert_eq!(snapshot.minimum, ms(40));
    assert_eq!(snapshot.smoothed, ms(42), "7/8 x 40 + 1/8 x 56");
    assert_eq!(snapshot.variation, ms(19), "3/4 x 20 + 1/4 x 16");
}

#[test]
fn a_delay_that_goes_below_the_minimum_is_not_subtracted() {
    let mut rtt = Rtt::new(ms(333));
    rtt.on_sample(ms(40), Duration::ZERO);
    rtt.on_sample(ms(48), ms(9));
    assert_eq!(rtt.snapshot(true).unwrap().smoothed, ms(41), "7/8 x 40 + 1/8 x 48");
    rtt.on_sample(ms(41), ms(1_000_000));
    assert_eq!(rtt.snapshot(true).unwrap().smoothed, ms(41));
}

#[test]
fn the_minimum_is_raw_and_starts_anew_from_the_newest_sample() {
    let mut rtt = Rtt::new(ms(333));
    rtt.on_sample(ms(40), Duration::ZERO);
    rtt.on_sample(ms(30), ms(20));
    assert_eq!(rtt.snapshot(true).unwrap().minimum, ms(30));
    rtt.on_sample(ms(90), Duration::ZERO);
    rtt.restart_minimum();
    assert_eq!(rtt.snapshot(true).unwrap().minimum, ms(90));
}

#[test]
fn timers_never_go_below_the_granularity() {
    let mut rtt = Rtt::new(Duration::ZERO);
    assert!(rtt.time_threshold(Duration::ZERO) >= GRANULARITY);
    rtt.on_sample(Duration::from_micros(10), Duration::ZERO);
    for _ in 0..100 {
        rtt.on_sample(Duration::from_micros(10), Duration::ZERO);
    }
    assert_eq!(rtt.time_threshold(Duration::ZERO), GRANULARITY);
    assert_eq!(rtt.pto_base(Duration::ZERO), GRANULARITY + Duration::from_micros(10));
}

#[test]
fn absurd_samples_do_not_overflow() {
    let mut rtt = Rtt::new(Duration::MAX);
    assert_eq!(rtt.pto_base(Duration::MAX), Duration::MAX);
    for _ in 0..3 {
        rtt.on_sample(Duration::MAX, Duration::MAX);
    }
    assert!(rtt.time_threshold(Duration::ZERO) > ms(1));
}
