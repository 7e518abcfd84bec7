//! Tests of S4, S6, S14, S15 and S16: changes to the congestion window.

use clearway_congestion::Phase;

use super::story::{SIZE, Story, ms, respects, violates};
use crate::checker::Property::{S4, S6, S14, S15, S16};

/// Loses one packet of a full flight of ten, in response to which the window is halved.
fn answered(story: &mut Story) {
    story.hold();
    story.cut(5);
}

#[test]
fn s4_one_reduction_for_each_period() {
    let tell = |story: &mut Story, again: bool| {
        story.hold();
        story.wait(ms(100));
        // Packets 0 and 1 are lost, as detected in two steps.
        story.acknowledge(3, 4);
        story.lose(0);
        story.note_cut(5);
        story.report();
        story.acknowledge(5, 6);
        story.lose(1);
        if again {
            // Row 7: the recovery period ended too early, or is ignored.
            story.note_cut(2);
        }
        story.report();
    };
    respects(S4, |story| tell(story, false));
    violates(S4, |story| tell(story, true));
}

#[test]
fn s4_no_deeper_than_beta() {
    let tell = |story: &mut Story, datagrams: u64| {
        story.hold();
        story.cut(datagrams);
    };
    // The expected window is half of ten datagrams, less one for rounding.
    respects(S4, |story| tell(story, 4));
    violates(S4, |story| tell(story, 3));
    let mut story = Story::new("cubic", S4);
    tell(&mut story, 5);
    assert_eq!(story.violation(), Some("S4"), "row 14: 0.595 where 0.7 is right");
    // The factor is the expected cause, and persistent congestion an exception.
    let explanation = story.checker().violation().unwrap().explanation;
    assert_eq!(
        explanation,
        "a reduction from 12000 to 6000 bytes, below the 8400 that the controller's factor 0.7 \
         permits; only persistent congestion permits this, and the lost packets span 0.0 ms of the \
         525.0 ms that it requires"
    );
}

#[test]
fn s4_the_period_ends_with_the_first_packet_sent_in_it() {
    let tell = |story: &mut Story, last: u64, phase: Phase| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(3, 7);
        story.lose(0);
        story.note_cut(5);
        story.report();
        // Packets 10 and later were sent in recovery.
        story.send(1);
        story.wait(ms(100));
        story.acknowledge(8, last);
        story.set_phase(phase);
        story.report();
    };
    respects(S4, |story| tell(story, 9, Phase::Recovery));
    respects(S4, |story| tell(story, 10, Phase::CongestionAvoidance));
    violates(S4, |story| tell(story, 9, Phase::CongestionAvoidance));
    // The published bug: the boundary moves ahead.
    violates(S4, |story| tell(story, 10, Phase::Recovery));
}

#[test]
fn s4_recovery_begins_with_a_reduction() {
    violates(S4, |story| {
        answered(story);
        story.set_phase(Phase::CongestionAvoidance);
        story.hold();
        story.round(6);
        story.wait(ms(100));
        let (first, last) = story.flight();
        story.acknowledge(first, last);
        story.set_phase(Phase::Recovery);
        story.report();
    });
}

/// Declares five packets lost, which were sent over `silence` milliseconds, when a later packet is
/// acknowledged.
fn silence(story: &mut Story, silence: u64) {
    story.set_window(40);
    story.report();
    story.send(1);
    story.wait(ms(100));
    story.acknowledge(0, 0);
    story.report();
    for _ in 1..=5 {
        story.send(1);
        story.wait(ms(silence / 4));
    }
    story.send(4);
    story.wait(ms(100));
    story.acknowledge(9, 9);
    (1..=5).for_each(|number| story.lose(number));
}

fn collapse(story: &mut Story, threshold: u64) {
    story.set_window(2);
    story.set_threshold(threshold);
    story.set_phase(Phase::SlowStart);
    story.metrics.congestion.congestion_events += 1;
    story.report();
}

#[test]
fn s4_persistent_congestion_needs_its_silence() {
    // The persistent congestion duration is (100 + 50 + 25) ms x 3.
    respects(S4, |story| {
        silence(story, 528);
        collapse(story, 20);
    });
    violates(S4, |story| {
        silence(story, 520);
        collapse(story, 20);
    });
}

