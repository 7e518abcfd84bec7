//! What a run must have in common with its twin in another network, in the real stack.

mod across_broken;

use core::time::Duration;

use across_broken::{Growth, broken};
use clearway_congestion::Algorithm;
use clearway_lab::across::{
    NotComparable, Verdict, acknowledgement_aggregation, datagram_size, deleted_losses, idle_time,
    jitter, round_trip_range, start_order, time_scale,
};
use clearway_lab::run::Candidate;
use clearway_lab::setup::{EndSetup, Flow, SessionKind, Setup, Traffic};
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Probability, QueueLimit};
use clearway_network::{Way, Window};
use clearway_units::{Rate, Timestamp};

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

/// One flow on a way without a bottleneck.
fn wire(round_trip: Duration, traffic: Traffic) -> Setup {
    let conditions = Conditions { delay: round_trip / 2, ..Conditions::default() };
    let network = LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        ..LinkConfig::default()
    };
    let limit = Duration::from_secs(600);
    Setup { limit, network, flows: vec![flow(traffic)], properties_off: Vec::new() }
}

/// One flow at a bottleneck of so many datagrams per path, with a queue for as many.
fn bottleneck(round_trip: Duration, path: u64, traffic: Traffic) -> Setup {
    let mut setup = wire(round_trip, traffic);
    let rate = Rate::from_transfer(path * 1200, round_trip).unwrap();
    for conditions in [&mut setup.network.to_server, &mut setup.network.to_client] {
        conditions.rate = Some(rate);
        conditions.queue = QueueLimit { packets: Some(path as usize), bytes: None };
    }
    setup
}

/// The same with one datagram lost after so many.
fn one_loss(mut setup: Setup, number: u64) -> Setup {
    let model = LossModel::List { numbers: vec![number] };
    setup.network.to_client.loss = vec![LossRule { model, window: Window::Always }];
    setup
}

fn random_loss(mut setup: Setup, probability: f64, until: Option<Duration>) -> Setup {
    let model = LossModel::Random { probability: Probability::new(probability).unwrap() };
    let window = until.map_or(Window::Always, |until| Window::Absolute {
        from: Timestamp::ORIGIN,
        until: Timestamp::from_origin(until),
    });
    setup.network.to_client.loss = vec![LossRule { model, window }];
    setup
}

fn download(size: u64) -> Traffic {
    Traffic::Download { size }
}

/// The verdict of a check that has to apply.
fn verdict(name: &str, checked: Result<Verdict, NotComparable>) -> Verdict {
    let verdict = checked.unwrap_or_else(|error| panic!("{name}: {error}"));
    println!("{name}: {verdict}");
    verdict
}

fn holds(name: &str, checked: Result<Verdict, NotComparable>) {
    let verdict = verdict(name, checked);
    assert!(verdict.holds, "{name}: {verdict}");
}

fn all() -> [(&'static str, Candidate); 3] {
    Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm.into()))
}

