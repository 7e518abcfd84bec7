//! RFC 9000 §12.3, §13.1, §21.4: which packet numbers are used, and which may be acknowledged.

use clearway_wire::TransportErrorCode;

use crate::SpaceId;
use crate::recovery::RecoveryConfig;
use crate::recovery::testing::{Bench, at, config, ms};

const APPLICATION: SpaceId = SpaceId::Application;

fn skipping() -> Bench {
    Bench::with(RecoveryConfig { skip_packet_numbers: true, ..config() })
}

#[test]
fn a_number_comes_again_until_it_is_used() {
    let mut bench = Bench::new();
    let first = bench.recovery.next_packet_number(APPLICATION);
    assert_eq!(bench.recovery.next_packet_number(APPLICATION), first);
    bench.send(at(0));
    assert_ne!(bench.recovery.next_packet_number(APPLICATION), first);
}

#[test]
fn what_was_not_sent_cannot_be_acknowledged() {
    // Gallery row 139.
    let mut bench = Bench::new();
    bench.send(at(0));
    bench.stage(APPLICATION, |_| {});
    let in_flight = bench.in_flight();
    for ranges in [&[(0, 1)][..], &[(1, 1)], &[(7, 9), (0, 0)]] {
        let error = bench.try_ack(APPLICATION, at(10), Default::default(), ranges).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
        assert_eq!(bench.in_flight(), in_flight, "and nothing has changed");
        assert!(bench.acked().is_empty());
    }
    for space in [SpaceId::Initial, SpaceId::Handshake] {
        assert!(bench.try_ack(space, at(10), Default::default(), &[(0, 0)]).is_err());
    }
}

#[test]
fn skipped_packet_numbers_cannot_be_acknowledged() {
    let mut bench = skipping();
    bench.set_window(1 << 30);
    let mut skipped = Vec::new();
    let mut next = 0;
    let mut oldest = 0;
    while skipped.len() < 20 {
        bench.set_window(40_000);
        let number = bench.send(at(next));
        skipped.extend(next..number);
        next = number + 1;
        if number - oldest > 20 {
            let last_skip = skipped.last().copied();
            match last_skip.filter(|skip| *skip >= oldest) {
                Some(skip) => {
                    let range = [(oldest.min(skip), number)];
                    let error = bench
                        .try_ack(APPLICATION, at(number), Default::default(), &range)
                        .unwrap_err();
                    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
                    if skip == oldest {
                        bench.ack(at(number), &[(skip + 1, number)]);
                    } else {
                        bench.ack(at(number), &[(skip + 1, number), (oldest, skip - 1)]);
                    }
                }
                None => {
                    bench.ack(at(number), &[(oldest, number)]);
                }
            }
            oldest = next;
        }
    }
    let gaps: Vec<u64> = skipped.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (32..=67).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap != gaps[0]), "at random");
    // This also applies much later.
    let last = *skipped.last().unwrap();
    assert!(bench.try_ack(APPLICATION, at(next), Default::default(), &[(last, last)]).is_err());
}

#[test]
fn the_gap_grows_with_the_window() {
    let mut bench = skipping();
    bench.set_window(1200 * 1000);
    let mut next = 0;
    let mut skipped: Vec<u64> = Vec::new();
    while skipped.len() < 4 {
        let number = bench.send(at(next));
        skipped.extend(next..number);
        next = number + 1;
    }
    // The first skipped number was chosen before the window was set.
    assert!(skipped.windows(2).skip(1).all(|pair| pair[1] - pair[0] >= 1000), "{skipped:?}");
}

#[test]
fn the_last_thirty_two_skipped_numbers_are_remembered() {
    let mut bench = skipping();
    let (mut next, mut skipped) = (0, Vec::new());
    while skipped.len() < 40 {
        let number = bench.send(at(next));
        skipped.extend(next..number);
        next = number + 1;
        bench.ack(at(number), &[(number, number)]);
    }
    for (index, skip) in skipped.iter().rev().enumerate() {
        let report = bench.try_ack(APPLICATION, at(next), ms(0), &[(*skip, *skip)]);
        assert_eq!(report.is_err(), index < 32, "{index} before the last");
    }
}

#[test]
fn a_skipped_number_is_no_reordering() {
    let mut bench = skipping();
    let mut next = 0;
    // Sends packets until a number has just been skipped.
    loop {
        let number = bench.send(at(0));
        if number != next {
            break;
        }
        next = number + 1;
    }
    let skipped = next;
    bench.send(at(0));
    assert_eq!(bench.recovery.next_packet_number(APPLICATION).unwrap().get(), skipped + 3);
    // Packet `skipped - 1` is two packets, but three packet numbers, before `skipped + 2`.
    bench.ack(at(100), &[(skipped + 2, skipped + 2)]);
    assert!(!bench.lost().contains(&(skipped - 1)));
    bench.send(at(0));
    bench.ack(at(101), &[(skipped + 3, skipped + 3)]);
    assert!(bench.lost().contains(&(skipped - 1)));
}

#[test]
fn initial_and_handshake_numbers_are_never_left_out() {
    let mut bench = skipping();
    for space in [SpaceId::Initial, SpaceId::Handshake] {
        for expected in 0..500 {
            assert_eq!(bench.send_in(space, at(expected)), expected);
        }
    }
}
