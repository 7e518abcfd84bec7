use core::time::Duration;

/// A rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

const NANOSECONDS_PER_SECOND: u128 = 1_000_000_000;

/// `factor x other / divisor`, rounded down and saturating; `None` if the divisor is zero. Mostly all fits
/// into 64 bits, in which a division takes a fraction of the time.
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
    /// Nothing moves.
    pub const ZERO: Self = Self(0);
    /// The largest representable rate.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bytes` each second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A rate of `bits` each second, rounded down to whole bytes.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// The rate that moves `bytes` in `interval`; `None` if the interval is zero.
    pub fn from_transfer(bytes: u64, interval: Duration) -> Option<Self> {
        multiply_divide(bytes, NANOSECONDS_PER_SECOND, interval.as_nanos()).map(Self)
    }

    /// Bytes each second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits each second, saturating.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// How many whole bytes pass in `interval`, saturating.
    pub fn bytes_in(self, interval: Duration) -> u64 {
        multiply_divide(self.0, interval.as_nanos(), NANOSECONDS_PER_SECOND).unwrap_or(u64::MAX)
    }

    /// How long `bytes` take, rounded up to a nanosecond; `None` at rate zero.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let scaled = u128::from(bytes).saturating_mul(NANOSECONDS_PER_SECOND);
        let nanoseconds = scaled.div_ceil(u128::from(self.0));
        Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// This rate times `numerator / denominator`, saturating; unchanged if `denominator` is zero.
    pub fn scaled(self, numerator: u64, denominator: u64) -> Self {
        multiply_divide(self.0, numerator.into(), denominator.into()).map_or(self, Self)
    }
}

#[cfg(test)]
mod tests;
