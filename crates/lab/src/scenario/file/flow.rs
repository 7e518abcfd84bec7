//! `[[flow]]`.

use serde::Deserialize;
use toml::Spanned;

use super::endpoint::EndpointsSettings;
use crate::scenario::value::{Size, Speed, Time};

/// `[[flow]]`: one connection, or several that are alike.
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

/// What a flow's application does.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::scenario) enum TrafficSettings {
    Download(Size),
    Upload(Size),
    Parallel {
        count: u64,
        size: Size,
    },
    Requests {
        count: u64,
        size: Size,
        every: Option<Time>,
    },
    Paced {
        rate: Speed,
        chunk: Size,
        size: Size,
    },
    Bulk {
        #[serde(rename = "for")]
        length: Time,
    },
}
