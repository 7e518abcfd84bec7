//! The example test cases of the draft's appendix: the phases of ProbeBW, and undo.

use super::path::Application;
use super::*;
use crate::bbr::gain::Gain;

/// Returns a path whose buffer is too small for a bandwidth probe, in CRUISE with a long-term
/// bound.
fn bounded() -> Path {
    let mut path = path_with(megabits(20), ms(40), 0.15, 1);
    path.run_until(Duration::from_secs(20), |path| {
        path.bbr.cycle.was_too_high && path.state() == BbrState::ProbeCruise
    });
    path
}

#[test]
fn exiting_probe_up_on_bandwidth_plateau() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeUp);
    assert_eq!(path.bbr.state.pacing_gain(), Gain(125));
    let left = path.run_out_of(BbrState::ProbeUp);
    assert_eq!(left.state, BbrState::ProbeDown);
    assert_eq!(path.bbr.full_pipe.rounds, 3);
    assert!(path.bbr.full_pipe.is_reached);
    assert_eq!(path.lost_bytes, 0);
    assert_estimates(&path, megabits(20));
}

#[test]
fn exiting_probe_up_on_loss_when_application_limited() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeUp);
    path.limit(megabits(10));
    path.run_for(ms(1000));
    assert_eq!(path.state(), BbrState::ProbeUp);
    assert!(path.samples_are_limited);
    let next = path.next_index();
    path.link.dropped = next..next + 6;
    let left = path.run_out_of(BbrState::ProbeUp);
    // With so little in flight there is nothing to drain: the same ACK ends DOWN.
    assert_eq!((left.state, left.at), (BbrState::ProbeCruise, path.bbr.cycle.began_at));
    assert!(path.bbr.cycle.was_too_high);
    // An application-limited flow provides no evidence of an upper bound.
    assert_eq!(path.bbr.long_term.bound, None);
}

#[test]
fn exiting_probe_down_on_inflight() {
    for mut path in [path(), bounded()] {
        path.run_until(Duration::from_secs(20), |path| {
            path.state() == BbrState::ProbeDown && !path.bbr.cycle.was_precautionary
        });
        let down = path.bbr.rate.scaled(90, 100).scaled(99, 100);
        assert_eq!(path.bbr.pacing.rate, Some(down));
        let headroom = path.bbr.bound_with_headroom();
        let drained = path.bbr.in_flight_for(path.bbr.bandwidth.maximum(), Gain::ONE);
        let left = path.run_out_of(BbrState::ProbeDown);
        assert_eq!(left.state, BbrState::ProbeCruise);
        assert!(left.in_flight <= drained);
        assert!(headroom.is_none_or(|headroom| left.in_flight <= headroom), "{headroom:?}");
    }
}

/// The draft reduces the bandwidth by 10 %. DOWN sends 10.9 % more slowly than before, so the queue
/// would still shrink after such a reduction.
#[test]
fn exiting_probe_down_after_max_time() {
    let mut path = path_with(megabits(20), ms(60), 6.0, 1);
    path.run_to_state(BbrState::ProbeUp);
    path.run_to_state(BbrState::ProbeDown);
    let entered = *path.history.last().unwrap();
    path.link.set_rate(path.now, megabits(17));
    path.bbr.minimum_rtt.schedule(path.now);
    let left = path.run_out_of(BbrState::ProbeDown);
    assert_eq!(left.state, BbrState::ProbeRefill);
    let waited = left.at.saturating_since(entered.at);
    assert!((ms(2000)..ms(3100)).contains(&waited), "{waited:?}");
}

#[test]
fn handling_spurious_fast_recovery() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeUp);
    let window = path.bbr.window();
    let next = path.next_index();
    path.link.late = Some((next..next + 6, ms(15)));
    let left = path.run_out_of(BbrState::ProbeUp);
    assert_eq!(left.state, BbrState::ProbeDown);
    assert!(path.bbr.long_term.bound.is_some() && path.bbr.cycle.was_too_high);
    let back = path.run_out_of(BbrState::ProbeDown);
    assert_eq!(back.state, BbrState::ProbeRefill);
    assert_eq!(path.bbr.snapshot().undone_events, 1);
    assert_eq!((path.bbr.long_term.bound, path.bbr.short_term.rate), (None, None));
    assert!(path.bbr.window() >= window);
    assert_eq!(path.run_out_of(BbrState::ProbeRefill).state, BbrState::ProbeUp);
    assert_estimates(&path, megabits(20));
}

