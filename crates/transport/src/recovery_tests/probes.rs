//! RFC 9002 §6.2: probe timeouts; law 8: a timer is always set.

use crate::SpaceId;
use crate::recovery::Expired;
use crate::recovery::testing::{Bench, at, connecting_client, ms};

const APPLICATION: SpaceId = SpaceId::Application;

#[test]
fn the_timer_restarts_with_every_ack_eliciting_packet() {
    // Gallery row 76: the timeout starts with the last packet sent, not the first.
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    bench.send(at(100));
    bench.send(at(110));
    bench.send_ack_only(at(120));
    assert_eq!(bench.deadline(), Some(at(110) + ms(40 + 80 + 25)));
}

#[test]
fn expiry_marks_nothing_lost_and_offers_the_oldest() {
    let mut bench = Bench::new();
    for time in 0..4 {
        bench.send(at(time));
    }
    let deadline = bench.deadline().unwrap();
    assert_eq!(deadline, at(3) + ms(999 + 25));
    assert_eq!(bench.expire(deadline), Expired::Probes { space: APPLICATION, count: 2 });
    assert_eq!(bench.in_flight(), 4800);
    assert_eq!(bench.lost(), Vec::<u64>::new());
    assert_eq!((bench.probe(APPLICATION), bench.probe(APPLICATION)), (vec![0], vec![1]));
    assert!(bench.reports().is_empty());
    assert!(bench.deadline().unwrap() > deadline, "never due again at once");
}

#[test]
fn no_packet_is_offered_twice_before_all_others_were() {
    // Gallery row 70.
    let mut bench = Bench::new();
    for time in 0..3 {
        bench.send(at(time));
    }
    let mut offered = Vec::new();
    for _ in 0..3 {
        let deadline = bench.deadline().unwrap();
        let Expired::Probes { space, count } = bench.expire(deadline) else { panic!() };
        for _ in 0..count {
            offered.extend(bench.probe(space));
            // The probe contains a copy and is outstanding itself.
            bench.send(deadline);
        }
    }
    // Packets 3, 4 and 5 are copies of 0, 1 and 2.
    assert_eq!(offered, [0, 1, 2, 3, 4, 5]);
}

/// Regression test: a response sent after the first of several consecutive timeouts was lost and
/// waited for an acknowledgment, while the probes only repeated packets that had been outstanding
/// before.
#[test]
fn packets_that_were_sent_after_the_first_timeout_are_offered_too() {
    let mut bench = Bench::new();
    bench.send(at(0));
    let mut offered = Vec::new();
    for _ in 0..2 {
        let deadline = bench.deadline().unwrap();
        let Expired::Probes { space, count } = bench.expire(deadline) else { panic!() };
        for _ in 0..count {
            offered.extend(bench.probe(space));
        }
        bench.send(deadline);
        bench.send(deadline + ms(1));
    }
    assert_eq!(offered, [0, 1, 2]);
}

#[test]
fn handshake_packets_are_offered_although_the_run_began_with_initial_ones() {
    let mut bench = Bench::new();
    bench.context = connecting_client();
    bench.send_in(SpaceId::Initial, at(0));
    let deadline = bench.deadline().unwrap();
    assert_eq!(bench.expire(deadline), Expired::Probes { space: SpaceId::Initial, count: 1 });
    assert_eq!(bench.probe(SpaceId::Initial), [0]);
    assert_eq!(bench.probe(SpaceId::Initial), Vec::<u64>::new());
    bench.ack_in(SpaceId::Initial, deadline + ms(30), &[(0, 0)]);
    bench.context.has_handshake_keys = true;
    bench.send_in(SpaceId::Handshake, deadline + ms(31));
    let deadline = bench.deadline().unwrap();
    assert_eq!(bench.expire(deadline), Expired::Probes { space: SpaceId::Handshake, count: 1 });
    assert_eq!(bench.probe(SpaceId::Handshake), [0]);
}

#[test]
fn the_backoff_ends_with_an_acknowledgement() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    let mut now = at(100);
    for expected in [145, 290, 580] {
        bench.send(now);
        let deadline = bench.deadline().unwrap();
        assert_eq!(deadline, now + ms(expected));
        assert!(matches!(bench.expire(deadline), Expired::Probes { .. }));
        now = deadline;
    }
    assert_eq!(bench.recovery.stats().pto_in_a_row, 3);
    bench.send(now);
    bench.ack(now, &[(1, 1)]);
    assert_eq!(bench.recovery.stats().pto_in_a_row, 0);
    assert_eq!(bench.recovery.stats().pto_total, 3);
}

