//! Connections while servers come, drain, fail and change their configurations, and the pools of two balancers differ in
//! age.

mod fleet;

use std::time::Duration;

use clearway_balancer::{Limits, Means};
use fleet::{Reason, Report, Settings, simulate};

/// 500 connections, 20 servers: a twentieth and a tenth of what the lab runs.
const SETTINGS: Settings = Settings {
    servers: 20,
    plain_servers: 0,
    connections: 500,
    steps: 6_000,
    changes: 30,
    in_order: true,
    flood: 0,
    limits: Limits { flows: 4_096, learned: 2_048, lifetime: Duration::from_secs(60) },
};

/// Runs one fleet for each seed, and adds up what has happened. No fleet has a fault.
fn run(seeds: std::ops::Range<u64>, settings: &Settings) -> Report {
    let mut sum = Report::default();
    for seed in seeds {
        let report = simulate(seed, settings);
        assert!(report.faults.is_empty(), "seed {seed}: {:#?}", report.faults);
        sum.opened += report.opened;
        sum.datagrams += report.datagrams;
        sum.changes += report.changes;
        sum.balancers.extend(report.balancers);
        sum.established.iter_mut().zip(report.established).for_each(|(sum, count)| *sum += count);
        for (reason, count) in report.misrouted {
            *sum.misrouted.entry(reason).or_default() += count;
        }
    }
    sum
}

/// How many of 1,000 connections were misrouted for `reason`.
fn misrouted(report: &Report, reason: Reason) -> u64 {
    report.misrouted.get(&reason).map_or(0, |count| count * 1_000 / report.opened)
}

fn forwarded(report: &Report, means: Means) -> u64 {
    report.balancers.iter().map(|balancer| balancer.forwarded(means)).sum()
}

#[test]
fn servers_with_quic_lb_lose_no_connection() {
    let report = run(0..50, &SETTINGS);
    assert!(report.established[0] > 20_000 && report.changes > 500);
    assert!(report.misrouted.keys().all(|reason| *reason == Reason::FirstFlight));
    assert_eq!(misrouted(&report, Reason::FirstFlight), 0, "{:?}", report.misrouted);
    let used = [Means::ServerId, Means::Flow, Means::Hash];
    assert!(used.into_iter().all(|means| forwarded(&report, means) > 0));
    assert_eq!(forwarded(&report, Means::Learned), 0);
}

#[test]
fn servers_without_quic_lb_lose_connections_only_for_documented_reasons() {
    let report = run(50..75, &Settings { plain_servers: 10, ..SETTINGS });
    assert!(!report.misrouted.contains_key(&Reason::NotInPool));
    assert!(misrouted(&report, Reason::FirstFlight) < 20, "{:?}", report.misrouted);
    assert!(Means::ALL.into_iter().all(|means| forwarded(&report, means) > 0));
}

#[test]
fn changes_in_any_order() {
    let settings = Settings { plain_servers: 5, in_order: false, ..SETTINGS };
    let report = run(100..110, &settings);
    assert!(report.misrouted[&Reason::NotInPool] > 0);
}

#[test]
fn a_flood_pushes_out_no_connection() {
    let limits = Limits { flows: 2_048, ..SETTINGS.limits };
    let settings = Settings { plain_servers: 5, flood: 20, limits, ..SETTINGS };
    let report = run(200..210, &settings);
    assert!(report.balancers.iter().all(|balancer| balancer.flows.evicted > 10_000));
    assert!(report.balancers.iter().all(|balancer| balancer.learned.evicted == 0));
}

#[test]
fn a_seed_determines_everything() {
    let settings = Settings { plain_servers: 5, flood: 1, steps: 3_000, ..SETTINGS };
    let text = |seed| format!("{:?}", simulate(seed, &settings));
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}
