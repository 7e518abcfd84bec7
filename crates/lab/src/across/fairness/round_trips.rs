//! Fb: a shorter way is an advantage, but no larger one than it is shorter.

use core::time::Duration;

use crate::across::{Property, Verdict};

/// Fb. It is about CUBIC outside its Reno-friendly region: there the throughput of flows is inversely
/// proportional to their round-trip times (RFC 9438, Section 3.3). Reno's is so, or to their squares,
/// and BBR favours longer ways: for those it is a figure.
pub const PROPERTY: Property = Property {
    id: "Fb",
    meaning: "of two CUBIC flows in the cubic region, the one with the shorter way gets at most as \
              many times more as its round-trip time is shorter",
};

/// What one of two flows has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Its round-trip time without queues.
    pub round_trip: Duration,
    /// Bytes that it received.
    pub received: u64,
}

/// Judges what two flows received.
pub fn judge(one: Way, other: Way) -> Verdict {
    let (short, long) =
        if one.round_trip <= other.round_trip { (one, other) } else { (other, one) };
    let times_shorter = long.round_trip.as_secs_f64() / short.round_trip.as_secs_f64();
    let times_more = short.received as f64 / long.received as f64;
    let figures = format!("{times_more:.2} times as much, {times_shorter:.2} times as short");
    Verdict { property: PROPERTY, holds: times_more <= times_shorter, figures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_ratio_is_too_much() {
        let way = |milliseconds, received| Way {
            round_trip: Duration::from_millis(milliseconds),
            received,
        };
        assert!(judge(way(20, 400), way(80, 100)).holds);
        assert!(judge(way(80, 100), way(20, 400)).holds);
        assert!(!judge(way(20, 401), way(80, 100)).holds);
        assert!(!judge(way(20, 400), way(80, 0)).holds);
        assert!(!judge(way(20, 0), way(80, 0)).holds);
    }
}
