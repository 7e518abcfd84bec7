//! RFC 9002 §6.1 and §7.6: tests which packets are declared lost and which are not.

use core::time::Duration;

use crate::recovery::Expired;
use crate::recovery::testing::{Bench, at, config, connecting_client, ms};
use crate::{LossTrigger, SpaceId};

#[test]
fn three_later_packets_make_one_lost() {
    let mut bench = Bench::new();
    for time in 0..4 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(2, 2)]);
    assert_eq!(bench.lost(), Vec::<u64>::new());
    bench.ack(at(41), &[(3, 3)]);
    assert_eq!(bench.lost(), [0]);
    assert_eq!(bench.acked(), [2, 3]);
    assert_eq!(bench.in_flight(), 1200, "packet 1 is left");
}

#[test]
fn the_packet_threshold_is_configurable() {
    let mut bench = Bench::with(super::super::RecoveryConfig { packet_threshold: 6, ..config() });
    for time in 0..8 {
        bench.send(at(time));
    }
    bench.ack(at(100), &[(5, 5)]);
    assert_eq!(bench.lost(), Vec::<u64>::new());
    bench.ack(at(100), &[(7, 7)]);
    assert_eq!(bench.lost(), [0, 1]);
}

#[test]
fn lateness_counts_only_once_a_later_packet_was_acknowledged() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    bench.send(at(100));
    // Gallery row 74: no later packet was acknowledged, so only a probe is due, however late.
    let deadline = bench.deadline().unwrap();
    assert_eq!(deadline, at(100) + ms(40 + 80 + 25));
    assert!(matches!(bench.expire(deadline), Expired::Probes { .. }));
    assert_eq!(bench.lost(), Vec::<u64>::new());
    assert_eq!(bench.in_flight(), 1200);
}

#[test]
fn a_packet_is_late_after_nine_eighths_of_the_round_trip() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(80), &[(0, 0)]);
    bench.send(at(100));
    bench.send(at(101));
    bench.ack(at(181), &[(2, 2)]);
    assert_eq!(bench.lost(), Vec::<u64>::new());
    assert_eq!(bench.deadline(), Some(at(190)), "100 + 9/8 x 80, not the probe timer");
    assert_eq!(bench.expire(at(189)), Expired::Nothing);
    assert_eq!(bench.expire(at(190)), Expired::Losses);
    assert_eq!(bench.lost(), [1]);
    assert_eq!(bench.deadline(), None, "nothing is outstanding");
    let report = bench.last_report();
    assert_eq!((report.acked.len(), report.lost.len()), (0, 1));
    assert_eq!((report.prior_in_flight, report.bytes_in_flight), (1200, 0));
}

#[test]
fn an_observer_gets_the_threshold_of_each_lost_packet() {
    let mut bench = Bench::new();
    for time in 0..5 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(4, 4)]);
    assert_eq!(bench.expire(at(100)), Expired::Losses);
    let mut lost = Vec::new();
    bench.recovery.take_lost_packets(&mut lost);
    let told: Vec<_> = lost.iter().map(|lost| (lost.number.get(), lost.trigger)).collect();
    let (reordering, time) = (LossTrigger::ReorderingThreshold, LossTrigger::TimeThreshold);
    assert_eq!(told, [(0, reordering), (1, reordering), (2, time), (3, time)]);
}

#[test]
fn the_loss_timer_is_no_probe_timeout() {
    // Gallery row 73.
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.send(at(1));
    bench.ack(at(41), &[(1, 1)]);
    let deadline = bench.deadline().unwrap();
    assert_eq!(bench.expire(deadline), Expired::Losses);
    assert_eq!(bench.recovery.stats().pto_total, 0);
    bench.send(at(50));
    assert!(bench.deadline().is_some(), "the probe timer runs again after it");
}

#[test]
fn acknowledged_and_lost_come_to_the_controller_in_one_call() {
    // Gallery row 49.
    let mut bench = Bench::new();
    for time in 0..6 {
        bench.send(at(time));
    }
    let outcome = bench.ack(at(50), &[(4, 5)]);
    assert_eq!((outcome.lost, outcome.newly_acked_any), (3, true));
    assert_eq!(bench.reports().len(), 1);
    let report = bench.last_report();
    let indices = |packets: &[clearway_congestion::SentPacket]| -> Vec<u64> {
        packets.iter().map(|packet| packet.index.0).collect()
    };
    assert_eq!(indices(&report.acked), [4, 5]);
    assert_eq!(indices(&report.lost), [0, 1, 2]);
    assert_eq!((report.prior_in_flight, report.bytes_in_flight), (7200, 1200));
    assert_eq!(bench.in_flight(), 1200);
}

