//! Tests that a flow returns to the path's rate after any sequence of events (L1, L2, L6, L7, M6).

use clearway_units::Random;

use super::path::Application;
use super::*;

/// Returns log2 of the ratio of the path's rate to BBR's estimate, rounded up.
fn doublings(path: &Path, rate: Rate) -> u32 {
    let believed = path.bbr.rate.bytes_per_second().max(1);
    (rate.bytes_per_second() / believed).max(1).ilog2() + 1
}

/// Checks L2: once the path is clean and data waits, 90 % of `rate` must arrive within 3 s, plus
/// three rounds per doubling, plus one cycle. The cycle allows for a ProbeRTT that interrupts the
/// probe, after which the next probe is up to three seconds away.
fn assert_escapes(path: &mut Path, rate: Rate, rtt: Duration, story: &str) {
    path.application = Application::Backlog;
    let cycle = Duration::from_secs(3) + 8 * rtt;
    let bound = Duration::from_secs(3) + rtt * 3 * doublings(path, rate) + cycle;
    let began = path.now;
    let wanted = 0.9 * rate.bytes_per_second() as f64;
    let time = (4 * rtt).max(ms(100));
    while path.goodput(time) < wanted {
        let took = path.now.saturating_since(began);
        assert!(took < bound, "{story}: {took:?} of {bound:?}: {:?}", path.bbr);
    }
}

/// Simulates the published collapse: 30 % loss for two seconds on a path without a bottleneck. With
/// even seeds, ACKs are lost too.
fn collapse(seed: u64, jitter: Duration) -> Duration {
    let mut link = Link::new(None, (ms(10) - jitter / 2) / 2, u64::MAX, seed);
    link.jitter = jitter;
    link.loss = 0.3;
    link.acknowledgement_loss = if seed.is_multiple_of(2) { 0.3 } else { 0.0 };
    link.acknowledge_every = 1 + seed / 2 % 2;
    let mut path = Path::new(link, seed);
    path.application = Application::Bytes(10_000_000);
    let began = path.now;
    path.run_for(Duration::from_secs(2));
    (path.link.loss, path.link.acknowledgement_loss) = (0.0, 0.0);
    path.run_until(Duration::from_secs(10), |path| {
        path.application == Application::Bytes(0) && path.in_flight == 0
    });
    path.now.saturating_since(began)
}

fn assert_collapses_end_in_time(seeds: core::ops::Range<u64>, jitter: Duration) {
    for seed in seeds {
        let took = collapse(seed, jitter);
        assert!(took > Duration::from_secs(2) && took < Duration::from_secs(3), "{seed}: {took:?}");
    }
}

#[test]
fn the_published_collapse_ends_within_a_second_seeds_to_100() {
    assert_collapses_end_in_time(0..100, Duration::ZERO);
}

#[test]
fn the_published_collapse_ends_within_a_second_seeds_to_200() {
    assert_collapses_end_in_time(100..200, Duration::ZERO);
}

/// The round-trip times vary from 8.5 to 11.5 ms instead of being 10 ms (M8).
#[test]
fn the_published_collapse_ends_within_a_second_with_jitter() {
    assert_collapses_end_in_time(100..200, ms(3));
}

/// Returns the states before and after the first ProbeRTT that begins after the path's rate rises a
/// thousandfold.
fn around_probe_rtt(is_lossy: bool) -> (BbrState, BbrState) {
    let mut path = path_with(megabits(1), ms(200), 8.0, 1);
    path.run_to_state(BbrState::ProbeCruise);
    path.run_for(ms(500));
    path.link.set_rate(path.now, megabits(1000));
    path.run_to_state(BbrState::ProbeUp);
    path.run_to_state(BbrState::ProbeRtt);
    let before = path.history[path.history.len() - 2].state;
    path.bbr.cycle.was_too_high |= is_lossy;
    (before, path.run_out_of(BbrState::ProbeRtt).state)
}

#[test]
fn a_probe_that_probe_rtt_interrupts_continues_after_it() {
    assert_eq!(around_probe_rtt(false), (BbrState::ProbeUp, BbrState::ProbeRefill));
    assert_eq!(around_probe_rtt(true), (BbrState::ProbeUp, BbrState::ProbeCruise));
}

/// Applies a random disturbance to the path, and returns the disturbance's name.
fn disturb(path: &mut Path, rate: Rate, random: &mut Random) -> &'static str {
    let time = ms(50 + random.below(1500));
    let (mut loss, mut acknowledgement_loss, mut application) = (0.0, 0.0, Application::Backlog);
    let story = match random.below(7) {
        0 => {
            loss = 0.05 + 0.5 * random.fraction();
            "loss"
        }
        1 => {
            loss = 1.0;
            "blackhole"
        }
        2 => {
            acknowledgement_loss = 0.9;
            "lost ACKs"
        }
        3 => {
            application = Application::Paused;
            "idle"
        }
        4 => {
            let share = 1 + random.below(40);
            application = Application::Limited(rate.scaled(share, 100), path.now);
            "little data"
        }
        5 => {
            path.link.set_rate(path.now, rate.scaled(1, 1 + random.below(30)));
            "slow"
        }
        _ => {
            let next = path.next_index();
            path.link.late = Some((next..next + 100, ms(random.below(300))));
            "reordering"
        }
    };
    (path.link.loss, path.link.acknowledgement_loss) = (loss, acknowledgement_loss);
    path.application = application;
    path.run_for(time);
    path.link.set_rate(path.now, rate);
    (path.link.loss, path.link.acknowledgement_loss) = (0.0, 0.0);
    story
}

