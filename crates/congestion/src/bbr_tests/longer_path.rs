//! Tests of paths that become longer, and of situations that resemble it.

use super::*;
use crate::bbr::longer_path::LongerPath;

/// Returns a path with 20 Mbit/s, a round-trip time of 8 ms and a buffer of 450 kB, whose flow is
/// in ProbeBW.
fn short_path(seed: u64) -> Path {
    let mut path = Path::new(Link::new(Some(megabits(20)), ms(4), 450_000, seed), seed);
    path.run_for(ms(2000));
    path
}

fn minimum(path: &Path) -> Duration {
    path.bbr.minimum_rtt.minimum().unwrap()
}

/// Adoption takes one round trip to notice the change, one with only long samples, one until
/// ProbeRTT has little in flight, and one to measure. That is 0.8 s at 180 ms, and the bandwidth
/// estimate is still intact.
#[test]
fn a_longer_path_is_adopted_after_one_probe_rtt() {
    for seed in 0..20 {
        let mut path = short_path(seed);
        path.link.delay = ms(90);
        path.run_until(ms(1300), |path| minimum(path) >= ms(180));
        assert_estimates(&path, megabits(20));
        path.run_for(ms(800));
        assert!(path.goodput(ms(1000)) > 0.95 * 2_500_000.0, "{:?}", path.bbr);
    }
}

#[test]
fn a_path_that_is_short_again_is_adopted_at_once() {
    let mut path = short_path(1);
    path.link.delay = ms(90);
    path.run_for(ms(3000));
    path.link.delay = ms(4);
    path.run_until(ms(500), |path| minimum(path) < ms(10));
}

/// The same window takes ten times as long, as it would on a longer path: ProbeRTT shows that the
/// delay is the flow's own queue.
#[test]
fn a_slower_bottleneck_is_not_taken_for_a_longer_path() {
    for seed in 0..20 {
        let mut path = short_path(seed);
        path.link.set_rate(path.now, megabits(2));
        let began = path.history.len();
        for _ in 0..120 {
            path.run_for(ms(50));
            assert!(minimum(&path) < ms(13), "{:?}", path.bbr);
        }
        let probes = &path.history[began..];
        assert!(probes.iter().any(|it| it.state == BbrState::ProbeRtt), "{probes:?}");
    }
}

/// A queue built by a flow with a correct model does not cause a ProbeRTT before one is due.
#[test]
fn the_queue_of_a_probe_is_not_taken_for_a_longer_path() {
    for seed in 0..20 {
        let mut path = short_path(seed);
        path.run_for(ms(2900));
        assert!(path.history.iter().all(|it| it.state != BbrState::ProbeRtt), "{:?}", path.history);
    }
}

/// With that much jitter, a minimum RTT sample is a rare event, and ten samples without one close
/// to the minimum do not indicate a longer path.
#[test]
fn jitter_beyond_the_round_trip_is_not_taken_for_a_longer_path() {
    let wants_probe = |jitter: u64| {
        let mut search = LongerPath::default();
        search.note_jump(Timestamp::ORIGIN, ms(8), ms(8));
        search.note_jump(Timestamp::ORIGIN, ms(20), ms(8));
        (0..30).any(|index| {
            search.note(ms(20 + index * 3 % 10 * jitter), true, index % 10 == 0);
            search.wants_probe()
        })
    };
    assert!(wants_probe(2), "38 ms at most");
    assert!(!wants_probe(3), "47 ms at most");
}

/// While the flow runs, other flows build a queue of 450 kB as fast as possible, by sending at
/// twice the bottleneck's rate.
#[test]
fn a_queue_built_by_other_flows_is_not_taken_for_a_longer_path() {
    let grows_by = |step: u64| {
        let mut search = LongerPath::default();
        (0..40).any(|index| {
            let (sent_at, rtt) = (Timestamp::ORIGIN + ms(index * 4), ms(8 + index * step));
            search.note_jump(sent_at, rtt, ms(8));
            search.note(rtt, true, index % 10 == 0);
            search.wants_probe()
        })
    };
    assert!(!grows_by(4) && !grows_by(14), "10 ms are a probe's queue, and 4 ms pass");
    assert!(grows_by(15));
}
