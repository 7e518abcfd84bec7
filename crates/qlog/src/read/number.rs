use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// An unsigned integer, written as a number or as a string (main schema §10.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Number(pub(crate) u64);

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an unsigned integer or a string of its digits")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
        Ok(Number(u64::try_from(value).unwrap_or_default()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
        // The conversion saturates, and turns NaN into zero.
        Ok(Number(value as u64))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Number, E> {
        value.parse().map(Number).map_err(|_| E::custom("not an unsigned integer"))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

/// Reads a number, or a word in its place: quic-go's reordering threshold is sometimes "disabled".
pub(super) fn number_or_word<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Number>, D::Error> {
    struct NumberOrWord;

    impl Visitor<'_> for NumberOrWord {
        type Value = Option<Number>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an unsigned integer or a word")
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            NumberVisitor.visit_u64(value).map(Some)
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            NumberVisitor.visit_i64(value).map(Some)
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
            NumberVisitor.visit_f64(value).map(Some)
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
            Ok(value.parse().map(Number).ok())
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    deserializer.deserialize_any(NumberOrWord)
}

/// A finite number with a fraction, written as a number or as a string.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Decimal(pub(super) f64);

struct DecimalVisitor;

impl Visitor<'_> for DecimalVisitor {
    type Value = Decimal;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number, possibly as a string")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Decimal, E> {
        Ok(Decimal(value as f64))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Decimal, E> {
        Ok(Decimal(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Decimal, E> {
        if value.is_finite() { Ok(Decimal(value)) } else { Err(E::custom("not a finite number")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Decimal, E> {
        let value = value.parse::<f64>().map_err(|_| E::custom("not a number"))?;
        self.visit_f64(value)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DecimalVisitor)
    }
}

/// A time or duration in milliseconds.
pub(super) type Milliseconds = Decimal;

impl Milliseconds {
    /// Converts the number of milliseconds to a duration. Negative values become zero.
    pub(super) fn duration(self) -> core::time::Duration {
        const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;
        let nanoseconds = (self.0 * NANOSECONDS_PER_MILLISECOND).round();
        core::time::Duration::from_nanos(nanoseconds.max(0.0) as u64)
    }
}
