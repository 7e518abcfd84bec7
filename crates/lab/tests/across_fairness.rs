//! Fairness between flows that share a bottleneck, in the real stack.

use core::time::Duration;

use clearway_congestion::Algorithm;
use clearway_lab::across::fairness::{equal, reno_friendly, round_trips, starvation};
use clearway_lab::across::received::run_noting;
use clearway_lab::setup::{EndSetup, Flow, SessionKind, Setup, Traffic};
use clearway_lab::world::Stop;
use clearway_network::{Conditions, FlowDelay, Jitter, LinkConfig, QueueLimit};
use clearway_units::Rate;

/// A bottleneck that flows share.
#[derive(Clone, Copy, Debug)]
struct Bottleneck {
    megabits: u64,
    round_trip: Duration,
    /// In paths, that is in bandwidth-delay products.
    queue: f64,
}

/// The flows begin a tenth of a second apart. What the first ten seconds bring is not judged.
const SETTLED: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(70);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn flow(index: usize, controller: Option<&str>) -> Flow {
    Flow {
        group: format!("flow {index}"),
        name: format!("flow {index}"),
        start: ms(100) * index as u32,
        controller: controller.map(str::to_owned),
        client: EndSetup::default(),
        server: EndSetup::default(),
        session: SessionKind::Null,
        // More than the time is enough for.
        traffic: Traffic::Download { size: 1 << 40 },
        is_optional: false,
    }
}

/// Flows with these controllers at `bottleneck`.
fn sharing(bottleneck: Bottleneck, controllers: &[Option<&str>]) -> Setup {
    let rate = Rate::from_bits_per_second(bottleneck.megabits * 1_000_000);
    let path = rate.bytes_in(bottleneck.round_trip);
    let conditions = Conditions {
        delay: bottleneck.round_trip / 2,
        rate: Some(rate),
        queue: QueueLimit { packets: None, bytes: Some((path as f64 * bottleneck.queue) as u64) },
        overhead: 28,
        // Flows in lockstep would always hit a full queue with the same one.
        jitter: Jitter { range: Duration::from_micros(100), reorder_by_jitter: false },
        ..Conditions::default()
    };
    let network = LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        ..LinkConfig::default()
    };
    let flows = controllers.iter().enumerate().map(|(index, name)| flow(index, *name));
    Setup { limit: LIMIT, network, flows: flows.collect(), properties_off: Vec::new() }
}

/// What the flows of `setup` received once they had settled.
fn received(setup: &Setup, algorithm: Algorithm, seed: u64) -> Vec<u64> {
    let (outcome, received) = run_noting(setup, &algorithm.into(), seed).unwrap();
    assert_eq!(outcome.stop, Stop::TimeUp);
    received.between(SETTLED, LIMIT)
}

/// Fa for `count` flows of each kind, each of which has so many megabits per second.
fn flows_of_one_kind_are_equal(count: usize, megabits: u64, seeds: u64) {
    let bottleneck = Bottleneck { megabits, round_trip: ms(40), queue: 1.0 };
    let setup = sharing(bottleneck, &vec![None; count]);
    for algorithm in Algorithm::ALL {
        for seed in 0..seeds {
            let verdict = equal::judge(&received(&setup, algorithm, seed));
            println!("{algorithm} {seed}: {verdict}");
            assert!(verdict.holds, "{algorithm}, seed {seed}: {verdict}");
        }
    }
}

#[test]
fn fa_two_flows() {
    flows_of_one_kind_are_equal(2, 4, 1);
}

#[test]
#[ignore = "many packets: for release builds"]
fn fa_eight_flows() {
    flows_of_one_kind_are_equal(8, 20, 4);
}

#[test]
#[ignore = "many packets: for release builds"]
fn fa_thirty_two_flows() {
    flows_of_one_kind_are_equal(32, 60, 4);
}

