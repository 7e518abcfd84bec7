//! The `[[flow]]` sections of a scenario file.

use serde::Deserialize;
use toml::Spanned;

use super::endpoint::EndpointsSettings;
use crate::scenario::settings::settings;
use crate::scenario::value::{Count, Size, SpeedAboveZero, Time};

/// `[[flow]]`: one connection, or several identical ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct FlowSettings {
    pub(in crate::scenario) name: Spanned<String>,
    pub(in crate::scenario) traffic: Spanned<TrafficSettings>,
    pub(in crate::scenario) start: Option<Time>,
    pub(in crate::scenario) copies: Option<Spanned<u32>>,
    pub(in crate::scenario) apart: Option<Time>,
    pub(in crate::scenario) controller: Option<Spanned<String>>,
    pub(in crate::scenario) extra_delay: Option<Time>,
    pub(in crate::scenario) session: Option<SessionName>,
    #[serde(default)]
    pub(in crate::scenario) tls: TlsSettings,
    #[serde(default)]
    pub(in crate::scenario) endpoint: EndpointsSettings,
    #[serde(default)]
    pub(in crate::scenario) optional: bool,
}

/// Whether packets are really encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum SessionName {
    Null,
    Tls,
}

settings! {
    /// `[tls]`: the settings that determine the size of a TLS handshake.
    struct TlsSettings {
        key_exchange: Option<Spanned<KeyExchangeName>>,
        certificate_chain: Option<Spanned<Size>>,
        early_data: Option<Spanned<EarlyDataName>>,
    }
}

/// The fate of early data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scenario) enum EarlyDataName {
    Accepted,
    Rejected,
}

/// A TLS 1.3 key exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scenario) enum KeyExchangeName {
    X25519,
    X25519MlKem768,
}

/// The behavior of a flow's application. Exactly one of these keys must be present.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct TrafficSettings {
    pub(in crate::scenario) download: Option<Size>,
    pub(in crate::scenario) upload: Option<Size>,
    pub(in crate::scenario) parallel: Option<Parallel>,
    pub(in crate::scenario) requests: Option<Requests>,
    pub(in crate::scenario) paced: Option<Paced>,
    pub(in crate::scenario) cancelled: Option<Requests>,
    pub(in crate::scenario) bulk: Option<Bulk>,
    /// A pause; allowed only in a sequence.
    pub(in crate::scenario) idle: Option<Time>,
    pub(in crate::scenario) together: Option<Vec<Spanned<TrafficSettings>>>,
    pub(in crate::scenario) sequence: Option<Vec<Spanned<TrafficSettings>>>,
}

/// Several concurrent responses.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Parallel {
    pub(in crate::scenario) count: Count,
    pub(in crate::scenario) size: Size,
}

/// Several messages, one after the other.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Requests {
    pub(in crate::scenario) count: Count,
    pub(in crate::scenario) size: Size,
    pub(in crate::scenario) every: Option<Time>,
}

/// A response whose content is produced over time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Paced {
    pub(in crate::scenario) rate: SpeedAboveZero,
    pub(in crate::scenario) chunk: Size,
    pub(in crate::scenario) size: Size,
}

/// A response that ends after a given time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Bulk {
    #[serde(rename = "for")]
    pub(in crate::scenario) length: Time,
}
