//! Tests of the published collapse of CUBIC's congestion window, in the lab.

use core::time::Duration;

use clearway_lab::run::{Candidate, Extras, run};
use clearway_lab::setup::{EndSetup, Flow, SessionKind, Setup, Traffic, Turns};
use clearway_lab::world::Stop;
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Probability, Way, Window};

fn collapse() -> Setup {
    let loss = LossRule {
        model: LossModel::Random { probability: Probability::new(0.3).unwrap() },
        window: Window::AfterBytes {
            way: Way::ToClient,
            bytes: 6000,
            length: Some(Duration::from_secs(2)),
        },
    };
    let conditions =
        Conditions { delay: Duration::from_millis(5), loss: vec![loss], ..Conditions::default() };
    let network = LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        ..LinkConfig::default()
    };
    let flow = Flow {
        name: "download".to_owned(),
        group: "download".to_owned(),
        start: Duration::ZERO,
        controller: None,
        client: EndSetup::default(),
        server: EndSetup::default(),
        session: SessionKind::Null,
        traffic: Traffic::Download { size: 10_000_000 },
        is_optional: false,
    };
    Setup {
        limit: Duration::from_secs(10),
        network,
        flows: vec![flow],
        properties_off: Vec::new(),
        turns: Turns::default(),
    }
}

#[test]
fn downloads_finish_and_the_same_seed_gives_the_same_bytes() {
    for controller in ["reno", "cubic"] {
        let candidate: Candidate = controller.parse().unwrap();
        let once = || run(&collapse(), &candidate, 7, Extras { digest: true, ..Extras::default() });
        let first = once().unwrap();
        assert_eq!(first.stop, Stop::Finished, "{first:?}");
        assert_eq!(first.flows[0].received, 10_000_000);
        assert_eq!(first, once().unwrap());
    }
}

/// Measures the cost of the checker: alternates the same runs with and without it.
#[test]
#[ignore = "a measurement"]
fn cost_of_the_checker() {
    for controller in ["reno", "cubic", "bbr"] {
        let candidate: Candidate = controller.parse().unwrap();
        let mut times = Vec::new();
        let mut floors = 0;
        let mut spent = [core::time::Duration::ZERO; 2];
        for seed in 0..200 {
            for check in [false, true] {
                let begin = std::time::Instant::now();
                let extras = Extras { check, ..Extras::default() };
                let outcome = run(&collapse(), &candidate, seed, extras).unwrap();
                spent[usize::from(check)] += begin.elapsed();
                if check {
                    times.push(outcome.flows[0].took);
                    floors += usize::from(outcome.flows[0].reached_floor);
                }
            }
        }
        times.sort();
        let [without, with] = spent.map(|spent| spent / 200);
        println!(
            "{controller}: {without:?} each, {with:?} checked; p50 {:?} p99 {:?} max {:?} floors {floors}",
            times[100], times[197], times[199]
        );
    }
}