#[test]
fn a_client_keeps_its_backoff_until_the_server_validated_it() {
    // Gallery row 82.
    let mut bench = Bench::new();
    bench.context = connecting_client();
    bench.send_in(SpaceId::Initial, at(0));
    let deadline = bench.deadline().unwrap();
    bench.expire(deadline);
    bench.send_in(SpaceId::Initial, deadline);
    bench.ack_in(SpaceId::Initial, deadline + ms(10), &[(1, 1)]);
    assert_eq!(bench.recovery.stats().pto_in_a_row, 1);
    // Gallery row 71: nothing is outstanding, but the client must not stop sending.
    assert_eq!((bench.in_flight(), bench.lost()), (0, vec![0]));
    let deadline = bench.deadline().expect("the server may wait for bytes");
    assert_eq!(bench.expire(deadline), Expired::Probes { space: SpaceId::Initial, count: 1 });
    assert_eq!(bench.probe(SpaceId::Initial), Vec::<u64>::new(), "a PING then");
    // After that, an acknowledgment resets the backoff.
    bench.context.peer_completed_address_validation = true;
    let number = bench.send_in(SpaceId::Handshake, deadline);
    bench.ack_in(SpaceId::Handshake, deadline + ms(10), &[(number, number)]);
    assert_eq!(bench.recovery.stats().pto_in_a_row, 0);
}

#[test]
fn a_new_client_has_a_deadline_before_it_sends() {
    // Gallery row 79: the timeout always has a start time.
    let mut bench = Bench::new();
    bench.context = connecting_client();
    assert_eq!(bench.deadline(), Some(at(999)));
}

#[test]
fn early_data_alone_keeps_the_handshake_probed() {
    // Gallery row 68: even if no space has a timeout, no timer may stay expired, and none may be
    // missing.
    let mut bench = Bench::new();
    bench.context = connecting_client();
    bench.send(at(0));
    for _ in 0..5 {
        let deadline = bench.deadline().unwrap();
        let expired = bench.expire(deadline);
        assert_eq!(expired, Expired::Probes { space: SpaceId::Initial, count: 1 });
        assert!(bench.deadline().unwrap() > deadline);
    }
}

#[test]
fn padding_in_flight_arms_the_timer() {
    // Gallery row 57: otherwise the window could fill with bytes that are never removed.
    let mut bench = Bench::new();
    bench.stage(APPLICATION, |packet| packet.ack_eliciting = false);
    bench.recovery.transmitted(at(5)).unwrap();
    assert_eq!(bench.in_flight(), 1200);
    assert_eq!(bench.deadline(), Some(at(5) + ms(999 + 25)));
    // The packet does not postpone the timer of ack-eliciting packets.
    bench.send(at(10));
    let deadline = bench.deadline();
    bench.stage(APPLICATION, |packet| packet.ack_eliciting = false);
    bench.recovery.transmitted(at(20)).unwrap();
    assert_eq!(bench.deadline(), deadline);
}

/// A client's padded ACK of an Initial packet stays in flight when the ClientHello that was sent
/// before it is lost. The timer started by the ClientHello must not apply to the padding, because
/// it would expire too early.
#[test]
fn padding_that_outlives_what_was_lost_has_a_timeout_of_its_own() {
    let mut bench = Bench::new();
    bench.context = connecting_client();
    let lost = bench.send_in(SpaceId::Initial, at(50));
    let acknowledged = bench.send_in(SpaceId::Initial, at(50));
    bench.ack_in(SpaceId::Initial, at(100), &[(acknowledged, acknowledged)]);
    bench.stage(SpaceId::Initial, |packet| packet.ack_eliciting = false);
    bench.recovery.transmitted(at(100)).unwrap();
    assert_eq!(bench.expire(bench.deadline().unwrap()), Expired::Losses);
    assert_eq!((bench.lost(), bench.in_flight()), (vec![lost], 1200));
    // The RTT is 50 ms with a variation of 25 ms.
    assert_eq!(bench.deadline(), Some(at(100) + ms(150)));
}

#[test]
fn probes_of_a_path_arm_the_timer() {
    // Gallery row 56.
    let mut bench = Bench::new();
    bench.stage(APPLICATION, |packet| packet.is_probe_of_path = true);
    bench.recovery.transmitted(at(0)).unwrap();
    assert!(bench.deadline().is_some());
}