#[test]
fn an_ack_of_nothing_new_is_not_reported() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    let again = bench.ack(at(41), &[(0, 0)]);
    assert_eq!(again, Default::default());
    assert_eq!(bench.reports().len(), 1);
    assert_eq!(bench.acked(), [0]);
}

#[test]
fn a_late_acknowledgement_of_a_lost_packet_is_reported_first() {
    let mut bench = Bench::new();
    for time in 0..6 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(5, 5)]);
    assert_eq!(bench.lost(), [0, 1, 2]);
    let outcome = bench.ack(at(41), &[(5, 5), (0, 1)]);
    assert_eq!(outcome.spuriously_lost, 2);
    assert!(!outcome.has_rtt_sample, "its largest packet was acknowledged before");
    assert_eq!(bench.acked(), [5, 0, 1], "their tokens are also returned as acknowledged");
    let still_lost: Vec<u64> =
        bench.record.lock().unwrap().spurious.iter().map(|event| event.still_lost).collect();
    assert_eq!(still_lost, [2, 1]);
    // Gallery row 58: the packet is counted once as acknowledged and is marked as a spurious loss.
    let counts = bench.recovery.stats().counts;
    assert_eq!(counts.packets_acknowledged, 3);
    assert_eq!(counts.packets_lost, 3);
    assert_eq!(counts.packets_spuriously_lost, 2);
    // The spurious loss is counted only once.
    bench.ack(at(42), &[(5, 5), (0, 2)]);
    let spurious = bench.record.lock().unwrap().spurious.clone();
    assert_eq!(spurious.len(), 3);
    assert_eq!(spurious[2].still_lost, 0, "nothing of the episode is missing");
}

#[test]
fn a_spurious_loss_raises_the_packet_threshold() {
    // RFC 9002 §6.1.1 allows this. Otherwise every packet that four others overtake would be
    // declared lost.
    let mut bench = Bench::new();
    assert_eq!(bench.recovery.packet_threshold(), 3);
    for time in 0..8 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(5, 5), (1, 1)]);
    assert_eq!(bench.lost(), [0, 2]);
    bench.ack(at(40), &[(5, 5), (0, 1)]);
    // Five packets had overtaken the late packet.
    assert_eq!(bench.recovery.stats().loss_thresholds.packets, 6);
    assert_eq!(bench.recovery.packet_threshold(), 6);
    for time in 50..56 {
        bench.send(at(time));
    }
    bench.ack(at(90), &[(13, 13), (3, 7)]);
    assert_eq!(bench.lost(), Vec::<u64>::new(), "5 of the 6 after packet 8");
    bench.send(at(91));
    bench.ack(at(91), &[(14, 14)]);
    assert_eq!(bench.lost(), [8]);
    let mut lost = Vec::new();
    bench.recovery.take_lost_packets(&mut lost);
    let told: Vec<_> = lost.iter().map(|lost| lost.thresholds.packets).collect();
    assert_eq!(told, [3, 3, 6], "the observer sees the thresholds that applied");
}

#[test]
fn a_spurious_loss_raises_the_time_threshold() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(80), &[(0, 0)]);
    let late = bench.send(at(100));
    bench.send(at(101));
    bench.ack(at(181), &[(2, 2)]);
    assert_eq!(bench.expire(at(190)), Expired::Losses);
    assert_eq!(bench.lost(), [late]);
    bench.ack(at(196), &[(1, 2)]);
    // The time threshold is 9/8 of the 96 ms that the packet took.
    assert_eq!(bench.recovery.stats().loss_thresholds.time, ms(108));
    bench.send(at(300));
    bench.send(at(301));
    bench.ack(at(381), &[(4, 4)]);
    assert_eq!(bench.deadline(), Some(at(408)));
    assert_eq!(bench.expire(at(407)), Expired::Nothing);
    assert_eq!(bench.expire(at(408)), Expired::Losses);
}

/// RFC 9002 §5.1, §A.7: the ACK shows when the late packet arrived, but not when the newest packet,
/// which is not ack-eliciting, arrived.
#[test]
fn the_late_arrival_of_a_lost_packet_gives_no_sample() {
    let mut bench = Bench::new();
    for time in 0..5 {
        bench.send(at(time));
    }
    assert!(bench.ack(at(40), &[(3, 4)]).has_rtt_sample);
    assert_eq!(bench.lost(), [0, 1]);
    let newest = bench.stage(SpaceId::Application, |packet| {
        packet.ack_eliciting = false;
        packet.in_flight = false;
    });
    bench.recovery.transmitted(at(50)).unwrap();
    let acked = bench.ack(at(120), &[(3, newest), (0, 0)]);
    assert!(acked.newly_acked_any && !acked.has_rtt_sample);
}

