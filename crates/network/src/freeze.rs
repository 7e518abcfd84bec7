use core::time::Duration;

use clearway_units::{Random, Timestamp};

/// Periods during which a direction delivers no datagrams; delayed datagrams are delivered at the
/// end, back to back. Models a radio that suspends to scan other channels; this also compresses
/// ACKs.
///
/// A freeze delays datagrams that have passed the bottleneck. For a freeze that fills the queue,
/// use [`Conditions::rate_steps`](crate::Conditions::rate_steps) with a rate of zero. Six freezes
/// of 250 ms with 5 ms between them have a period of 255 ms and a count of 6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freezes {
    /// The start of the first freeze, counted from the first datagram that enters the link in
    /// either direction.
    pub start: Duration,
    /// The time between the starts of consecutive freezes. Zero means that there is only one
    /// freeze.
    pub period: Duration,
    /// The duration of each freeze. If it equals the period, consecutive freezes merge.
    pub length: Duration,
    /// The number of freezes; `None` for no limit.
    pub count: Option<u64>,
    /// Maximum random delay of each freeze's start, reduced where the freeze would overlap the next
    /// one.
    pub spread: Duration,
}

#[derive(Debug)]
pub(crate) struct FreezesState {
    start: u64,
    period: u64,
    length: u64,
    count: u64,
    spread: u64,
    seed: u64,
    /// The number of the freeze that was looked up last, and its delay.
    shift: Option<(u64, u64)>,
}

impl FreezesState {
    pub(crate) fn new(freezes: Freezes, random: &mut Random) -> Self {
        let period = nanoseconds(freezes.period);
        let length = nanoseconds(freezes.length);
        let free = if period == 0 { u64::MAX } else { period.saturating_sub(length) };
        Self {
            start: nanoseconds(freezes.start),
            period,
            length,
            count: freezes.count.unwrap_or(u64::MAX),
            spread: nanoseconds(freezes.spread).min(free),
            seed: random.number(),
            shift: None,
        }
    }

    /// Returns the time at which a datagram due at `at` is delivered, given that the first datagram
    /// entered at `first`.
    pub(crate) fn release(&mut self, first: Timestamp, at: Timestamp) -> Timestamp {
        let Some(since) = at.as_nanos().checked_sub(first.as_nanos().saturating_add(self.start))
        else {
            return at;
        };
        if self.length >= self.period && self.period > 0 {
            let last = self.count.saturating_sub(1).saturating_mul(self.period);
            let end = last.saturating_add(self.length);
            return if self.count > 0 { at.max(self.at(first, end)) } else { at };
        }
        let number = since.checked_div(self.period).unwrap_or(0);
        if number >= self.count {
            return at;
        }
        let begin = number.saturating_mul(self.period).saturating_add(self.shift(number));
        let end = begin.saturating_add(self.length);
        if begin <= since { at.max(self.at(first, end)) } else { at }
    }

    fn at(&self, first: Timestamp, since: u64) -> Timestamp {
        first + Duration::from_nanos(self.start) + Duration::from_nanos(since)
    }

    /// Returns the delay of freeze `number` relative to its regular start. Depends only on the seed
    /// and the number, not on the order of the calls.
    fn shift(&mut self, number: u64) -> u64 {
        match self.shift {
            _ if self.spread == 0 => 0,
            Some((known, shift)) if known == number => shift,
            _ => {
                let mut random = Random::from_number(self.seed.wrapping_add(number));
                let shift = random.below(self.spread.saturating_add(1));
                self.shift = Some((number, shift));
                shift
            }
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at_ms, ms};

    fn state(freezes: Freezes) -> FreezesState {
        FreezesState::new(freezes, &mut Random::from_number(1))
    }

    fn freezes(start: u64, period: u64, length: u64, count: Option<u64>) -> Freezes {
        let [start, period, length] = [start, period, length].map(ms);
        Freezes { start, period, length, count, spread: Duration::ZERO }
    }

    #[test]
    fn holds_datagrams_due_in_a_freeze_until_its_end() {
        let mut state = state(freezes(1000, 500, 250, Some(2)));
        let pairs = [
            (0, 0),
            (1009, 1009),
            (1010, 1260),
            (1259, 1260),
            (1260, 1260),
            (1509, 1509),
            (1510, 1760),
            (1760, 1760),
            (2010, 2010),
        ];
        for (at, released) in pairs {
            assert_eq!(state.release(at_ms(10), at_ms(at)), at_ms(released), "at {at} ms");
        }
    }

    #[test]
    fn a_hard_suspension_lets_a_little_out_between_its_freezes() {
        let mut state = state(freezes(1000, 255, 250, Some(6)));
        let out: Vec<u64> = (0..3000)
            .filter(|at| state.release(at_ms(0), at_ms(*at)) == at_ms(*at))
            .filter(|at| (1000..2530).contains(at))
            .collect();
        assert_eq!(out.len(), 30);
        assert_eq!(out[..6], [1250, 1251, 1252, 1253, 1254, 1505]);
    }

    #[test]
    fn one_freeze_and_none() {
        let mut one = state(freezes(5, 0, 10, None));
        assert_eq!(
            [4, 5, 14, 15, 900].map(|at| one.release(at_ms(0), at_ms(at))),
            [4, 15, 15, 15, 900].map(at_ms)
        );
        let mut none = state(freezes(0, 5, 5, Some(0)));
        assert_eq!(none.release(at_ms(0), at_ms(3)), at_ms(3));
    }

    #[test]
    fn freezes_that_touch_are_one() {
        let mut three = state(freezes(10, 20, 25, Some(3)));
        assert_eq!(
            [9, 10, 74, 75].map(|at| three.release(at_ms(0), at_ms(at))),
            [9, 75, 75, 75].map(at_ms)
        );
        let mut endless = state(freezes(10, 20, 20, None));
        assert_eq!(endless.release(at_ms(0), at_ms(11)), Timestamp::FAR_FUTURE);
    }

    #[test]
    fn random_starts_stay_within_their_spread_and_do_not_depend_on_the_calls() {
        let spread = Freezes { spread: ms(60), ..freezes(0, 100, 20, None) };
        let released = |at| state(spread).release(at_ms(0), at_ms(at));
        let mut asked_in_order = state(spread);
        let mut lengths = [0u32; 100];
        for at in 0..10_000 {
            let out = asked_in_order.release(at_ms(0), at_ms(at));
            assert_eq!(out, released(at));
            assert!(out >= at_ms(at) && out <= at_ms(at) + ms(20));
            if out > at_ms(at) {
                assert!(at % 100 <= 80, "held at {at} ms");
                lengths[usize::try_from(at / 100).unwrap()] += 1;
            }
        }
        assert!(lengths.iter().all(|length| (19..=21).contains(length)), "{lengths:?}");
        let starts = |freeze: u64| {
            (0..100).find(|at| released(100 * freeze + at) > at_ms(100 * freeze + at))
        };
        assert!((1..9).any(|freeze| starts(freeze) != starts(0)));
    }
}
