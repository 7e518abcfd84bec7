//! Parsing of durations, rates, probabilities and sizes in human-readable notation.

use core::fmt;
use core::time::Duration;

use clearway_units::Rate;

use crate::Probability;

/// An input that could not be parsed; its message states what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// The input is not a valid duration.
    Duration {
        /// The input.
        input: String,
    },
    /// The input is not a valid rate.
    Rate {
        /// The input.
        input: String,
    },
    /// The input is not a valid probability.
    Probability {
        /// The input.
        input: String,
    },
    /// The input is not a valid size in bytes.
    Size {
        /// The input.
        input: String,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (input, what, expected) = match self {
            Self::Duration { input } => (
                input,
                "a duration",
                "a number with a unit (ns, us, ms, s, min, h), such as 10ms or 1.5s",
            ),
            Self::Rate { input } => (
                input,
                "a rate",
                "a number with a unit (bit, kbit, mbit, gbit per second), such as 10mbit",
            ),
            Self::Probability { input } => {
                (input, "a probability", "a percentage or a number from 0 to 1, such as 30% or 0.3")
            }
            Self::Size { input } => (
                input,
                "a size in bytes",
                "a whole number, or a number with a unit (B, kB, MB, GB, KiB, MiB, GiB), such as 64KiB",
            ),
        };
        write!(formatter, "{input:?} is not {what}: expected {expected}")
    }
}

impl std::error::Error for ParseError {}

/// Parses a duration: a decimal number and `ns`, `us` (or `µs`), `ms`, `s`, `min` or `h`; or just
/// `0`. Rounds down to a nanosecond.
///
/// # Errors
///
/// Returns [`ParseError::Duration`] if the input is not a duration, or is longer than 584 years.
pub fn parse_duration(input: &str) -> Result<Duration, ParseError> {
    let parse = || {
        let (number, unit) = Decimal::split(input)?;
        let nanoseconds = match unit.to_ascii_lowercase().as_str() {
            "" if number.mantissa == 0 => 1,
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60 * 1_000_000_000,
            "h" => 3_600 * 1_000_000_000,
            _ => return None,
        };
        number.times(nanoseconds).map(Duration::from_nanos)
    };
    parse().ok_or_else(|| ParseError::Duration { input: input.to_owned() })
}

/// Parses a rate: a decimal number and `bit`, `kbit`, `mbit`, `gbit` or `tbit` (units are
/// case-insensitive), with or without `/s`; or just `0`. Rounds down to a whole byte per second.
/// Rejects `mbps` because it is ambiguous between bits and bytes.
///
/// # Errors
///
/// Returns [`ParseError::Rate`] if the input is not a rate, or is 2^64 bit/s or more.
pub fn parse_rate(input: &str) -> Result<Rate, ParseError> {
    let parse = || {
        let (number, unit) = Decimal::split(input)?;
        let unit = unit.to_ascii_lowercase();
        let bits = match unit.strip_suffix("/s").unwrap_or(&unit) {
            "" if number.mantissa == 0 && unit.is_empty() => 1,
            "bit" => 1,
            "kbit" => 1_000,
            "mbit" => 1_000_000,
            "gbit" => 1_000_000_000,
            "tbit" => 1_000_000_000_000,
            _ => return None,
        };
        number.times(bits).map(Rate::from_bits_per_second)
    };
    parse().ok_or_else(|| ParseError::Rate { input: input.to_owned() })
}

/// Parses a probability: a percentage such as `30%`, or a number from 0 to 1 such as `0.3`.
///
/// # Errors
///
/// Returns [`ParseError::Probability`] if the input is not a probability, or is more than 1 (such
/// as `30` without a percent sign).
pub fn parse_probability(input: &str) -> Result<Probability, ParseError> {
    let parse = || {
        let (mut number, unit) = Decimal::split(input)?;
        match unit {
            "" => {}
            "%" => number.scale = number.scale.checked_add(2)?,
            _ => return None,
        }
        Probability::new(number.value())
    };
    parse().ok_or_else(|| ParseError::Probability { input: input.to_owned() })
}

/// Parses a size in bytes: a whole number, or a decimal number and `B`, `kB`, `MB`, `GB` (powers of
/// 1000), `KiB`, `MiB` or `GiB` (powers of 1024). Units are case-insensitive. Rounds down to a
/// byte.
///
/// # Errors
///
/// Returns [`ParseError::Size`] if the input is not a size, or is 2^64 bytes or more.
pub fn parse_size(input: &str) -> Result<u64, ParseError> {
    let parse = || {
        let (number, unit) = Decimal::split(input)?;
        let bytes = match unit.to_ascii_lowercase().as_str() {
            "" if number.scale == 0 => 1,
            "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            _ => return None,
        };
        number.times(bytes)
    };
    parse().ok_or_else(|| ParseError::Size { input: input.to_owned() })
}

/// The exact value `mantissa / 10^scale`.
#[derive(Clone, Copy)]
struct Decimal {
    mantissa: u64,
    scale: u32,
}

impl Decimal {
    /// Splits the input into the leading number and the unit; `None` if there is no number or it
    /// has too many digits.
    fn split(input: &str) -> Option<(Self, &str)> {
        let input = input.trim();
        let end = input.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(input.len());
        let (number, unit) = input.split_at_checked(end)?;
        let (whole, fraction) = match number.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (number, ""),
        };
        if whole.is_empty() || fraction.contains('.') {
            return None;
        }
        let scale = u32::try_from(fraction.len()).ok()?;
        let mut mantissa = 0u64;
        for digit in whole.chars().chain(fraction.chars()) {
            mantissa = mantissa.checked_mul(10)?.checked_add(u64::from(digit.to_digit(10)?))?;
        }
        (scale <= 18).then_some((Self { mantissa, scale }, unit.trim_start()))
    }

    /// Multiplies the number by `unit`, rounded down.
    fn times(self, unit: u64) -> Option<u64> {
        let product = u128::from(self.mantissa).checked_mul(u128::from(unit))?;
        u64::try_from(product.checked_div(10u128.checked_pow(self.scale)?)?).ok()
    }

    /// Returns the nearest floating-point number: for numbers that people typically write, both
    /// operands are exact.
    fn value(self) -> f64 {
        self.mantissa as f64 / 10f64.powi(i32::try_from(self.scale).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
