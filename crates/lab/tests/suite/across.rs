//! Tests properties across runs with the real stack: Clearway's controllers satisfy them, and
//! violations by faulty controllers are detected.

use core::time::Duration;

use crate::across_broken::{Growth, broken};
use clearway_congestion::Algorithm;
use clearway_lab::across::{
    Comparison, Inapplicable, Subject, Verdict, acknowledgement_aggregation, batches,
    datagram_size, deleted_losses, fairness, idle_time, round_trip_range, standard, time_scale,
};
use clearway_lab::checker::Property;
use clearway_lab::run::Candidate;
use clearway_lab::setup::{EndSetup, Flow, SessionKind, Setup, Traffic, Turns};
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, QueueLimit, Way, Window};
use clearway_units::Rate;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn flow(traffic: Traffic) -> Flow {
    let end = EndSetup { max_idle_timeout: None, ..EndSetup::default() };
    Flow {
        group: "flow".to_owned(),
        name: "flow".to_owned(),
        start: Duration::ZERO,
        controller: None,
        client: end.clone(),
        server: end,
        session: SessionKind::Null,
        traffic,
        is_optional: false,
    }
}

/// Returns one flow over a path without a bottleneck.
fn wire(round_trip: Duration, traffic: Traffic) -> Setup {
    let conditions = Conditions { delay: round_trip / 2, ..Conditions::default() };
    let network = LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        ..LinkConfig::default()
    };
    let limit = Duration::from_secs(600);
    Setup {
        limit,
        network,
        flows: vec![flow(traffic)],
        properties_off: Vec::new(),
        turns: Turns::default(),
    }
}

/// Returns one flow over a bottleneck whose bandwidth-delay product is `path` datagrams, with a
/// queue of the same size.
fn bottleneck(round_trip: Duration, path: u64, traffic: Traffic) -> Setup {
    let mut setup = wire(round_trip, traffic);
    let rate = Rate::from_transfer(path * 1200, round_trip).unwrap();
    for conditions in [&mut setup.network.to_server, &mut setup.network.to_client] {
        conditions.rate = Some(rate);
        conditions.queue = QueueLimit { packets: Some(path as usize), bytes: None };
    }
    setup
}

/// Adds the loss of the datagram with this number among the datagrams to the client.
fn one_loss(mut setup: Setup, number: u64) -> Setup {
    let model = LossModel::List { numbers: vec![number] };
    setup.network.to_client.loss = vec![LossRule { model, window: Window::Always }];
    setup
}

fn download(size: u64) -> Traffic {
    Traffic::Download { size }
}

fn subject<'a>(setup: &'a Setup, candidate: &'a Candidate) -> Subject<'a> {
    Subject { setup, candidate, seeds: 1 }
}

/// Returns the verdict of a comparison that must be applicable.
fn verdict(comparison: Result<Comparison, Inapplicable>) -> Verdict {
    let verdict = comparison.unwrap().run().unwrap();
    println!("{verdict}");
    verdict
}

/// Runs the comparisons that need few runs; the others are run in release builds by `clearway lab
/// across`.
#[test]
fn our_controllers_have_the_properties() {
    let one_seed = standard(Some(1)).into_iter().filter(|comparison| {
        let has_few = comparison.cost() < 10_000_000;
        has_few && !matches!(comparison.property, Property::M8 | Property::M9)
    });
    // M9 compares medians over seeds.
    let medians = standard(None).into_iter().filter(|it| it.property == Property::M9);
    for comparison in one_seed.chain(medians) {
        let verdict = comparison.run().unwrap();
        assert!(verdict.holds(), "{:?}, {verdict}", comparison.controllers);
    }
}

/// Returns a setup with a loss in the second round trip of a path of 10 ms: windows of about 15
/// datagrams, at which CUBIC behaves like Reno.
fn early_loss() -> Setup {
    one_loss(wire(ms(10), download(2_000_000)), 20)
}

#[test]
fn m3_detects_growth_per_ack_frame() {
    for growth in [Growth::DatagramPerFrame, Growth::ReciprocalPerFrame] {
        let (setup, candidate) = (early_loss(), broken(growth));
        let compared = acknowledgement_aggregation::comparison(subject(&setup, &candidate), 5.0);
        assert!(!verdict(compared).holds(), "{growth:?}");
    }
}

