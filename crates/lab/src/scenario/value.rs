//! Values with units, in the format of `clearway link`: `"15ms"`, `"10mbit"`, `"64KiB"`, `"30%"`.

use core::fmt;
use core::time::Duration;

use clearway_network::{Probability, parse_duration, parse_probability, parse_rate, parse_size};
use clearway_units::Rate;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Defines a type whose values are written as text with a unit.
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
    /// A number of bytes.
    Size(u64),
    parse_size,
    "a number of bytes with its unit, in quotes, such as \"64KiB\""
}

written! {
    /// A probability or a share.
    Portion(Probability),
    parse_probability,
    "a percentage in quotes such as \"30%\", or a number from 0 to 1",
    fn visit_f64<E: Error>(self, value: f64) -> Result<Portion, E> {
        let portion = Probability::new(value).map(Portion);
        portion.ok_or_else(|| E::custom(format_args!("{value} is not between 0 and 1")))
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
    /// A rate, or `"none"` if nothing limits it.
    SpeedOrNone(Option<Rate>),
    |text: &str| or_none(text, parse_rate),
    "a rate with its unit, in quotes, such as \"10mbit\", or \"none\""
}

written! {
    /// A rate above zero.
    SpeedAboveZero(Rate),
    above_zero,
    "a rate above 0 with its unit, in quotes, such as \"10mbit\""
}

written! {
    /// Like [`SpeedAboveZero`], or `"none"` if nothing limits it.
    SpeedAboveZeroOrNone(Option<Rate>),
    |text: &str| or_none(text, above_zero),
    "a rate above 0 with its unit, in quotes, such as \"10mbit\", or \"none\""
}

written! {
    /// A value of the transport parameter max_ack_delay.
    AckDelay(Duration),
    ack_delay,
    "a duration below 16384 ms with its unit, in quotes, such as \"25ms\""
}

written! {
    /// The size of a queue in bandwidth-delay products.
    Products(f64),
    |_: &str| Err::<f64, _>("a number without quotes is expected"),
    "a number greater than 0 and at most 1000",
    fn visit_f64<E: Error>(self, value: f64) -> Result<Products, E> {
        let is_allowed = value > 0.0 && value <= MOST_PRODUCTS;
        let error = || format_args!("{value} is not greater than 0 and at most {MOST_PRODUCTS}").to_string();
        if is_allowed { Ok(Products(value)) } else { Err(E::custom(error())) }
    },
    fn visit_i64<E: Error>(self, value: i64) -> Result<Products, E> {
        self.visit_f64(value as f64)
    }
}

/// The maximum, which no real queue exceeds; a typo must not result in an unbounded queue.
const MOST_PRODUCTS: f64 = 1000.0;
/// The end of the valid range: values of 2^14 or greater are invalid (RFC 9000 §18.2).
const ACK_DELAYS_END: Duration = Duration::from_millis(1 << 14);

fn above_zero(text: &str) -> Result<Rate, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    let error = || format!("{text:?} is not above 0: expected a rate above 0");
    if rate > Rate::ZERO { Ok(rate) } else { Err(error()) }
}

fn ack_delay(text: &str) -> Result<Duration, String> {
    let delay = parse_duration(text).map_err(|error| error.to_string())?;
    let error =
        || format!("{text:?} is too long: max_ack_delay is below 16384 ms (RFC 9000 §18.2)");
    if delay < ACK_DELAYS_END { Ok(delay) } else { Err(error()) }
}

/// Defines a type whose values are whole numbers from a range.
macro_rules! counted {
    ($(#[$meta:meta])* $name:ident($inner:ty), $range:expr, $expected:literal) => {
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

                    fn visit_i64<E: Error>(self, value: i64) -> Result<$name, E> {
                        let number = <$inner>::try_from(value).ok();
                        let number = number.filter(|number| ($range).contains(number));
                        number.map($name).ok_or_else(|| {
                            E::custom(format_args!("{value} is not allowed: expected {}", $expected))
                        })
                    }
                }

                deserializer.deserialize_any(Reader)
            }
        }
    };
}

counted! {
    /// A number of at least 1.
    Count(u64),
    1..,
    "a number of at least 1"
}

counted! {
    /// A number of at least 1 that fits into 32 bits.
    SmallCount(u32),
    1..,
    "a number of at least 1"
}

counted! {
    /// The largest payload that the network forwards.
    Mtu(usize),
    1200..,
    "a size of 1200 bytes or more (RFC 9000 §14)"
}

counted! {
    /// The reordering that is tolerated before a packet is declared lost.
    PacketThreshold(u64),
    3..=16_384,
    "a number of packets from 3 (RFC 9002 §6.1.1) to 16384"
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
