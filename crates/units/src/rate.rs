use core::time::Duration;

/// A rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// Returns `factor x other / divisor`, rounded down and saturating; `None` if the divisor is zero.
/// The product usually fits into 64 bits, where a division takes a fraction of the time.
fn multiply_divide(factor: u64, other: u128, divisor: u128) -> Option<u64> {
    if let (Ok(other), Ok(divisor)) = (u64::try_from(other), u64::try_from(divisor))
        && let Some(product) = factor.checked_mul(other)
    {
        return product.checked_div(divisor);
    }
    let quotient = u128::from(factor).saturating_mul(other).checked_div(divisor)?;
    Some(u64::try_from(quotient).unwrap_or(u64::MAX))
}

impl Rate {
    /// Zero bytes per second.
    pub const ZERO: Self = Self(0);
    /// The largest representable rate.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a rate of `bytes` per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Creates a rate of `bits` per second, rounded down to whole bytes.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// Returns the rate that transfers `bytes` in `interval`; `None` if the interval is zero.
    pub fn from_transfer(bytes: u64, interval: Duration) -> Option<Self> {
        multiply_divide(bytes, NANOSECONDS_PER_SECOND, interval.as_nanos()).map(Self)
    }

    /// Returns the rate in bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Returns the rate in bits per second, saturating.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// Returns how many whole bytes are transferred in `interval`, saturating.
    pub fn bytes_in(self, interval: Duration) -> u64 {
        multiply_divide(self.0, interval.as_nanos(), NANOSECONDS_PER_SECOND).unwrap_or(u64::MAX)
    }

    /// Returns how long `bytes` take, rounded up to a nanosecond; `None` at rate zero.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let scaled = u128::from(bytes).saturating_mul(NANOSECONDS_PER_SECOND);
        let nanoseconds = scaled.div_ceil(u128::from(self.0));
        Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// Returns this rate times `numerator / denominator`, saturating; unchanged if `denominator` is
    /// zero.
    pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
        multiply_divide(self.0, numerator.into(), denominator.into()).map_or(self, Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_is_the_same_on_both_sides_of_64_bits() {
        // 18_446_744_074 x 10^9 is the first multiple that does not fit in 64 bits.
        for bytes in [0, 1, 18_446_744_073, 18_446_744_074, 1 << 40, u64::MAX] {
            for interval in [1, 7, 999_999_999, 1_000_000_000, 3_600_000_000_000] {
                let exact = u128::from(bytes) * NANOSECONDS_PER_SECOND / interval;
                let exact = u64::try_from(exact).unwrap_or(u64::MAX);
                let interval = Duration::from_nanos(interval as u64);
                assert_eq!(Rate::from_transfer(bytes, interval), Some(Rate(exact)));
            }
        }
        let (rate, hour) = (Rate(10_000_000_000), Duration::from_secs(3600));
        assert_eq!(rate.bytes_in(hour), 36_000_000_000_000);
        assert_eq!(rate.bytes_in(Duration::from_nanos(3)), 30);
        assert_eq!(rate.scaled(5, 4), Rate(12_500_000_000));
        assert_eq!(Rate(1 << 62).scaled(6, 3), Rate(1 << 63));
    }

    #[test]
    fn what_does_not_fit_saturates_and_nothing_is_divided_by_zero() {
        assert_eq!(Rate::from_transfer(1, Duration::ZERO), None);
        assert_eq!(Rate::from_transfer(u64::MAX, Duration::ZERO), None);
        assert_eq!(Rate::MAX.bytes_in(Duration::from_secs(2)), u64::MAX);
        assert_eq!(Rate::MAX.scaled(2, 1), Rate::MAX);
        assert_eq!(Rate(7).scaled(2, 0), Rate(7));
        assert_eq!(Rate::MAX.scaled(2, 0), Rate::MAX);
    }
}
