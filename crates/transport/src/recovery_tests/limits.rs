//! Law 4: the reason why sending stopped, and its effect on the controller and the delivery rate
//! sampler.

use clearway_congestion::SendLimit;
use clearway_units::{Rate, ReleaseTime};

use crate::SpaceId;
use crate::recovery::testing::{Bench, SIZE, at, ms};

#[test]
fn the_window_permits_whole_datagrams_only() {
    // Gallery row 11: a window with room for less than a datagram is full.
    let mut bench = Bench::new();
    bench.set_window(3500);
    assert_eq!(bench.recovery.window(), 3500);
    assert_eq!(bench.recovery.may_send(at(0)), Ok(()));
    bench.send(at(0));
    assert_eq!(bench.recovery.may_send(at(0)), Ok(()));
    bench.send(at(0));
    assert_eq!(bench.recovery.may_send(at(0)), Err(SendLimit::Window));
    bench.set_window(1000);
    assert_eq!(bench.recovery.may_send(at(0)), Err(SendLimit::Window));
}

#[test]
fn held_back_data_is_what_makes_a_sender_limited() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.recovery.sending_stopped(at(0), SendLimit::Window);
    bench.ack(at(40), &[(0, 0)]);
    let report = bench.last_report();
    assert!(report.was_limited);
    assert_eq!(report.limited_time, ms(40));
    assert_eq!(report.round, 1);
    // Sending is limited until it stops for another reason.
    bench.send(at(41));
    bench.recovery.sending_stopped(at(41), SendLimit::Window);
    bench.send(at(50));
    bench.recovery.sending_stopped(at(50), SendLimit::Application);
    bench.ack(at(90), &[(1, 2)]);
    let report = bench.last_report();
    assert!(report.was_limited);
    assert_eq!(report.limited_time, ms(10));
}

#[test]
fn a_sender_without_data_is_not_limited() {
    let mut bench = Bench::new();
    let mut limited = Vec::new();
    for round in 0..4 {
        let number = bench.send(at(round * 100));
        let limit = if round == 0 { SendLimit::Window } else { SendLimit::Application };
        bench.recovery.sending_stopped(at(round * 100), limit);
        bench.ack(at(round * 100 + 40), &[(number, number)]);
        limited.push(bench.last_report().was_limited);
    }
    // Sending was limited until 100, in the second round; that round counts as limited, but no
    // later one.
    assert_eq!(limited, [true, true, false, false]);
}

#[test]
fn what_the_pacer_holds_back_is_not_held_back_by_the_window() {
    let mut bench = Bench::new();
    let mut limited = Vec::new();
    for round in 0..4 {
        let number = bench.send(at(round * 100));
        let pacer = SendLimit::Pacer(ReleaseTime::at(at(round * 100 + 90)));
        let limit = if round == 0 { SendLimit::Window } else { pacer };
        bench.recovery.sending_stopped(at(round * 100), limit);
        bench.ack(at(round * 100 + 40), &[(number, number)]);
        let report = bench.last_report();
        limited.push((report.was_limited, report.was_window_limited));
    }
    // The window limited sending until 100, in the second round.
    assert_eq!(limited, [(true, true), (true, true), (true, false), (true, false)]);
}

#[test]
fn all_delivered_and_lost_packets_are_reported_to_the_controller() {
    let mut bench = Bench::new();
    for number in 0..8 {
        bench.send(at(number));
    }
    bench.ack(at(40), &[(0, 1)]);
    assert_eq!(bench.last_report().totals, (2400, 0));
    bench.ack(at(41), &[(5, 6)]);
    assert_eq!(bench.last_report().totals, (4800, 2400), "packets 2 and 3 are lost");
}

#[test]
fn a_stop_for_flow_control_is_not_the_windows() {
    for limit in [SendLimit::FlowControl, SendLimit::Amplification, SendLimit::Path] {
        let mut bench = Bench::new();
        bench.send(at(0));
        bench.recovery.sending_stopped(at(0), limit);
        bench.ack(at(40), &[(0, 0)]);
        assert!(!bench.last_report().was_limited);
        assert_eq!(bench.last_report().limited_time, ms(0));
    }
}

#[test]
fn the_pacers_deadline_is_set_while_data_waits_for_it() {
    let mut bench = Bench::new();
    bench.recovery.sending_stopped(at(0), SendLimit::Pacer(ReleaseTime::at(at(7))));
    assert_eq!(bench.recovery.pacer_deadline(), Some(at(7)));
    bench.send(at(7));
    bench.recovery.sending_stopped(at(7), SendLimit::Application);
    assert_eq!(bench.recovery.pacer_deadline(), None);
}

