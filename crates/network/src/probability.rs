use core::fmt;

use clearway_units::Random;

/// A probability: a number from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Probability(f64);

impl Probability {
    /// A probability of zero, the default.
    pub const NEVER: Self = Self(0.0);
    /// A probability of one.
    pub const ALWAYS: Self = Self(1.0);

    /// Creates a probability; `None` unless `value` is a number from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// Returns the number, from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Returns true with this probability. Draws once, or not at all if the result is certain.
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
mod tests {
    use super::*;

    #[test]
    fn only_numbers_from_zero_to_one() {
        assert_eq!(Probability::new(0.0), Some(Probability::NEVER));
        assert_eq!(Probability::new(1.0), Some(Probability::ALWAYS));
        assert_eq!(Probability::new(0.25).map(Probability::get), Some(0.25));
        for wrong in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Probability::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn never_and_always_are_exact() {
        let mut random = Random::from_number(1);
        for _ in 0..1000 {
            assert!(!Probability::NEVER.happens(&mut random));
            assert!(Probability::ALWAYS.happens(&mut random));
        }
    }

    #[test]
    fn shown_as_a_percentage() {
        assert_eq!(Probability(0.25).to_string(), "25 %");
    }
}