#[test]
fn s4_persistent_congestion_is_answered() {
    // Row 25: persistent congestion is never declared. The first of five packets is sent at the
    // time of the first sample and does not count, which leaves three quarters.
    violates(S4, |story| {
        silence(story, 708);
        story.report();
    });
    respects(S4, |story| {
        silence(story, 696);
        story.report();
    });
    respects(S4, |story| {
        silence(story, 708);
        collapse(story, 20);
    });
}

#[test]
fn s4_persistent_congestion_leaves_a_threshold() {
    // Rows 21 and 23: the threshold is computed from the previous window.
    violates(S4, |story| {
        silence(story, 600);
        collapse(story, 2);
    });
}

#[test]
fn s4_one_collapse_for_each_silence() {
    // Row 22: persistent congestion is declared again for losses from the same silent period,
    // revealed by the next acknowledgment.
    violates(S4, |story| {
        silence(story, 600);
        collapse(story, 20);
        story.acknowledge(8, 8);
        story.lose(6);
        collapse(story, 20);
    });
    respects(S4, |story| {
        silence(story, 600);
        collapse(story, 20);
        story.acknowledge(8, 8);
        story.lose(6);
        story.report();
    });
}

#[test]
fn s6_slow_start_ends_at_its_threshold() {
    let tell = |story: &mut Story, datagrams: u64| {
        story.hold();
        story.set_threshold(12);
        story.report();
        story.round(datagrams);
    };
    // Ten datagrams arrive: two bring the window to the threshold, and half of the other eight may
    // be added.
    respects(S6, |story| tell(story, 16));
    // Row 30.
    violates(S6, |story| tell(story, 17));
}

#[test]
fn s6_growth_is_no_more_than_was_delivered() {
    let tell = |story: &mut Story, datagrams: u64| {
        story.hold();
        story.round(datagrams);
    };
    respects(S6, |story| tell(story, 20));
    violates(S6, |story| tell(story, 21));
}

#[test]
fn s6_a_window_that_is_not_used_does_not_grow() {
    let tell = |story: &mut Story, packets: u64| {
        // Twenty datagrams fit in the window, but the application has fewer to send.
        story.hold();
        story.round(20);
        for _ in 0..4 {
            let (first, last) = story.flight();
            story.wait(ms(100));
            story.acknowledge(first, last);
            story.report();
            story.send(packets);
            story.limit(clearway_transport::SendLimit::Application);
            story.settle(Some(ms(100)));
        }
        story.wait(ms(100));
        let (first, last) = story.flight();
        story.acknowledge(first, last);
        story.set_window(21);
        story.report();
    };
    // Nineteen datagrams leave room for one more; twenty do not.
    violates(S6, |story| tell(story, 19));
    respects(S6, |story| tell(story, 20));
}

#[test]
fn s6_an_acknowledgement_does_not_shrink_the_window() {
    // Row 17: W_cubic is below the window.
    let mut story = Story::avoiding("cubic", S6, 8);
    assert_eq!(story.violation(), None);
    story.metrics.congestion.window -= 1;
    story.wait(ms(100));
    let (first, last) = story.flight();
    story.acknowledge(first, last);
    story.report();
    assert_eq!(story.violation(), Some("S6"));
}

#[test]
fn s6_nothing_moves_the_window_without_cause() {
    violates(S6, |story| {
        story.report();
        story.send(1);
        story.set_window(11);
        story.report();
    });
}

#[test]
fn s6_half_the_window_in_a_round_of_avoidance() {
    // Row 3: the target grows without limit.
    let tell = |datagrams: u64| {
        let mut story = Story::avoiding("cubic", S6, 8);
        story.round(datagrams);
        story.violation()
    };
    assert_eq!(tell(13), None);
    assert_eq!(tell(14), Some("S6"));
}

/// The ACK frame that ends a round may acknowledge everything sent in that round, in which case two
/// windows are acknowledged in one round.
#[test]
fn s6_half_of_what_a_round_acknowledges() {
    let tell = |datagrams: u64| {
        let mut story = Story::avoiding("cubic", S6, 8);
        let (first, last) = story.flight();
        story.wait(story.rtt);
        story.acknowledge(first, first);
        story.report();
        story.hold();
        story.acknowledge(first + 1, last);
        story.report();
        story.hold();
        story.round(datagrams);
        story.violation()
    };
    // Seven datagrams and then eight are acknowledged.
    assert_eq!(tell(16), None);
    assert_eq!(tell(17), Some("S6"));
}

