use super::*;
use crate::testing::{at_ms, ms};

fn waiting(number: u64, now: Timestamp, ecn: Ecn) -> QueuedDatagram {
    QueuedDatagram { slot: 0, number, bytes: 1250, entered: now, ecn }
}

/// The results of a queue for datagrams of one kind.
#[derive(Clone, Copy, Default, Debug)]
struct Done {
    sent: u64,
    marked: u64,
    dropped: u64,
}

/// A queue in front of a wire that takes a millisecond per datagram, with steady arrivals.
struct Wire {
    queue: DualPi2Queue,
    now: u64,
    number: u64,
    low_latency: Done,
    classic: Done,
    delay: [Duration; 2],
}

impl Wire {
    fn new() -> Self {
        let queue = DualPi2Queue::new(DualPi2::default());
        let (low_latency, classic) = (Done::default(), Done::default());
        Self { queue, now: 0, number: 0, low_latency, classic, delay: [Duration::ZERO; 2] }
    }

    fn push(&mut self, count: u64, ecn: Ecn) {
        for _ in 0..count {
            self.number += 1;
            let now = at_ms(self.now);
            self.queue.push(now, waiting(self.number, now, ecn));
        }
    }

    fn turn(&mut self) {
        let now = at_ms(self.now);
        while let Some((waiting, verdict)) = self.queue.pop(now) {
            let is_low_latency = matches!(waiting.ecn, Ecn::Ect1 | Ecn::Ce);
            let done = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
            match verdict {
                QueueVerdict::Drop => {
                    done.dropped += 1;
                    continue;
                }
                QueueVerdict::Mark => done.marked += 1,
                QueueVerdict::Send => {}
            }
            done.sent += 1;
            self.delay[usize::from(is_low_latency)] = now.saturating_since(waiting.entered);
            break;
        }
        self.now += 1;
    }

    /// Runs with `low_latency` and `classic` arrivals per millisecond, both in tenths of a
    /// datagram.
    fn run(&mut self, turns: u64, low_latency: u64, classic: u64, ecn: Ecn) {
        for turn in 0..turns {
            let tenths = |rate: u64| (turn + 1) * rate / 10 - turn * rate / 10;
            self.push(tenths(low_latency), Ecn::Ect1);
            self.push(tenths(classic), ecn);
            self.turn();
        }
    }
}

#[test]
fn below_the_rate_nothing_is_dropped_and_hardly_anything_is_marked() {
    let mut wire = Wire::new();
    wire.run(5000, 4, 5, Ecn::Ect0);
    // The controller responds to every increase in delay, even by a millisecond.
    assert!(wire.low_latency.marked < 10 && wire.low_latency.sent == 2000);
    assert_eq!(wire.low_latency.dropped, 0);
    assert_eq!((wire.classic.marked, wire.classic.dropped), (0, 0));
}

#[test]
fn the_classic_queue_drops_the_excess_and_marks_ect0() {
    let mut wire = Wire::new();
    wire.run(20_000, 0, 11, Ecn::NotEct);
    let before = wire.classic;
    wire.run(20_000, 0, 11, Ecn::NotEct);
    // One eleventh of the datagrams must be dropped: the probability settles at that value, and the
    // delay at the target.
    let dropped = wire.classic.dropped - before.dropped;
    assert!((1800..2200).contains(&dropped), "{dropped}");
    assert!(wire.delay[0] > ms(5) && wire.delay[0] < ms(30), "{:?}", wire.delay);
    assert_eq!(wire.classic.marked, 0);

    let mut wire = Wire::new();
    wire.run(100, 0, 15, Ecn::Ect0);
    wire.run(100, 0, 10, Ecn::Ect0);
    assert!(wire.classic.marked > 0 && wire.classic.dropped == 0, "{:?}", wire.classic);
}

#[test]
fn the_coupled_probability_is_twice_the_root_of_the_classic_one() {
    let mut wire = Wire::new();
    // The classic queue has a steady overload that is not caused by low-latency traffic.
    wire.run(20_000, 3, 8, Ecn::NotEct);
    let (low_latency, classic) = (wire.low_latency, wire.classic);
    wire.run(20_000, 3, 8, Ecn::NotEct);
    let share = |now: u64, before: u64, of: u64| (now - before) as f64 / of as f64;
    let classic_share = share(wire.classic.dropped, classic.dropped, 16_000);
    let low_latency_share = share(wire.low_latency.marked, low_latency.marked, 6000);
    let expected = 2.0 * classic_share.sqrt();
    assert!((low_latency_share - expected).abs() < 0.1, "{low_latency_share} of {expected}");
    // Low-latency traffic waits only for the wire, and classic traffic waits for about the target
    // delay.
    assert!(wire.delay[1] <= ms(1) && wire.delay[0] > ms(5), "{:?}", wire.delay);
    assert_eq!(wire.low_latency.dropped, 0);
}

#[test]
fn the_step_marks_datagrams_that_waited_longer_than_a_millisecond() {
    let mut wire = Wire::new();
    wire.push(10, Ecn::Ect1);
    for _ in 0..10 {
        wire.turn();
    }
    // The datagrams that waited 0 and 1 ms are not late; the last one leaves the queue empty.
    assert_eq!((wire.low_latency.marked, wire.low_latency.sent), (7, 10));
}

#[test]
fn while_both_wait_the_classic_queue_gets_its_tenth() {
    let mut wire = Wire::new();
    wire.push(200, Ecn::Ect1);
    wire.push(200, Ecn::Ect0);
    for _ in 0..100 {
        wire.turn();
    }
    assert_eq!((wire.low_latency.sent, wire.classic.sent), (90, 10));
}

#[test]
fn ce_goes_to_the_low_latency_queue() {
    let mut queue = DualPi2Queue::new(DualPi2::default());
    for (number, ecn) in (0..).zip([Ecn::NotEct, Ecn::Ect0, Ecn::Ce, Ecn::Ect1]) {
        queue.push(at_ms(0), waiting(number, at_ms(0), ecn));
    }
    assert_eq!((queue.packets(), queue.bytes(), queue.oldest()), (4, 5000, Some(0)));
    assert_eq!(queue.remove(3).map(|waiting| waiting.ecn), Some(Ecn::Ect1));
    let order: Vec<_> =
        core::iter::from_fn(|| queue.pop(at_ms(0))).map(|one| one.0.number).collect();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn overload_by_low_latency_traffic_is_dropped_too() {
    let mut wire = Wire::new();
    wire.run(20_000, 20, 0, Ecn::Ect0);
    let before = wire.low_latency;
    wire.run(5000, 20, 0, Ecn::Ect0);
    let dropped = wire.low_latency.dropped - before.dropped;
    assert!((4000..6000).contains(&dropped), "{dropped}");
}

#[test]
fn an_idle_queue_decays_and_a_stuck_one_saturates_however_long_it_lasts() {
    let mut wire = Wire::new();
    wire.run(2000, 0, 20, Ecn::NotEct);
    assert!(wire.queue.base_probability > 0.1);
    while wire.queue.packets() > 0 {
        wire.turn();
    }
    let year = 365 * 86_400_000;
    wire.queue.update(at_ms(year));
    assert!(wire.queue.base_probability == 0.0);
    wire.now = year;
    wire.push(1, Ecn::NotEct);
    wire.queue.update(at_ms(2 * year));
    assert!(wire.queue.base_probability == 1.0);
    wire.queue.update(Timestamp::FAR_FUTURE);
}