#[test]
fn a_flow_recovers_from_any_disturbance() {
    for seed in 0..200 {
        let mut random = Random::from_number(seed);
        let rate = megabits(2 + random.below(30));
        let rtt = ms([4, 20, 60, 120][random.below(4) as usize]);
        let buffer = [0.5, 1.0, 3.0][random.below(3) as usize];
        let mut path = path_with(rate, rtt, buffer, seed);
        let mut story = format!("{seed} {rate:?} {rtt:?} {buffer}:");
        for _ in 0..1 + random.below(6) {
            story += disturb(&mut path, rate, &mut random);
            story += ", ";
        }
        assert_escapes(&mut path, rate, rtt, &story);
    }
}

/// The 1 % margin must not let the bandwidth estimate decay (row 114).
#[test]
fn a_minute_of_steady_state_uses_the_link() {
    let mut path = path_with(megabits(10), ms(30), 1.0, 3);
    path.run_for(ms(1000));
    let goodput = path.goodput(Duration::from_secs(60));
    assert!(goodput >= 0.95 * 1_250_000.0, "{goodput}");
    assert_estimates(&path, megabits(10));
}

/// At a round-trip time of 2 s, ProbeRTT takes two of about seven round trips, which is no longer
/// negligible (M6).
#[test]
fn round_trip_times_from_50_microseconds_to_2_seconds_are_supported() {
    let cases = [
        (Duration::from_micros(50), 200, 2, 0.9),
        (ms(1), 100, 3, 0.9),
        (ms(10), 50, 4, 0.9),
        (ms(100), 20, 20, 0.9),
        (ms(300), 10, 40, 0.9),
        (ms(2000), 4, 120, 0.7),
    ];
    for (rtt, rate, seconds, share) in cases {
        let mut path = path_with(megabits(rate), rtt, 1.5, 1);
        path.run_for((40 * rtt).max(ms(500)));
        let goodput = path.goodput(Duration::from_secs(seconds));
        let link = megabits(rate).bytes_per_second() as f64;
        assert!(goodput >= share * link, "{rtt:?}: {}", goodput / link);
    }
}

/// The rate rises or falls tenfold, at any point of the cycle (L7).
#[test]
fn the_rate_follows_the_path() {
    for seed in 0..12 {
        let rtt = ms(30);
        let mut path = path_with(megabits(5), rtt, 2.0, seed);
        path.run_for(ms(3000 + 400 * seed));
        path.link.set_rate(path.now, megabits(50));
        path.link.buffer = megabits(50).bytes_in(rtt);
        assert_escapes(&mut path, megabits(50), rtt, "up");
        path.run_for(ms(200 * seed));
        path.link.set_rate(path.now, megabits(5));
        path.link.buffer = megabits(5).bytes_in(2 * rtt);
        path.run_for(Duration::from_secs(9));
        assert_estimates(&path, megabits(5));
        assert!(path.goodput(ms(3000)) > 0.9 * 625_000.0);
    }
}

/// A rate of one packet in many seconds, which long periods without packets can cause, rises
/// immediately.
#[test]
fn the_minimum_rate_is_a_packet_per_round_trip() {
    let mut path = path();
    path.run_to_state(BbrState::ProbeCruise);
    path.bbr.bandwidth = Default::default();
    path.bbr.rate = Rate::from_bytes_per_second(10);
    path.bbr.pacing.rate = Some(path.bbr.rate);
    let rate = path.bbr.pacing_rate(Some(&crate::RttSnapshot {
        latest: ms(40),
        smoothed: ms(40),
        minimum: ms(40),
        variation: ms(1),
        is_new: false,
    }));
    assert_eq!(rate, Rate::from_transfer(SIZE, ms(40)));
    assert_escapes(&mut path, megabits(20), ms(40), "a packet in two minutes");
}

/// An application that never has enough data keeps its estimate, and once it has more data, the
/// data is sent at full rate.
#[test]
fn a_long_lived_application_limited_flow_keeps_its_estimate() {
    let mut path = path();
    path.run_for(ms(2000));
    path.limit(megabits(2));
    path.run_for(Duration::from_secs(60));
    assert_estimates(&path, megabits(20));
    let lost = path.lost_bytes;
    path.application = Application::Backlog;
    path.run_for(ms(500));
    assert!(path.goodput(ms(2000)) > 0.9 * 2_500_000.0);
    assert_eq!(path.lost_bytes, lost);
}

/// No phase outlasts its bound while data waits (L5).
#[test]
fn every_phase_ends() {
    for seed in 0..8 {
        let rtt = ms(20);
        let mut path = path_with(megabits(10), rtt, [0.1, 0.5, 2.0][seed as usize % 3], seed);
        path.link.loss = [0.0, 0.01][seed as usize % 2];
        path.run_for(Duration::from_secs(20));
        for pair in path.history.windows(2) {
            let (lasted, rounds) =
                (pair[1].at.saturating_since(pair[0].at), pair[1].round - pair[0].round);
            let story = format!("{seed}: {:?} for {lasted:?}, {rounds} rounds", pair[0].state);
            match pair[0].state {
                BbrState::Drain => assert!(rounds <= 4, "{story}"),
                BbrState::ProbeDown | BbrState::ProbeCruise => {
                    assert!(lasted <= ms(3100), "{story}")
                }
                BbrState::ProbeRefill => assert!(rounds <= 2, "{story}"),
                BbrState::ProbeRtt => assert!(lasted <= ms(200) + 6 * rtt, "{story}"),
                BbrState::Startup | BbrState::ProbeUp => {}
            }
        }
    }
}
