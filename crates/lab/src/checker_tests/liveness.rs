use clearway_congestion::{Phase, Suppressor};
use clearway_network::{Conditions, Ecn, LinkConfig};
use clearway_transport::SendLimit;
use clearway_units::Rate;
use core::time::Duration;

use super::story::{SIZE, Story, ms, respects, violates};
use crate::checker::Property::{L1, L2, L3, L4, L5, L6, L7, L8, L9, L11};
use crate::end::{EndId, Side};

#[test]
fn l1_slow_start_doubles() {
    let tell = |story: &mut Story, datagrams: u64| {
        story.hold();
        story.round(20);
        story.round(datagrams);
    };
    // The tolerance of 1.1 datagrams allows for rounding.
    respects(L1, |story| tell(story, 37));
    // Row 12: one datagram for each acknowledgment.
    violates(L1, |story| tell(story, 36));
}

/// Returns the verdict on `rounds` rounds in which the window grows by `bytes` each.
fn grows(controller: &str, bytes: u64, rounds: u64) -> Option<&'static str> {
    let mut story = Story::avoiding(controller, L1, 10);
    for _ in 0..rounds {
        let (first, last) = story.flight();
        story.wait(story.rtt);
        story.acknowledge(first, last);
        story.metrics.congestion.window += bytes;
        story.report();
        story.hold();
    }
    story.violation()
}

#[test]
fn l1_reno_grows_by_a_datagram_in_a_round() {
    assert_eq!(grows("reno", SIZE, 12), None);
    assert_eq!(grows("reno", SIZE / 2, 12), Some("L1"));
    assert_eq!(grows("reno", 0, 12), Some("L1"));
}

#[test]
fn l1_cubic_grows_by_half_a_datagram_in_a_round() {
    assert_eq!(grows("cubic", SIZE * 53 / 100, 40), None);
    assert_eq!(grows("cubic", SIZE / 3, 40), Some("L1"));
    assert_eq!(grows("cubic", 0, 8), Some("L1"));
}

#[test]
fn l1_the_published_spiral() {
    // Row 1: at the floor, the controller reports recovery again after every round.
    for controller in ["reno", "cubic"] {
        let mut story = Story::new(controller, L1);
        story.hold();
        story.cut(2);
        story.hold();
        for round in 0..10 {
            story.set_phase(match round % 2 {
                0 => Phase::CongestionAvoidance,
                _ => Phase::Recovery,
            });
            story.round(2);
        }
        assert_eq!(story.violation(), Some("L1"));
    }
}

#[test]
fn l1_losses_and_idle_applications_excuse() {
    let mut story = Story::avoiding("reno", L1, 10);
    for _ in 0..20 {
        let (first, last) = story.flight();
        story.wait(story.rtt);
        story.acknowledge(first, last);
        story.report();
        story.send(3);
        story.limit(SendLimit::Application);
        story.settle(Some(ms(100)));
    }
    assert_eq!(story.violation(), None);
}

#[test]
fn l1_others_grow_within_a_probe_cycle() {
    let tell = |rounds: u64, rate_at_end: u64| {
        let mut story = Story::new("mine", L1);
        story.set_rate(100_000);
        story.hold();
        (0..rounds).for_each(|_| story.round(10));
        story.set_rate(rate_at_end);
        story.round(10);
        story.violation()
    };
    // 3.1 s correspond to 31 rounds, plus eight rounds.
    assert_eq!(tell(37, 100_000), None);
    assert_eq!(tell(42, 100_000), Some("L1"));
    assert_eq!(tell(38, 125_000), None, "it probes at 1.25 times the rate");
}

/// Returns a bottleneck that forwards a hundred datagrams per round trip of 100 ms.
fn bottleneck() -> LinkConfig {
    let delay = ms(50);
    LinkConfig {
        to_client: Conditions {
            delay,
            rate: Some(Rate::from_bytes_per_second(1000 * SIZE)),
            ..Conditions::default()
        },
        to_server: Conditions { delay, ..Conditions::default() },
        ..LinkConfig::default()
    }
}

