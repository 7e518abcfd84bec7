//! The published collapse: a download that loses 30 % both ways for two seconds, and must not stay at
//! the smallest window afterwards. Perfect lockstep (no jitter, 4 ms ticks) is where such traps are
//! permanent.

mod support;

use std::sync::Arc;
use std::time::Duration;

use clearway_congestion::Algorithm;
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Way, Window};
use support::{Pair, milliseconds, probability, quiet, seconds};

const SIZE: usize = 10 << 20;

fn collapsing(seed: u64) -> LinkConfig {
    let loss = LossRule {
        model: LossModel::Random { probability: probability(30.0) },
        // The handshake takes less than this; what follows is data.
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
        let story =
            format!("{algorithm:?}, seed {seed}: {took:?}, floor {lowest:?}: {statistics:?}");
        assert!(took.is_some_and(|took| took < within), "{story}");
        assert!(took.is_some_and(|took| took > seconds(2)), "the loss was met: {story}");
        assert!(lowest.is_some_and(|it| it <= floor * 1200), "the window became small: {story}");
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

/// How long the download of 2 MiB takes on each of 200 seeds, ascending.
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

/// No run is left waiting for a probe timeout of the lossy time. Such a wait lasts as long as the silence
/// before it, one second and more; with the client's PINGs it is three probe timeouts, or an eighth of the
/// silence (`connection/answer.rs`). So the slowest run of 200 is less than a second behind the median.
fn none_is_left_behind(algorithm: Algorithm) {
    let times = completion_times(algorithm);
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    assert!(median < milliseconds(3200), "{algorithm:?}: {median:?}");
    assert!(slowest < median + milliseconds(800), "{algorithm:?}: {median:?} {slowest:?}");
}

#[test]
fn none_of_many_reno_runs_is_left_behind() {
    none_is_left_behind(Algorithm::Reno);
}

#[test]
fn none_of_many_cubic_runs_is_left_behind() {
    none_is_left_behind(Algorithm::Cubic);
}
