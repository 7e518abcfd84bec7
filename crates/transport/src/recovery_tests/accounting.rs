//! Law 2: the bytes in flight, and which events reach a controller.

use clearway_congestion::SendLimit;

use crate::SpaceId;
use crate::recovery::StagedPacket;
use crate::recovery::testing::{Bench, at, connecting_client, ms, token};

const APPLICATION: SpaceId = SpaceId::Application;

#[test]
fn only_what_was_handed_to_the_network_is_in_flight() {
    // Gallery rows 41 and 42: a datagram that is being built is not in flight, but takes up room in
    // the window.
    let mut bench = Bench::new();
    bench.set_window(2400);
    bench.stage(APPLICATION, |_| {});
    assert_eq!(bench.in_flight(), 0);
    assert_eq!(bench.deadline(), None);
    assert_eq!(bench.recovery.may_send(at(0)), Ok(()));
    bench.stage(APPLICATION, |_| {});
    assert_eq!(bench.recovery.may_send(at(0)), Err(SendLimit::Window));
    bench.recovery.transmitted(at(5)).unwrap();
    assert_eq!(bench.in_flight(), 2400);
    let sent = bench.record.lock().unwrap().sent.clone();
    assert_eq!(sent.iter().map(|(_, flight)| *flight).collect::<Vec<_>>(), [1200, 2400]);
    assert!(sent.iter().all(|(packet, _)| packet.sent_at == at(5)));
    assert!(bench.deadline().is_some());
}

#[test]
fn the_order_of_sending_spans_the_spaces() {
    let mut bench = Bench::new();
    bench.stage(SpaceId::Initial, |_| {});
    bench.stage(SpaceId::Handshake, |_| {});
    bench.stage(APPLICATION, |_| {});
    bench.stage(SpaceId::Initial, |_| {});
    bench.recovery.transmitted(at(0)).unwrap();
    let sent = bench.record.lock().unwrap().sent.clone();
    let indices: Vec<u64> = sent.iter().map(|(packet, _)| packet.index.0).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
}

#[test]
fn acks_are_not_in_flight_and_not_reported_to_the_controller() {
    let mut bench = Bench::new();
    bench.send_ack_only(at(0));
    assert_eq!(bench.in_flight(), 0);
    assert!(bench.record.lock().unwrap().sent.is_empty());
    assert_eq!(bench.deadline(), None);
    assert!(bench.ack(at(40), &[(0, 0)]).newly_acked_any);
    assert!(bench.reports().is_empty());
    assert_eq!(bench.acked(), [0], "but the token shows that the peer has the ACK");
}

#[test]
fn after_many_acks_one_packet_should_elicit_one() {
    let mut bench = Bench::new();
    for time in 0..31 {
        bench.send_ack_only(at(time));
        assert!(!bench.recovery.should_elicit_acknowledgement(APPLICATION));
    }
    bench.send_ack_only(at(31));
    assert!(bench.recovery.should_elicit_acknowledgement(APPLICATION));
    bench.send(at(32));
    assert!(!bench.recovery.should_elicit_acknowledgement(APPLICATION));
}

#[test]
fn a_new_path_starts_with_nothing_in_flight_and_no_estimate() {
    // Gallery rows 44, 46 and 64.
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    for time in 50..54 {
        bench.send(at(time));
    }
    bench.recovery.on_new_path(1, at(60), 1200).unwrap();
    assert_eq!(bench.record.lock().unwrap().built, 2);
    assert_eq!(bench.in_flight(), 0);
    assert_eq!(bench.recovery.stats().rtt, None);
    let number = bench.send(at(61));
    assert_eq!(bench.in_flight(), 1200);
    // The old packets are still acknowledged and lost with their tokens, but the new controller is
    // not notified.
    let before = bench.reports().len();
    let outcome = bench.ack(at(90), &[(4, 4)]);
    assert!(outcome.newly_acked_any && !outcome.has_rtt_sample);
    assert_eq!(bench.acked(), [0, 4]);
    assert_eq!(bench.lost(), [1]);
    assert_eq!(bench.reports().len(), before);
    assert_eq!(bench.in_flight(), 1200);
    // A packet sent under the new controller yields an RTT sample.
    let outcome = bench.ack(at(101), &[(number, number)]);
    assert!(outcome.has_rtt_sample);
    assert_eq!(bench.recovery.stats().rtt.unwrap().minimum, ms(40));
    assert_eq!(bench.in_flight(), 0);
    assert_eq!(bench.last_report().acked.len(), 1);
}

#[test]
fn a_migration_alone_loses_nothing() {
    // Gallery row 45.
    let mut bench = Bench::new();
    for time in 0..10 {
        bench.send(at(time));
    }
    bench.recovery.on_new_path(1, at(20), 1200).unwrap();
    assert_eq!(bench.lost(), Vec::<u64>::new());
    bench.ack(at(60), &[(0, 9)]);
    assert_eq!(bench.lost(), Vec::<u64>::new());
    assert_eq!(bench.acked().len(), 10);
}

#[test]
fn a_packet_staged_for_the_old_path_is_not_in_flight_on_the_new() {
    let mut bench = Bench::new();
    bench.stage(APPLICATION, |_| {});
    bench.recovery.on_new_path(1, at(20), 1200).unwrap();
    bench.recovery.transmitted(at(20)).unwrap();
    assert_eq!(bench.in_flight(), 0);
    assert!(bench.deadline().is_some());
    bench.ack(at(30), &[(0, 0)]);
    assert_eq!(bench.in_flight(), 0);
}

