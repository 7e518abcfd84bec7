use super::*;
use crate::Ecn;
use crate::testing::{at_ms, ms};

/// A queue in front of a wire that takes a millisecond per datagram of 1250 bytes. Dropped
/// datagrams take no time.
struct Wire {
    queue: CoDelQueue,
    now: u64,
    number: u64,
    drops: Vec<u64>,
    marks: Vec<u64>,
    longest: Duration,
}

impl Wire {
    fn new(parameters: CoDel) -> Self {
        let queue = CoDelQueue::new(parameters);
        let (drops, marks) = (Vec::new(), Vec::new());
        Self { queue, now: 0, number: 0, drops, marks, longest: Duration::ZERO }
    }

    /// Adds `arrivals` datagrams to the queue at the current time.
    fn push(&mut self, arrivals: u64, ecn: Ecn) {
        for _ in 0..arrivals {
            self.number += 1;
            let (number, entered) = (self.number, at_ms(self.now));
            self.queue.fifo.push(QueuedDatagram { slot: 0, number, bytes: 1250, entered, ecn });
        }
    }

    /// Sends for a millisecond.
    fn turn(&mut self) {
        while let Some((waiting, verdict)) = self.queue.pop(at_ms(self.now)) {
            self.longest = at_ms(self.now).saturating_since(waiting.entered);
            match verdict {
                QueueVerdict::Drop => {
                    self.drops.push(self.now);
                    continue;
                }
                QueueVerdict::Mark => self.marks.push(self.now),
                QueueVerdict::Send => {}
            }
            break;
        }
        self.now += 1;
    }

    fn run(&mut self, turns: u64, arrivals: impl Fn(u64) -> u64) {
        for turn in 0..turns {
            self.push(arrivals(turn), Ecn::Ect0);
            self.turn();
        }
    }
}

#[test]
fn a_burst_that_drains_within_the_interval_is_let_through() {
    let mut wire = Wire::new(CoDel::default());
    wire.push(90, Ecn::Ect0);
    wire.run(200, |_| 0);
    assert!(wire.drops.is_empty());
}

#[test]
fn a_queue_below_the_target_is_left_alone() {
    let mut wire = Wire::new(CoDel::default());
    wire.push(4, Ecn::Ect0);
    wire.run(5000, |_| 1);
    assert!(wire.drops.is_empty() && wire.longest == ms(4), "{:?}", wire.longest);
}

#[test]
fn a_standing_queue_is_dropped_at_the_rate_of_the_rfc() {
    let mut wire = Wire::new(CoDel::default());
    wire.push(400, Ecn::Ect0);
    wire.run(900, |_| 1);
    // The sojourn time reaches 5 ms at 5 ms. Drops begin an interval later, and each one follows
    // the previous one after an interval divided by the square root of their number.
    let mut expected = vec![105.0];
    for count in 1..10u32 {
        expected.push(expected.last().unwrap() + 100.0 / f64::from(count).sqrt());
    }
    for (drop, expected) in wire.drops.iter().zip(expected) {
        let late = *drop as f64 - expected;
        assert!((0.0..1.0).contains(&late), "{drop} instead of {expected}");
    }
}

#[test]
fn the_queue_comes_down_to_the_target_and_drops_end() {
    let mut wire = Wire::new(CoDel::default());
    // A sender that does not react sends a tenth too fast for a while.
    wire.run(2000, |turn| 1 + u64::from(turn % 10 == 0));
    assert!(!wire.drops.is_empty());
    wire.run(2000, |turn| u64::from(turn % 10 != 0));
    let drops = wire.drops.len();
    assert!(wire.longest < ms(5));
    wire.run(1000, |_| 1);
    assert_eq!(wire.drops.len(), drops);
}

#[test]
fn a_standing_queue_that_returns_soon_resumes_near_the_last_drop_rate() {
    let mut wire = Wire::new(CoDel::default());
    wire.push(300, Ecn::Ect0);
    wire.run(600, |_| 1);
    let first = wire.drops.len();
    assert!(first > 5);
    // The queue drains, and 300 ms later there is a standing queue again.
    while wire.queue.fifo.packets() > 0 {
        wire.turn();
    }
    let before = wire.drops.len();
    wire.run(300, |_| 0);
    wire.push(300, Ecn::Ect0);
    wire.run(200, |_| 1);
    let again = &wire.drops[before..];
    assert!(again.len() >= 4, "{again:?}");
    assert!(again[1] - again[0] < 50, "{again:?}");
}

#[test]
fn with_ecn_capable_datagrams_are_marked_instead_of_dropped() {
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce] {
        let mut wire = Wire::new(CoDel { ecn: true, ..CoDel::default() });
        wire.push(400, ecn);
        for _ in 0..390 {
            wire.turn();
        }
        let (marks, drops) = (wire.marks.len(), wire.drops.len());
        assert!(marks + drops > 3);
        assert_eq!(if ecn.is_markable() { drops } else { marks }, 0, "{ecn:?}");
    }
}

#[test]
fn the_last_datagrams_are_never_dropped() {
    let mut wire = Wire::new(CoDel { target: Duration::ZERO, interval: ms(1), ecn: false });
    wire.push(2, Ecn::Ect0);
    wire.now = 10_000;
    wire.run(5, |_| 0);
    assert!(wire.drops.is_empty());
}