#[test]
fn l2_a_clean_path_is_used() {
    // Ten datagrams per round trip require four doublings and some additional rounds.
    let tell = |window: fn(u64) -> u64| {
        let mut story = Story::on(bottleneck(), "reno", L2);
        story.hold();
        (0..60).for_each(|round| story.round(window(round)));
        story.violation()
    };
    assert_eq!(tell(|round| (20 << round.min(5)).min(100)), None);
    assert_eq!(tell(|round| (20 << round.min(5)).min(80)), Some("L2"));
}

#[test]
fn l3_what_is_outstanding_has_a_deadline() {
    // The probe timeout is 100 + 4 x 12.5 + 25 ms.
    let tell = |story: &mut Story, deadline: Option<u64>| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 0);
        story.report();
        story.settle(deadline.map(ms));
    };
    respects(L3, |story| tell(story, Some(175)));
    violates(L3, |story| tell(story, Some(178)));
    // Row 60: no timer is set.
    violates(L3, |story| tell(story, None));
}

#[test]
fn l3_the_loss_timer_may_run_longer_than_a_probe_timer() {
    let tell = |story: &mut Story, deadline: u64| {
        story.send(2);
        story.wait(ms(200));
        story.acknowledge(0, 0);
        // With one sample that includes the peer's ACK delay, the probe timeout is 10 + 40 + 25 ms,
        // and the threshold is 225 ms.
        let rtt = story.metrics.rtt.as_mut().unwrap();
        (rtt.smoothed, rtt.variation) = (ms(10), ms(10));
        story.report();
        story.settle(Some(ms(deadline)));
    };
    respects(L3, |story| tell(story, 225));
    violates(L3, |story| tell(story, 228));
}

#[test]
fn l3_nothing_outstanding_needs_none() {
    respects(L3, |story| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 1);
        story.report();
        story.settle(None);
    });
}

#[test]
fn l3_the_deadline_may_be_backed_off() {
    let tell = |story: &mut Story, deadline: u64| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 0);
        story.report();
        (0..3).for_each(|_| story.expire());
        story.settle(Some(ms(deadline)));
    };
    respects(L3, |story| tell(story, 8 * 175));
    violates(L3, |story| tell(story, 8 * 175 + 5));
}

#[test]
fn l4_a_window_with_room_holds_nothing_back() {
    let tell = |story: &mut Story, packets: u64| {
        story.send(packets);
        story.limit(SendLimit::Window);
        story.settle(Some(ms(100)));
    };
    respects(L4, |story| tell(story, 10));
    violates(L4, |story| tell(story, 9));
}

#[test]
fn l4_the_pacer_wakes() {
    let tell = |story: &mut Story, wait: u64, deadline: u64| {
        story.send(2);
        story.paced(ms(wait));
        story.settle(Some(ms(deadline)));
    };
    respects(L4, |story| tell(story, 5, 5));
    // Row 146: the deadline ignores the pacer.
    violates(L4, |story| tell(story, 5, 6));
    violates(L4, |story| tell(story, 0, 0));
}

#[test]
fn l4_data_that_may_go_goes() {
    let tell = |story: &mut Story, written: u64| {
        story.send(2);
        story.written = written;
        story.limit(SendLimit::Application);
        story.settle(Some(ms(100)));
    };
    respects(L4, |story| tell(story, 0));
    violates(L4, |story| tell(story, 1));
    respects(L4, |story| {
        story.send(8);
        tell(story, 1);
    });
}

/// A client that used two addresses may have two connections at a server, only one of which is
/// observed. Data sent by the other connection, to an address with a higher limit, does not unblock
/// this one.
#[test]
fn l4_another_connection_s_credit_is_not_this_one_s() {
    let server = EndId { flow: 0, side: Side::Server };
    let [first, second] = [5, 6].map(|port| ([10, 0, 0, 1], port).into());
    let tell = |story: &mut Story, is_watched: bool| {
        story.checker().on_delivered(server, first, Ecn::NotEct, &[0; 1200]);
        story.send(3);
        for _ in 0..3 {
            story.checker().on_submitted(story.now, server, first, Ecn::NotEct, 1200);
        }
        story.checker().on_delivered(server, second, Ecn::NotEct, &[0; 2400]);
        story.send(u64::from(is_watched));
        story.checker().on_submitted(story.now, server, second, Ecn::NotEct, 1200);
        story.limit(SendLimit::Amplification);
        story.settle(Some(ms(100)));
    };
    respects(L4, |story| tell(story, false));
    violates(L4, |story| tell(story, true));
}

