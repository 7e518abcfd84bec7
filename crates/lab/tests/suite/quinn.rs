//! Tests of quinn in the same networks, both with itself and with Clearway as its peer.
#![cfg(feature = "quinn")]

use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::Algorithm;
use clearway_lab::run::{Candidate, Extras, Outcome, run};
use clearway_lab::setup::{EndSetup, Flow, SessionKind, Setup, StackKind, TlsSetup, Traffic};
use clearway_lab::world::Stop;
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Probability, Way, Window};

const SIZE: u64 = 10_000_000;
/// Pairs of client and server stacks.
const PAIRINGS: [[StackKind; 2]; 3] = [
    [StackKind::Quinn, StackKind::Quinn],
    [StackKind::Quinn, StackKind::Clearway],
    [StackKind::Clearway, StackKind::Quinn],
];
const QUINN: [StackKind; 2] = [StackKind::Quinn; 2];
const CLEARWAY: [StackKind; 2] = [StackKind::Clearway; 2];

fn setup(
    [client, server]: [StackKind; 2],
    session: SessionKind,
    loss: Vec<LossRule>,
    traffic: Traffic,
) -> Setup {
    let conditions = Conditions { delay: Duration::from_millis(5), loss, ..Conditions::default() };
    let end = |stack| EndSetup { stack, ..EndSetup::default() };
    let flow = Flow {
        name: "flow".to_owned(),
        group: "flow".to_owned(),
        start: Duration::ZERO,
        controller: None,
        client: end(client),
        server: end(server),
        session,
        traffic,
        is_optional: false,
    };
    Setup {
        limit: Duration::from_secs(60),
        network: LinkConfig {
            to_server: conditions.clone(),
            to_client: conditions,
            ..LinkConfig::default()
        },
        flows: vec![flow],
        properties_off: Vec::new(),
        turns: Default::default(),
    }
}

fn random_loss(probability: f64) -> Vec<LossRule> {
    let model = LossModel::Random { probability: Probability::new(probability).unwrap() };
    vec![LossRule { model, window: Window::Always }]
}

/// Returns the loss that causes the published CUBIC congestion window collapse: 30 % for two
/// seconds.
fn collapse() -> Vec<LossRule> {
    let model = LossModel::Random { probability: Probability::new(0.3).unwrap() };
    let length = Some(Duration::from_secs(2));
    let window = Window::AfterBytes { way: Way::ToClient, bytes: 6000, length };
    vec![LossRule { model, window }]
}

/// Returns the controller with this name. A quinn endpoint uses only the name, which need not be
/// one of Clearway's controllers.
fn candidate(name: &str) -> Candidate {
    let factory = Arc::new(name.parse().unwrap_or(Algorithm::default()));
    Candidate { name: name.to_owned(), factory }
}

fn watched() -> Extras {
    Extras { digest: true, check: true, ..Extras::default() }
}

fn transfer(setup: &Setup, controller: &str, seed: u64) -> Outcome {
    let outcome = run(setup, &candidate(controller), seed, watched()).unwrap();
    assert_eq!(outcome.stop, Stop::Finished, "{setup:?} {controller} {seed}: {outcome:?}");
    assert_eq!(Some(outcome.flows[0].received), setup.flows[0].traffic.bytes());
    outcome
}

/// The application verifies every byte and fails if one is wrong.
#[test]
fn every_pairing_completes_a_download() {
    for pairing in PAIRINGS {
        for session in [SessionKind::Null, SessionKind::Tls(TlsSetup::default())] {
            for loss in [0.0, 0.02] {
                let traffic = Traffic::Download { size: SIZE };
                let outcome =
                    transfer(&setup(pairing, session, random_loss(loss), traffic), "cubic", 1);
                let sender = outcome.flows[0].sender;
                assert_eq!(sender.packets_lost > 0, loss > 0.0, "{pairing:?}: {sender:?}");
                assert!(sender.window >= sender.minimum_window, "{pairing:?}: {sender:?}");
                assert!(sender.smoothed_rtt >= 10_000_000, "{pairing:?}: {sender:?}");
            }
        }
    }
}

