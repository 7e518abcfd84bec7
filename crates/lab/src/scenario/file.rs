//! The file as written: every key and its type. The module `resolve` determines the meaning.

pub(super) mod endpoint;
pub(super) mod expect;
pub(super) mod flow;
pub(super) mod network;

use serde::Deserialize;
use toml::Spanned;

use self::endpoint::EndpointsSettings;
use self::expect::ExpectSettings;
use self::flow::{FlowSettings, SessionName, TlsSettings};
use self::network::{HostsSettings, NetworkSettings, RebindSettings};
use super::settings::settings;
use super::value::{Portion, Time};

/// Defines the two tables that contain settings of a run: the file itself and each of its variants.
macro_rules! levels {
    ($({
        $(#[$meta:meta])*
        struct $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($(#[$attribute])* pub(super) $field: $type,)*
            limit: Option<Time>,
            session: Option<SessionName>,
            #[serde(default)]
            tls: TlsSettings,
            #[serde(default)]
            network: NetworkSettings,
            rebind: Option<RebindSettings>,
            #[serde(default)]
            host: HostsSettings,
            #[serde(default)]
            endpoint: EndpointsSettings,
            flow: Option<Vec<Spanned<FlowSettings>>>,
            #[serde(default)]
            pub(super) expect: ExpectSettings,
            properties_off: Option<Vec<PropertyOff>>,
        }

        impl $name {
            /// Returns the settings of a run in this table.
            pub(super) fn level(&self) -> Level {
                Level {
                    limit: self.limit,
                    session: self.session,
                    tls: self.tls.clone(),
                    to_client: self.network.to_client(),
                    to_server: self.network.to_server(),
                    rebind: self.rebind.clone(),
                    client_host: self.host.client(),
                    server_host: self.host.server(),
                    client: self.endpoint.client(),
                    server: self.endpoint.server(),
                    flows: self.flow.clone(),
                    properties_off: self.properties_off.clone(),
                }
            }
        }
    )*};
}

levels! {
    {
        /// A scenario file.
        struct ScenarioFile {
            summary: String,
            #[serde(default)]
            reference: Vec<ReferenceFile>,
            seeds: Option<Spanned<u64>>,
            controllers: Option<Spanned<Vec<Spanned<String>>>>,
            base: Option<Spanned<bool>>,
            #[serde(default)]
            variant: Vec<VariantFile>,
        }
    }
    {
        /// A variant: settings that override those of the base.
        struct VariantFile {
            name: Spanned<String>,
            share: Option<Spanned<Portion>>,
            /// If set, the expectations of the base do not apply to this variant.
            #[serde(default)]
            own_expectations: bool,
        }
    }
}

settings! {
    /// The settings of a run, each for one direction, one endpoint or one flow.
    struct Level {
        limit: Option<Time>,
        session: Option<SessionName>,
        tls: TlsSettings,
        to_client: network::DirectionSettings,
        to_server: network::DirectionSettings,
        rebind: Option<RebindSettings>,
        client_host: network::HostSettings,
        server_host: network::HostSettings,
        client: endpoint::EndpointSettings,
        server: endpoint::EndpointSettings,
        flows: Option<Vec<Spanned<FlowSettings>>>,
        properties_off: Option<Vec<PropertyOff>>,
    }
}

/// A published result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReferenceFile {
    pub(super) figure: String,
    pub(super) source: String,
    pub(super) controller: Option<Spanned<String>>,
    pub(super) variant: Option<Spanned<String>>,
    pub(super) time: Option<Time>,
}

/// A property that is not checked in this scenario, and the reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PropertyOff {
    pub(super) property: Spanned<String>,
    pub(super) because: Spanned<String>,
}
