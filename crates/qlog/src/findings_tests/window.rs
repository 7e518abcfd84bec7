use super::story::{DATAGRAM, ROUND_TRIP, Story, metric, ms};
use crate::findings::FindingId::{
    AboveWindow, ApplicationLimitedClaim, GhostBytes, NoGrowth, PacerStarves, PhaseWithoutEnd,
    RecoveryWithoutLoss, StateFlapping, SuppressorHeld, WindowAtFloor, WindowBelowMinimum,
};
use crate::read::{Blocked, CongestionState, EventKind, Metrics};

#[test]
fn a_window_at_its_floor() {
    let at_floor = |rounds: u64| {
        let mut story = Story::begin(2 * DATAGRAM);
        (0..rounds).for_each(|_| story.round());
        story.set_window(3 * DATAGRAM);
        story
    };
    assert_eq!(at_floor(15).finds(), []);
    let findings = at_floor(40).finish();
    assert_eq!(findings[0].id, WindowAtFloor);
    let headline = "Congestion window pinned at its floor (2 datagrams) for 400 ms without loss";
    assert_eq!(findings[0].headline, headline);
    assert_eq!(metric(&findings[0], "congestion window"), "2,400 bytes (2 datagrams)");
    assert_eq!(metric(&findings[0], "mean round-trip time"), "10.0 ms");

    // Losses, ECN marks and an application without data are valid reasons to stay at the floor.
    let mut lossy = Story::begin(2 * DATAGRAM);
    let mut idle = Story::begin(2 * DATAGRAM);
    let mut marked = Story::begin(2 * DATAGRAM);
    for round in 1..=40 {
        for story in [&mut lossy, &mut idle, &mut marked] {
            story.fill();
            story.now += ROUND_TRIP;
        }
        lossy.lose(lossy.next - 1);
        lossy.acknowledge(lossy.next - 2, lossy.next - 2, ms(0));
        idle.blocked(Blocked::Application);
        idle.acknowledge(idle.next - 2, idle.next - 1, ms(0));
        marked.mark(round);
        marked.acknowledge(marked.next - 2, marked.next - 1, ms(0));
    }
    assert_eq!(lossy.finds(), []);
    assert_eq!(idle.finds(), []);
    assert_eq!(marked.finds(), []);
}

/// The window allows no more datagrams than the floor, so the connection is equally slow, and the
/// finding is the same.
#[test]
fn a_window_less_than_a_datagram_above_its_floor() {
    let above_floor = |window: u64| {
        let mut story = Story::begin(2 * DATAGRAM);
        story.round();
        story.set_window(window);
        (0..600).for_each(|_| story.round());
        story.finish()
    };
    let findings = above_floor(2 * DATAGRAM + 170);
    let ids: Vec<_> = findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [WindowAtFloor]);
    let window = "2,400 bytes (2 datagrams) to 2,570 bytes (2.1 datagrams)";
    assert_eq!(metric(&findings[0], "congestion window"), window);
    assert_eq!(metric(&findings[0], "total time exactly at the floor"), "10.0 ms");
    let ids: Vec<_> = above_floor(3 * DATAGRAM).iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [NoGrowth]);
}

/// BBR's window follows from its model, so only a window exactly at the floor has this finding.
#[test]
fn a_model_based_window_just_above_its_floor() {
    let stays_at = |window: u64| {
        let mut story = Story::begin(4 * DATAGRAM);
        story.state(CongestionState::ProbeBandwidth("cruise".into()));
        story.round();
        story.set_window(window);
        (0..800).for_each(|_| story.round());
        story.finds()
    };
    assert!(stays_at(4 * DATAGRAM).contains(&WindowAtFloor));
    assert!(!stays_at(4 * DATAGRAM + 170).contains(&WindowAtFloor));
}

/// This is the published bug: an acknowledgment ends recovery, and sending a packet begins it
/// again.
#[test]
fn recovery_that_begins_and_ends_in_each_round_trip() {
    let mut story = Story::begin(2 * DATAGRAM);
    story.fill();
    story.lose(0);
    for _ in 0..40 {
        story.state(CongestionState::Recovery);
        story.round();
        story.state(CongestionState::CongestionAvoidance);
    }
    let findings = story.finish();
    let ids: Vec<_> = findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [WindowAtFloor, StateFlapping, RecoveryWithoutLoss]);
    assert_eq!(
        metric(&findings[0], "enters and leaves recovery every"),
        "10.0 ms (one round trip)"
    );
    assert_eq!(metric(&findings[1], "time between entries"), "10.0 ms (one round trip)");

    // If there is a loss each time, it is correct to enter recovery.
    let mut story = Story::begin(20 * DATAGRAM);
    for _ in 0..40 {
        story.fill();
        story.now += ROUND_TRIP;
        let last = story.next - 1;
        story.lose(last - 10);
        story.state(CongestionState::Recovery);
        story.acknowledge(last - 9, last, ms(0));
        story.round();
        story.state(CongestionState::CongestionAvoidance);
    }
    assert_eq!(story.finds(), []);
}