/// The time threshold may exceed a probe timeout. Then the probe is sent first, and the packet is
/// declared lost later.
#[test]
fn the_probe_timer_does_not_wait_for_packets_that_are_very_late() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    for start in (1..30).map(|round| 200 * round) {
        let late = bench.send(at(start));
        let first = bench.send(at(start + 1));
        bench.ack(at(start + 41), &[(first, first)]);
        while let Some(due) = bench.deadline().filter(|due| *due <= at(start + 110)) {
            bench.expire(due);
        }
        bench.ack(at(start + 110), &[(late, first)]);
    }
    bench.lost();
    let tolerated = bench.recovery.stats().loss_thresholds.time;
    assert_eq!(tolerated, ms(110) * 9 / 8);
    let late = bench.send(at(7000));
    let first = bench.send(at(7001));
    bench.ack(at(7041), &[(first, first)]);
    let probe = bench.deadline().unwrap();
    assert!(probe < at(7000) + tolerated, "{probe:?}");
    assert!(matches!(bench.expire(probe), Expired::Probes { .. }));
    assert_eq!(bench.lost(), Vec::<u64>::new());
    assert_eq!(bench.deadline(), Some(at(7000) + tolerated), "the next probe would be later");
    assert_eq!(bench.expire(at(7000) + tolerated), Expired::Losses);
    assert_eq!(bench.lost(), [late]);
}

#[test]
fn a_new_path_tolerates_what_the_rfc_does() {
    let mut bench = Bench::new();
    for time in 0..6 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(5, 5)]);
    bench.ack(at(41), &[(5, 5), (0, 0)]);
    assert_eq!(bench.recovery.stats().loss_thresholds.packets, 6);
    bench.recovery.on_new_path(1, at(42), 1200).unwrap();
    assert_eq!(bench.recovery.stats().loss_thresholds.packets, 3);
    // The delay of packets on the old path does not affect the new one.
    bench.ack(at(43), &[(5, 5), (0, 1)]);
    assert_eq!(bench.recovery.stats().loss_thresholds.packets, 3);
}

#[test]
fn losses_of_an_earlier_episode_are_not_taken_back() {
    let mut bench = Bench::new();
    for time in 0..5 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(3, 4)]);
    assert_eq!(bench.lost(), [0, 1]);
    for time in 50..55 {
        bench.send(at(time));
    }
    bench.ack(at(95), &[(8, 9)]);
    bench.ack(at(96), &[(8, 9), (0, 0)]);
    assert!(bench.record.lock().unwrap().spurious.is_empty());
    assert_eq!(bench.recovery.stats().counts.packets_spuriously_lost, 1);
    // Packet 1 of the first episode is still missing, which does not matter for the second.
    bench.ack(at(97), &[(5, 9), (2, 2)]);
    let spurious = bench.record.lock().unwrap().spurious.clone();
    assert_eq!(spurious.last().map(|event| event.still_lost), Some(0));
}

#[test]
fn lost_packets_are_remembered_for_a_while_only() {
    let mut bench = Bench::new();
    for time in 0..4 {
        bench.send(at(time));
    }
    bench.ack(at(40), &[(3, 3)]);
    bench.send(at(5_000));
    bench.ack(at(5_040), &[(4, 4)]);
    let late = bench.ack(at(5_050), &[(0, 0)]);
    assert!(!late.newly_acked_any);
    assert_eq!(bench.recovery.stats().counts.packets_spuriously_lost, 0);
}

#[test]
fn probes_of_a_path_are_lost_without_a_signal() {
    let mut bench = Bench::new();
    bench.stage(SpaceId::Application, |packet| packet.is_probe_of_path = true);
    bench.recovery.transmitted(at(0)).unwrap();
    for time in 1..5 {
        bench.send(at(time));
    }
    assert_eq!(bench.in_flight(), 6000);
    bench.ack(at(41), &[(1, 4)]);
    assert_eq!(bench.lost(), [0]);
    assert!(bench.last_report().lost.is_empty());
    assert_eq!(bench.in_flight(), 0, "row 48: it is no longer in flight");
}

