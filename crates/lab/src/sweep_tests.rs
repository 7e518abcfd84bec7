use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use clearway_congestion::Algorithm;
use clearway_units::Rate;

use super::job::{ends, locate};
use super::{Event, Job, Swept, sweep};
use crate::run::Candidate;
use crate::setup::{EndSetup, Flow, SessionKind, Setup, Traffic, Turns};

fn setup(size: u64) -> Setup {
    let flow = Flow {
        name: "download".to_owned(),
        group: "download".to_owned(),
        start: Duration::ZERO,
        controller: None,
        client: EndSetup::default(),
        server: EndSetup::default(),
        session: SessionKind::Null,
        traffic: Traffic::Download { size },
        is_optional: false,
    };
    let mut network = clearway_network::LinkConfig::default();
    network.to_client.delay = Duration::from_millis(5);
    network.to_client.jitter.range = Duration::from_millis(1);
    Setup {
        limit: Duration::from_secs(5),
        network,
        flows: vec![flow],
        properties_off: Vec::new(),
        turns: Turns::default(),
    }
}

fn job<'a>(setup: &'a Setup, candidate: &'a Candidate, seeds: core::ops::Range<u64>) -> Job<'a> {
    Job { setup, candidate, seeds, sample_every: None, check: true, goes_on: false }
}

/// Returns the jobs that are reported, in order.
fn told(jobs: &[Job<'_>], threads: usize, is_ended: &AtomicBool) -> Vec<(usize, Swept)> {
    let mut told = Vec::new();
    sweep(jobs, threads, is_ended, &mut |event| {
        if let Event::JobDone { job, swept } = event {
            told.push((job, swept));
        }
    })
    .unwrap();
    told
}

#[test]
fn results_do_not_depend_on_threads() {
    let (small, large) = (setup(1000), setup(100_000));
    let (reno, cubic) = (Algorithm::Reno.into(), Algorithm::Cubic.into());
    let jobs = [job(&large, &reno, 5..9), job(&small, &cubic, 0..3), job(&small, &reno, 7..8)];
    let runs = |threads| {
        let told = told(&jobs, threads, &AtomicBool::new(false));
        told.into_iter().map(|(job, swept)| (job, swept.runs)).collect::<Vec<_>>()
    };
    let alone = runs(1);
    let seeds: Vec<Vec<u64>> =
        alone.iter().map(|(_, runs)| runs.iter().map(|run| run.seed).collect()).collect();
    assert_eq!(seeds, [vec![5, 6, 7, 8], vec![0, 1, 2], vec![7]]);
    assert_eq!(alone, runs(3));
}

#[test]
fn a_sweep_that_is_ended_has_the_first_seeds() {
    let setup = setup(1000);
    let candidate = Algorithm::Cubic.into();
    let jobs = [job(&setup, &candidate, 0..1_000_000), job(&setup, &candidate, 0..10)];
    let is_ended = AtomicBool::new(false);
    let (mut done, mut swept) = (0, Vec::new());
    sweep(&jobs, 2, &is_ended, &mut |event| match event {
        Event::RunDone { .. } => {
            done += 1;
            is_ended.store(done >= 3, Ordering::Relaxed);
        }
        Event::JobDone { job, swept: it } => swept.push((job, it)),
    })
    .unwrap();
    let [(0, only)] = swept.as_slice() else { panic!("{}", swept.len()) };
    assert_eq!(only.runs.len(), done);
    assert!(only.runs.iter().map(|run| run.seed).eq(0..done as u64));
}

#[test]
fn a_sweep_of_nothing() {
    let setup = setup(1000);
    let candidate = Algorithm::Cubic.into();
    assert_eq!(told(&[], 2, &AtomicBool::new(false)), []);
    let jobs = [job(&setup, &candidate, 3..3)];
    let told = told(&jobs, 0, &AtomicBool::new(false));
    assert_eq!(told, [(0, Swept { runs: Vec::new(), wall: Duration::ZERO })]);
}

#[test]
fn an_unknown_controller_is_reported_before_any_run() {
    let mut setup = setup(1000);
    setup.flows[0].controller = Some("vegas".to_owned());
    let candidate = Algorithm::Cubic.into();
    let jobs = [job(&setup, &candidate, 0..10)];
    let error = sweep(&jobs, 1, &AtomicBool::new(false), &mut |_| panic!("it ran"));
    assert!(error.unwrap_err().to_string().contains("vegas"));
}

#[test]
fn runs_are_numbered_over_all_jobs() {
    let setup = setup(1000);
    let candidate = Algorithm::Cubic.into();
    let jobs = [
        job(&setup, &candidate, 10..12),
        job(&setup, &candidate, 0..0),
        job(&setup, &candidate, 3..4),
    ];
    let ends = ends(&jobs);
    assert_eq!(ends, [2, 2, 3]);
    let places: Vec<_> = (0..5).map(|number| locate(&jobs, &ends, number)).collect();
    assert_eq!(places, [Some((0, 10)), Some((0, 11)), Some((2, 3)), None, None]);
}

#[test]
fn more_bytes_cost_more() {
    let candidate = Algorithm::Cubic.into();
    let (small, large) = (setup(1000), setup(10_000_000));
    let mut endless = setup(1);
    endless.flows[0].traffic = Traffic::Bulk { length: Duration::from_secs(60) };
    endless.network.to_client.rate = Some(Rate::from_bits_per_second(8_000_000));
    let cost = |setup| job(setup, &candidate, 0..1).cost();
    assert!(cost(&small) < cost(&large));
    assert_eq!(cost(&endless) - cost(&setup(0)), 60_000_000);
}
