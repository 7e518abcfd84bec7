//! Tests of L10 and S26, and of the parts of S4, S14, S16 and L1 that concern CE marks.

use clearway_congestion::Phase;
use clearway_network::Ecn;
use clearway_transport::{EcnFailure, EcnState, Observation};

use super::story::{Story, ms, respects, violates};
use crate::checker::Property::{self, L1, L10, S4, S14, S16, S26};

const FAILED: EcnState = EcnState::Failed(EcnFailure::AllLost);

/// Asserts that an event sequence respects L10 if `is_right`, and that it violates L10 otherwise.
fn judge(is_right: bool, tell: impl FnOnce(&mut Story)) {
    match is_right {
        true => respects(L10, tell),
        false => violates(L10, tell),
    }
}

/// Reports that the server has disabled ECN.
fn give_up(story: &mut Story) {
    story.tell(&Observation::EcnStateUpdated { old: None, new: FAILED });
}

/// Sends ten marked packets, and acknowledges the first four with the ECN counts `counts`.
fn tested(story: &mut Story, counts: Option<[u32; 3]>) {
    story.send_with(Ecn::Ect0, 10);
    story.wait(ms(100));
    story.acknowledge_with(0, 3, counts);
    story.report();
}

#[test]
fn l10_nothing_is_marked_after_counts_that_cannot_be_right() {
    for (counts, is_right) in [
        (None, false),
        (Some([3, 0, 0]), false),
        (Some([0, 4, 0]), false),
        (Some([4, 1, 0]), false),
        (Some([8, 0, 3]), false),
        (Some([4, 0, 0]), true),
        (Some([3, 0, 1]), true),
        (Some([10, 0, 0]), true),
    ] {
        judge(is_right, |story| {
            tested(story, counts);
            story.send_with(Ecn::Ect0, 1);
        });
        // Disabling ECN is correct if and only if the counts are wrong.
        judge(!is_right, |story| {
            tested(story, counts);
            give_up(story);
            story.send_with(Ecn::NotEct, 20);
        });
    }
}

#[test]
fn l10_counts_of_reordered_acks_are_no_evidence() {
    respects(L10, |story| {
        story.send_with(Ecn::Ect0, 10);
        story.acknowledge_with(8, 9, Some([10, 0, 0]));
        story.acknowledge_with(0, 3, Some([4, 0, 0]));
        story.acknowledge_with(4, 5, None);
        story.send_with(Ecn::Ect0, 20);
    });
}

#[test]
fn l10_a_path_that_lets_no_marked_packet_through_is_given_up() {
    respects(L10, |story| story.send_with(Ecn::Ect0, 22));
    violates(L10, |story| story.send_with(Ecn::Ect0, 23));
    // On a validated path, a test remains permitted once ten packets in a row are lost.
    let tell = |story: &mut Story, more: u64| {
        tested(story, Some([10, 0, 0]));
        story.send_with(Ecn::Ect0, 40);
        story.send_with(Ecn::NotEct, 1);
        story.acknowledge_with(50, 50, Some([10, 0, 0]));
        (10..50).for_each(|number| story.lose(number));
        story.send_with(Ecn::Ect0, more);
    };
    respects(L10, |story| tell(story, 22));
    violates(L10, |story| tell(story, 23));
}

/// The validation of an earlier path does not apply to a new path.
#[test]
fn l10_a_test_of_which_all_packets_were_lost_is_not_repeated() {
    let tell = |story: &mut Story, lost: u64| {
        story.send_with(Ecn::Ect0, 10);
        story.send_with(Ecn::NotEct, 1);
        story.acknowledge_with(10, 10, None);
        (0..lost).for_each(|number| story.lose(number));
        story.send_with(Ecn::Ect0, 1);
    };
    respects(L10, |story| tell(story, 9));
    violates(L10, |story| tell(story, 10));
}

/// Fewer than ten lost packets are not sufficient evidence, but lost and marked packets are added
/// up.
#[test]
fn l10_ten_packets_are_needed_to_give_up() {
    let tell = |story: &mut Story, ce: u64, lost: u64| {
        story.send_with(Ecn::Ect0, 10);
        story.send_with(Ecn::NotEct, 1);
        if ce > 0 {
            story.acknowledge_with(0, ce - 1, Some([0, 0, ce as u32]));
        }
        story.acknowledge_with(10, 10, Some([0, 0, ce as u32]));
        (ce..ce + lost).for_each(|number| story.lose(number));
        give_up(story);
    };
    respects(L10, |story| tell(story, 0, 10));
    respects(L10, |story| tell(story, 4, 6));
    violates(L10, |story| tell(story, 0, 9));
    violates(L10, |story| tell(story, 4, 5));
}

#[test]
fn l10_a_validated_path_is_used() {
    let tell = |story: &mut Story, unmarked: u64| {
        tested(story, Some([10, 0, 0]));
        story.send_with(Ecn::NotEct, unmarked);
    };
    respects(L10, |story| tell(story, 10));
    violates(L10, |story| tell(story, 11));
    violates(L10, |story| story.send_with(Ecn::Ect1, 1));
}