#[test]
fn l5_recovery_ends() {
    let tell = |story: &mut Story, rounds: u64| {
        story.hold();
        story.cut(5);
        story.hold();
        (0..rounds).for_each(|_| story.round(5));
    };
    respects(L5, |story| tell(story, 2));
    violates(L5, |story| tell(story, 3));
}

#[test]
fn l5_bbr_drains_and_goes_on() {
    let tell = |phase: &'static str, rounds: u64| {
        let mut story = Story::new("bbr", L5);
        story.set_phase(Phase::Other(phase));
        story.hold();
        (0..=rounds).for_each(|_| story.round(10));
        story.violation()
    };
    assert_eq!(tell("drain", 5), None);
    assert_eq!(tell("drain", 6), Some("L5"));
    assert_eq!(tell("probe_bw_refill", 3), Some("L5"));
    assert_eq!(tell("probe_bw_down", 31), None);
    assert_eq!(tell("probe_bw_down", 32), Some("L5"), "row 106");
    assert_eq!(tell("startup", 100), None);
}

#[test]
fn l6_a_window_for_each_round_trip() {
    let tell = |story: &mut Story, rate: u64| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 1);
        story.set_rate(rate);
        story.report();
    };
    respects(L6, |story| tell(story, 10 * SIZE * 10));
    violates(L6, |story| tell(story, 10 * SIZE * 10 - 1));
}

#[test]
fn l6_no_longer_than_a_round_trip() {
    let tell = |story: &mut Story, wait: u64| {
        story.send(2);
        story.wait(ms(100));
        story.acknowledge(0, 1);
        story.report();
        story.paced(ms(wait));
    };
    respects(L6, |story| tell(story, 101));
    violates(L6, |story| tell(story, 102));
}

#[test]
fn l7_bbr_knows_the_path() {
    let tell = |rate: u64| {
        let mut story = Story::on(bottleneck(), "bbr", L7);
        story.set_phase(Phase::Other("probe_bw_cruise"));
        story.set_rate(rate * SIZE);
        story.hold();
        (0..80).for_each(|_| story.round(200));
        story.violation()
    };
    assert_eq!(tell(990), None);
    assert_eq!(tell(1200), Some("L7"));
    assert_eq!(tell(500), Some("L7"));
}

#[test]
fn l8_suppressors_let_go() {
    let tell = |suppressor: Suppressor, rounds: u64, flips: bool| {
        let mut story = Story::avoiding("reno", L8, 10);
        for round in 0..rounds {
            story.suppress(suppressor, true, round);
            story.round(10);
            if flips {
                // A condition that is removed and set again in every round is as harmful as a
                // permanent one.
                story.suppress(suppressor, false, round);
                story.report();
            }
        }
        story.violation()
    };
    assert_eq!(tell(Suppressor::Recovery, 2, false), None);
    assert_eq!(tell(Suppressor::Recovery, 3, false), Some("L8"));
    assert_eq!(tell(Suppressor::NotLimited, 4, true), Some("L8"), "row 9");
    assert_eq!(tell(Suppressor::ConservativeSlowStart, 7, false), None);
    assert_eq!(tell(Suppressor::ConservativeSlowStart, 8, false), Some("L8"));
    assert_eq!(tell(Suppressor::ConservativeSlowStart, 20, true), None, "the delay went away");
    assert_eq!(tell(Suppressor::MaximumWindow, 100, false), None);
}

#[test]
fn l9_a_standstill_is_a_violation() {
    violates(L9, |story| story.checker().on_standstill(story.now));
}

#[test]
fn l11_a_silent_peer_is_given_up() {
    let tell = |story: &mut Story, deadline: u64| {
        story.send(1);
        story.settle(Some(Duration::from_secs(deadline)));
    };
    respects(L11, |story| tell(story, 30));
    violates(L11, |story| tell(story, 31));
    violates(L11, |story| {
        story.send(1);
        story.wait(Duration::from_secs(31));
        story.settle(Some(ms(1)));
    });
}
