use super::*;
use crate::testing::{at_ms, ms};

fn bottleneck(conditions: Conditions) -> Bottleneck {
    Bottleneck::new(&conditions)
}

/// 10 Mbit/s: 1250 bytes take a millisecond.
const RATE: Rate = Rate::from_bits_per_second(10_000_000);

/// When each of `sizes` leaves, if all enter at the origin.
fn leaving(bottleneck: &mut Bottleneck, sizes: &[usize]) -> Vec<Option<Timestamp>> {
    let origin = Timestamp::ORIGIN;
    sizes
        .iter()
        .map(|size| bottleneck.admit(origin, origin, *size).map(|passage| passage.leaves))
        .collect()
}

#[test]
fn without_a_rate_nothing_waits() {
    let queue = QueueLimit { packets: Some(0), bytes: Some(0) };
    let mut bottleneck = bottleneck(Conditions { queue, ..Conditions::default() });
    assert_eq!(leaving(&mut bottleneck, &[9000, 1, 0]), [Some(Timestamp::ORIGIN); 3]);
}

#[test]
fn serialisation_takes_size_over_rate() {
    let mut bottleneck = bottleneck(Conditions { rate: Some(RATE), ..Conditions::default() });
    let leaving = leaving(&mut bottleneck, &[1250, 625, 0, 1]);
    let expected = [1_000_000, 1_500_000, 1_500_000, 1_500_800];
    assert_eq!(leaving, expected.map(|ns| Some(Timestamp::from_nanos(ns))));
}

#[test]
fn an_idle_wire_earns_no_credit() {
    let mut bottleneck = bottleneck(Conditions { rate: Some(RATE), ..Conditions::default() });
    let origin = Timestamp::ORIGIN;
    bottleneck.admit(origin, origin, 1250);
    let passage = bottleneck.admit(at_ms(50), origin, 1250);
    assert_eq!(passage, Some(Passage { waits: Duration::ZERO, leaves: at_ms(51) }));
}

#[test]
fn overhead_takes_time() {
    let mut bottleneck =
        bottleneck(Conditions { rate: Some(RATE), overhead: 28, ..Conditions::default() });
    assert_eq!(leaving(&mut bottleneck, &[1222, 1222]), [Some(at_ms(1)), Some(at_ms(2))]);
}

#[test]
fn the_queue_drops_the_first_that_has_no_place() {
    let queue = QueueLimit { packets: Some(2), bytes: None };
    let mut bottleneck =
        bottleneck(Conditions { rate: Some(RATE), queue, ..Conditions::default() });
    // One on the wire, two in the queue.
    let expected = [Some(at_ms(1)), Some(at_ms(2)), Some(at_ms(3)), None, None];
    assert_eq!(leaving(&mut bottleneck, &[1250; 5]), expected);
    // A nanosecond before the second goes on the wire there is no place; then there is one.
    let origin = Timestamp::ORIGIN;
    assert_eq!(bottleneck.admit(Timestamp::from_nanos(999_999), origin, 1250), None);
    let passage = bottleneck.admit(at_ms(1), origin, 1250);
    assert_eq!(passage, Some(Passage { waits: ms(2), leaves: at_ms(4) }));
    assert_eq!(bottleneck.admit(at_ms(1), origin, 1250), None);
}

#[test]
fn the_queue_counts_bytes() {
    let queue = QueueLimit { packets: None, bytes: Some(2000) };
    let mut bottleneck =
        bottleneck(Conditions { rate: Some(RATE), queue, ..Conditions::default() });
    let admitted: Vec<bool> =
        leaving(&mut bottleneck, &[9000, 1500, 501, 500, 1]).iter().map(Option::is_some).collect();
    // The one on the wire does not count, however large.
    assert_eq!(admitted, [true, true, false, true, false]);
    // When the second is on the wire, its bytes are free again.
    let now = Timestamp::from_nanos(7_200_000);
    assert!(bottleneck.admit(now, Timestamp::ORIGIN, 1501).is_none());
    assert!(bottleneck.admit(now, Timestamp::ORIGIN, 1500).is_some());
}

#[test]
fn a_queue_of_nothing_leaves_the_wire() {
    let queue = QueueLimit { packets: Some(0), bytes: None };
    let mut bottleneck =
        bottleneck(Conditions { rate: Some(RATE), queue, ..Conditions::default() });
    assert_eq!(leaving(&mut bottleneck, &[1250, 1250]), [Some(at_ms(1)), None]);
    assert!(bottleneck.admit(at_ms(1), Timestamp::ORIGIN, 1250).is_some());
}

#[test]
fn rate_zero_lets_nothing_out() {
    let mut bottleneck = bottleneck(Conditions { rate: Some(Rate::ZERO), ..Conditions::default() });
    assert_eq!(leaving(&mut bottleneck, &[1, 1]), [Some(Timestamp::FAR_FUTURE); 2]);
}

fn steps(steps: &[(u64, Option<Rate>)]) -> Vec<Step<Option<Rate>>> {
    steps.iter().map(|(after, value)| Step { after: ms(*after), value: *value }).collect()
}

#[test]
fn a_step_applies_to_what_is_on_the_wire() {
    // Half the rate from 1.5 ms on, counted from a first datagram at 1 ms.
    let half = Some(RATE.scaled(1, 2));
    let rate_steps = vec![Step { after: Duration::from_micros(1500), value: half }];
    let mut bottleneck =
        bottleneck(Conditions { rate: Some(RATE), rate_steps, ..Conditions::default() });
    let mut leaves = || bottleneck.admit(at_ms(1), at_ms(1), 1250).unwrap().leaves.as_nanos();
    assert_eq!([leaves(), leaves(), leaves()], [2_000_000, 3_500_000, 5_500_000]);
}

#[test]
fn a_freeze_holds_and_then_goes_on() {
    let rate_steps = steps(&[(12, Some(RATE)), (2, Some(Rate::ZERO)), (13, None)]);
    let mut bottleneck =
        bottleneck(Conditions { rate: Some(RATE), rate_steps, ..Conditions::default() });
    let leaving = leaving(&mut bottleneck, &[1875, 1250, 1250, 1250]);
    let expected = [1_500_000, 12_500_000, 13_000_000, 13_000_000];
    assert_eq!(leaving, expected.map(|ns| Some(Timestamp::from_nanos(ns))));
}

#[test]
fn rounding_over_steps_does_not_add_up() {
    // 3 bytes per second, "changed" to the same every millisecond: one byte still takes a third of a
    // second.
    let rate = Some(Rate::from_bytes_per_second(3));
    let rate_steps = (1..500).map(|n| Step { after: ms(n), value: rate }).collect();
    let mut bottleneck = bottleneck(Conditions { rate, rate_steps, ..Conditions::default() });
    assert_eq!(leaving(&mut bottleneck, &[1]), [Some(Timestamp::from_nanos(333_333_334))]);
}
