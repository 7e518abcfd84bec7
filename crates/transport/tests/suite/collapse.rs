//! The published collapse: a download with 30 % loss in both directions for two seconds, whose
//! congestion window must not stay at its minimum afterward. Without jitter and with 4 ms ticks,
//! both endpoints run in lockstep, so such a state would last forever.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Pair, milliseconds, probability, quiet, seconds};
use clearway_congestion::Algorithm;
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Way, Window};

const SIZE: usize = 10 << 20;

fn collapsing(seed: u64) -> LinkConfig {
    let loss = LossRule {
        model: LossModel::Random { probability: probability(30.0) },
        // The handshake takes fewer bytes than this; everything after it is data.
        window: Window::AfterBytes { way: Way::ToClient, bytes: 5000, length: Some(seconds(2)) },
    };
    let conditions = Conditions {
        delay: milliseconds(5),
        tick: Some(milliseconds(4)),
        loss: vec![loss],
        ..Conditions::default()
    };
    LinkConfig {
        to_server: conditions.clone(),
        to_client: conditions,
        seed,
        ..LinkConfig::default()
    }
}

fn recovers(algorithm: Algorithm, within: Duration, floor: u64) {
    for seed in 0..20 {
        let controller = Arc::new(algorithm);
        let server = quiet().to_builder().controller(controller).build().unwrap();
        let mut pair = Pair::with(collapsing(seed), quiet(), server);
        pair.watch.keep_no_packets();
        let took = pair.download(SIZE, seconds(60));
        let lowest = pair.watch.lowest_window();
        let statistics = pair.server().statistics();
        let details =
            format!("{algorithm:?}, seed {seed}: {took:?}, floor {lowest:?}: {statistics:?}");
        assert!(took.is_some_and(|took| took < within), "{details}");
        assert!(
            took.is_some_and(|took| took > seconds(2)),
            "the download ended before the loss did: {details}"
        );
        assert!(
            lowest.is_some_and(|it| it <= floor * 1200),
            "the window never reached its floor: {details}"
        );
    }
}

#[test]
fn reno_recovers_from_the_collapse_on_every_seed() {
    recovers(Algorithm::Reno, seconds(10), 2);
}

#[test]
fn cubic_recovers_from_the_collapse_on_every_seed() {
    recovers(Algorithm::Cubic, seconds(10), 2);
}

#[test]
fn bbr_recovers_from_the_collapse_on_every_seed() {
    recovers(Algorithm::Bbr, seconds(4), 10);
}

/// Returns how long a download of 2 MiB takes with each of 200 seeds, in ascending order.
fn completion_times(algorithm: Algorithm) -> Vec<Duration> {
    let took = |seed| {
        let server = quiet().to_builder().controller(Arc::new(algorithm)).build().unwrap();
        let mut pair = Pair::with(collapsing(seed), quiet(), server);
        pair.watch.keep_no_packets();
        pair.download(2 << 20, seconds(60)).expect("not finished")
    };
    let mut times: Vec<Duration> = (0..200).map(took).collect();
    times.sort_unstable();
    times
}

/// No run waits for a probe timeout that backed off during the loss. Such a wait would last as long
/// as the time without packets before it, one second or more. The client's PINGs reduce it to three
/// probe timeouts or an eighth of that time (`connection/response_ping.rs`). The slowest run of 200
/// is therefore less than a second slower than the median.
fn no_run_is_much_slower_than_the_median(algorithm: Algorithm) {
    let times = completion_times(algorithm);
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(median < milliseconds(3200), "{algorithm:?}: {median:?}");
    assert!(slowest < median + milliseconds(800), "{algorithm:?}: {median:?} {slowest:?}");
}

#[test]
fn no_reno_run_is_much_slower_than_the_median() {
    no_run_is_much_slower_than_the_median(Algorithm::Reno);
}

#[test]
fn no_cubic_run_is_much_slower_than_the_median() {
    no_run_is_much_slower_than_the_median(Algorithm::Cubic);
}
