//! The draft's fractions, in hundredths, so that every machine computes the same result.

use core::time::Duration;

use clearway_units::Rate;

/// A factor in hundredths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Gain(pub(super) u64);

impl Gain {
    pub(super) const ONE: Self = Self(100);
    /// BBR.Beta: the minimum fraction that remains after a response to congestion.
    pub(super) const BETA: Self = Self(70);
    /// BBR.LossThresh: the loss rate that a bandwidth probe may cause.
    pub(super) const LOSS_THRESHOLD: Self = Self(2);
    /// BBR.Headroom: the part of the long-term bound that is left to other flows.
    pub(super) const HEADROOM: Self = Self(15);
    /// The remainder after BBR.PacingMarginPercent.
    pub(super) const PACING_MARGIN: Self = Self(99);

    /// Returns this fraction of `bytes`, saturating.
    pub(super) fn of(self, bytes: u64) -> u64 {
        let product = u128::from(bytes).saturating_mul(u128::from(self.0)) / 100;
        u64::try_from(product).unwrap_or(u64::MAX)
    }

    /// Returns this fraction of `rate`, saturating.
    pub(super) fn of_rate(self, rate: Rate) -> Rate {
        rate.scaled(self.0, 100)
    }

    /// Returns this fraction of `time`, saturating.
    pub(super) fn of_time(self, time: Duration) -> Duration {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.of(nanoseconds))
    }
}