#[test]
fn packets_that_are_not_in_flight_are_lost_without_a_signal() {
    // Gallery row 35.
    let mut bench = Bench::new();
    bench.send_ack_only(at(0));
    for time in 1..5 {
        bench.send(at(time));
    }
    bench.ack(at(41), &[(1, 4)]);
    assert!(bench.last_report().lost.is_empty());
    assert_eq!(bench.deadline(), None);
    let counts = bench.recovery.stats().counts;
    assert_eq!((counts.packets_sent, counts.packets_lost), (4, 0));
    // No timer is set for an ACK-only packet either.
    bench.send_ack_only(at(100));
    let number = bench.send(at(100));
    bench.ack(at(130), &[(number, number)]);
    assert_eq!(bench.deadline(), None);
}

/// RFC 9002 §7.6.3, on a path whose probe timeout is 2 seconds.
fn example_of_persistent_congestion(bench: &mut Bench) {
    let s = |seconds: u64| at(seconds * 1000);
    bench.send(s(0));
    // The smoothed RTT is 600 ms, the variation 300 ms and max_ack_delay 200 ms, which results in 2
    // seconds.
    bench.context.max_ack_delay = ms(200);
    bench.ack(at(600), &[(0, 0)]);
    for second in [1, 2, 3, 4, 5, 6, 8, 12] {
        bench.send(s(second));
    }
}