fn loss_based() -> [(&'static str, Candidate); 2] {
    [Algorithm::Reno, Algorithm::Cubic].map(|algorithm| (algorithm.name(), algorithm.into()))
}

/// A loss in the second flight of a way of 10 ms: windows of about 15 datagrams, where CUBIC is Reno's
/// equal.
fn early_loss() -> Setup {
    one_loss(wire(ms(10), download(2_000_000)), 20)
}

#[test]
fn m3_acknowledgement_aggregation() {
    for (name, candidate) in loss_based() {
        holds(name, acknowledgement_aggregation::check(&early_loss(), &candidate, 1, 20.0));
    }
    let bbr = acknowledgement_aggregation::check(&early_loss(), &Algorithm::Bbr.into(), 1, 20.0);
    assert!(matches!(bbr, Err(NotComparable::Inapplicable(_))), "{bbr:?}");
}

#[test]
fn m3_sees_growth_by_the_frame() {
    for growth in [Growth::DatagramPerFrame, Growth::ReciprocalPerFrame] {
        let setup = early_loss();
        let checked = acknowledgement_aggregation::check(&setup, &broken(growth), 1, 5.0);
        assert!(!verdict("broken", checked).holds, "{growth:?}");
    }
}

/// A path of 30 datagrams, and 150 of them to transfer.
fn long_transfer() -> Setup {
    wire(Duration::ZERO, download(150 * 30 * 1200))
}

fn uses_the_path(candidate: (&str, Candidate), round_trip: Duration) {
    let (name, candidate) = candidate;
    let path = 30 * 1200;
    holds(name, round_trip_range::check(&long_transfer(), &candidate, 1, path, round_trip));
}

#[test]
fn m6_short_and_long_round_trips() {
    for round_trip in [round_trip_range::ROUND_TRIPS[0], ms(50)] {
        all().into_iter().for_each(|candidate| uses_the_path(candidate, round_trip));
    }
    let two_seconds = Duration::from_secs(2);
    loss_based().into_iter().for_each(|candidate| uses_the_path(candidate, two_seconds));
}

/// BBR at 500 ms and more is not among them: its draft spends a round trip or more of each five seconds in
/// ProbeRTT, at half of the window (ARCHITECTURE.md, "Known and open").
#[test]
#[ignore = "many packets: for release builds"]
fn m6_all_round_trips() {
    for round_trip in round_trip_range::ROUND_TRIPS {
        loss_based().into_iter().for_each(|candidate| uses_the_path(candidate, round_trip));
        if round_trip < ms(500) {
            uses_the_path(("bbr", Algorithm::Bbr.into()), round_trip);
        }
    }
}

#[test]
fn m6_sees_a_window_that_does_not_grow() {
    let (setup, candidate) = (long_transfer(), broken(Growth::None));
    let checked = round_trip_range::check(&setup, &candidate, 1, 100 * 1200, ms(50));
    assert!(!verdict("broken", checked).holds);
}

/// The published collapse, shorter: 30 % loss for half a second.
fn collapse() -> Setup {
    random_loss(wire(ms(10), download(500_000)), 0.3, Some(ms(500)))
}

#[test]
fn m8_jitter() {
    for (name, candidate) in all() {
        holds(name, jitter::check(&collapse(), &candidate, 0..15));
    }
}

#[test]
fn m7_deleted_losses() {
    let setup = random_loss(wire(ms(20), download(1_000_000)), 0.02, None);
    for (name, candidate) in all() {
        for seed in 0..3 {
            let ends = [ms(0), ms(100), ms(300), ms(1000)];
            holds(name, deleted_losses::check(&setup, &candidate, seed, &ends));
        }
    }
}

#[test]
fn m5_idle_time() {
    let traffic =
        Traffic::Requests { count: 2, size: 500_000, every: Some(Duration::from_secs(2)) };
    let setup = one_loss(wire(ms(20), traffic), 60);
    let idles = [ms(100), Duration::from_secs(10), Duration::from_secs(3600)];
    for (name, candidate) in loss_based() {
        holds(name, idle_time::check(&setup, &candidate, 1, &idles));
    }
    let candidate = broken(Growth::WallClock);
    assert!(!verdict("broken", idle_time::check(&setup, &candidate, 1, &idles)).holds);
}

#[test]
fn m9_start_order() {
    let mut setup = bottleneck(ms(20), 30, download(1_000_000));
    setup.flows.push(flow(download(1_000_000)));
    for (name, candidate) in all() {
        holds(name, start_order::check(&setup, &candidate, 0..5, ms(100)));
    }
}

#[test]
fn m1_time_scale() {
    let setup = one_loss(bottleneck(ms(40), 20, download(1_000_000)), 60);
    for (name, candidate) in loss_based() {
        holds(name, time_scale::check(&setup, &candidate, 1, 3));
    }
    let setup = one_loss(wire(ms(40), download(1_000_000)), 60);
    let candidate = broken(Growth::WallClock);
    assert!(!verdict("broken", time_scale::check(&setup, &candidate, 1, 3)).holds);
}

#[test]
fn m2_datagram_size() {
    let setup = one_loss(bottleneck(ms(40), 20, download(1_000_000)), 60);
    for (name, candidate) in loss_based() {
        holds(name, datagram_size::check(&setup, &candidate, 1, 4));
    }
    let setup = one_loss(wire(ms(40), download(1_000_000)), 60);
    let candidate = broken(Growth::FixedDatagram);
    assert!(!verdict("broken", datagram_size::check(&setup, &candidate, 1, 4)).holds);
}

#[test]
fn losses_that_begin_with_the_traffic_cannot_be_cut_short() {
    let mut setup = random_loss(wire(ms(20), download(10_000)), 0.02, None);
    setup.network.to_client.loss[0].window =
        Window::AfterBytes { way: Way::ToClient, bytes: 1, length: None };
    let checked = deleted_losses::check(&setup, &Algorithm::Reno.into(), 0, &[ms(1)]);
    assert!(matches!(checked, Err(NotComparable::Inapplicable(_))));
}
