//! Values with units, as `clearway link` takes them: `"15ms"`, `"10mbit"`, `"64KiB"`, `"30%"`.

use core::fmt;
use core::time::Duration;

use clearway_network::{Probability, parse_duration, parse_probability, parse_rate, parse_size};
use clearway_units::Rate;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A type whose values are written as text with a unit.
macro_rules! written {
    ($(#[$meta:meta])* $name:ident($inner:ty), $parse:expr, $expected:literal $(, $number:item)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub(super) struct $name(pub(super) $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Reader;

                impl Visitor<'_> for Reader {
                    type Value = $name;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str($expected)
                    }

                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        $parse(text).map($name).map_err(E::custom)
                    }

                    $($number)*
                }

                deserializer.deserialize_any(Reader)
            }
        }
    };
}

written! {
    /// A duration.
    Time(Duration),
    parse_duration,
    "a duration with its unit, in quotes, such as \"15ms\""
}

written! {
    /// A rate.
    Speed(Rate),
    parse_rate,
    "a rate with its unit, in quotes, such as \"10mbit\""
}

written! {
    /// An amount of bytes.
    Size(u64),
    parse_size,
    "an amount of bytes with its unit, in quotes, such as \"64KiB\""
}

written! {
    /// A probability or a share.
    Portion(Probability),
    parse_probability,
    "a percentage in quotes such as \"30%\", or a number from 0 to 1",
    fn visit_f64<E: Error>(self, value: f64) -> Result<Portion, E> {
        let portion = Probability::new(value).map(Portion);
        portion.ok_or_else(|| E::custom(format_args!("{value} is not from 0 to 1")))
    },
    fn visit_i64<E: Error>(self, value: i64) -> Result<Portion, E> {
        self.visit_f64(value as f64)
    }
}

written! {
    /// A duration, or `"none"`.
    TimeOrNone(Option<Duration>),
    |text: &str| or_none(text, parse_duration),
    "a duration with its unit, in quotes, such as \"15ms\", or \"none\""
}

written! {
    /// A rate, or `"none"` where nothing limits it.
    SpeedOrNone(Option<Rate>),
    |text: &str| or_none(text, parse_rate),
    "a rate with its unit, in quotes, such as \"10mbit\", or \"none\""
}

fn or_none<T, E: fmt::Display>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    match text {
        "none" => Ok(None),
        value => parse(value).map(Some).map_err(|error| format!("{error}, or none")),
    }
}
