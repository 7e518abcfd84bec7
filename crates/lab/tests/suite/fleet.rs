//! Connections while servers are added, drained, fail and change their configurations, and two
//! balancers' tables differ in age. `clearway lab fleet` runs the same test with fleets that are
//! twenty times as large.

use std::sync::atomic::{AtomicBool, Ordering};

use clearway_balancer::Means;
use clearway_lab::fleet::{Circumstance, Form, Reason, Report, Settings, Size, simulate, sweep};

const SIZE: Size = Size { servers: 20, connections: 500 };

/// Runs fleets with one connection ID format and one circumstance, and adds up the reports.
fn run(seeds: std::ops::Range<u64>, form: Form, circumstance: Circumstance) -> Report {
    let settings = Settings { size: SIZE, form, circumstance };
    let mut sum = Report::default();
    for seed in seeds {
        sum.add(simulate(seed, &settings));
    }
    assert_eq!(sum.violations, []);
    sum
}

fn lost(report: &Report, reason: Reason) -> u64 {
    report.misrouted.get(&reason).copied().unwrap_or(0)
}

#[test]
fn every_form_under_every_circumstance() {
    let (mut fleets, mut sum) = (0, Report::default());
    sweep(0..60, SIZE, 2, &AtomicBool::new(false), &mut |settings, report| {
        assert_eq!(settings.size, SIZE);
        fleets += 1;
        sum.add(report);
    });
    assert_eq!(sum.violations, []);
    assert_eq!((fleets, sum.fleets), (60, 60));
    assert!(sum.opened > 30_000 && sum.changes > 1_200 && sum.moves > 10_000, "{sum:?}");
    assert!(Means::ALL.into_iter().all(|means| sum.forwarded[&means] > 0), "{sum:?}");
    // Each reason occurs.
    assert!(Reason::ALL.into_iter().all(|reason| lost(&sum, reason) > 0), "{:?}", sum.misrouted);
}

#[test]
fn servers_with_quic_lb_lose_connections_in_their_first_flights_only() {
    for form in [Form::Encrypted, Form::Clear, Form::Aws] {
        let report = run(100..110, form, Circumstance::InOrder);
        assert!(report.established > 4_000 && report.established_opaque == 0);
        let other = report
            .misrouted
            .keys()
            .find(|reason| !matches!(reason, Reason::FirstFlight | Reason::Idle));
        assert_eq!(other, None, "{:?}", report.misrouted);
        assert!(report.lost() * 200 < report.opened, "{:?}", report.misrouted);
        assert_eq!(report.forwarded[&Means::Learned], 0);
    }
}

#[test]
fn a_flood_pushes_out_no_connection() {
    let report = run(200..206, Form::Opaque, Circumstance::Attacked);
    assert!(report.hostile > 50_000 && report.evicted > 20_000, "{report:?}");
    assert!(report.returns > 50, "{report:?}");
}

#[test]
fn changes_in_any_order_lose_connections() {
    let report = run(300..305, Form::Encrypted, Circumstance::AnyOrder);
    assert!(lost(&report, Reason::NotInPool) > 0);
}

#[test]
fn a_seed_determines_everything() {
    let settings = Settings { size: SIZE, form: Form::Mixed, circumstance: Circumstance::Attacked };
    assert_eq!(simulate(7, &settings), simulate(7, &settings));
    assert_ne!(simulate(7, &settings), simulate(8, &settings));
}

#[test]
fn a_sweep_ends_early() {
    let (is_ended, mut count) = (AtomicBool::new(false), 0);
    sweep(0..u64::MAX, SIZE, 1, &is_ended, &mut |_, _| {
        count += 1;
        is_ended.store(true, Ordering::Relaxed);
    });
    assert!((1..=100).contains(&count));
}
