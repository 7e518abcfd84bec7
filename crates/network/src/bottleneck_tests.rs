use super::*;
use crate::testing::{at_ms, ms};
use crate::{Ecn, QueueLimit, Step};

/// A rate of 10 Mbit/s, at which 1250 bytes take a millisecond.
const RATE: Rate = Rate::from_bits_per_second(10_000_000);

/// Returns the time at which each of the datagrams, given by entry time and size, leaves the wire;
/// `None` for a datagram that was not admitted. The link's first datagram entered at `first`.
fn leaving(
    mut conditions: Conditions,
    first: Timestamp,
    datagrams: &[(Timestamp, u64)],
) -> Vec<Option<Timestamp>> {
    let mut bottleneck = Bottleneck::new(&mut conditions).unwrap();
    let mut leaving = vec![None; datagrams.len()];
    let take = |bottleneck: &mut Bottleneck, now, leaving: &mut [Option<Timestamp>]| {
        while let Some(exit) = bottleneck.exit(now, first) {
            let Exit::Passed { slot, at, .. } = exit else { panic!("{exit:?}") };
            leaving[slot] = Some(at);
        }
    };
    for (slot, (number, (now, bytes))) in (0..).zip(datagrams).enumerate() {
        take(&mut bottleneck, *now, &mut leaving);
        if bottleneck.has_room(*bytes) {
            leaving[slot] = Some(Timestamp::FAR_FUTURE);
            let (entered, ecn) = (*now, Ecn::NotEct);
            let waiting = QueuedDatagram { slot, number, bytes: *bytes, entered, ecn };
            bottleneck.admit((*now, first), waiting, (0, 0));
        }
    }
    take(&mut bottleneck, Timestamp::FAR_FUTURE, &mut leaving);
    leaving
}

/// Like [`leaving`], for datagrams of `sizes` that all enter at the origin.
fn at_once(conditions: Conditions, sizes: &[u64]) -> Vec<Option<Timestamp>> {
    let datagrams: Vec<_> = sizes.iter().map(|size| (Timestamp::ORIGIN, *size)).collect();
    leaving(conditions, Timestamp::ORIGIN, &datagrams)
}

fn limited(packets: Option<usize>, bytes: Option<u64>) -> Conditions {
    let queue = QueueLimit { packets, bytes };
    Conditions { rate: Some(RATE), queue, ..Conditions::default() }
}

fn plain() -> Conditions {
    limited(None, None)
}

#[test]
fn without_a_rate_there_is_no_bottleneck() {
    let rate_steps = steps(&[(1, None)]);
    let mut conditions = Conditions { rate_steps, ..Conditions::default() };
    assert!(Bottleneck::new(&mut conditions).is_none());
}

#[test]
fn serialisation_takes_size_over_rate() {
    let expected = [1_000_000, 1_500_000, 1_500_000, 1_500_800];
    let expected = expected.map(|ns| Some(Timestamp::from_nanos(ns)));
    assert_eq!(at_once(plain(), &[1250, 625, 0, 1]), expected);
}

#[test]
fn an_idle_wire_earns_no_credit() {
    let datagrams = [(at_ms(0), 1250), (at_ms(50), 1250)];
    let leaving = leaving(plain(), at_ms(0), &datagrams);
    assert_eq!(leaving, [Some(at_ms(1)), Some(at_ms(51))]);
}

#[test]
fn the_queue_drops_the_first_datagram_beyond_its_limit() {
    // One datagram is on the wire, and two are in the queue. A nanosecond before the second one
    // goes on the wire, there is no room; then there is room for one.
    let later = [Timestamp::from_nanos(999_999), at_ms(1), at_ms(1)];
    let datagrams: Vec<_> = [at_ms(0); 5].into_iter().chain(later).map(|at| (at, 1250)).collect();
    let expected = [Some(1), Some(2), Some(3), None, None, None, Some(4), None];
    let leaving = leaving(limited(Some(2), None), at_ms(0), &datagrams);
    assert_eq!(leaving, expected.map(|leaves| leaves.map(at_ms)));
}

#[test]
fn the_queue_counts_bytes() {
    // The datagram on the wire does not count, however large it is. Once the second one is on the
    // wire, its bytes no longer count.
    let second = Timestamp::from_nanos(7_200_000);
    let sizes = [9000, 1500, 501, 500, 1].map(|size| (at_ms(0), size));
    let datagrams: Vec<_> = sizes.into_iter().chain([(second, 1501), (second, 1500)]).collect();
    let admitted: Vec<bool> = leaving(limited(None, Some(2000)), at_ms(0), &datagrams)
        .iter()
        .map(Option::is_some)
        .collect();
    assert_eq!(admitted, [true, true, false, true, false, false, true]);
}

#[test]
fn with_a_queue_of_zero_only_the_wire_remains() {
    let datagrams = [(at_ms(0), 1250), (at_ms(0), 1250), (at_ms(1), 1250)];
    let leaving = leaving(limited(Some(0), None), at_ms(0), &datagrams);
    assert_eq!(leaving, [Some(at_ms(1)), None, Some(at_ms(2))]);
}

#[test]
fn a_rate_of_zero_lets_nothing_out() {
    let stuck = Conditions { rate: Some(Rate::ZERO), ..Conditions::default() };
    assert_eq!(at_once(stuck, &[1, 1]), [Some(Timestamp::FAR_FUTURE); 2]);
}

fn steps(steps: &[(u64, Option<Rate>)]) -> Vec<Step<Option<Rate>>> {
    steps.iter().map(|(after, value)| Step { after: ms(*after), value: *value }).collect()
}

#[test]
fn a_step_applies_to_the_datagram_on_the_wire() {
    // The rate is halved 1.5 ms after the first datagram, which enters at 1 ms.
    let half = Some(RATE.scaled(1, 2));
    let rate_steps = vec![Step { after: Duration::from_micros(1500), value: half }];
    let conditions = Conditions { rate_steps, ..plain() };
    let leaving = leaving(conditions, at_ms(1), &[(at_ms(1), 1250); 3]);
    let expected = [2_000_000, 3_500_000, 5_500_000];
    assert_eq!(leaving, expected.map(|ns| Some(Timestamp::from_nanos(ns))));
}

#[test]
fn a_rate_of_zero_pauses_a_transmission_until_the_next_step() {
    let rate_steps = steps(&[(12, Some(RATE)), (2, Some(Rate::ZERO)), (13, None)]);
    let leaving = at_once(Conditions { rate_steps, ..plain() }, &[1875, 1250, 1250, 1250]);
    let expected = [1_500_000, 12_500_000, 13_000_000, 13_000_000];
    assert_eq!(leaving, expected.map(|ns| Some(Timestamp::from_nanos(ns))));
}

#[test]
fn rounding_errors_do_not_accumulate_over_steps() {
    // The rate is 3 bytes per second, and is "changed" to the same value every millisecond: one
    // byte still takes a third of a second.
    let rate = Some(Rate::from_bytes_per_second(3));
    let rate_steps = (1..500).map(|n| Step { after: ms(n), value: rate }).collect();
    let conditions = Conditions { rate, rate_steps, ..Conditions::default() };
    assert_eq!(at_once(conditions, &[1]), [Some(Timestamp::from_nanos(333_333_334))]);
}
