use core::time::Duration;

use clearway_network::WayCounters;
use clearway_units::Rate;

use super::{Verdict, judge, judge_run};
use crate::report::Row;
use crate::report::testing::{finished, flow, flow_outcome, sample, setup, unfinished, violating};
use crate::samples::Queueing;
use crate::scenario::{Expectations, ShareBound};
use crate::setup::Setup;
use crate::sweep::{Run, Swept};

fn one_flow() -> Setup {
    setup(vec![flow("download", 1_000_000)])
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns the verdict on the last expectation; the first two are about properties and finishing.
fn last(expectations: &Expectations, setup: &Setup, runs: &[Run]) -> Verdict {
    let verdicts = judge(expectations, setup, runs);
    assert_eq!(verdicts.len(), 3, "{verdicts:?}");
    verdicts.into_iter().next_back().unwrap()
}

/// Checks that `good` meets the expectation, and that `bad` does not and is reported with the
/// reason `why`.
fn check(expectations: &Expectations, setup: &Setup, (good, bad): (&[Run], &[Run]), why: &str) {
    assert_eq!(last(expectations, setup, good).shortfall, None);
    let verdict = last(expectations, setup, bad);
    assert!(!verdict.is_met());
    let shortfall = verdict.shortfall.unwrap();
    assert!(shortfall.contains(why), "{shortfall}");
}

#[test]
fn violations_and_unfinished_runs_are_reported() {
    let runs = [finished(1, 10), violating(2), unfinished(3)];
    let verdicts = judge(&Expectations::default(), &one_flow(), &runs);
    let shortfalls: Vec<_> = verdicts.into_iter().map(|verdict| verdict.shortfall).collect();
    let [Some(property), Some(unfinished)] = shortfalls.as_slice() else {
        panic!("{shortfalls:?}")
    };
    assert_eq!(
        property,
        "1 of 3 runs violated a property (seed 2); the first: L1: the window stood still"
    );
    assert_eq!(
        unfinished,
        "1 of 3 runs did not finish (seed 3); the first did not finish within its time limit"
    );
    let relaxed = Expectations { finished: false, ..Expectations::default() };
    assert_eq!(judge(&relaxed, &one_flow(), &runs).len(), 1);
}

#[test]
fn a_run_that_is_not_complete_in_time_violates_l9() {
    let runs = [finished(1, 10), finished(2, 30), violating(3), unfinished(4)];
    let expectations = Expectations { within: Some(milliseconds(20)), ..Expectations::default() };
    let verdicts = judge(&expectations, &one_flow(), &runs);
    let violated = |index: usize| -> Vec<_> {
        let all = verdicts[index].violated.iter();
        all.map(|violated| (violated.property, violated.runs, violated.seed)).collect()
    };
    assert_eq!(violated(0), [("L1", 1, 3)]);
    assert_eq!(violated(1), [("L9", 1, 4)], "what ended with another violation is that one's");
    assert_eq!(violated(2), [("L9", 2, 2)]);
    let row = Row { verdicts, ..Row::new(&Swept { runs: runs.to_vec(), wall: Duration::ZERO }, 4) };
    assert_eq!(row.late_seeds(), [2, 4]);
    let met = judge(&expectations, &one_flow(), &runs[..1]);
    assert!(met.iter().all(|verdict| verdict.violated.is_empty()));
}

#[test]
fn times() {
    let runs = [1000, 2000, 3000].map(|time| finished(time, time));
    let endless = [finished(1, 10), unfinished(2), unfinished(3)];
    let setup = one_flow();
    let limit = |limit| Some(milliseconds(limit));
    let none = Expectations::default();
    let within = |time| Expectations { within: limit(time), ..none.clone() };
    check(&within(3000), &setup, (&runs, &endless), "never");
    let missed = |limit, runs| {
        let verdict = last(&within(limit), &setup, runs);
        (verdict.shortfall.unwrap(), verdict.seeds)
    };
    let one = "1 of 3 runs was late (seed 3000: 3.000 s)".to_owned();
    assert_eq!(missed(2999, &runs), (one, vec![3000]));
    let two = "2 of 3 runs were late (seeds 2000, 3000; the longest: 3.000 s)".to_owned();
    assert_eq!(missed(1999, &runs), (two, vec![2000, 3000]));
    assert_eq!(missed(999, &runs[..1]), ("1.000 s with seed 1000".to_owned(), vec![1000]));
    let median = Expectations { median_within: limit(2000), ..none.clone() };
    check(&median, &setup, (&runs, &endless), "never");
    let slow = [(1, 2000), (2, 3000), (3, 3000)].map(|(seed, time)| finished(seed, time));
    check(&median, &setup, (&runs, &slow), "3.000 s; 2 of 3 runs took longer (seeds 2, 3)");
    let p99 = Expectations { p99_within: limit(3000), ..none.clone() };
    check(&p99, &setup, (&runs, &endless), "never");
}

#[test]
fn what_depends_on_runs_that_ended_early_is_not_checked() {
    let limit = |limit| Some(milliseconds(limit));
    let expectations = Expectations {
        within: limit(20),
        median_within: limit(20),
        p99_within: limit(20),
        floor_reached: Some(0.1),
        ..Expectations::default()
    };
    let states = |runs: &[Run]| -> Vec<_> {
        let verdicts = judge(&expectations, &one_flow(), runs);
        verdicts.into_iter().map(|it| (it.is_checked, it.shortfall)).collect()
    };
    // All runs violated a property, which is the only shortfall.
    let all = states(&[violating(1), violating(2)]);
    assert!(all[0].1.as_ref().unwrap().starts_with("2 of 2 runs violated a property"));
    assert_eq!(all[1..], vec![(false, None); 5]);
    // What the other runs show is a shortfall nonetheless.
    let some = states(&[finished(1, 30), violating(2), finished(3, 10)]);
    assert_eq!(some[1], (false, None), "every run finishes");
    assert_eq!(some[2], (true, Some("1 of 3 runs was late (seed 1: 0.030 s)".to_owned())));
    assert_eq!(some[3], (false, None), "the median");
    let p99 = "at least 0.030 s; 1 of 3 runs took longer (seed 1)".to_owned();
    assert_eq!(some[4], (true, Some(p99)));
    assert_eq!(some[5], (false, None), "the floor");
}

#[test]
fn one_run_is_compared_with_what_applies_to_each_run() {
    let limit = |limit| Some(milliseconds(limit));
    let expectations = Expectations {
        within: limit(20),
        median_within: limit(5),
        floor_reached: Some(0.9),
        ..Expectations::default()
    };
    let unmet = |run| -> Vec<_> {
        let verdicts = judge_run(&expectations, &one_flow(), &run);
        verdicts.iter().filter_map(Verdict::unmet).collect()
    };
    assert_eq!(unmet(finished(1, 10)), [""; 0]);
    assert_eq!(unmet(finished(7, 30)), ["every run within 0.020 s: 0.030 s with seed 7"]);
}

#[test]
fn the_floor() {
    let mut low = finished(1, 10);
    low.outcome.flows[0].reached_floor = true;
    let both = [low.clone(), finished(2, 10)];
    let expectations = Expectations { floor_reached: Some(0.9), ..Expectations::default() };
    check(&expectations, &one_flow(), (&[low], &both), "50.0 %");
}

#[test]
fn goodputs() {
    // The transfer takes 1 s or 2 s for 1 MB.
    let (fast, slow) = (finished(1, 1000), finished(2, 2000));
    let setup = one_flow();
    let rate = |megabits: u64| Some(Rate::from_bits_per_second(megabits * 1_000_000));
    let both = [fast.clone(), slow.clone()];
    let (fast, slow) = (&[fast], &[slow]);
    let none = Expectations::default();
    let least = Expectations { goodput_at_least: rate(8), ..none.clone() };
    check(&least, &setup, (fast, &both), "4.00 Mbit/s in download of seed 2");
    let most = Expectations { goodput_at_most: rate(4), ..none.clone() };
    check(&most, &setup, (slow, &both), "8.00 Mbit/s in download of seed 1");
    let mean = Expectations { mean_goodput_at_least: rate(6), ..none.clone() };
    check(&mean, &setup, (&both, slow), "4.00 Mbit/s");
    let mean = Expectations { mean_goodput_at_most: rate(6), ..none };
    check(&mean, &setup, (&both, fast), "8.00 Mbit/s");
}

#[test]
fn network_expectations() {
    let mut setup = one_flow();
    setup.network.to_client.rate = Some(Rate::from_bytes_per_second(1_000_000));
    let run = |delivered_bytes, dropped_queue| {
        let mut run = finished(1, 1000);
        run.outcome.network.to_client =
            WayCounters { received: 100, delivered_bytes, dropped_queue, ..WayCounters::default() };
        run
    };
    let none = Expectations::default();
    let used = Expectations { utilisation_at_least: Some(0.9), ..none.clone() };
    check(&used, &setup, (&[run(900_000, 0)], &[run(899_000, 0)]), "89.9 % with seed 1");
    check(&used, &setup, (&[run(900_000, 0)], &[finished(1, 0)]), "0.0 % with seed 1");
    let loss = Expectations { loss_at_most: Some(0.05), ..none.clone() };
    check(&loss, &setup, (&[run(0, 5)], &[run(0, 6)]), "6.0 % with seed 1");

    let waiting = |milliseconds: u64| {
        let mut run = finished(1, 2000);
        run.outcome.samples = vec![sample(0, &[0]), sample(1, &[0])];
        run.outcome.samples[1].to_client =
            Queueing { datagrams: 10, waited: Duration::from_millis(10 * milliseconds) };
        run
    };
    let most = Some(milliseconds(20));
    let delay = Expectations { mean_queue_delay_at_most: most, ..none };
    check(&delay, &setup, (&[waiting(20)], &[waiting(21)]), "0.021 s with seed 1");
    check(&delay, &setup, (&[waiting(20)], &[finished(1, 10)]), "cannot be measured");
}

#[test]
fn fairness() {
    let setup = setup(vec![flow("a", 1), flow("b", 1)]);
    let run = |a, b| {
        let mut run = finished(1, 2000);
        run.outcome.flows =
            ["a", "b"].map(|it| flow_outcome(it, 1, Some(milliseconds(2000)))).into();
        run.outcome.samples = vec![sample(0, &[0, 0]), sample(1, &[a, b])];
        run
    };
    let none = Expectations::default();
    let jain = Expectations { jain_at_least: Some(0.95), ..none.clone() };
    check(&jain, &setup, (&[run(100, 110)], &[run(100, 300)]), "80.0 % with seed 1");
    let bound = ShareBound {
        group: "a".to_owned(),
        at_least: 0.0,
        at_most: 1.0,
        mean_at_least: 0.0,
        mean_at_most: 1.0,
    };
    let shares = |bound| Expectations { shares: vec![bound], ..none.clone() };
    let share = |at_least, at_most| shares(ShareBound { at_least, at_most, ..bound.clone() });
    let mean = |mean_at_least, mean_at_most| {
        shares(ShareBound { mean_at_least, mean_at_most, ..bound.clone() })
    };
    check(&share(0.3, 1.0), &setup, (&[run(1, 2)], &[run(1, 3)]), "25.0 % with seed 1");
    check(&share(0.0, 0.7), &setup, (&[run(2, 1)], &[run(3, 1)]), "75.0 % with seed 1");
    // A single run may exceed the limits for the mean.
    let fair = [run(1, 3), run(3, 1)];
    check(&mean(0.4, 1.0), &setup, (&fair, &[run(1, 3), run(1, 1)]), "37.5 %");
    check(&mean(0.0, 0.6), &setup, (&fair, &[run(3, 1), run(1, 1)]), "62.5 %");
    assert_eq!(judge(&share(0.3, 0.7), &setup, &[run(1, 1)]).len(), 4);
}
