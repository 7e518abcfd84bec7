use core::fmt;

use clearway_units::Random;

/// How likely something is: a number from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Probability(f64);

impl Probability {
    /// It never happens. Also the default.
    pub const NEVER: Self = Self(0.0);
    /// It always happens.
    pub const ALWAYS: Self = Self(1.0);

    /// The probability `value`; `None` unless it is a number from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The number, from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Draws once; without a draw where there is nothing to decide.
    pub(crate) fn happens(self, random: &mut Random) -> bool {
        self.0 > 0.0 && random.chance(self.0)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} %", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests;