#[test]
fn m3_does_not_judge_a_controller_without_congestion_avoidance() {
    let (setup, candidate) = (early_loss(), Algorithm::Bbr.into());
    let compared = acknowledgement_aggregation::comparison(subject(&setup, &candidate), 20.0);
    assert_eq!(verdict(compared).figure, None);
}

/// The number of ACK frames depends on how many datagrams are processed at once.
#[test]
fn m4_detects_growth_per_ack_frame() {
    let mut setup = one_loss(wire(ms(40), download(1_000_000)), 60);
    for conditions in [&mut setup.network.to_server, &mut setup.network.to_client] {
        conditions.tick = Some(ms(1));
    }
    let candidate = broken(Growth::DatagramPerFrame);
    let verdict = verdict(batches::comparison(subject(&setup, &candidate)));
    assert!(verdict.figure.is_some() && !verdict.holds());
}

#[test]
fn m6_detects_a_window_that_does_not_grow() {
    let setup = wire(Duration::ZERO, download(150 * 30 * 1200));
    let candidate = broken(Growth::None);
    let compared = round_trip_range::comparison(
        subject(&setup, &candidate),
        100 * 1200,
        &[ms(50)],
        round_trip_range::Habit::Sends,
    );
    let verdict = verdict(compared);
    assert!(verdict.figure.is_some() && !verdict.holds());
}

#[test]
fn m5_detects_growth_by_wall_clock() {
    let traffic =
        Traffic::Requests { count: 2, size: 500_000, every: Some(Duration::from_secs(2)) };
    let (setup, candidate) = (one_loss(wire(ms(20), traffic), 60), broken(Growth::WallClock));
    let compared = idle_time::comparison(subject(&setup, &candidate), &[Duration::from_secs(10)]);
    let verdict = verdict(compared);
    assert!(verdict.figure.is_some() && !verdict.holds());
}

#[test]
fn m1_detects_growth_by_wall_clock() {
    let setup = one_loss(wire(ms(40), download(1_000_000)), 60);
    let candidate = broken(Growth::WallClock);
    let verdict = verdict(time_scale::comparison(subject(&setup, &candidate), 3));
    assert!(verdict.figure.is_some() && !verdict.holds());
}

#[test]
fn m2_detects_datagrams_of_a_fixed_size() {
    let setup = one_loss(wire(ms(40), download(1_000_000)), 60);
    let candidate = broken(Growth::FixedDatagram);
    let verdict = verdict(datagram_size::comparison(subject(&setup, &candidate), 4));
    assert!(verdict.figure.is_some() && !verdict.holds());
}

#[test]
fn losses_that_begin_with_the_traffic_cannot_be_cut_short() {
    let mut setup = one_loss(wire(ms(20), download(10_000)), 3);
    setup.network.to_client.loss[0].window =
        Window::AfterBytes { way: Way::ToClient, bytes: 1, length: None };
    let candidate = Algorithm::Reno.into();
    let compared = deleted_losses::comparison(subject(&setup, &candidate), &[ms(1)]);
    assert!(matches!(compared, Err(Inapplicable(_))));
}

/// A flow that begins far too late gets too little, by every measure of fairness.
#[test]
fn fairness_detects_a_flow_that_starts_late() {
    let length = Duration::from_secs(20);
    let mut setup = bottleneck(ms(40), 10, Traffic::Bulk { length });
    setup.flows.push(Flow {
        name: "late".to_owned(),
        start: ms(19_000),
        ..flow(Traffic::Bulk { length: ms(1000) })
    });
    let candidate = Algorithm::Reno.into();
    let settled = Duration::from_secs(1);
    let mut late = |controllers: [&str; 2]| {
        for (flow, name) in setup.flows.iter_mut().zip(controllers) {
            flow.controller = Some(name.to_owned());
        }
        let subject = subject(&setup, &candidate);
        [
            verdict(Ok(fairness::equal::comparison(subject, settled))),
            verdict(fairness::round_trips::comparison(subject, settled, ms(60), false)),
            verdict(fairness::starvation::comparison(subject, settled)),
        ]
    };
    for verdict in late(["cubic", "reno"]) {
        assert!(verdict.figure.is_some() && !verdict.holds(), "{verdict}");
    }
}