/// Fc where windows are about 20 datagrams at 20 to 40 ms, which Reno regains in less than a second; CUBIC's
/// curve takes seconds.
fn cubic_is_renos_equal(order: [&str; 2], seed: u64) {
    let bottleneck = Bottleneck { megabits: 10, round_trip: ms(20), queue: 1.0 };
    let received = received(&sharing(bottleneck, &order.map(Some)), Algorithm::Cubic, seed);
    let (cubic, reno) = match order {
        ["cubic", _] => (received[0], received[1]),
        _ => (received[1], received[0]),
    };
    let verdict = reno_friendly::judge(cubic, reno);
    println!("{order:?} {seed}: {verdict}");
    assert!(verdict.holds, "{order:?}, seed {seed}: {verdict}");
}

#[test]
fn fc_in_the_reno_friendly_region() {
    cubic_is_renos_equal(["cubic", "reno"], 0);
}

#[test]
#[ignore = "many packets: for release builds"]
fn fc_in_the_reno_friendly_region_with_many_seeds() {
    for seed in 0..8 {
        cubic_is_renos_equal(["cubic", "reno"], seed);
        cubic_is_renos_equal(["reno", "cubic"], seed);
    }
}

/// Fd with BBR beside `other`, whoever begins.
fn nobody_starves(other: &str, queue: f64, megabits: u64, seeds: u64) {
    let bottleneck = Bottleneck { megabits, round_trip: ms(40), queue };
    for order in [["bbr", other], [other, "bbr"]] {
        let setup = sharing(bottleneck, &order.map(Some));
        for seed in 0..seeds {
            let received = received(&setup, Algorithm::Cubic, seed);
            let verdict = starvation::judge([received[0], received[1]]);
            println!("{order:?}, {queue} paths, {seed}: {verdict}");
            assert!(verdict.holds, "{order:?}, {queue} paths, seed {seed}: {verdict}");
        }
    }
}

#[test]
fn fd_bbr_beside_cubic() {
    nobody_starves("cubic", 1.0, 4, 1);
}

#[test]
#[ignore = "many packets: for release builds"]
fn fd_bbr_beside_cubic_with_every_queue() {
    for queue in [0.5, 1.0, 2.0, 4.0, 8.0] {
        nobody_starves("cubic", queue, 20, 4);
    }
}

/// Large windows: at 40 and 160 ms and 50 Mbit/s CUBIC's curve is above what Reno would do.
#[test]
#[ignore = "many packets: for release builds"]
fn fb_a_longer_way_in_the_cubic_region() {
    let bottleneck = Bottleneck { megabits: 50, round_trip: ms(40), queue: 2.0 };
    for long in [0, 1] {
        let mut setup = sharing(bottleneck, &[None, None]);
        let more = FlowDelay { flow: long, to_server: ms(60), to_client: ms(60) };
        setup.network.flows.push(more);
        for algorithm in Algorithm::ALL {
            for seed in 0..4 {
                let received = received(&setup, algorithm, seed);
                let way = |flow: u32| round_trips::Way {
                    round_trip: if flow == long { ms(160) } else { ms(40) },
                    received: received[flow as usize],
                };
                let verdict = round_trips::judge(way(0), way(1));
                println!("{algorithm}, flow {long} is longer, {seed}: {verdict}");
                let is_judged = algorithm == Algorithm::Cubic;
                assert!(verdict.holds || !is_judged, "flow {long}, seed {seed}: {verdict}");
            }
        }
    }
}

/// That a run can show what the judges look for: a flow that begins far too late has too little.
#[test]
fn a_flow_that_is_late_is_not_equal() {
    let bottleneck = Bottleneck { megabits: 2, round_trip: ms(40), queue: 1.0 };
    let mut setup = sharing(bottleneck, &[None, None]);
    setup.flows[1].start = Duration::from_secs(60);
    let received = received(&setup, Algorithm::Reno, 0);
    assert!(!equal::judge(&received).holds, "{received:?}");
}