#[test]
fn a_window_below_its_minimum() {
    let mut story = Story::begin(2 * DATAGRAM);
    story.round();
    story.set_window(DATAGRAM);
    story.now += ms(5);
    story.set_window(10 * DATAGRAM);
    assert_eq!(story.finds(), [WindowBelowMinimum]);
    let mut story = Story::begin(2 * DATAGRAM);
    story.round();
    assert_eq!(story.finds(), []);
}

#[test]
fn a_window_that_does_not_grow() {
    let stands = |rounds: u64, growth: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        for _ in 0..rounds {
            story.round();
            let window = story.window + growth;
            story.set_window(window);
        }
        story.finds()
    };
    assert_eq!(stands(600, 0), [NoGrowth]);
    assert_eq!(stands(500, 0), []);
    assert_eq!(stands(600, 100), []);
}

#[test]
fn a_suppressor_that_does_not_end() {
    let held = |rounds: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.event(EventKind::Suppressors(vec![("not_limited".into(), 1)]));
        (0..rounds).for_each(|_| story.round());
        story.event(EventKind::Suppressors(Vec::new()));
        story.round();
        story.finds()
    };
    assert_eq!(held(40), [SuppressorHeld]);
    assert_eq!(held(10), []);
}

#[test]
fn a_full_window_that_is_called_application_limited() {
    let claims = |also_drops: bool| {
        let mut story = Story::begin(20 * DATAGRAM);
        for _ in 0..40 {
            story.metrics(Metrics { is_application_limited: Some(true), ..Metrics::default() });
            story.round();
            if also_drops {
                story
                    .metrics(Metrics { is_application_limited: Some(false), ..Metrics::default() });
            }
        }
        story.finds()
    };
    assert_eq!(claims(false), [ApplicationLimitedClaim]);
    assert_eq!(claims(true), []);
}

#[test]
fn a_recovery_without_end() {
    let lasts = |rounds: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        story.state(CongestionState::Recovery);
        (0..rounds).for_each(|_| story.round());
        story.state(CongestionState::CongestionAvoidance);
        story.finds()
    };
    assert_eq!(lasts(20), [PhaseWithoutEnd]);
    assert_eq!(lasts(4), []);
}

/// quiche enters congestion avoidance without logging it.
#[test]
fn a_slow_start_that_is_one_only_by_name() {
    let grows_by = |hundredths: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        story.state(CongestionState::ConservativeSlowStart);
        for _ in 0..30 {
            story.round();
            story.set_window(story.window + story.window * hundredths / 100);
        }
        story.finds()
    };
    assert_eq!(grows_by(10), [PhaseWithoutEnd]);
    assert_eq!(grows_by(1), []);
}

#[test]
fn a_pacer_that_starves() {
    let paced = |bits_per_second: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.metrics(Metrics { pacing_rate: Some(bits_per_second), ..Metrics::default() });
        (0..40).for_each(|_| story.round());
        story.finds()
    };
    // 24 kB in 10 ms is 19.2 Mbit/s.
    assert_eq!(paced(9_000_000), [PacerStarves]);
    assert_eq!(paced(20_000_000), []);
}

#[test]
fn packets_above_the_window() {
    let sends = |extra: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        for _ in 0..40 {
            let first = story.next;
            story.fill();
            (0..extra).for_each(|_| story.send());
            story.now += ROUND_TRIP;
            story.acknowledge(first, story.next - 1, ms(0));
        }
        story.finds()
    };
    assert_eq!(sends(5), [AboveWindow]);
    assert_eq!(sends(2), []);
}

#[test]
fn bytes_that_stay_in_flight() {
    let leaks = |bytes: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.in_flight += bytes;
        for _ in 0..200 {
            story.round();
        }
        story.finds()
    };
    assert_eq!(leaks(4 * DATAGRAM), [GhostBytes]);
    assert_eq!(leaks(DATAGRAM), []);
}