#[test]
fn a_full_window_does_not_hold_the_deadline_back() {
    // Gallery row 77: probes are sent regardless of the window, and count as in flight.
    let mut bench = Bench::new();
    bench.set_window(2400);
    bench.send(at(0));
    bench.send(at(0));
    assert!(bench.recovery.may_send(at(0)).is_err());
    let deadline = bench.deadline().unwrap();
    assert!(matches!(bench.expire(deadline), Expired::Probes { .. }));
    bench.send(deadline);
    assert_eq!(bench.in_flight(), 3600);
    assert!(bench.deadline().is_some());
}

#[test]
fn discarded_keys_take_their_packets_and_the_backoff_along() {
    // Gallery rows 50 and 63.
    let mut bench = Bench::new();
    bench.context = connecting_client();
    bench.send_in(SpaceId::Initial, at(0));
    bench.send_in(SpaceId::Initial, at(1));
    bench.send_in(SpaceId::Initial, at(2));
    let deadline = bench.deadline().unwrap();
    bench.expire(deadline);
    bench.ack_in(SpaceId::Initial, deadline, &[(2, 2)]);
    bench.context.has_handshake_keys = true;
    bench.send_in(SpaceId::Handshake, deadline);
    let before = bench.reports().len();
    bench.recovery.discard_space(SpaceId::Initial, deadline).unwrap();
    assert_eq!(bench.in_flight(), 1200, "the Handshake packet");
    assert_eq!(bench.recovery.stats().pto_in_a_row, 0);
    assert_eq!(bench.reports().len(), before, "no signal");
    assert_eq!(bench.lost(), Vec::<u64>::new());
    let next = bench.deadline().unwrap();
    assert!(matches!(bench.expire(next), Expired::Probes { space: SpaceId::Handshake, .. }));
    // An ACK that arrives after that has no effect.
    assert_eq!(bench.ack_in(SpaceId::Initial, next, &[(0, 1)]), Default::default());
    assert_eq!(bench.recovery.stats().counts.packets_discarded, 2);
}

#[test]
fn packets_of_an_old_path_still_have_a_deadline() {
    // Gallery rows 44 and 149.
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.recovery.on_new_path(1, at(10), 1200).unwrap();
    assert_eq!(bench.in_flight(), 0);
    let deadline = bench.deadline().expect("the old packet is outstanding");
    assert_eq!(bench.expire(deadline), Expired::Probes { space: APPLICATION, count: 1 });
    assert_eq!(bench.probe(APPLICATION), [0]);
}

#[test]
fn an_acknowledgement_starts_a_new_run_from_the_oldest() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.send(at(0));
    }
    let deadline = bench.deadline().unwrap();
    bench.expire(deadline);
    assert_eq!((bench.probe(APPLICATION), bench.probe(APPLICATION)), (vec![0], vec![1]));
    bench.ack(deadline, &[(0, 0)]);
    let deadline = bench.deadline().unwrap();
    bench.expire(deadline);
    assert_eq!((bench.probe(APPLICATION), bench.probe(APPLICATION)), (vec![1], vec![2]));
}

#[test]
fn the_timers_of_a_new_path_begin_with_the_initial_round_trip_time() {
    // Gallery row 64.
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(2000), &[(0, 0)]);
    bench.send(at(2000));
    bench.send(at(2000));
    bench.recovery.on_new_path(1, at(2010), 1200).unwrap();
    assert_eq!(bench.recovery.pto(ms(0)), ms(999), "RFC 9000 §9.4: however slow the old path was");
    bench.ack(at(2300), &[(2, 2)]);
    assert_eq!(bench.lost(), Vec::<u64>::new(), "packet 1 is not late");
    assert_eq!(bench.recovery.stats().rtt, None, "but none of that is an estimate");
}

#[test]
fn a_probe_timeout_that_is_not_due_does_nothing() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    bench.send(at(100));
    assert_eq!(bench.deadline(), Some(at(245)), "40 + 4 x 20 + 25 later");
    assert_eq!(bench.expire(at(244)), Expired::Nothing);
    assert_eq!(bench.deadline(), Some(at(245)), "no backoff");
    assert!(matches!(bench.expire(at(245)), Expired::Probes { .. }));
}

#[test]
fn there_is_as_much_to_probe_with_as_is_outstanding_up_to_two() {
    for (sent, expected) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
        let mut bench = Bench::new();
        (0..sent).for_each(|time| {
            bench.send(at(time));
        });
        assert_eq!(bench.recovery.begin_probing(SpaceId::Application), expected, "of {sent}");
    }
}
