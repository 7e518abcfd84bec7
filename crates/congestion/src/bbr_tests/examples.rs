//! The example test cases of the draft's appendix: Startup and Drain, ProbeRTT.

use super::path::Application;
use super::*;
use crate::bbr::gain::Gain;

#[test]
fn exiting_startup_on_bandwidth_plateau() {
    let mut path = path();
    path.run_until(ms(1000), |path| path.bbr.full_pipe.rounds > 0);
    assert_eq!(path.state(), BbrState::Startup);
    path.run_to_state(BbrState::Drain);
    assert_estimates(&path, megabits(20));
    assert_eq!(path.bbr.full_pipe.rounds, 3);
    assert!(path.bbr.full_pipe.is_reached && path.bbr.full_pipe.was_reached);
    assert_eq!(path.lost_bytes, 0);
}

#[test]
fn exiting_startup_on_loss_when_application_limited() {
    let mut path = path();
    path.limit(megabits(10));
    path.run_for(ms(1000));
    assert_eq!(path.state(), BbrState::Startup);
    assert!(path.samples_are_limited);
    path.link.loss = 0.25;
    let left = path.run_out_of(BbrState::Startup);
    // With so little in flight there is nothing to drain: the same ACK ends Drain.
    assert_eq!((left.state, left.round), (BbrState::ProbeCruise, path.bbr.cycle.drain_began_in));
    assert!(path.samples_are_limited);
    assert!(path.bbr.full_pipe.is_reached && path.bbr.full_pipe.was_reached);
    let product = path.bbr.bandwidth_delay_product();
    assert!(path.bbr.long_term.bound >= Some(product));
}

#[test]
fn exiting_drain_based_on_inflight() {
    let mut path = path();
    path.run_to_state(BbrState::Drain);
    let half = path.bbr.rate.scaled(50, 100).scaled(99, 100);
    assert_eq!(path.bbr.pacing.rate, Some(half));
    let drained = path.bbr.in_flight_for(path.bbr.rate, Gain::ONE);
    assert!(path.in_flight > drained);
    let began = path.bbr.cycle.drain_began_in;
    let left = path.run_out_of(BbrState::Drain);
    assert!(left.state.is_probing_bandwidth());
    assert!(left.in_flight <= drained && left.in_flight + 5 * SIZE > drained, "{left:?}");
    assert!(left.round <= began + 3);
}

/// The draft reduces the bandwidth by 10 %; even at half the rate Drain would end within three
/// rounds. The test requires a bottleneck that is slower than Drain's sending rate.
#[test]
fn exiting_drain_based_on_time() {
    let mut path = path_with(megabits(20), ms(40), 8.0, 1);
    path.run_to_state(BbrState::Drain);
    path.link.set_rate(path.now, megabits(9));
    let began = path.bbr.cycle.drain_began_in;
    let left = path.run_out_of(BbrState::Drain);
    assert!(left.state.is_probing_bandwidth());
    assert_eq!(left.round, began + 4);
    assert!(left.in_flight > path.bbr.in_flight_for(path.bbr.rate, Gain::ONE));
}

#[test]
fn never_exiting_startup_when_application_limited_with_no_loss() {
    let mut path = path();
    path.limit(megabits(5));
    for _ in 0..60 {
        path.run_for(ms(500));
        // A slightly falling delay postpones ProbeRTT.
        path.link.delay -= Duration::from_micros(20);
    }
    assert_eq!(path.history.len(), 1);
    assert!(!path.bbr.full_pipe.was_reached);
}

#[test]
fn never_exiting_probe_up_when_application_limited_with_no_loss() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeUp);
    path.limit(megabits(10));
    for _ in 0..60 {
        path.run_for(ms(500));
        path.link.delay -= Duration::from_micros(20);
    }
    assert_eq!(path.state(), BbrState::ProbeUp);
    assert_estimates(&path, megabits(20));
    path.application = Application::Backlog;
    assert_eq!(path.run_out_of(BbrState::ProbeUp).state, BbrState::ProbeDown);
}

#[test]
fn entering_and_exiting_probe_rtt() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeCruise);
    path.run_to_state(BbrState::ProbeRtt);
    let entered = *path.history.last().unwrap();
    assert!(entered.at > path.history[0].at + Duration::from_secs(5));
    let window = path.bbr.probe_rtt_window();
    let product = path.bbr.bandwidth_delay_product();
    assert!(window.abs_diff(product / 2) <= SIZE && window > 4 * SIZE);
    assert_eq!(path.bbr.window(), window);
    path.run_for(ms(150));
    assert!(path.in_flight <= window && path.bbr.probe_rtt.reached_at.is_some());
    let left = path.run_out_of(BbrState::ProbeRtt);
    assert_eq!(left.state, BbrState::ProbeCruise);
    assert!((ms(200)..ms(300)).contains(&left.at.saturating_since(entered.at)), "{left:?}");
    assert!(path.bbr.window() > product, "the window is restored");
    // The minimum RTT is the path's 40 ms plus the packet's own 0.48 ms at the bottleneck.
    assert_eq!(path.bbr.minimum_rtt.minimum(), Some(Duration::from_micros(40_480)));
    path.run_for(ms(100));
    assert!(path.goodput(ms(1000)) > 0.97 * 2_500_000.0);
    assert_estimates(&path, megabits(20));
}

#[test]
fn skipping_probe_rtt_due_to_application_limited_sending() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeCruise);
    path.application = Application::Paused;
    path.run_for(ms(6000));
    assert_eq!(path.in_flight, 0);
    let states = path.history.len();
    path.application = Application::Backlog;
    path.run_until(ms(1), |path| path.in_flight > 0);
    assert!(path.bbr.is_restarting);
    path.run_until(ms(100), |path| !path.bbr.is_restarting);
    path.run_for(ms(1000));
    let is_probing = |state: BbrState| state == BbrState::ProbeRtt;
    assert!(!path.history[states..].iter().any(|entered| is_probing(entered.state)));
    assert_estimates(&path, megabits(20));
}

#[test]
fn an_idle_time_within_probe_rtt_ends_it() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeCruise);
    path.run_to_state(BbrState::ProbeRtt);
    path.run_for(ms(100));
    path.application = Application::Paused;
    path.run_for(ms(2000));
    assert_eq!(path.state(), BbrState::ProbeRtt);
    path.application = Application::Backlog;
    path.run_until(ms(1), |path| path.in_flight > 0);
    assert_eq!(path.state(), BbrState::ProbeCruise);
    assert!(path.bbr.window() > path.bbr.bandwidth_delay_product());
}

#[test]
fn entering_and_exiting_probe_rtt_during_startup() {
    let mut path = path();
    path.limit(megabits(1));
    let entered = path.run_out_of(BbrState::Startup);
    assert_eq!(entered.state, BbrState::ProbeRtt);
    let left = path.run_out_of(BbrState::ProbeRtt);
    assert_eq!(left.state, BbrState::Startup);
    assert!(left.at.saturating_since(entered.at) > ms(200));
    path.application = Application::Backlog;
    path.run_to_state(BbrState::Drain);
    assert_estimates(&path, megabits(20));
}
