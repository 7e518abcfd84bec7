//! Runs the scenario of the published CUBIC congestion window collapse under the checker, in many
//! networks, and tests that no property is violated.

use core::time::Duration;

use clearway_lab::run::{Candidate, Extras, Outcome, run};
use clearway_lab::setup::{EndSetup, Flow, SessionKind, Setup, Traffic};
use clearway_network::{Conditions, Jitter, LinkConfig, LossModel, LossRule, Probability};
use clearway_network::{Way, Window};

/// A network in which a download collapses.
#[derive(Clone, Copy, Debug)]
struct Network {
    round_trip: Duration,
    loss: f64,
    tick: Option<Duration>,
    jitter: Duration,
    on_data: bool,
    on_acks: bool,
}

const PLAIN: Network = Network {
    round_trip: Duration::from_millis(10),
    loss: 0.3,
    tick: None,
    jitter: Duration::ZERO,
    on_data: true,
    on_acks: true,
};

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn collapse(network: Network, size: u64) -> Setup {
    let loss = LossRule {
        model: LossModel::Random { probability: Probability::new(network.loss).unwrap() },
        window: Window::AfterBytes {
            way: Way::ToClient,
            bytes: 6000,
            length: Some(Duration::from_secs(2)),
        },
    };
    let conditions = |is_lossy: bool| Conditions {
        delay: network.round_trip / 2,
        loss: is_lossy.then(|| loss.clone()).into_iter().collect(),
        tick: network.tick,
        jitter: Jitter { range: network.jitter, reorder_by_jitter: false },
        ..Conditions::default()
    };
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
    Setup {
        limit: Duration::from_secs(60),
        network: LinkConfig {
            to_server: conditions(network.on_acks),
            to_client: conditions(network.on_data),
            ..LinkConfig::default()
        },
        flows: vec![flow],
        properties_off: Vec::new(),
        turns: Default::default(),
    }
}

fn checked(setup: &Setup, controller: &str, seed: u64) -> Outcome {
    let candidate: Candidate = controller.parse().unwrap();
    run(setup, &candidate, seed, Extras { check: true, ..Extras::default() }).unwrap()
}

/// Runs `setup` with every controller and seed, and panics at the first violation.
fn no_property_is_violated(setup: &Setup, seeds: core::ops::Range<u64>) {
    for controller in ["reno", "cubic"] {
        for seed in seeds.clone() {
            let outcome = checked(setup, controller, seed);
            if let Some(violation) = outcome.violation {
                panic!(
                    "{controller}, seed {seed}: {} at {:?}, {:?}: {}\n{}",
                    violation.property,
                    violation.at.since_origin(),
                    violation.end,
                    violation.explanation,
                    violation.last_events.join("\n")
                );
            }
            assert!(outcome.flows[0].took.is_some(), "{controller} {seed}: {:?}", outcome.stop);
        }
    }
}

#[test]
fn the_published_collapse() {
    no_property_is_violated(&collapse(PLAIN, 1_000_000), 0..10);
}

/// Returns the plain network, and variants of it that each differ in one respect.
fn networks() -> Vec<Network> {
    let mut networks = vec![PLAIN];
    networks.extend([0.1, 0.2, 0.4, 0.5].map(|loss| Network { loss, ..PLAIN }));
    networks.extend([1, 30, 100, 300].map(|rtt| Network { round_trip: ms(rtt), ..PLAIN }));
    networks.extend([1, 4].map(|tick| Network { tick: Some(ms(tick)), ..PLAIN }));
    let jitters = [Duration::from_nanos(1), Duration::from_micros(100), ms(1), ms(4)];
    networks.extend(jitters.map(|jitter| Network { jitter, ..PLAIN }));
    networks.push(Network { on_acks: false, ..PLAIN });
    networks.push(Network { on_data: false, ..PLAIN });
    networks
}

#[test]
fn the_collapse_in_other_networks() {
    for network in networks() {
        println!("{network:?}");
        no_property_is_violated(&collapse(network, 1_000_000), 0..2);
    }
}

#[test]
#[ignore = "many runs: for release builds"]
fn the_collapse_in_all_networks_with_many_seeds() {
    for network in networks() {
        println!("{network:?}");
        no_property_is_violated(&collapse(network, 10_000_000), 0..50);
    }
}

/// In a network without delay, the smallest RTT that the clock can distinguish is still above zero.
#[test]
fn a_network_without_delay() {
    let mut setup = collapse(PLAIN, 100_000);
    setup.network = LinkConfig::default();
    no_property_is_violated(&setup, 0..2);
}

/// Each part of a sequence begins when the previous one is complete, on the same connection.
#[test]
fn the_parts_of_a_sequence_run_in_turn() {
    let mut setup = collapse(Network { loss: 0.0, ..PLAIN }, 0);
    let parts = [
        Traffic::Idle { length: ms(500) },
        Traffic::Requests { count: 3, size: 20_000, every: Some(ms(100)) },
        Traffic::Idle { length: ms(1000) },
        Traffic::Upload { size: 50_000 },
        Traffic::Parallel { count: 2, size: 30_000 },
    ];
    setup.flows[0].traffic = Traffic::Sequence { parts: parts.to_vec() };
    no_property_is_violated(&setup, 0..2);
    let outcome = checked(&setup, "cubic", 0);
    let took = outcome.flows[0].took.unwrap();
    // 1.5 s without traffic, 0.2 s between three requests, and some round trips of 10 ms.
    assert!(took > ms(1700) && took < ms(1900), "{took:?}");
    assert_eq!(outcome.flows[0].received, 3 * 20_000 + 2 * 30_000);
}

/// A part that is limited by time rather than size may be the last one of a sequence.
#[test]
fn a_sequence_may_end_with_bulk() {
    let mut setup = collapse(Network { loss: 0.0, ..PLAIN }, 0);
    setup.network.to_client.rate = Some(clearway_units::Rate::from_bits_per_second(1_000_000));
    let parts = [Traffic::Download { size: 10_000 }, Traffic::Bulk { length: ms(500) }];
    setup.flows[0].traffic = Traffic::Sequence { parts: parts.to_vec() };
    let outcome = checked(&setup, "reno", 0);
    assert_eq!(outcome.violation, None);
    let took = outcome.flows[0].took.unwrap();
    assert!(took > ms(600) && took < ms(700), "{took:?}");
}