#[test]
fn every_pairing_completes_uploads_and_many_requests() {
    for pairing in PAIRINGS {
        for traffic in [
            Traffic::Upload { size: 1_000_000 },
            // There are more requests than the stream limit, but never that many streams open at
            // once.
            Traffic::Requests { count: 300, size: 500, every: Some(Duration::from_millis(1)) },
        ] {
            transfer(&setup(pairing, SessionKind::Null, random_loss(0.02), traffic), "reno", 2);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let traffic = || Traffic::Download { size: 2_000_000 };
    for pairing in PAIRINGS {
        for controller in ["reno", "cubic"] {
            let setup = setup(pairing, SessionKind::Null, collapse(), traffic());
            let first = transfer(&setup, controller, 3);
            assert_eq!(first, transfer(&setup, controller, 3), "{pairing:?}");
            assert_ne!(first.digest, transfer(&setup, controller, 4).digest, "{pairing:?}");
        }
    }
}

/// TLS uses its own randomness, but it affects neither times nor sizes.
#[test]
fn with_tls_the_same_seed_gives_the_same_times_and_sizes() {
    let traffic = Traffic::Download { size: 1_000_000 };
    let setup = setup(QUINN, SessionKind::Tls(TlsSetup::default()), random_loss(0.02), traffic);
    assert_eq!(transfer(&setup, "cubic", 5), transfer(&setup, "cubic", 5));
}

#[test]
fn the_window_reaches_its_floor_in_the_collapse_and_the_download_completes() {
    let traffic = Traffic::Download { size: SIZE };
    let setup = setup(QUINN, SessionKind::Null, collapse(), traffic);
    let outcomes: Vec<_> = (0..20).map(|seed| transfer(&setup, "cubic", seed)).collect();
    assert!(outcomes.iter().any(|outcome| outcome.flows[0].reached_floor));
}

#[test]
fn endpoint_settings_apply_to_quinn() {
    for pairing in [QUINN, [StackKind::Clearway, StackKind::Quinn]] {
        let traffic = Traffic::Download { size: 100_000 };
        let mut setup = setup(pairing, SessionKind::Null, Vec::new(), traffic);
        let [slow, quick] = [None, Some(150_000)].map(|initial_window| {
            let server = &mut setup.flows[0].server;
            (server.initial_window, server.max_datagram_size) = (initial_window, 1452);
            transfer(&setup, "reno", 7).flows[0].clone()
        });
        assert_eq!(quick.sender.minimum_window, 2 * 1452);
        assert!(slow.sender.window < quick.sender.window, "{slow:?} {quick:?}");
        assert!(slow.took > quick.took, "{slow:?} {quick:?}");
    }
}

#[test]
fn bbr_at_a_quinn_end_is_that_of_quinn() {
    let traffic = Traffic::Download { size: 1_000_000 };
    let setup = setup(QUINN, SessionKind::Null, random_loss(0.0), traffic);
    let outcome = transfer(&setup, "bbr", 6);
    assert_eq!(outcome.flows[0].sender.minimum_window, 4 * 1200);
}

#[test]
fn the_failure_names_a_controller_that_quinn_does_not_have() {
    let traffic = Traffic::Download { size: 1 };
    let setup = setup(QUINN, SessionKind::Null, Vec::new(), traffic);
    let outcome = run(&setup, &candidate("vegas"), 0, Extras::default()).unwrap();
    let Stop::Failed { why, .. } = outcome.stop else { panic!("{outcome:?}") };
    assert_eq!(why, "quinn has no congestion controller \"vegas\"; choose one of: reno cubic bbr");
}

#[test]
#[ignore = "a measurement"]
fn clearway_and_quinn_in_the_collapse() {
    for (name, pairing) in [("clearway", CLEARWAY), ("quinn", QUINN)] {
        for controller in ["reno", "cubic"] {
            let traffic = Traffic::Download { size: SIZE };
            let setup = setup(pairing, SessionKind::Null, collapse(), traffic);
            let outcomes: Vec<_> = (0..20).map(|seed| transfer(&setup, controller, seed)).collect();
            let mut times: Vec<_> = outcomes.iter().filter_map(|it| it.flows[0].took).collect();
            times.sort();
            let floors = outcomes.iter().filter(|it| it.flows[0].reached_floor).count();
            println!(
                "{name} {controller}: min {:?} p50 {:?} max {:?}, floor reached {floors} of 20",
                times[0], times[10], times[19]
            );
        }
    }
}