#[test]
fn the_pacer_delays_and_then_releases_a_packet() {
    let mut bench = Bench::new();
    bench.record.lock().unwrap().rate = Some(Rate::from_bytes_per_second(1_200_000));
    let mut now = at(0);
    let mut waits = 0;
    for _ in 0..200 {
        match bench.recovery.may_send(now) {
            Ok(()) => {
                bench.send(now);
            }
            Err(limit @ SendLimit::Pacer(release)) => {
                bench.recovery.sending_stopped(now, limit);
                assert!(release.deadline() > now);
                now = release.deadline();
                assert!(bench.recovery.may_send(now).is_ok(), "row 86");
                waits += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(waits > 20, "{waits}");
}

#[test]
fn acks_bypass_the_pacer() {
    // Gallery row 87: packets that are not in flight are sent regardless of the pacer, and are not
    // charged to it.
    let mut bench = Bench::new();
    bench.record.lock().unwrap().rate = Some(Rate::from_bytes_per_second(1000));
    for _ in 0..100 {
        bench.send_ack_only(at(0));
    }
    // The full burst is still available.
    for _ in 0..10 {
        assert_eq!(bench.recovery.may_send(at(0)), Ok(()));
        bench.send(at(0));
    }
    assert!(matches!(bench.recovery.may_send(at(0)), Err(SendLimit::Pacer(_))));
}

fn marks(bench: &Bench) -> Vec<bool> {
    let sent = &bench.record.lock().unwrap().sent;
    sent.iter().map(|(packet, _)| packet.delivery.is_application_limited).collect()
}

#[test]
fn packets_after_an_idle_time_are_marked_as_application_limited() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.recovery.sending_stopped(at(0), SendLimit::Application);
    bench.send(at(10));
    assert_eq!(marks(&bench), [false, true]);
    // This applies even if everything was delivered in the meantime.
    bench.ack(at(50), &[(0, 1)]);
    bench.recovery.sending_stopped(at(50), SendLimit::Application);
    bench.send(at(60));
    assert!(marks(&bench)[2]);
}

#[test]
fn a_full_window_or_the_pacer_mark_nothing() {
    // Gallery row 127.
    for limit in [SendLimit::Window, SendLimit::Pacer(ReleaseTime::at(at(3))), SendLimit::Batch] {
        let mut bench = Bench::new();
        bench.send(at(0));
        bench.recovery.sending_stopped(at(0), limit);
        bench.send(at(10));
        assert_eq!(marks(&bench), [false, false]);
    }
    // Running out of data while the window is full does not make the sender application-limited
    // either.
    let mut bench = Bench::new();
    bench.set_window(1200);
    bench.send(at(0));
    bench.recovery.sending_stopped(at(0), SendLimit::Application);
    bench.set_window(2400);
    bench.send(at(10));
    assert_eq!(marks(&bench), [false, false]);
}

#[test]
fn rounds_are_counted_by_packets_sent_after_they_began() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.send(at(0));
    }
    let mut rounds = Vec::new();
    for number in 0..4 {
        bench.ack(at(40 + number), &[(0, number)]);
        rounds.push(bench.last_report().round);
    }
    assert_eq!(rounds, [1, 1, 1, 1]);
    bench.send(at(50));
    bench.ack(at(90), &[(0, 4)]);
    assert_eq!(bench.last_report().round, 2);
    bench.send_in(SpaceId::Handshake, at(91));
    bench.ack_in(SpaceId::Handshake, at(130), &[(0, 0)]);
    assert_eq!(bench.last_report().round, 3, "one order over all spaces");
}

#[test]
fn only_a_sender_with_nothing_in_flight_starts_with_a_burst() {
    for (last_acked, expected) in [(9, 10), (0, 2)] {
        let mut bench = Bench::new();
        bench.record.lock().unwrap().rate = Some(Rate::from_bytes_per_second(1_200_000));
        for _ in 0..10 {
            assert_eq!(bench.recovery.may_send(at(0)), Ok(()));
            bench.send(at(0));
        }
        bench.ack(at(40), &[(0, last_acked)]);
        let mut sent = 0;
        while bench.recovery.may_send(at(100)).is_ok() {
            bench.send(at(100));
            sent += 1;
        }
        assert_eq!(sent, expected, "after packets up to {last_acked} were acknowledged");
    }
}

/// All paths except the current one share the initial window of one path, plus one datagram per
/// probe timeout of an unknown path (RFC 9002 §7.2, §7.5).
#[test]
fn other_paths_have_a_window_of_their_own() {
    let mut bench = Bench::new();
    let sent_by = |bench: &mut Bench, milliseconds| {
        let mut sent = 0;
        while sent < 100 && bench.recovery.may_send_elsewhere(at(milliseconds), SIZE) {
            bench.stage(SpaceId::Application, |packet| packet.is_off_path = true);
            bench.recovery.transmitted(at(milliseconds)).unwrap();
            sent += 1;
        }
        sent
    };
    assert_eq!(sent_by(&mut bench, 0), 10);
    assert_eq!((sent_by(&mut bench, 998), sent_by(&mut bench, 999)), (0, 1));
    assert_eq!((sent_by(&mut bench, 1997), sent_by(&mut bench, 1998)), (0, 1));
    bench.ack(at(2000), &[(0, 4)]);
    assert_eq!(sent_by(&mut bench, 2000), 3);
}
