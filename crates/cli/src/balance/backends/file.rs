//! The syntax of the `--backends` file: every key and its type. `resolve` interprets them.

use std::fmt;
use std::time::Duration;

use clearway_network::parse_duration;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use toml::Spanned;

/// The `--backends` file.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct BackendsFile {
    pub(super) seed: Option<Whole<0, { i64::MAX as u64 }>>,
    #[serde(default)]
    pub(super) config: Vec<ConfigTable>,
    #[serde(default)]
    pub(super) server: Vec<ServerTable>,
    #[serde(default)]
    pub(super) source: Vec<Spanned<SourceTable>>,
    #[serde(default)]
    pub(super) health: HealthTable,
    pub(super) retry: Option<RetryTable>,
}

/// A `[[config]]` table: a format of connection IDs.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ConfigTable {
    pub(super) id: Spanned<Whole<0, 6>>,
    pub(super) server_id_length: Spanned<Whole<1, 15>>,
    pub(super) nonce_length: Spanned<Whole<4, 18>>,
    pub(super) key: Option<Spanned<String>>,
    pub(super) further_octets: Option<Spanned<Whole<0, 14>>>,
}

/// A table that describes a server.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServerTable {
    pub(super) name: Spanned<String>,
    pub(super) address: Spanned<String>,
    pub(super) server_id: Option<Spanned<ServerIds>>,
    pub(super) server_id_base64: Option<Spanned<String>>,
    pub(super) id_length: Option<Spanned<Whole<0, 20>>>,
    pub(super) weight: Option<Whole<0, 1000>>,
    pub(super) drain: Option<bool>,
    pub(super) preface: Option<bool>,
}

/// A `[[source]]` table: a source of additional servers.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SourceTable {
    pub(super) dns: Option<Spanned<String>>,
    pub(super) resolver: Option<Spanned<String>>,
    pub(super) etcd: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) kubernetes: Option<Spanned<String>>,
    pub(super) port: Option<Spanned<String>>,
    pub(super) api: Option<Spanned<String>>,
    pub(super) token: Option<Spanned<String>>,
    pub(super) ca: Option<Spanned<String>>,
    pub(super) cert: Option<Spanned<String>>,
    pub(super) key: Option<Spanned<String>>,
    pub(super) server_id: Option<Spanned<ServerIds>>,
    pub(super) id_length: Option<Spanned<Whole<0, 20>>>,
    pub(super) preface: Option<bool>,
}

/// The `[health]` table: settings of the health checks.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct HealthTable {
    pub(super) interval: Option<TimeAboveZero>,
    pub(super) timeout: Option<TimeAboveZero>,
    pub(super) down_after: Option<Whole<1, 1000>>,
    pub(super) up_after: Option<Whole<1, 1000>>,
    pub(super) slow_start: Option<Time>,
    pub(super) server_name: Option<Spanned<String>>,
    pub(super) application_protocol: Option<Spanned<String>>,
    pub(super) off: Option<bool>,
}

/// The `[retry]` table: the rate of new clients above which they receive a Retry.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RetryTable {
    pub(super) above: Spanned<Whole<0, { u32::MAX as u64 }>>,
}

/// The server IDs of a server, in hexadecimal.
#[derive(Debug)]
pub(super) enum ServerIds {
    /// The ID of the only configuration.
    One(String),
    /// One ID for each configuration, by the configuration's number.
    Each(Vec<(Spanned<String>, Spanned<String>)>),
}

impl<'de> Deserialize<'de> for ServerIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = ServerIds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("hexadecimal digits in quotes, or { 0 = \"…\", 1 = \"…\" } with a server ID for each config")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ServerIds, E> {
                Ok(ServerIds::One(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ServerIds, A::Error> {
                let mut each = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    each.push(entry);
                }
                Ok(ServerIds::Each(each))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// An integer from `LEAST` to `MOST`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whole<const LEAST: u64, const MOST: u64>(u64);

impl<const LEAST: u64, const MOST: u64> Whole<LEAST, MOST> {
    pub(super) const fn get(self) -> u64 {
        self.0
    }

    /// Returns the value as a small number.
    pub(super) fn small(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// Returns the value as a length.
    pub(super) fn length(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<const LEAST: u64, const MOST: u64>;

        impl<const LEAST: u64, const MOST: u64> Visitor<'_> for Reader<LEAST, MOST> {
            type Value = Whole<LEAST, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {LEAST} to {MOST}")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                let number = u64::try_from(value).ok();
                let number = number.filter(|number| (LEAST..=MOST).contains(number));
                number.map(Whole).ok_or_else(|| {
                    E::custom(format_args!(
                        "{value} is out of range; write a whole number from {LEAST} to {MOST}"
                    ))
                })
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// A duration with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Time(pub(super) Duration);

/// A nonzero duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TimeAboveZero(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration with its unit, in quotes, such as \"2s\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                parse_duration(text).map(Time).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for TimeAboveZero {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Time::deserialize(deserializer)? {
            Time(Duration::ZERO) => {
                Err(D::Error::custom("the duration must not be 0; write one such as \"2s\""))
            }
            Time(time) => Ok(Self(time)),
        }
    }
}
