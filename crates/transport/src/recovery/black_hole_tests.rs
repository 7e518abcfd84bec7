use clearway_units::Timestamp;

use crate::SpaceId;
use crate::recovery::RecoveryConfig;
use crate::recovery::testing::{Bench, SIZE, at, config, ms};

const LARGE: u64 = 1472;

fn bench() -> Bench {
    Bench::with(RecoveryConfig { max_datagram_size: LARGE, ..config() })
}

fn send(bench: &mut Bench, now: Timestamp, bytes: u64) -> u64 {
    let number = bench.stage(SpaceId::Application, |packet| packet.bytes = bytes);
    bench.recovery.transmitted(now).unwrap();
    number
}

/// Returns a setup with an RTT of 40 ms, measured with a large packet.
fn measured() -> Bench {
    let mut bench = bench();
    let number = send(&mut bench, at(0), LARGE);
    bench.ack(at(40), &[(number, number)]);
    bench
}

#[test]
fn after_a_timeout_a_small_probe_that_arrives_shows_it() {
    let mut bench = measured();
    let lost: Vec<u64> = (0..5).map(|time| send(&mut bench, at(100 + time), LARGE)).collect();
    let expiry = bench.deadline().unwrap();
    bench.expire(expiry);
    let full = send(&mut bench, expiry, LARGE);
    let small = send(&mut bench, expiry, SIZE);
    bench.ack(expiry + ms(40), &[(small, small)]);
    assert_eq!(bench.lost(), lost, "the probe of full size may only be late");
    assert!(full < small);
    assert!(bench.recovery.take_black_hole());
    assert!(!bench.recovery.take_black_hole(), "once");
}

/// A queue that overflows can also drop an entire flight. The full-size probe was sent first, and
/// its acknowledgment arrives first.
#[test]
fn congestion_that_loses_a_whole_flight_is_none() {
    for together in [false, true] {
        let mut bench = measured();
        for time in 0..50 {
            send(&mut bench, at(100 + time), LARGE);
        }
        let expiry = bench.deadline().unwrap();
        bench.expire(expiry);
        let full = send(&mut bench, expiry, LARGE);
        let small = send(&mut bench, expiry, SIZE);
        if !together {
            bench.ack(expiry + ms(40), &[(full, full)]);
        }
        bench.ack(expiry + ms(41), &[(full, small)]);
        assert_eq!(bench.lost().len(), 50);
        assert!(!bench.recovery.take_black_hole());
    }
}

#[test]
fn without_a_timeout_the_losses_have_to_span_a_round_trip() {
    for (apart, expected) in [(5, false), (20, true)] {
        let mut bench = measured();
        let mut found = false;
        for time in 0..4 {
            let now = at(100 + time * apart);
            send(&mut bench, now, LARGE);
            let small = send(&mut bench, now, SIZE);
            bench.ack(now + ms(40), &[(small, small)]);
        }
        bench.expire(at(400));
        found |= bench.recovery.take_black_hole();
        assert_eq!(found, expected, "{apart} ms apart");
    }
}

#[test]
fn two_lost_packets_are_too_few() {
    let mut bench = measured();
    for time in [0, 100] {
        send(&mut bench, at(100 + time), LARGE);
    }
    let small = send(&mut bench, at(300), SIZE);
    bench.ack(at(340), &[(small, small)]);
    assert_eq!(bench.lost().len(), 2);
    assert!(!bench.recovery.take_black_hole());
}

#[test]
fn packets_of_the_base_size_and_probes_of_the_mtu_are_no_evidence() {
    for (bytes, is_probe) in [(SIZE, false), (LARGE, true)] {
        let mut bench = measured();
        for time in [0, 50, 100, 150] {
            let number = bench.stage(SpaceId::Application, |packet| {
                packet.bytes = bytes;
                packet.is_probe_of_path = is_probe;
            });
            assert!(number > 0);
            bench.recovery.transmitted(at(100 + time)).unwrap();
        }
        let small = send(&mut bench, at(300), SIZE - 1);
        bench.ack(at(340), &[(small, small)]);
        assert_eq!(bench.lost().len(), 4);
        assert!(!bench.recovery.take_black_hole());
    }
}

/// One large packet in three arrives, for less than eight round trips.
#[test]
fn a_large_packet_that_arrives_disproves_it() {
    let mut bench = measured();
    for round in 0..6 {
        let now = at(100 + 50 * round);
        send(&mut bench, now, LARGE);
        send(&mut bench, now, LARGE);
        let carried = send(&mut bench, now, LARGE);
        let small = send(&mut bench, now, SIZE);
        bench.ack(now + ms(40), &[(carried, small)]);
        assert!(!bench.recovery.take_black_hole());
    }
    bench.expire(at(5000));
    assert!(!bench.recovery.take_black_hole());
}

/// Packets that were sent before the size was reduced and are declared lost later are not a second
/// black hole.
#[test]
fn old_losses_are_not_counted_again() {
    let mut bench = measured();
    for time in 0..5 {
        send(&mut bench, at(100 + time), LARGE);
    }
    let expiry = bench.deadline().unwrap();
    bench.expire(expiry);
    for _ in 0..4 {
        send(&mut bench, expiry, LARGE);
    }
    let small = send(&mut bench, expiry + ms(1), SIZE);
    bench.ack(expiry + ms(41), &[(small, small)]);
    assert!(bench.recovery.take_black_hole());
    for time in 0..6 {
        let small = send(&mut bench, expiry + ms(50 + time), SIZE);
        bench.ack(expiry + ms(90 + time), &[(small, small)]);
    }
    assert!(!bench.recovery.take_black_hole());
}

/// Sends `count` large packets, four per round trip; packets for which `is_lost` returns true never
/// arrive.
fn send_in_rounds(bench: &mut Bench, count: u64, is_lost: impl Fn(u64) -> bool) -> bool {
    let mut found = false;
    for round in 0..count / 4 {
        let now = at(100 + round * 40);
        let numbers: Vec<u64> = (0..4).map(|_| send(bench, now, LARGE)).collect();
        for number in numbers.into_iter().filter(|&number| !is_lost(number)) {
            bench.ack(now + ms(40), &[(number, number)]);
        }
        found |= bench.recovery.take_black_hole();
    }
    found
}

/// Other packets of the same size arrive each time, so no single loss indicates a black hole.
#[test]
fn a_path_that_loses_a_third_of_the_large_packets_shows_it() {
    let mut bench = measured();
    assert!(send_in_rounds(&mut bench, 120, |number| number % 3 == 0));
}

#[test]
fn a_path_that_loses_every_eighth_large_packet_is_used() {
    let mut bench = measured();
    assert!(!send_in_rounds(&mut bench, 400, |number| number % 8 == 0));
}

/// Three round trips of heavy losses result from a queue that overflows before the sender notices.
#[test]
fn losses_of_a_few_round_trips_are_congestion() {
    let mut bench = measured();
    assert!(
        !send_in_rounds(&mut bench, 400, |number| (40..52).contains(&number) && number % 2 == 0)
    );
}
