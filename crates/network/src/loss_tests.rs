use super::*;
use crate::testing::{at_ms, likely};

/// Returns for each of `count` datagrams, one per millisecond, whether the model drops it.
fn losses(model: LossModel, seed: u64, count: u64) -> Vec<bool> {
    losses_in(model, Window::Always, seed, count)
}

fn losses_in(model: LossModel, window: Window, seed: u64, count: u64) -> Vec<bool> {
    let mut state = LossState::new(LossRule { model, window }, Random::from_number(seed));
    let mut takes = |number| state.takes((at_ms(number), at_ms(1)), number, 1000).is_some();
    (1..=count).map(&mut takes).collect()
}

fn share(losses: &[bool]) -> f64 {
    losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
}

/// Returns the lengths of the runs of losses.
fn runs(losses: &[bool]) -> Vec<usize> {
    losses.split(|lost| !lost).map(<[bool]>::len).filter(|length| *length > 0).collect()
}

#[test]
fn random_loss_has_the_configured_frequency() {
    for (seed, probability) in [(1, 0.01), (2, 0.3), (3, 0.9)] {
        let losses = losses(LossModel::Random { probability: likely(probability) }, seed, 100_000);
        let difference = (share(&losses) - probability).abs();
        assert!(difference < 0.005, "{probability}: {}", share(&losses));
    }
}

#[test]
fn only_large_datagrams_are_lost_by_their_size() {
    let model = LossModel::RandomLarge { larger_than: 1300, probability: Probability::ALWAYS };
    let rule = LossRule { model, window: Window::Always };
    let mut state = LossState::new(rule, Random::from_number(1));
    let mut takes = |length| state.takes((at_ms(1), at_ms(1)), 1, length).is_some();
    assert_eq!([1200, 1300, 1301, 9000].map(&mut takes), [false, false, true, true]);
    let model = LossModel::RandomLarge { larger_than: 999, probability: likely(0.3) };
    let difference = (share(&losses(model, 2, 100_000)) - 0.3).abs();
    assert!(difference < 0.005);
}

#[test]
fn random_loss_is_independent() {
    let losses = losses(LossModel::Random { probability: likely(0.3) }, 4, 100_000);
    let after_a_loss: Vec<bool> =
        losses.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
    assert!((share(&after_a_loss) - 0.3).abs() < 0.01);
}

#[test]
fn capped_loss_never_exceeds_its_maximum_run() {
    let model = LossModel::RandomCapped { probability: likely(0.3), maximum_run: 3 };
    let losses = losses(model, 5, 100_000);
    let runs = runs(&losses);
    assert_eq!(runs.iter().max(), Some(&3));
    // The loss would be 30 % without the cap. The cap saves each datagram that would have been the
    // fourth loss in a row, which is about 0.3^4 of all datagrams.
    assert!((0.27..0.30).contains(&share(&losses)), "{}", share(&losses));
}

#[test]
fn capped_loss_with_certainty_passes_every_fourth() {
    let model = LossModel::RandomCapped { probability: Probability::ALWAYS, maximum_run: 3 };
    assert_eq!(losses(model, 6, 8), [true, true, true, false, true, true, true, false]);
}

#[test]
fn bursts_have_every_length_up_to_the_maximum() {
    // Bursts are so rare that two are hardly ever adjacent.
    let model = LossModel::Burst { start: likely(0.001), maximum_run: 4 };
    let losses = losses(model, 7, 1_000_000);
    let runs = runs(&losses);
    let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
    assert!((2.4..2.6).contains(&mean), "{mean}");
    for length in 1..=4 {
        let share = runs.iter().filter(|run| **run == length).count() as f64 / runs.len() as f64;
        assert!((0.2..0.3).contains(&share), "{length}: {share}");
    }
}

#[test]
fn a_maximum_run_of_zero_loses_nothing() {
    let probability = Probability::ALWAYS;
    for model in [
        LossModel::Burst { start: probability, maximum_run: 0 },
        LossModel::RandomCapped { probability, maximum_run: 0 },
    ] {
        assert_eq!(share(&losses(model, 8, 100)), 0.0);
    }
}

#[test]
fn gilbert_elliott_spends_the_expected_time_in_each_state() {
    let model = LossModel::GilbertElliott {
        good_to_bad: likely(0.01),
        bad_to_good: likely(0.2),
        loss_in_good: Probability::NEVER,
        loss_in_bad: Probability::ALWAYS,
    };
    let losses = losses(model, 9, 500_000);
    // The direction is in the bad state for 0.01 / (0.01 + 0.2) of the time, and for 1 / 0.2
    // datagrams on average each time.
    assert!((share(&losses) - 0.01 / 0.21).abs() < 0.004, "{}", share(&losses));
    let runs = runs(&losses);
    let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
    assert!((4.8..5.2).contains(&mean), "{mean}");
}

#[test]
fn gilbert_elliott_loses_in_both_states() {
    let model = LossModel::GilbertElliott {
        good_to_bad: likely(0.5),
        bad_to_good: likely(0.5),
        loss_in_good: likely(0.1),
        loss_in_bad: likely(0.5),
    };
    let share = share(&losses(model, 10, 100_000));
    assert!((0.29..0.31).contains(&share), "{share}");
}

#[test]
fn a_list_drops_exactly_its_numbers() {
    let model = LossModel::List { numbers: vec![7, 2, 3, 2] };
    let lost: Vec<u64> =
        (1..).zip(losses(model, 11, 10)).filter(|(_, lost)| *lost).map(|(n, _)| n).collect();
    assert_eq!(lost, [2, 3, 7]);
}

#[test]
fn outside_its_window_a_rule_drops_nothing() {
    let window = Window::Absolute { from: at_ms(3), until: at_ms(5) };
    let model = LossModel::Random { probability: Probability::ALWAYS };
    assert_eq!(losses_in(model, window, 12, 6), [false, false, true, true, false, false]);
}
