//! The scenarios of the repository.

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clearway_network::{Conditions, Trace};
use clearway_units::Rate;

use super::super::{CONTROLLERS, Expectations, Scenario, Variant};
use crate::setup::{Flow, Setup, Traffic};

const CELLULAR: &str = "traces/cellular.trace";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// Returns every scenario of the repository, ordered by name.
fn set() -> Vec<Scenario> {
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    let mut paths: Vec<_> = files.map(|file| file.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths
        .iter()
        .map(|path| Scenario::load(path).unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

/// Calls `check` for every variant with the expectations of every controller.
fn for_each_expectation(mut check: impl FnMut(&str, &Scenario, &Variant, &Expectations)) {
    for scenario in set() {
        for variant in &scenario.variants {
            for controller in &scenario.controllers {
                let place = format!("{}, {}, {controller}", scenario.name, variant.name);
                check(&place, &scenario, variant, &variant.expect(controller));
            }
        }
    }
}

/// Returns the conditions in the direction of the flow's data.
fn conditions<'a>(setup: &'a Setup, flow: &Flow) -> &'a Conditions {
    match flow.traffic {
        Traffic::Upload { .. } => &setup.network.to_server,
        _ => &setup.network.to_client,
    }
}

/// Returns the highest rate of a direction; `None` if it has no rate.
fn capacity(conditions: &Conditions) -> Option<Rate> {
    let trace = conditions.trace.as_ref().map(Trace::mean_rate);
    let steps = conditions.rate_steps.iter().map(|step| step.value);
    let rates = core::iter::once(trace.or(conditions.rate)).chain(steps);
    rates.collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[test]
fn every_file_is_valid_and_has_a_summary() {
    let set = set();
    assert!(set.len() >= 50, "{}", set.len());
    for scenario in &set {
        let name = &scenario.name;
        let is_kebab =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(is_kebab, "{name}");
        assert!((10..=100).contains(&scenario.summary.chars().count()), "{name}: the summary");
        assert!(!scenario.summary.ends_with('.'), "{name}: the summary");
    }
    let names: BTreeSet<_> = set.iter().map(|scenario| scenario.name.as_str()).collect();
    assert!(names.contains("collapse"));
}

#[test]
fn every_scenario_explains_its_expectations_in_a_comment() {
    for scenario in set() {
        let text = std::fs::read_to_string(folder().join(format!("{}.toml", scenario.name)));
        assert!(text.expect("it was read before").starts_with("# "), "{}", scenario.name);
    }
}

#[test]
fn something_is_expected_everywhere() {
    for_each_expectation(|place, _, _, bounds| {
        assert_ne!(bounds, &Expectations::default(), "{place}");
    });
}

#[test]
fn times_fit_into_their_limits() {
    for_each_expectation(|place, _, variant, bounds| {
        let limit = variant.setup.limit;
        for bound in [bounds.within, bounds.median_within, bounds.p99_within] {
            assert!(bound.is_none_or(|bound| bound < limit), "{place}: {bound:?} of {limit:?}");
        }
        for flow in &variant.setup.flows {
            let end = match flow.traffic {
                Traffic::Bulk { length } => flow.start + length,
                _ => flow.start,
            };
            assert!(flow.is_optional || end < limit, "{place}: {} ends at {end:?}", flow.name);
            assert!(bounds.settled_after < limit, "{place}");
        }
        assert!(bounds.median_within.unwrap_or_default() <= bounds.p99_within.unwrap_or(limit));
    });
}

/// A time limit that is shorter than the rate allows could never be met.
#[test]
fn nothing_impossible_is_expected() {
    for_each_expectation(|place, _, variant, bounds| {
        for flow in variant.setup.flows.iter().filter(|flow| !flow.is_optional) {
            let conditions = conditions(&variant.setup, flow);
            let Some(rate) = capacity(conditions) else { continue };
            if let Some(bytes) = flow.traffic.bytes() {
                let least = flow.start + rate.time_for(bytes).unwrap_or(Duration::MAX);
                let bounds = [bounds.within, bounds.median_within, bounds.p99_within];
                for bound in bounds.into_iter().flatten() {
                    assert!(bound > least, "{place}: {bound:?} where the rate takes {least:?}");
                }
            }
            for goodput in [bounds.goodput_at_least, bounds.mean_goodput_at_least] {
                assert!(goodput.is_none_or(|goodput| goodput < rate), "{place}: {goodput:?}");
            }
        }
        let least = bounds.mean_goodput_at_least.unwrap_or(Rate::ZERO);
        assert!(least < bounds.mean_goodput_at_most.unwrap_or(Rate::MAX), "{place}");
        let least = bounds.goodput_at_least.unwrap_or(Rate::ZERO);
        assert!(least < bounds.goodput_at_most.unwrap_or(Rate::MAX), "{place}");
        let sum: f64 = bounds.shares.iter().map(|share| share.at_least).sum();
        assert!(sum <= 1.0, "{place}: shares of {sum}");
    });
}

/// Utilization requires a capacity; queueing delay requires a bottleneck.
#[test]
fn expectations_fit_their_networks() {
    for_each_expectation(|place, _, variant, bounds| {
        let to_client = &variant.setup.network.to_client;
        if bounds.utilisation_at_least.is_some() || bounds.mean_queue_delay_at_most.is_some() {
            assert!(capacity(to_client).is_some(), "{place}");
        }
        if bounds.jain_at_least.is_some() || !bounds.shares.is_empty() {
            assert!(variant.setup.flows.len() > 1, "{place}");
        }
        for conditions in [&variant.setup.network.to_server, to_client] {
            let has_queue = conditions.queue.packets.is_some() || conditions.queue.bytes.is_some();
            assert!(
                !has_queue || conditions.rate.is_some() || conditions.trace.is_some(),
                "{place}"
            );
        }
    });
}

#[test]
fn the_collapse_scenario_matches_the_published_one() {
    let set = set();
    let collapse = set.iter().find(|scenario| scenario.name == "collapse").expect("it is there");
    assert_eq!(collapse.controllers, CONTROLLERS);
    assert!(collapse.variants.len() >= 20);
    let main: Vec<_> = collapse.variants.iter().filter(|variant| variant.share == 1.0).collect();
    assert_eq!(main.len(), 2, "without jitter and with");
    for variant in main {
        assert_eq!(variant.setup.limit, Duration::from_secs(10));
        assert_eq!(variant.setup.flows[0].traffic, Traffic::Download { size: 10_000_000 });
        for (controller, bound) in [("reno", 4200), ("cubic", 4200), ("bbr", 3000)] {
            let bounds = variant.expect(controller);
            assert_eq!(bounds.p99_within, Some(Duration::from_millis(bound)));
            assert!(bounds.finished);
        }
        assert_eq!(variant.expect("cubic").floor_reached, Some(0.9));
        assert_eq!(variant.expect("reno").floor_reached, Some(0.9));
    }
}

/// At five microseconds per datagram, `lab run --all` takes less than ten minutes on two cores. A
/// quarter of that is reserved for retransmissions and small datagrams; when a third was reserved,
/// the set took seven minutes.
#[test]
fn the_whole_set_is_quick_enough() {
    const DATAGRAMS: f64 = 600.0 * 2.0 / 5e-6;
    let mut total = 0.0;
    for scenario in set() {
        let runs =
            |variant: &Variant| variant.seeds(scenario.seeds) * scenario.controllers.len() as u64;
        let count = |variant: &Variant| datagrams(variant) * runs(variant) as f64;
        let count: f64 = scenario.variants.iter().map(count).sum();
        assert!(count < DATAGRAMS / 6.0, "{}: {count} datagrams", scenario.name);
        println!("{count:12.0} {}", scenario.name);
        total += count;
    }
    println!("{total} datagrams");
    assert!(total < DATAGRAMS * 0.75, "{total} datagrams");
}

/// Estimates the number of datagrams in a run: full datagrams, and an ACK for every two of them.
/// Traffic with a fixed duration uses the full rate, or the highest expected goodput if there is no
/// rate.
fn datagrams(variant: &Variant) -> f64 {
    let setup = &variant.setup;
    let bytes = setup.flows.iter().filter_map(|flow| flow.traffic.bytes()).sum::<u64>() as f64;
    let longest = setup.flows.iter().filter_map(|flow| match flow.traffic {
        Traffic::Bulk { length } => Some((flow.start + length).min(setup.limit).as_secs_f64()),
        _ => None,
    });
    let longest = longest.fold(0.0, f64::max);
    let most = variant.expect("cubic").mean_goodput_at_most;
    let rate = capacity(&setup.network.to_client).or(most);
    assert!(longest == 0.0 || rate.is_some(), "{}: what limits it?", variant.name);
    let filled = longest * rate.map_or(0.0, |rate| rate.bytes_per_second() as f64);
    (bytes + filled) / 1165.0 * 1.5
}

/// Checks the statements about the trace in `cellular` and `scenarios/README.md`.
#[test]
fn the_made_up_trace_is_as_described() {
    let stored = std::fs::read_to_string(folder().join(CELLULAR)).expect("it is there");
    let trace = Trace::parse(&stored).expect("a trace");
    assert_eq!(trace.length(), Duration::from_secs(15));
    let mean = trace.mean_rate().bits_per_second();
    assert!((3_200_000..3_400_000).contains(&mean), "{mean}");
    let times: Vec<u64> = stored.lines().map(|line| line.parse().expect("a number")).collect();
    let silences = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = silences.max().expect("more than one line");
    assert!((300..=520).contains(&longest), "an outage of {longest} ms");
}
