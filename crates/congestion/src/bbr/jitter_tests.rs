use super::*;
use crate::testing::ms;
use crate::{DeliverySnapshot, RttSnapshot, SentPacket};

/// Returns an RTT of 40 ms, which results in a mark every 5 ms.
fn rtt() -> RttSnapshot {
    RttSnapshot {
        latest: ms(40),
        smoothed: ms(40),
        minimum: ms(40),
        variation: ms(0),
        is_new: true,
    }
}

/// Acknowledges the packets `indexes` together, `at` milliseconds after the start.
fn acknowledge(jitter: &mut Jitter, at: u64, indexes: &[u64]) {
    let packet = |index: &u64| SentPacket {
        index: SendIndex(*index),
        bytes: 1200,
        sent_at: Timestamp::ORIGIN,
        delivery: DeliverySnapshot::default(),
    };
    let acked: Vec<_> = indexes.iter().map(packet).collect();
    jitter.note(&Acknowledgement {
        now: Timestamp::ORIGIN + ms(at),
        acked: &acked,
        lost: &[],
        next_index: SendIndex(1_000_000),
        largest_acked: acked.last().map(|packet| packet.index),
        rtt: Some(rtt()),
        prior_in_flight: 0,
        bytes_in_flight: 0,
        persistent_congestion: false,
        newly_ce_marked: 0,
        rate_sample: None,
        total_delivered: 0,
        total_lost: 0,
        round: 0,
        was_limited: true,
        was_window_limited: true,
        limited_time: Duration::ZERO,
    });
}

/// Acknowledges a round of eight packets starting with `first`. That packet is acknowledged 40 ms
/// after the next one, which makes the mean delay 5 ms.
fn round_with_one_late(jitter: &mut Jitter, first: u64, at: u64) {
    acknowledge(jitter, at, &[first + 1]);
    acknowledge(jitter, at + 40, &[first]);
    acknowledge(jitter, at + 41, &[first + 2, first + 3, first + 4]);
    acknowledge(jitter, at + 42, &[first + 5, first + 6, first + 7]);
    jitter.end_round();
}

fn round_in_order(jitter: &mut Jitter, first: u64, at: u64) {
    (0..8).for_each(|packet| acknowledge(jitter, at + packet * 5, &[first + packet]));
    jitter.end_round();
}

#[test]
fn the_time_between_the_acks_of_a_later_and_of_an_earlier_packet_counts() {
    let mut jitter = Jitter::default();
    round_with_one_late(&mut jitter, 0, 100);
    assert_eq!(jitter.delay(), ms(5));
}

#[test]
fn packets_of_one_ack_have_not_overtaken_each_other() {
    let mut jitter = Jitter::default();
    acknowledge(&mut jitter, 100, &[0, 3, 4, 5]);
    acknowledge(&mut jitter, 140, &[6, 8, 9, 10, 11, 12]);
    jitter.end_round();
    assert_eq!(jitter.delay(), Duration::ZERO);
}

#[test]
fn a_long_round_trip_in_order_is_not_jitter() {
    let mut jitter = Jitter::default();
    for round in 0..50 {
        // Packets of a round arrive with a gap of a second between them, as behind a growing queue.
        (0..8).for_each(|packet| {
            acknowledge(&mut jitter, (8 * round + packet) * 1000, &[8 * round + packet]);
        });
        jitter.end_round();
        assert_eq!(jitter.delay(), Duration::ZERO);
    }
}

#[test]
fn the_delay_falls_to_nothing_when_reordering_ends() {
    let mut jitter = Jitter::default();
    round_with_one_late(&mut jitter, 0, 100);
    let mut delays = vec![jitter.delay()];
    for round in 1..60 {
        round_in_order(&mut jitter, 8 * round, 1000 * round);
        delays.push(jitter.delay());
    }
    assert!(delays.windows(2).all(|two| two[1] < two[0] || two[0].is_zero()), "{delays:?}");
    assert!(delays[5] < ms(5) / 4, "{delays:?}");
    assert_eq!(delays.last(), Some(&Duration::ZERO));
}

#[test]
fn it_rises_at_once_and_never_beyond_what_was_measured() {
    let mut jitter = Jitter::default();
    for round in 0..20 {
        round_with_one_late(&mut jitter, 8 * round, 1000 * round);
        assert_eq!(jitter.delay(), ms(5));
    }
}

#[test]
fn a_round_of_few_packets_goes_on() {
    let mut jitter = Jitter::default();
    acknowledge(&mut jitter, 100, &[1]);
    acknowledge(&mut jitter, 140, &[0]);
    jitter.end_round();
    assert_eq!(jitter.delay(), Duration::ZERO, "two packets prove nothing");
    acknowledge(&mut jitter, 150, &[2, 3, 4, 5, 6, 7]);
    jitter.end_round();
    assert_eq!(jitter.delay(), ms(5));
}

/// However late a packet arrives, its delay counts as at most twice the smoothed RTT while other
/// packets arrive.
#[test]
fn one_packet_counts_no_more_than_two_round_trips() {
    let mut jitter = Jitter::default();
    (1..=100).for_each(|packet| acknowledge(&mut jitter, packet * 5, &[packet]));
    jitter.end_round();
    jitter.note_packet(Timestamp::ORIGIN + ms(500), SendIndex(0));
    assert_eq!(jitter.sum, ms(75), "sixteen marks, 5 ms apart");
}
