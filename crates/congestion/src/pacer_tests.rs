use core::time::Duration;

use clearway_units::{Rate, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::Pacer;

const SIZE: u64 = 1200;
const BURST: u64 = 10 * SIZE;

fn at(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos(nanoseconds)
}

fn rate(bytes: u64) -> Option<Rate> {
    Some(Rate::from_bytes_per_second(bytes))
}

/// Returns a pacer whose bucket is empty at `now`, with a sender waiting for its release.
fn empty(now: Timestamp, rate: Option<Rate>) -> Pacer {
    let mut pacer = Pacer::new(now, SIZE);
    assert_eq!(pacer.release(now, rate, SIZE), Ok(()));
    let burst = pacer.burst();
    if burst > BURST {
        // The larger bucket fills first.
        let full = now + Duration::from_millis(1);
        assert_eq!(pacer.release(full, rate, burst), Ok(()));
        pacer.on_sent(full, burst);
    } else {
        pacer.on_sent(now, burst);
    }
    pacer.on_waiting();
    pacer
}

/// Sends single datagrams whenever the pacer allows, until `end`; returns the send times.
fn play(pacer: &mut Pacer, rate: Option<Rate>, start: Timestamp, end: Timestamp) -> Vec<Timestamp> {
    let (mut now, mut sent) = (start, Vec::new());
    while now <= end {
        match pacer.release(now, rate, SIZE) {
            Ok(()) => {
                pacer.on_sent(now, SIZE);
                sent.push(now);
            }
            Err(release) => {
                assert!(release.deadline() > now, "row 86: no busy loop");
                pacer.on_waiting();
                now = release.deadline();
            }
        }
    }
    sent
}

#[test]
fn without_a_rate_nothing_is_paced_and_pacing_begins_with_a_full_bucket() {
    let mut pacer = Pacer::new(at(5), SIZE);
    for _ in 0..1000 {
        assert_eq!(pacer.release(at(5), None, SIZE), Ok(()));
        pacer.on_sent(at(5), SIZE);
    }
    assert_eq!(pacer.release(at(5), rate(1), BURST), Ok(()));
}

#[test]
fn a_full_bucket_releases_ten_datagrams_and_no_byte_more() {
    let mut pacer = Pacer::new(at(0), SIZE);
    assert_eq!(pacer.release(at(0), rate(1_000_000), BURST), Ok(()));
    // Released data that has not been sent still counts: a request for more than the burst never
    // succeeds.
    let more = pacer.release(at(0), rate(1_000_000), BURST + 1).unwrap_err();
    assert!(more.deadline() > at(0));
    assert!(pacer.release(at(1_000_000_000_000), rate(1_000_000), BURST + 1).is_err());
    assert_eq!(pacer.release(at(1_000_000_000_000), rate(1_000_000), BURST), Ok(()));
}

#[test]
fn after_any_idle_time_the_bucket_is_full_and_never_fuller() {
    for idle in [1, 3_600, u64::MAX / 1_000_000_000] {
        let mut pacer = empty(at(0), rate(1_000_000));
        let now = at(0) + Duration::from_secs(idle);
        assert_eq!(pacer.release(now, rate(1_000_000), BURST), Ok(()));
        pacer.on_sent(now, BURST);
        assert!(pacer.release(now, rate(1_000_000), 1).is_err());
    }
}

#[test]
fn a_sender_held_back_by_its_window_accrues_two_datagrams() {
    let rate = rate(1_000_000);
    let mut pacer = empty(at(0), rate);
    assert_eq!(pacer.release(at(1_200_000), rate, SIZE), Ok(()));
    pacer.on_sent(at(1_200_000), SIZE);
    // The sender queries the pacer again only when its window allows more.
    assert_eq!(pacer.release(at(50_000_000), rate, 2 * SIZE), Ok(()));
    let release = pacer.release(at(50_000_000), rate, 3 * SIZE).unwrap_err();
    assert_eq!(release.deadline(), at(51_200_000));
    // A sender that waits for the release is not penalized for being woken late.
    pacer.on_waiting();
    assert_eq!(pacer.release(at(60_000_000), rate, BURST), Ok(()));
    pacer.on_sent(at(60_000_000), 4 * SIZE);
    // Unused credit remains, but does not grow.
    assert_eq!(pacer.release(at(90_000_000), rate, 6 * SIZE), Ok(()));
    assert!(pacer.release(at(90_000_000), rate, 6 * SIZE + 1).is_err());
}

#[test]
fn with_nothing_in_flight_a_whole_burst_accrues() {
    let rate = rate(1_000_000);
    let mut pacer = empty(at(0), rate);
    pacer.on_sent(at(0), 1);
    pacer.on_quiet(at(1_000_000));
    assert_eq!(pacer.release(at(20_000_000), rate, BURST), Ok(()));
}

#[test]
fn the_burst_is_the_amount_of_a_millisecond_at_the_rate_within_bounds() {
    for (bytes_per_second, burst) in [
        (1, BURST),
        (12_000_000, BURST),
        (125_000_000, 125_000),
        (1_250_000_000, 256 << 10),
        (u64::MAX, 256 << 10),
    ] {
        let mut pacer = Pacer::new(at(0), SIZE);
        let _ = pacer.release(at(0), rate(bytes_per_second), SIZE);
        assert_eq!(pacer.burst(), burst);
    }
    let mut pacer = Pacer::new(at(0), SIZE);
    pacer.set_max_datagram_size(at(0), 60_000);
    assert_eq!(pacer.burst(), 600_000);
    pacer.set_max_datagram_size(at(0), SIZE);
    assert!(pacer.release(at(0), rate(1), BURST + 1).is_err(), "the bucket shrank");
    assert_eq!(pacer.release(at(0), rate(1), BURST), Ok(()));
}

#[test]
fn a_falling_rate_shrinks_the_burst() {
    let fast = rate(125_000_000);
    let mut pacer = Pacer::new(at(0), SIZE);
    let _ = pacer.release(at(0), fast, SIZE);
    assert_eq!(pacer.release(at(1_000_000), fast, 125_000), Ok(()));
    assert!(pacer.release(at(1_000_000), rate(1_000_000), BURST + 1).is_err());
    assert_eq!(pacer.release(at(1_000_000), rate(1_000_000), BURST), Ok(()));
}

#[test]
fn datagrams_leave_exactly_at_the_rate_however_often_the_pacer_is_queried() {
    // 7 bytes every 1000003rd of a second is an interval that nothing divides evenly.
    let odd = rate(7_000_021);
    for asks in [1, 3, 50] {
        let mut pacer = empty(at(0), odd);
        let (mut now, mut sent) = (0_u64, 0_u64);
        while now < 10_000_000_000 {
            now += 1_000_003 / asks;
            while pacer.release(at(now), odd, SIZE).is_ok() {
                pacer.on_sent(at(now), SIZE);
                sent += SIZE;
            }
            pacer.on_waiting();
        }
        let exact = u128::from(now) * 7_000_021 / 1_000_000_000;
        assert!(u128::from(sent).abs_diff(exact) <= u128::from(SIZE), "{asks}: {sent} {exact}");
    }
}

#[test]
fn the_deadline_is_exact_at_low_rates() {
    // Row 96: the rate is one byte per second.
    let mut pacer = empty(at(0), rate(1));
    let release = pacer.release(at(0), rate(1), SIZE).unwrap_err();
    assert_eq!(release.deadline(), at(1200 * 1_000_000_000));
    assert!(pacer.release(at(1200 * 1_000_000_000 - 1), rate(1), SIZE).is_err());
    assert_eq!(pacer.release(at(1200 * 1_000_000_000), rate(1), SIZE), Ok(()));
    // A rate of zero does not return a wrong time.
    let mut pacer = empty(at(0), rate(1));
    assert!(pacer.release(at(0), rate(0), SIZE).is_err());
}

#[test]
fn every_rate_is_reached_by_deadlines_alone() {
    for bytes_per_second in
        [12_500, 125_000, 1_250_000, 12_500_000, 125_000_000, 1_250_000_000, 50_000_000_000]
    {
        let rate = rate(bytes_per_second);
        let mut pacer = Pacer::new(at(0), SIZE);
        let _ = pacer.release(at(0), rate, SIZE);
        let time = (20_000 * SIZE * 1_000_000_000 / bytes_per_second).min(2_000_000_000_000);
        let sent = play(&mut pacer, rate, at(0), at(time));
        let expected = time / 1000 * bytes_per_second / 1_000_000 / SIZE;
        let off = (sent.len() as u64).abs_diff(expected) * SIZE;
        assert!(off <= pacer.burst() + SIZE, "{bytes_per_second}: {} {expected}", sent.len());
    }
}

#[test]
fn what_is_released_is_what_release_permits() {
    let mut pacer = Pacer::new(at(5), SIZE);
    assert_eq!(pacer.released(at(5), None), u64::MAX);
    let odd = rate(7_000_021);
    let mut pacer = empty(at(0), odd);
    for step in 1..200 {
        let now = at(step * 333_331);
        let released = pacer.released(now, odd);
        assert_eq!(pacer.release(now, odd, released), Ok(()));
        assert!(pacer.release(now, odd, released + 1).is_err());
        pacer.on_sent(now, released / 3);
        pacer.on_waiting();
    }
}

#[test]
fn a_wait_is_worth_its_wake() {
    // Row 93: at 10 Gbit/s a datagram takes a microsecond; the sender is not woken for each one.
    let fast = rate(1_250_000_000);
    let mut pacer = empty(at(0), fast);
    let now = at(1_000_000);
    let sent = play(&mut pacer, fast, now, now + Duration::from_millis(10));
    let mut wakes = sent.clone();
    wakes.dedup();
    assert!(wakes.len() < 250, "{} wakes", wakes.len());
    assert!(sent.len() > 10_000, "{}", sent.len());
    // The rate is still reached; the last wait may end after the observed time.
    assert!(sent.len() as u64 * SIZE >= 12_500_000 - (64 << 10) - SIZE);
}

#[test]
fn a_wait_is_never_longer_than_a_round_trip() {
    // L6, at the minimum rate of any controller and after the maximum number of probes.
    for round_trip_ms in [1, 10, 300, 2000] {
        let rate = rate(SIZE * 1000 / round_trip_ms);
        let mut pacer = empty(at(0), rate);
        for _ in 0..50 {
            pacer.on_sent(at(0), SIZE);
        }
        let release = pacer.release(at(0), rate, SIZE).unwrap_err();
        assert!(release.deadline() <= at(round_trip_ms * 1_000_000 + 1), "{release:?}");
    }
}

#[test]
fn past_time_accrues_at_the_rate_that_applied_then() {
    let slow = rate(1_000_000);
    let mut pacer = empty(at(0), slow);
    // 3 ms at 1 MB/s yield 3000 bytes, regardless of the current rate.
    assert_eq!(pacer.release(at(3_000_000), rate(4_000_000), 3000), Ok(()));
    let release = pacer.release(at(3_000_000), rate(4_000_000), 7000).unwrap_err();
    assert_eq!(release.deadline(), at(4_000_000));
    // A falling rate removes only the credit that does not fit in the smaller bucket.
    assert_eq!(pacer.release(at(3_000_000), rate(1), 3000), Ok(()));
    assert!(pacer.release(at(3_000_000), rate(1), 3001).is_err());
}

#[test]
fn a_rate_that_falls_between_queries_applies_from_then_on() {
    // The window limits the sender for 10 ms; in the first millisecond, the rate falls to a
    // hundredth.
    let (fast, slow) = (rate(1_200_000), rate(12_000));
    let mut pacer = empty(at(0), fast);
    pacer.on_rate(at(1_000_000), slow);
    let accrued = 1200 + 108;
    assert_eq!(pacer.release(at(10_000_000), slow, accrued), Ok(()));
    assert!(pacer.release(at(10_000_000), slow, accrued + 1).is_err(), "S8");
}

#[test]
fn an_announced_first_rate_begins_with_a_full_bucket_too() {
    let mut pacer = Pacer::new(at(0), SIZE);
    pacer.on_rate(at(0), None);
    pacer.on_rate(at(0), rate(1000));
    pacer.on_sent(at(5), BURST);
    assert_eq!(pacer.release(at(10), rate(1000), BURST), Ok(()));
}

#[test]
fn a_batch_requested_in_parts_is_released_at_the_deadline() {
    // The transport requests credit for the data that it has built so far, sends the data, and
    // waits for the deadline.
    let rate = rate(10_000_000);
    let mut pacer = Pacer::new(at(0), SIZE);
    let mut now = at(0);
    for _ in 0..1000 {
        let mut built = 0;
        let release = loop {
            match pacer.release(now, rate, built + SIZE) {
                Ok(()) => built += SIZE,
                Err(release) => break release,
            }
        };
        assert!(built >= SIZE, "release at the deadline succeeds");
        pacer.on_sent(now, built);
        now = release.deadline();
    }
}

#[test]
fn a_clock_that_stands_still_or_goes_back_accrues_nothing() {
    let slow = rate(1_000_000);
    let mut pacer = empty(at(1_000_000), slow);
    for _ in 0..10 {
        assert!(pacer.release(at(1_000_000), slow, 1).is_err());
        assert!(pacer.release(at(0), slow, 1).is_err());
    }
    pacer.on_sent(at(0), SIZE);
    assert!(pacer.release(at(1_000_000), slow, SIZE).is_err());
    assert_eq!(pacer.release(at(3_400_000), slow, SIZE), Ok(()));
}

proptest! {
    #[test]
    fn release_times_hold_and_no_interval_carries_more_than_rate_and_burst(
        first in 1..3_000_000_000_u64,
        asks in vec((0..20_000_000_u64, 1..200_u64), 1..80),
    ) {
        let rate = rate(first);
        let mut pacer = Pacer::new(at(0), SIZE);
        let (mut now, mut sent) = (0_u64, Vec::<(u64, u64)>::new());
        for (pause, kilobits) in asks {
            now += pause;
            let _ = pacer.release(at(now), rate, 1);
            let bytes = (kilobits * 125).min(pacer.burst());
            if let Err(release) = pacer.release(at(now), rate, bytes) {
                prop_assert!(release.deadline() > at(now));
                pacer.on_waiting();
                now = release.deadline().as_nanos();
                prop_assert_eq!(pacer.release(at(now), rate, bytes), Ok(()));
            }
            pacer.on_sent(at(now), bytes);
            sent.push((now, bytes));
        }
        for from in 0..sent.len() {
            let mut total = 0;
            for (when, bytes) in &sent[from..] {
                total += u128::from(*bytes);
                let time = u128::from(when - sent[from].0);
                let most = u128::from(first) * time / 1_000_000_000 + u128::from(pacer.burst());
                prop_assert!(total <= most + 1, "S8: {} > {}", total, most);
            }
        }
    }

    #[test]
    fn nothing_overflows(
        size in any::<u64>(),
        asks in vec((any::<u64>(), any::<Option<u64>>(), any::<u64>(), any::<bool>()), 1..20),
    ) {
        let mut pacer = Pacer::new(at(0), size);
        for (now, bytes_per_second, bytes, send) in asks {
            let rate = bytes_per_second.map(Rate::from_bytes_per_second);
            if let Err(release) = pacer.release(at(now), rate, bytes) {
                prop_assert!(release.deadline() > at(now) || now == u64::MAX);
            }
            if send {
                pacer.on_sent(at(now), bytes);
            }
        }
    }
}
