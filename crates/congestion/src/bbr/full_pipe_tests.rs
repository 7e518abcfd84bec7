use super::*;
use crate::bbr::tests::sample;

/// Adds one round of samples; the last sample ends it.
fn round(pipe: &mut FullPipe, rates: &[u64], is_application_limited: bool) {
    for (index, rate) in rates.iter().enumerate() {
        let rate = Rate::from_bytes_per_second(*rate);
        let sample = Sample { rate, is_application_limited, ..sample() };
        pipe.update(&sample, index + 1 == rates.len());
    }
}

#[test]
fn three_rounds_without_growth_are_a_plateau() {
    let mut pipe = FullPipe::default();
    round(&mut pipe, &[1000], false);
    for rounds in 1..=3 {
        assert!(!pipe.is_reached);
        round(&mut pipe, &[1200, 1249, 1100], false);
        assert_eq!(pipe.rounds, rounds);
    }
    assert!(pipe.is_reached && pipe.was_reached);
}

/// During a probe, the rate grows by 15 % per round; an ACK that is a fifth late does not hide this
/// growth.
#[test]
fn a_growing_rate_is_not_a_plateau_even_if_the_last_ack_of_each_round_is_late() {
    let mut pipe = FullPipe::default();
    let mut rate = 1000;
    round(&mut pipe, &[rate], false);
    for _ in 0..20 {
        rate = rate * 115 / 100;
        round(&mut pipe, &[rate * 9 / 10, rate, rate * 8 / 10], false);
        assert!(!pipe.is_reached);
    }
}

/// Growth in the middle of a round counts at its end, so a plateau always takes three full rounds.
#[test]
fn growth_counts_when_its_round_is_over() {
    let mut pipe = FullPipe::default();
    round(&mut pipe, &[1000], false);
    round(&mut pipe, &[1000, 1000], false);
    round(&mut pipe, &[1250, 1000], false);
    assert_eq!(pipe.rounds, 0);
    round(&mut pipe, &[1500, 1250], false);
    round(&mut pipe, &[1500, 1500], false);
    assert_eq!(pipe.rounds, 2);
    round(&mut pipe, &[1500], false);
    assert!(pipe.is_reached);
}

#[test]
fn application_limited_rounds_do_not_count() {
    let mut pipe = FullPipe::default();
    round(&mut pipe, &[1000], false);
    for _ in 0..10 {
        round(&mut pipe, &[2000, 500], true);
    }
    assert_eq!(pipe.rounds, 0);
    round(&mut pipe, &[1100], false);
    assert_eq!(pipe.rounds, 1, "an application-limited round is not growth either");
}

#[test]
fn growth_is_measured_from_the_reset_baseline() {
    let mut pipe = FullPipe::default();
    let mut early = sample();
    early.rate = Rate::from_bytes_per_second(2000);
    pipe.update(&early, false);
    pipe.reset(Rate::from_bytes_per_second(1000));
    round(&mut pipe, &[1100], false);
    assert_eq!(pipe.rounds, 1);
}