#[test]
fn keys_can_be_discarded_while_packets_are_staged() {
    let mut bench = Bench::new();
    bench.stage(SpaceId::Initial, |_| {});
    bench.stage(SpaceId::Handshake, |_| {});
    bench.recovery.discard_space(SpaceId::Initial, at(0)).unwrap();
    bench.recovery.transmitted(at(0)).unwrap();
    assert_eq!((bench.in_flight(), bench.recovery.bytes_in_flight()), (1200, 1200));
    assert_eq!(bench.recovery.ledger.bytes_staged(), 0);
}

#[test]
fn a_bounded_number_of_lost_packets_is_remembered() {
    // A lost packet that arrives after all is recognized while it is remembered.
    for (lost, expected) in [(1 << 14, 1), ((1 << 14) + 1, 0)] {
        let mut bench = Bench::new();
        bench.set_window(1 << 30);
        let newest = lost + 2;
        for _ in 0..=newest {
            bench.stage(APPLICATION, |_| {});
        }
        bench.recovery.transmitted(at(0)).unwrap();
        bench.ack(at(40), &[(lost, newest)]);
        assert_eq!(bench.lost().len() as u64, lost);
        assert_eq!(bench.ack(at(41), &[(0, 0)]).spuriously_lost, expected, "of {lost}");
    }
}

#[test]
fn an_ack_whose_keys_are_discarded_has_no_effect() {
    let mut bench = Bench::new();
    bench.send_in(SpaceId::Initial, at(0));
    assert!(bench.try_ack(SpaceId::Initial, at(1), ms(0), &[(7, 7)]).is_err(), "never sent");
    bench.recovery.discard_space(SpaceId::Initial, at(2)).unwrap();
    let next = bench.recovery.next_packet_number(SpaceId::Initial).unwrap();
    assert_eq!(next.get(), 1, "no number is used twice");
    let outcome = bench.ack_in(SpaceId::Initial, at(3), &[(7, 7)]);
    assert!(!outcome.newly_acked_any);
}

#[test]
fn misuse_is_an_error_and_not_a_wrong_sum() {
    let mut bench = Bench::new();
    let number = bench.recovery.next_packet_number(APPLICATION).unwrap();
    let packet = StagedPacket {
        number: number.next().unwrap(),
        bytes: 1200,
        ack_eliciting: true,
        in_flight: true,
        is_probe_of_path: false,
        is_off_path: false,
        is_marked: false,
    };
    assert!(bench.recovery.stage(APPLICATION, packet, &mut vec![token(0)]).is_err());
    assert!(bench.recovery.on_new_path(0, at(0), 1200).is_err());
    bench.recovery.discard_space(SpaceId::Initial, at(0)).unwrap();
    let number = bench.recovery.next_packet_number(SpaceId::Initial).unwrap();
    let packet = StagedPacket { number, ..packet };
    assert!(bench.recovery.stage(SpaceId::Initial, packet, &mut vec![token(0)]).is_err());
}

#[test]
fn one_ack_may_acknowledge_thousands() {
    // Gallery rows 52 to 54: there is no fixed number of ranges or frames to overflow.
    let mut bench = Bench::new();
    bench.set_window(1 << 30);
    for _ in 0..5_000 {
        bench.stage(APPLICATION, |_| {});
    }
    bench.recovery.transmitted(at(0)).unwrap();
    let ranges: Vec<(u64, u64)> = (0..250).rev().map(|n| (n * 20 + 1, n * 20 + 19)).collect();
    bench.ack(at(40), &ranges);
    assert_eq!(bench.acked().len(), 250 * 19);
    assert_eq!(bench.lost().len(), 250);
    assert_eq!(bench.in_flight(), 0);
    // All lost packets arrive after all.
    bench.ack(at(41), &[(0, 4_999)]);
    assert_eq!(bench.acked().len(), 250);
    assert_eq!(bench.recovery.ledger.space(APPLICATION).packets().count(), 0);
}

#[test]
fn the_clock_of_the_ledger_does_not_go_back() {
    let mut bench = Bench::new();
    bench.send(at(100));
    bench.send(at(50));
    let sent = bench.record.lock().unwrap().sent.clone();
    assert_eq!(sent[1].0.sent_at, at(100));
}

#[test]
fn a_retry_takes_everything_back_without_a_signal() {
    let mut bench = Bench::new();
    bench.context = connecting_client();
    bench.send_in(SpaceId::Initial, at(0));
    bench.send_in(SpaceId::Initial, at(1));
    let deadline = bench.deadline().unwrap();
    bench.expire(deadline);
    bench.recovery.abandon_outstanding(SpaceId::Initial, deadline).unwrap();
    assert_eq!(bench.lost(), [0, 1]);
    assert_eq!(bench.in_flight(), 0);
    assert!(bench.reports().is_empty());
    assert_eq!(bench.recovery.stats().pto_in_a_row, 0);
    assert_eq!(bench.deadline(), Some(deadline + ms(999)), "the client continues to probe");
    // Packet numbers are not reused, and a late ACK has no effect.
    assert_eq!(bench.send_in(SpaceId::Initial, deadline), 2);
    assert!(!bench.ack_in(SpaceId::Initial, deadline, &[(0, 1)]).newly_acked_any);
    assert_eq!(bench.in_flight(), 1200);
}