#[test]
fn s6_recovery_sends_no_more_than_prr_permits() {
    let tell = |story: &mut Story, window: u64| {
        answered(story);
        // Nothing is in flight: nine of ten delivered packets may be replaced, up to the threshold.
        story.send(5);
        story.wait(ms(10));
        story.lose(10);
        story.set_window(window);
        story.report();
        story.acknowledge(12, 12);
        story.metrics.congestion.window = window * SIZE;
        story.set_phase(Phase::Recovery);
        story.report();
    };
    respects(S6, |story| tell(story, 5));
    violates(S6, |story| tell(story, 6));
}

#[test]
fn s14_undo_needs_every_packet() {
    let tell = |story: &mut Story, returned: u64| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(4, 9);
        (0..4).for_each(|number| story.lose(number));
        story.note_cut(5);
        story.report();
        story.acknowledge(0, returned);
        story.set_window(10);
        story.set_phase(Phase::SlowStart);
        story.metrics.congestion.undone_events += 1;
        story.report();
    };
    respects(S14, |story| tell(story, 3));
    violates(S14, |story| tell(story, 2));
}

#[test]
fn s14_nothing_is_undone_twice() {
    violates(S14, |story| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(4, 9);
        story.lose(3);
        story.note_cut(5);
        story.report();
        story.acknowledge(3, 3);
        story.metrics.congestion.undone_events += 1;
        story.set_window(10);
        story.report();
        story.metrics.congestion.undone_events += 1;
        story.acknowledge(0, 0);
        story.report();
    });
}

#[test]
fn s14_a_window_that_was_outgrown_stays() {
    violates(S14, |story| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(1, 9);
        story.lose(0);
        story.note_cut(5);
        story.report();
        story.acknowledge(0, 0);
        story.metrics.congestion.undone_events += 1;
        story.set_phase(Phase::CongestionAvoidance);
        story.set_window(4);
        story.report();
    });
}

/// The ACK that acknowledges the last lost packet may also begin a BBR phase that limits the
/// window, or reveal the loss of a packet sent by a bandwidth probe.
#[test]
fn s14_bbr_may_be_bounded_by_what_else_an_ack_says() {
    let tell = |next: &'static str, loses: bool| {
        let mut story = Story::new("bbr", S14);
        story.hold();
        story.wait(ms(100));
        story.acknowledge(2, 9);
        story.lose(0);
        story.note_cut(8);
        story.set_phase(Phase::Other("probe_bw_down"));
        story.report();
        story.acknowledge(0, 0);
        if loses {
            story.lose(1);
        }
        story.metrics.congestion.undone_events += 1;
        story.set_phase(Phase::Other(next));
        story.set_window(7);
        story.report();
        story.violation()
    };
    assert_eq!(tell("probe_bw_cruise", false), None);
    assert_eq!(tell("probe_bw_down", true), None);
    assert_eq!(tell("probe_bw_down", false), Some("S14"));
}

#[test]
fn s15_idle_time_does_not_speed_growth_up() {
    let tell = |idle: u64, datagrams: u64| {
        let mut story = Story::avoiding("cubic", S15, 40);
        story.round(41);
        let (first, last) = story.flight();
        story.wait(ms(100));
        story.acknowledge(first, last);
        story.report();
        story.wait(ms(idle));
        story.hold();
        story.round(datagrams);
        story.violation()
    };
    assert_eq!(tell(5000, 43), None);
    // Row 3: the epoch counts the idle time.
    assert_eq!(tell(5000, 44), Some("S15"));
    assert_eq!(tell(10, 44), None, "there was no idle time");
}

#[test]
fn s16_every_loss_is_answered() {
    respects(S16, answered);
    // Row 29.
    violates(S16, |story| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(1, 9);
        story.lose(0);
        story.report();
    });
}

#[test]
fn s16_losses_of_an_answered_flight_are_not_answered_again() {
    respects(S16, |story| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(5, 9);
        story.lose(0);
        story.note_cut(5);
        story.report();
        story.lose(1);
        story.report();
    });
}

#[test]
fn s16_nothing_else_is_answered() {
    // Row 35.
    violates(S16, |story| {
        story.hold();
        story.wait(ms(100));
        story.acknowledge(0, 9);
        story.note_cut(5);
        story.report();
    });
}
