use core::time::Duration;

use super::{Share, Statistics, percentile, share};
use crate::report::testing::{finished, flow_outcome, unfinished, violating};

#[test]
fn percentiles_are_nearest_ranks() {
    let times: Vec<_> = (1..=100).map(|second| Some(Duration::from_secs(second))).collect();
    for percent in [1, 50, 99, 100] {
        assert_eq!(percentile(&times, percent), Some(Duration::from_secs(percent as u64)));
    }
    let few: Vec<_> = [1, 2, 3].map(|second| Some(Duration::from_secs(second))).to_vec();
    assert_eq!(percentile(&few, 50), Some(Duration::from_secs(2)));
    assert_eq!(percentile(&few, 99), Some(Duration::from_secs(3)));
    assert_eq!(percentile(&[], 50), None);
}

#[test]
fn a_run_that_does_not_finish_takes_forever() {
    let mut runs = vec![unfinished(0)];
    runs.extend((1..=98).map(|seed| finished(seed, 1000 * (99 - seed))));
    runs.push(unfinished(99));
    let statistics = Statistics::new(&runs);
    assert_eq!((statistics.runs, statistics.finished), (100, 98));
    assert_eq!(statistics.unfinished_seeds, [0, 99]);
    assert_eq!(statistics.median, Some(Duration::from_secs(50)));
    assert_eq!(statistics.p99, None);
    assert_eq!(statistics.longest, None);
    assert_eq!(Statistics::new(&runs[..99]).p99, None);
    assert_eq!(Statistics::new(&runs[1..99]).p99, Some(Duration::from_secs(98)));
}

#[test]
fn violations_and_floors_are_counted() {
    let mut low = finished(3, 10);
    low.outcome.flows[0].reached_floor = true;
    let runs = [finished(1, 10), violating(2), low, finished(4, 10)];
    let statistics = Statistics::new(&runs);
    assert_eq!((statistics.violations, statistics.ended_early), (1, 1));
    assert_eq!(statistics.violating_seeds, [2]);
    assert_eq!(statistics.finished, 3);
    assert_eq!(statistics.floor_reached, 0.25);
    assert_eq!(share(0, 0), 0.0);
    assert_eq!(Statistics::new(&[]), Statistics::default());
}

#[test]
fn shares_are_relative_to_all_bytes_of_a_run() {
    let run = |seed, received: [u64; 2]| {
        let mut run = finished(seed, 10);
        let flow = |name, bytes| flow_outcome(name, bytes, Some(Duration::from_secs(1)));
        run.outcome.flows = vec![flow("a", received[0]), flow("b", received[1])];
        run
    };
    let shares = Statistics::new(&[run(0, [10, 30]), run(1, [30, 30]), run(2, [0, 0])]).shares;
    let share = |flow: &str, least, mean, most| Share { flow: flow.to_owned(), least, mean, most };
    assert_eq!(shares, [share("a", 0.25, 0.375, 0.5), share("b", 0.5, 0.625, 0.75)]);
    // A single flow receives everything, so no share is reported.
    assert_eq!(Statistics::new(&[finished(0, 10)]).shares, []);
}

#[test]
fn only_the_first_few_seeds_are_listed() {
    let runs: Vec<_> = (0..20).map(unfinished).collect();
    assert_eq!(Statistics::new(&runs).unfinished_seeds, [0, 1, 2, 3, 4, 5, 6, 7]);
}
