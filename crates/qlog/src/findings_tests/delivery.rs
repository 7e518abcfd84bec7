use super::story::{DATAGRAM, ROUND_TRIP, Story, ms};
use crate::findings::FindingId::{
    EcnBlackHole, IdleWithData, LossDeclaredEarly, MtuBlackHole, ProbeOverdue, SpuriousLoss,
};
use crate::read::{Blocked, EventKind, Frame, Metrics};

#[test]
fn nothing_in_flight_although_data_is_waiting() {
    let pauses = |reason: Blocked, pause: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for _ in 0..4 {
            story.blocked(reason);
            story.now += ms(pause);
            story.round();
        }
        story.finds()
    };
    assert_eq!(pauses(Blocked::Pacing, 300), [IdleWithData]);
    assert_eq!(pauses(Blocked::Pacing, 50), []);
    assert_eq!(pauses(Blocked::Application, 300), []);
}

#[test]
fn a_probe_that_is_not_sent() {
    let waits = |pauses: &[u64]| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        story.fill();
        for pause in pauses {
            story.now += ms(*pause);
            story.send_frames(vec![Frame::Ping], 40);
        }
        story.finds()
    };
    // The probe timeout is 39 ms.
    assert_eq!(waits(&[2000]), [ProbeOverdue]);
    assert_eq!(waits(&[40, 80, 160, 320, 640, 1280, 2560]), []);
}

#[test]
fn losses_declared_too_early() {
    let declares = |number_of_later: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for _ in 0..20 {
            let first = story.next;
            story.fill();
            story.now += ms(5);
            story.acknowledge(first + 1, first + number_of_later, ms(0));
            story.lose(first);
            story.now += ms(6);
            story.acknowledge(first, story.next - 1, ms(0));
        }
        story.finds()
    };
    assert_eq!(declares(1), [LossDeclaredEarly]);
    assert_eq!(declares(3), []);
}

/// ngtcp2 first logs the losses, then the packet that revealed them, and then the round-trip time.
#[test]
fn losses_that_are_logged_before_their_cause() {
    let declares = |later: u64, rtt: u64| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for _ in 0..20 {
            let first = story.next;
            story.fill();
            story.now += ms(5);
            story.lose(first);
            story.acknowledge(first + 1, first + later, ms(0));
            let rtt = Some(ms(rtt));
            story.metrics(Metrics { smoothed_rtt: rtt, latest_rtt: rtt, ..Metrics::default() });
            story.now += ms(6);
            story.acknowledge(first, story.next - 1, ms(0));
            let rtt = Some(ROUND_TRIP);
            story.metrics(Metrics { smoothed_rtt: rtt, latest_rtt: rtt, ..Metrics::default() });
        }
        story.finds()
    };
    assert_eq!(declares(1, 10), [LossDeclaredEarly]);
    assert_eq!(declares(3, 10), [], "overtaken by three packets");
    assert_eq!(declares(1, 4), [], "late, given the latest round-trip time");
}

#[test]
fn reordering_taken_for_loss() {
    let reorders = |is_undone: bool| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for round in 1..=40 {
            let first = story.next;
            story.fill();
            story.now += ROUND_TRIP;
            story.acknowledge(first + 1, first + 10, ms(0));
            story.lose(first);
            story.acknowledge(first, story.next - 1, ms(0));
            let undone = if is_undone { round } else { 0 };
            story.event(EventKind::CongestionEvents { events: round, undone });
        }
        story.finds()
    };
    assert_eq!(reorders(false), [SpuriousLoss]);
    assert_eq!(reorders(true), []);
}

/// If the trace does not log whether a reduction was undone, the window shows it.
#[test]
fn reordering_taken_for_loss_is_inferred_from_the_window() {
    let reorders = |cut: u64, is_undone: bool| {
        let mut story = Story::begin(20 * DATAGRAM);
        story.round();
        for _ in 0..40 {
            let first = story.next;
            story.fill();
            story.now += ROUND_TRIP;
            story.acknowledge(first + 1, first + 8, ms(0));
            story.lose(first);
            let window = story.window;
            story.set_window(window - cut);
            story.acknowledge(first, story.next - 1, ms(0));
            story.now += ROUND_TRIP;
            if is_undone {
                story.set_window(window);
            } else {
                (0..8).for_each(|_| story.set_window(story.window + cut / 8));
            }
        }
        story.finds()
    };
    assert_eq!(reorders(8 * DATAGRAM, false), [SpuriousLoss]);
    assert_eq!(reorders(8 * DATAGRAM, true), []);
    assert_eq!(reorders(0, false), [], "BBR does not respond to a few losses");
}

#[test]
fn a_path_that_has_become_narrow() {
    let narrow = |arrives: bool| {
        let mut story = Story::begin(20 * 1400);
        story.length = 1400;
        story.round();
        for _ in 0..10 {
            let large = story.next;
            story.send();
            story.send_frames(vec![Frame::Ping], 60);
            story.now += ms(50);
            if arrives {
                story.acknowledge(large, large + 1, ms(0));
            } else {
                story.acknowledge(large + 1, large + 1, ms(0));
                story.lose(large);
            }
        }
        story.finds()
    };
    assert_eq!(narrow(false), [MtuBlackHole]);
    assert_eq!(narrow(true), []);
}

#[test]
fn marked_packets_that_do_not_arrive() {
    let tests = |arrives: bool| {
        let mut story = Story::begin(200 * DATAGRAM);
        story.event(EventKind::Ecn("testing".into()));
        let first = story.next;
        for _ in 0..20 {
            story.send();
            story.now += ms(20);
            if arrives {
                story.acknowledge(first, story.next - 1, ms(0));
            }
        }
        story.finds()
    };
    assert_eq!(tests(false), [EcnBlackHole]);
    assert_eq!(tests(true), []);
}
