use core::time::Duration;

use clearway_network::WayCounters;
use clearway_units::Rate;

use super::Measured;
use crate::report::testing::{finished, flow, flow_outcome, sample, setup};
use crate::run::Outcome;
use crate::samples::Queueing;
use crate::setup::{Setup, Traffic};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns three flows; the second one ends after 6 of the 10 seconds.
fn three_flows() -> (Setup, Outcome) {
    let mut outcome = finished(1, 10_000).outcome;
    outcome.flows = vec![
        flow_outcome("a", 900, Some(seconds(10))),
        flow_outcome("b", 700, Some(seconds(6))),
        flow_outcome("b", 100, Some(seconds(10))),
    ];
    outcome.samples = (0..10)
        .map(|second| match second {
            0..4 => sample(second, &[500 * second, 0, 0]),
            _ => sample(second, &[2000 + 100 * second, 100 * second, 200 * second]),
        })
        .collect();
    (setup(vec![flow("a", 900), flow("b", 700), flow("b", 100)]), outcome)
}

#[test]
fn goodput_is_received_bytes_divided_by_time() {
    let (mut setup, mut outcome) = three_flows();
    setup.flows[1].is_optional = true;
    outcome.flows[2].took = None;
    let measured = Measured { setup: &setup, outcome: &outcome };
    let rates: Vec<_> = measured.goodputs().map(|(_, rate)| rate).collect();
    assert_eq!(rates, [Rate::from_bytes_per_second(90), Rate::ZERO]);
}

#[test]
fn the_direction_of_the_data_is_measured() {
    let (mut setup, mut outcome) = three_flows();
    setup.flows[0].start = seconds(2);
    setup.flows[1].start = seconds(2);
    setup.flows[2].start = seconds(2);
    setup.network.to_client.rate = Some(Rate::from_bytes_per_second(1000));
    setup.network.to_client.overhead = 28;
    outcome.network.to_client = WayCounters {
        received: 80,
        delivered: 50,
        delivered_bytes: 2600,
        dropped_queue: 20,
        ..WayCounters::default()
    };
    outcome.network.to_server =
        WayCounters { received: 10, lost_random: 5, ..WayCounters::default() };
    let measured = Measured { setup: &setup, outcome: &outcome };
    assert_eq!(measured.utilisation(), Some(0.5));
    assert_eq!(measured.loss(), 0.25);
    setup.flows[0].traffic = Traffic::Upload { size: 1 };
    let measured = Measured { setup: &setup, outcome: &outcome };
    assert_eq!(measured.utilisation(), None);
    assert_eq!(measured.loss(), 0.5);
}

#[test]
fn shares_are_measured_until_the_first_flow_ends() {
    let (setup, outcome) = three_flows();
    let measured = Measured { setup: &setup, outcome: &outcome };
    // From 4 s to 6 s the flows receive 200, 200 and 400 bytes.
    let settled = seconds(4);
    assert_eq!(measured.share_of("a", settled), Some(0.25));
    assert_eq!(measured.share_of("b", settled), Some(0.75));
    assert_eq!(measured.share_of("c", settled), Some(0.0));
    let jain = measured.jain(settled).unwrap();
    assert!((jain - 800.0 * 800.0 / (3.0 * 240_000.0)).abs() < 1e-12, "{jain}");
    assert_eq!(measured.jain(seconds(6)), None);
    let silent = Outcome { samples: Vec::new(), ..outcome.clone() };
    assert_eq!(Measured { setup: &setup, outcome: &silent }.jain(settled), None);
}

#[test]
fn queue_delay_is_the_mean_after_the_settling_time() {
    let (setup, mut outcome) = three_flows();
    for (index, sample) in outcome.samples.iter_mut().enumerate() {
        let waited = Duration::from_millis(if index < 5 { 1000 } else { 1000 + 40 });
        let datagrams = if index < 5 { 10 } else { 30 };
        sample.to_client = Queueing { datagrams, waited };
    }
    let measured = Measured { setup: &setup, outcome: &outcome };
    assert_eq!(measured.queue_delay(seconds(1)), Some(Duration::from_millis(2)));
    assert_eq!(measured.queue_delay(seconds(7)), None);
}