#[test]
fn a_startup_ended_by_spurious_losses_continues() {
    let mut path = path();
    path.run_for(ms(150));
    assert_eq!(path.state(), BbrState::Startup);
    // Every fourth packet is lost, so that there are losses in many ranges.
    let next = path.next_index();
    path.link.late = Some((next..next + 80, ms(60)));
    path.link.late_every = 4;
    let left = path.run_out_of(BbrState::Startup);
    assert_eq!(left.state, BbrState::Drain);
    assert!(path.bbr.long_term.bound.is_some());
    path.run_until(ms(500), |path| path.bbr.snapshot().undone_events > 0);
    // Row 124: the transition that the losses caused is undone as well.
    assert!(!path.bbr.full_pipe.was_reached);
    assert_eq!(path.state(), BbrState::Startup);
    path.run_until(ms(2000), |path| path.bbr.full_pipe.was_reached);
    path.run_for(ms(1000));
    assert_eq!(path.bbr.long_term.bound, None);
    assert!(path.bbr.bandwidth.maximum() >= megabits(20).scaled(98, 100));
}

/// QUIC has no retransmission timeout: persistent congestion is the closest equivalent.
#[test]
fn handling_spurious_rto_recovery() {
    let mut path = path_with(megabits(20), ms(40), 8.0, 1);
    path.run_to_state(BbrState::ProbeUp);
    path.bbr.minimum_rtt.schedule(path.now);
    let window = path.bbr.window();
    path.link.late = Some((path.next_index()..u64::MAX, ms(1500)));
    path.run_for(ms(800));
    path.link.late = None;
    path.run_until(ms(1000), |path| path.bbr.episode.is_open);
    assert!(path.bbr.window() <= 6 * SIZE, "{}", path.bbr.window());
    assert_estimates(&path, megabits(20));
    path.run_until(ms(2000), |path| path.bbr.snapshot().undone_events > 0);
    assert_eq!((path.bbr.long_term.bound, path.bbr.short_term.rate), (None, None));
    assert!(path.bbr.window() >= window.min(path.bbr.bandwidth_delay_product()));
    path.run_to_state(BbrState::ProbeUp);
    assert!(path.bbr.bandwidth.maximum() >= megabits(20).scaled(98, 100));
}

#[test]
fn handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut path = bounded();
    // The buffer has room for the probe, so that only the test's losses end it.
    path.link.buffer *= 20;
    path.run_to_state(BbrState::ProbeUp);
    path.run_until(Duration::from_secs(10), |path| {
        path.state() == BbrState::ProbeUp && !path.bbr.cycle.was_too_high
    });
    path.run_for(ms(50));
    assert_eq!(path.state(), BbrState::ProbeUp);
    let before = path.bbr.long_term.bound.unwrap();
    let next = path.next_index();
    path.link.dropped = next..next + 8;
    let left = path.run_out_of(BbrState::ProbeUp);
    assert_eq!(left.state, BbrState::ProbeDown);
    assert!(path.bbr.cycle.was_too_high);
    let after = path.bbr.long_term.bound.unwrap();
    assert!(after >= Gain::BETA.of(path.bbr.target_in_flight()), "{before} {after}");
    assert!(after < path.bbr.target_in_flight() * 3 / 2, "{before} {after}");
}

#[test]
fn handling_application_limited_sending_during_probe_refill() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeRefill);
    path.limit(megabits(1));
    let left = path.run_out_of(BbrState::ProbeRefill);
    assert_eq!(left.state, BbrState::ProbeUp);
    path.run_for(ms(500));
    assert!(path.samples_are_limited && path.last_rate < megabits(2));
    assert_estimates(&path, megabits(20));
    path.application = Application::Backlog;
    assert_eq!(path.run_out_of(BbrState::ProbeUp).state, BbrState::ProbeDown);
    assert_estimates(&path, megabits(20));
}

/// The first probe after a probe with too much loss stops at the bound. If that causes no losses,
/// the next probe begins immediately and exceeds the bound.
#[test]
fn a_precautionary_probe_is_followed_by_a_whole_one() {
    let mut path = bounded();
    path.link.buffer *= 20;
    path.bbr.minimum_rtt.schedule(path.now);
    let skipped = path.history.len();
    let bound = path.bbr.long_term.bound;
    path.run_until(Duration::from_secs(10), |path| {
        path.bbr.long_term.bound > bound.map(|it| it * 5 / 4)
    });
    let states: Vec<_> = path.history[skipped..].iter().map(|entered| entered.state).collect();
    let mut whole = vec![BbrState::ProbeRefill, BbrState::ProbeUp, BbrState::ProbeDown];
    if states.contains(&BbrState::ProbeCruise) {
        whole.push(BbrState::ProbeCruise);
    }
    whole.extend([BbrState::ProbeRefill, BbrState::ProbeUp]);
    assert_eq!(states, whole);
}
