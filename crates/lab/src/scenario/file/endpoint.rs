//! The `[endpoint]` section of a scenario file.

use clearway_wire::Version;
use serde::Deserialize;
use toml::Spanned;

use crate::scenario::settings::settings;
use crate::scenario::value::{AckDelay, PacketThreshold, Size, Time, TimeOrNone};
use crate::setup::MigrationTarget;

settings! {
    /// `[endpoint.client]`, `[endpoint.server]`: the configuration of one endpoint.
    struct EndpointSettings {
        stack: Option<StackName>,
        datagram_size: Option<Spanned<u16>>,
        discover_mtu: Option<bool>,
        ack_eliciting_threshold: Option<Spanned<u32>>,
        max_ack_delay: Option<AckDelay>,
        idle_timeout: Option<TimeOrNone>,
        keep_alive: Option<TimeOrNone>,
        handshake_timeout: Option<Time>,
        initial_rtt: Option<Time>,
        packet_threshold: Option<PacketThreshold>,
        initial_window: Option<Size>,
        maximum_window: Option<Spanned<Size>>,
        initial_stream_receive_window: Option<Size>,
        stream_receive_window: Option<Size>,
        initial_connection_receive_window: Option<Size>,
        connection_receive_window: Option<Size>,
        send_buffer: Option<Size>,
        quic_versions: Option<Spanned<Vec<QuicVersion>>>,
        first_quic_version: Option<Spanned<QuicVersion>>,
        grease_quic_bit: Option<bool>,
        spin_bit: Option<SpinName>,
        ecn: Option<bool>,
        ack_frequency: Option<bool>,
        http3_extensions: Option<bool>,
        migrations: Option<Spanned<Vec<MigrationSettings>>>,
        preferred_address: Option<bool>,
    }
    /// `[endpoint]`: the configuration of both endpoints, unless their own tables override it.
    for all in EndpointsSettings { client, server }
}

/// A migration initiated by a client.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct MigrationSettings {
    pub(in crate::scenario) at: Time,
    pub(in crate::scenario) to: TargetName,
}

/// The target of a client's migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum TargetName {
    Port,
    Address,
    Back,
}

impl From<TargetName> for MigrationTarget {
    fn from(name: TargetName) -> Self {
        match name {
            TargetName::Port => Self::Port,
            TargetName::Address => Self::Address,
            TargetName::Back => Self::Back,
        }
    }
}

/// The QUIC implementation of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum StackName {
    Clearway,
    Quinn,
}

/// A QUIC version: 1 (RFC 9000) or 2 (RFC 9369).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "u8")]
pub(in crate::scenario) struct QuicVersion(pub(in crate::scenario) Version);

impl TryFrom<u8> for QuicVersion {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            1 => Ok(Self(Version::V1)),
            2 => Ok(Self(Version::V2)),
            _ => Err("unknown QUIC version: expected 1 or 2"),
        }
    }
}

/// An endpoint's use of the latency spin bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum SpinName {
    Zero,
    Random,
    Enabled,
}