#[test]
fn the_example_of_persistent_congestion() {
    let mut bench = Bench::new();
    example_of_persistent_congestion(&mut bench);
    bench.send(at(12_100));
    let outcome = bench.ack(at(12_700), &[(9, 9)]);
    // Packet 8 was sent 700 ms ago, which is also long enough: 9/8 of 600 ms is 675 ms.
    assert_eq!(bench.lost(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(outcome.persistent_congestion);
    assert!(bench.last_report().persistent_congestion);
    assert_eq!(bench.recovery.stats().persistent_congestion_total, 1);
    assert_eq!(bench.recovery.stats().rtt.unwrap().minimum, ms(600));
}

/// RFC 9000 §14.4: the loss of probes is neither reported to the controller nor evidence of
/// persistent congestion; they leave the bytes in flight like any other packet.
#[test]
fn lost_probes_are_no_evidence_of_persistent_congestion() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.context.max_ack_delay = ms(200);
    bench.ack(at(600), &[(0, 0)]);
    for second in [1, 2, 3, 4, 5, 6, 8, 12] {
        bench.stage(SpaceId::Application, |packet| packet.is_probe_of_path = true);
        bench.recovery.transmitted(at(second * 1000)).unwrap();
    }
    bench.send(at(12_100));
    let outcome = bench.ack(at(12_700), &[(9, 9)]);
    assert_eq!(bench.lost(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((outcome.lost, outcome.persistent_congestion), (0, false));
    assert_eq!(bench.in_flight(), 0);
}

#[test]
fn an_acknowledged_packet_in_between_disproves_persistent_congestion() {
    let mut bench = Bench::new();
    example_of_persistent_congestion(&mut bench);
    bench.send(at(12_100));
    let outcome = bench.ack(at(12_700), &[(9, 9), (6, 6)]);
    assert!(outcome.lost > 5 && !outcome.persistent_congestion);
}

#[test]
fn an_acknowledged_packet_of_another_space_disproves_it_too() {
    let mut bench = Bench::new();
    example_of_persistent_congestion(&mut bench);
    bench.send_in(SpaceId::Handshake, at(12_050));
    bench.send(at(12_100));
    bench.ack_in(SpaceId::Handshake, at(12_200), &[(0, 0)]);
    let outcome = bench.ack(at(12_700), &[(9, 9)]);
    assert!(outcome.lost > 5 && !outcome.persistent_congestion);
}

/// A server that receives the last handshake message discards the handshake keys before it
/// processes the 1-RTT packet in the same datagram.
#[test]
fn an_acknowledged_packet_of_a_discarded_space_disproves_it_too() {
    let mut bench = Bench::new();
    example_of_persistent_congestion(&mut bench);
    bench.send_in(SpaceId::Handshake, at(12_050));
    bench.send(at(12_100));
    bench.ack_in(SpaceId::Handshake, at(12_200), &[(0, 0)]);
    bench.recovery.discard_space(SpaceId::Handshake, at(12_200)).unwrap();
    let outcome = bench.ack(at(12_700), &[(9, 9)]);
    assert!(outcome.lost > 5 && !outcome.persistent_congestion);
}

#[test]
fn persistent_congestion_needs_a_sample_from_before() {
    let mut bench = Bench::new();
    for second in 0..20 {
        bench.send(at(second * 1000));
    }
    let outcome = bench.ack(at(20_000), &[(19, 19)]);
    assert!(outcome.lost > 10);
    assert!(!outcome.persistent_congestion);
}

#[test]
fn packets_that_elicit_no_ack_prove_no_persistent_congestion() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    let only_padding = |bench: &mut Bench, time| {
        bench.stage(SpaceId::Application, |packet| packet.ack_eliciting = false);
        bench.recovery.transmitted(time).unwrap();
    };
    only_padding(&mut bench, at(100));
    bench.send(at(5_000));
    only_padding(&mut bench, at(9_000));
    bench.send(at(9_100));
    let outcome = bench.ack(at(9_200), &[(4, 4)]);
    assert_eq!(outcome.lost, 3);
    assert!(!outcome.persistent_congestion);
}

#[test]
fn the_loss_timer_never_declares_persistent_congestion() {
    let mut bench = Bench::with(super::super::RecoveryConfig { packet_threshold: 50, ..config() });
    bench.send(at(0));
    bench.ack(at(40), &[(0, 0)]);
    let mut sent = 0;
    for time in (1_000..1_020).chain([1_021]) {
        sent = bench.send(at(time));
    }
    bench.ack(at(1_061), &[(sent, sent)]);
    // Only a driver that sleeps for a long time sees such an interval at the deadline.
    assert_eq!(bench.expire(at(60_000)), Expired::Losses);
    assert!(!bench.last_report().persistent_congestion);
    assert_eq!(bench.recovery.stats().persistent_congestion_total, 0);
}

#[test]
fn the_largest_acknowledged_must_be_new_for_a_sample() {
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.send(at(1));
    assert!(bench.ack(at(40), &[(1, 1)]).has_rtt_sample);
    assert!(bench.last_report().rtt.unwrap().is_new);
    // Gallery row 140.
    assert!(!bench.ack(at(500), &[(0, 1)]).has_rtt_sample);
    assert!(!bench.last_report().rtt.unwrap().is_new);
    assert_eq!(bench.recovery.stats().rtt.unwrap().latest, ms(39));
    // A packet that was declared lost earlier arrives too late to count.
    for _ in 0..4 {
        bench.send(at(510));
    }
    bench.ack(at(550), &[(5, 5)]);
    assert_eq!(bench.lost(), [2]);
    let late = bench.ack(at(560), &[(2, 2)]);
    assert!(late.newly_acked_any && !late.has_rtt_sample);
    bench.ack(at(560), &[(3, 4)]);
    bench.send_ack_only(at(600));
    assert!(!bench.ack(at(700), &[(6, 6)]).has_rtt_sample, "nothing ack-eliciting is new");
}

#[test]
fn a_reported_delay_counts_up_to_max_ack_delay_once_the_handshake_is_confirmed() {
    // RFC 9002 §5.3. A peer that reports more than max_ack_delay would make the RTT appear smaller.
    let smoothed = |is_confirmed: bool| {
        let mut bench = Bench::new();
        bench.context.handshake_confirmed = is_confirmed;
        bench.send(at(0));
        bench.ack(at(40), &[(0, 0)]);
        let number = bench.send(at(100));
        bench.try_ack(SpaceId::Application, at(220), ms(64), &[(number, number)]).unwrap();
        bench.recovery.stats().rtt.unwrap().smoothed
    };
    // Of the 120 ms, either 25 ms or all 64 ms are the peer's ACK delay: (7 x 40 + 95) / 8 and (7 x
    // 40 + 56) / 8.
    assert_eq!(smoothed(true), Duration::from_micros(46_875));
    assert_eq!(smoothed(false), Duration::from_micros(42_000));
}

#[test]
fn the_delay_of_initial_acks_is_ignored() {
    let mut bench = Bench::new();
    for (space, smoothed) in [(SpaceId::Initial, 100), (SpaceId::Handshake, 95)] {
        let mut bench2 = Bench::new();
        bench2.send_in(space, at(0));
        bench2.ack_in(space, at(60), &[(0, 0)]);
        for _ in 0..50 {
            let number = bench2.send_in(space, at(1000));
            bench2.try_ack(space, at(1100), ms(5), &[(number, number)]).unwrap();
        }
        let got = bench2.recovery.stats().rtt.unwrap().smoothed;
        assert!(got.abs_diff(ms(smoothed)) < ms(1), "{space:?}: {got:?}");
    }
    bench.context = connecting_client();
    assert_eq!(bench.recovery.pto(Duration::ZERO), ms(999));
}
