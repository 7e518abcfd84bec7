use clearway_units::{Rate, Timestamp};

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// A token bucket that drops datagrams that exceed its rate, without delaying any: the single-rate
/// policer of access networks. The bucket starts full (RFC 2697, Section 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policer {
    /// The fill rate of the bucket.
    pub rate: Rate,
    /// The size of the bucket in bytes, including each datagram's
    /// [`Conditions::overhead`](crate::Conditions::overhead). A larger datagram never passes.
    pub bucket: u64,
}

impl Policer {
    /// Creates a policer whose bucket holds `packets` datagrams of 1500 bytes.
    pub const fn with_packets(rate: Rate, packets: u32) -> Self {
        Self { rate, bucket: (packets as u64).saturating_mul(1500) }
    }
}

#[derive(Debug)]
pub(crate) struct PolicerState {
    policer: Policer,
    /// The tokens, in bytes times nanoseconds per second, so that rounding errors do not
    /// accumulate.
    tokens: u128,
    filled_at: Timestamp,
}

impl PolicerState {
    pub(crate) fn new(policer: Policer) -> Self {
        let tokens = scaled(policer.bucket);
        Self { policer, tokens, filled_at: Timestamp::ORIGIN }
    }

    /// Returns whether a datagram of `bytes` passes at `now`.
    pub(crate) fn passes(&mut self, now: Timestamp, bytes: u64) -> bool {
        let elapsed = now.saturating_since(self.filled_at).as_nanos();
        let rate = u128::from(self.policer.rate.bytes_per_second());
        let tokens = self.tokens.saturating_add(rate.saturating_mul(elapsed));
        self.tokens = tokens.min(scaled(self.policer.bucket));
        self.filled_at = now;
        match self.tokens.checked_sub(scaled(bytes)) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

fn scaled(bytes: u64) -> u128 {
    u128::from(bytes).saturating_mul(NANOSECONDS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at_ms;

    /// A rate of 10 Mbit/s, which is 1250 bytes per millisecond.
    const RATE: Rate = Rate::from_bits_per_second(10_000_000);

    #[test]
    fn a_full_bucket_passes_a_burst_then_the_rate() {
        let mut policer = PolicerState::new(Policer { rate: RATE, bucket: 5000 });
        let mut passes = |now| policer.passes(at_ms(now), 1250);
        let burst: Vec<_> = (0..6).map(|_| passes(7)).collect();
        assert_eq!(burst, [true, true, true, true, false, false]);
        assert_eq!([passes(8), passes(8), passes(10), passes(10)], [true, false, true, true]);
        assert!(!passes(10));
        // A long idle period fills the bucket only once.
        let burst = (0..9).filter(|_| passes(10_000)).count();
        assert_eq!(burst, 4);
    }

    #[test]
    fn in_the_long_run_the_rate_passes_and_nothing_else() {
        let mut policer = PolicerState::new(Policer::with_packets(RATE, 8));
        // Datagrams of odd sizes arrive at odd times, at twice the rate, for ten seconds.
        let mut passed = 0;
        for n in 0..20_011 {
            let now = Timestamp::from_nanos(499_717 * n);
            passed += if policer.passes(now, 1249) { 1249 } else { 0 };
        }
        let expected = 12_000 + RATE.bytes_in(core::time::Duration::from_nanos(499_717 * 20_010));
        assert!(expected - passed < 1249 && passed <= expected, "{passed} of {expected}");
    }

    #[test]
    fn a_datagram_larger_than_the_bucket_never_passes() {
        let mut policer = PolicerState::new(Policer { rate: Rate::MAX, bucket: 1000 });
        assert!(policer.passes(at_ms(0), 1000));
        assert!(!policer.passes(at_ms(9999), 1001));
        assert!(policer.passes(Timestamp::FAR_FUTURE, 1000));
        let mut nothing = PolicerState::new(Policer { rate: Rate::ZERO, bucket: 100 });
        assert!(nothing.passes(at_ms(0), 100) && !nothing.passes(at_ms(1_000_000), 1));
    }
}