#[test]
fn l10_nothing_but_ce_for_long_is_a_failure() {
    let tell = |story: &mut Story, rounds: u64, gives_up: bool| {
        tested(story, Some([10, 0, 0]));
        for round in 0..rounds {
            story.send_with(Ecn::Ect0, 1);
            story.wait(ms(100));
            story.acknowledge_with(10 + round, 10 + round, Some([10, 0, 1 + round as u32]));
            story.report();
        }
        if gives_up {
            give_up(story);
        } else {
            story.send_with(Ecn::Ect0, 1);
        }
    };
    respects(L10, |story| tell(story, 16, true));
    violates(L10, |story| tell(story, 5, true));
    respects(L10, |story| tell(story, 16, false));
    violates(L10, |story| tell(story, 30, false));
}

#[test]
fn s26_ack_frames_report_the_marks_that_came() {
    let tell = |story: &mut Story, counts: Option<[u32; 3]>| {
        for ecn in [Ecn::Ect0, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            story.receive_with(ecn);
        }
        story.send_ack(counts);
    };
    respects(S26, |story| tell(story, Some([2, 1, 1])));
    violates(S26, |story| tell(story, Some([3, 1, 1])));
    violates(S26, |story| tell(story, Some([2, 1, 0])));
    violates(S26, |story| tell(story, None));
    respects(S26, |story| {
        story.receive_with(Ecn::NotEct);
        story.send_ack(None);
    });
}

#[test]
fn s26_a_ce_mark_is_reported_at_once() {
    let tell = |story: &mut Story, ecn: Ecn| {
        story.receive_with(ecn);
        story.settle(Some(ms(25)));
    };
    respects(S26, |story| tell(story, Ecn::Ect0));
    violates(S26, |story| tell(story, Ecn::Ce));
}

/// Sends a full window of 40 marked datagrams; the first two arrive, `ce` of them with CE.
fn marked(controller: &str, only: Property, ce: u32) -> Story {
    let mut story = Story::avoiding(controller, only, 40);
    story.submit(Ecn::NotEct, 1200);
    let (first, last) = story.flight();
    story.wait(story.rtt);
    story.acknowledge(first, last);
    story.report();
    story.send_with(Ecn::Ect0, 40);
    story.wait(story.rtt);
    story.acknowledge_with(last + 1, last + 2, Some([2 - ce, 0, ce]));
    story
}

#[test]
fn s16_a_ce_mark_reduces_the_window_and_nothing_else_does() {
    for controller in ["reno", "cubic"] {
        for (ce, is_cut, is_right) in
            [(1, true, true), (0, true, false), (1, false, false), (0, false, true)]
        {
            let mut story = marked(controller, S16, ce);
            if is_cut {
                story.note_cut(34);
            }
            story.report();
            assert_eq!(story.violation().is_none(), is_right, "{controller} {ce} {is_cut}");
        }
    }
}

#[test]
fn s16_and_s4_the_marks_of_one_round_reduce_it_once() {
    for (only, cuts) in [(S16, 1), (S4, 1), (S4, 2)] {
        let mut story = marked("reno", only, 1);
        story.note_cut(32);
        story.report();
        // The next packet of the same flight, also marked.
        let (first, _) = story.flight();
        story.acknowledge_with(first, first, Some([1, 0, 2]));
        if cuts == 2 {
            story.note_cut(26);
        }
        story.report();
        assert_eq!(story.violation(), (cuts == 2).then_some("S4"));
    }
}

/// RFC 8511: the factors are 0.8 and 0.85, but in slow start the same as after a loss.
#[test]
fn s4_a_mark_leaves_more_of_the_window_than_a_loss() {
    for (controller, least) in [("reno", 31), ("cubic", 33)] {
        for (left, is_right) in [(least, true), (least - 1, false)] {
            let mut story = marked(controller, S4, 1);
            story.note_cut(left);
            story.report();
            let violation = story.checker().violation();
            let explanation = violation.map(|it| it.explanation);
            assert_eq!(explanation.is_none(), is_right, "{controller} {left}");
            let is_explained = |it: String| it.ends_with(" permits; no packet was lost");
            assert!(explanation.is_none_or(is_explained), "{controller} {left}");
        }
    }
    respects(S4, |story| {
        story.send_with(Ecn::Ect0, 10);
        story.wait(ms(100));
        story.acknowledge_with(0, 3, Some([3, 0, 1]));
        story.note_cut(5);
        story.report();
    });
}

#[test]
fn s14_what_a_mark_asked_for_is_not_undone() {
    for ce in [0, 1] {
        let mut story = marked("reno", S14, ce);
        let (first, _) = story.flight();
        story.acknowledge_with(first + 3, first + 3, Some([3 - ce, 0, ce]));
        story.lose(first);
        story.note_cut(32);
        story.report();
        story.acknowledge_with(first, first, Some([4 - ce, 0, ce]));
        story.set_window(40);
        story.metrics.congestion.undone_events += 1;
        story.set_phase(Phase::CongestionAvoidance);
        story.report();
        assert_eq!(story.violation(), (ce == 1).then_some("S14"));
    }
}

#[test]
fn l1_a_round_with_a_mark_needs_no_growth() {
    for is_marked in [false, true] {
        let mut story = marked("reno", L1, 0);
        story.report();
        let (before, mut ce) = (story.flight().0 as u32 - 2, 0);
        for _ in 0..16 {
            story.hold();
            story.submit(Ecn::Ect0, 1200);
            let (first, last) = story.flight();
            story.wait(story.rtt);
            ce += u32::from(is_marked);
            story.acknowledge_with(first, last, Some([last as u32 + 1 - before - ce, 0, ce]));
            story.report();
        }
        assert_eq!(story.violation(), (!is_marked).then_some("L1"), "{is_marked}");
    }
}
