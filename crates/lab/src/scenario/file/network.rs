//! The `[network]`, `[host]` and `[rebind]` sections of a scenario file.

use serde::Deserialize;
use toml::Spanned;

use crate::scenario::settings::settings;
use crate::scenario::value::{
    Count, Mtu, Portion, Products, Size, SmallCount, SpeedAboveZero, SpeedAboveZeroOrNone,
    SpeedOrNone, Time, TimeOrNone,
};

settings! {
    /// `[network.to_client]`, `[network.to_server]`: the conditions of one direction.
    struct DirectionSettings {
        delay: Option<Time>,
        delay_steps: Option<Spanned<Vec<DelayStep>>>,
        jitter: Option<Time>,
        jitter_reorders: Option<bool>,
        tick: Option<TimeOrNone>,
        rate: Option<SpeedAboveZeroOrNone>,
        rate_steps: Option<Spanned<Vec<RateStep>>>,
        trace: Option<Spanned<String>>,
        overhead: Option<u16>,
        queue: Option<Spanned<Queue>>,
        discipline: Option<Discipline>,
        policer: Option<Policer>,
        mark_above: Option<TimeOrNone>,
        loss: Option<Vec<Spanned<Loss>>>,
        reorder: Option<Reorder>,
        duplicate: Option<Portion>,
        corrupt: Option<Corrupt>,
        mtu: Option<Mtu>,
        mtu_steps: Option<Spanned<Vec<MtuStep>>>,
        ecn: Option<EcnTreatment>,
        ecn_steps: Option<Spanned<Vec<EcnStep>>>,
        freezes: Option<Freezes>,
        ack_filter: Option<AckFilter>,
    }
    /// `[network]`: the conditions of both directions, unless their own tables override them.
    for all in NetworkSettings { to_client, to_server }
}

settings! {
    /// `[host.client]`, `[host.server]`: the host that receives datagrams.
    struct HostSettings {
        socket_buffer: Option<Size>,
        service_time: Option<Time>,
        batch_time: Option<Time>,
        batch: Option<SmallCount>,
    }
    /// `[host]`: the settings of both hosts, unless their own tables override them.
    for all in HostsSettings { client, server }
}

/// A delay that applies from the time `at`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct DelayStep {
    pub(in crate::scenario) at: Time,
    pub(in crate::scenario) value: Time,
}

/// A rate that applies from the time `at`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct RateStep {
    pub(in crate::scenario) at: Time,
    pub(in crate::scenario) value: SpeedOrNone,
}

/// The largest payload that passes from the time `at`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct MtuStep {
    pub(in crate::scenario) at: Time,
    pub(in crate::scenario) value: Mtu,
}

/// The treatment of the ECN field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum EcnTreatment {
    Kept,
    Cleared,
    ToEct1,
    ToCe,
    Dropped,
}

/// The treatment of the ECN field from the time `at`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct EcnStep {
    pub(in crate::scenario) at: Time,
    pub(in crate::scenario) value: EcnTreatment,
}

/// The capacity of the queue.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum Queue {
    Packets(usize),
    Bytes(Size),
    /// A multiple of the bandwidth-delay product, computed from the direction's rate and the delays
    /// of both directions.
    Bdp(Products),
    /// The number of bytes that the rate forwards in this time.
    Time(Time),
}

/// The queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum Discipline {
    DropTail,
    /// CoDel (RFC 8289), dropping packets.
    #[serde(rename = "codel")]
    CoDel,
    /// CoDel (RFC 8289), marking ECN-capable packets.
    #[serde(rename = "codel-ecn")]
    CoDelEcn,
    /// DualPI2 (RFC 9332).
    #[serde(rename = "dualpi2")]
    DualPi2,
}

/// A token bucket; datagrams that exceed it are dropped.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Policer {
    pub(in crate::scenario) rate: SpeedAboveZero,
    pub(in crate::scenario) bucket: Size,
}

/// The datagrams that are lost, and when. Exactly one of the first six keys must be present.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Loss {
    pub(in crate::scenario) random: Option<Portion>,
    pub(in crate::scenario) capped: Option<Capped>,
    pub(in crate::scenario) burst: Option<Burst>,
    pub(in crate::scenario) gilbert_elliott: Option<GilbertElliott>,
    pub(in crate::scenario) large: Option<Large>,
    pub(in crate::scenario) list: Option<Vec<Count>>,
    pub(in crate::scenario) after: Option<After>,
    #[serde(rename = "for")]
    pub(in crate::scenario) length: Option<Time>,
}

/// Independent losses, with a limit on consecutive losses.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Capped {
    pub(in crate::scenario) probability: Portion,
    pub(in crate::scenario) longest: SmallCount,
}

/// Independent losses of datagrams with a payload of more than `than` bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Large {
    pub(in crate::scenario) than: usize,
    pub(in crate::scenario) probability: Portion,
}

/// Bursts of one to `longest` losses.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Burst {
    pub(in crate::scenario) start: Portion,
    pub(in crate::scenario) longest: SmallCount,
}

/// The Gilbert-Elliott model: a good and a bad state.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct GilbertElliott {
    pub(in crate::scenario) good_to_bad: Portion,
    pub(in crate::scenario) bad_to_good: Portion,
    pub(in crate::scenario) loss_in_good: Option<Portion>,
    pub(in crate::scenario) loss_in_bad: Portion,
}

/// The time at which losses begin.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum After {
    /// Losses begin this long after the first datagram.
    Time(Time),
    /// Losses begin when this many bytes have passed to the client.
    ToClient(Size),
    /// Losses begin when this many bytes have passed to the server.
    ToServer(Size),
}

/// Datagrams that are overtaken by later ones.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Reorder {
    pub(in crate::scenario) probability: Portion,
    pub(in crate::scenario) by: Time,
}

/// Datagrams with a changed byte.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Corrupt {
    pub(in crate::scenario) probability: Portion,
    pub(in crate::scenario) longest: Option<SmallCount>,
    pub(in crate::scenario) within: Option<usize>,
    #[serde(default)]
    pub(in crate::scenario) spare_version_negotiation: bool,
}

/// Periods during which the direction delivers nothing; afterwards all delayed datagrams arrive at
/// once.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Freezes {
    pub(in crate::scenario) start: Option<Time>,
    pub(in crate::scenario) period: Option<Time>,
    pub(in crate::scenario) length: Time,
    pub(in crate::scenario) count: Option<u64>,
    pub(in crate::scenario) spread: Option<Time>,
}

/// A filter that keeps only one in `keep_one_of` consecutive small datagrams in the queue, and
/// drops the others.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct AckFilter {
    pub(in crate::scenario) keep_one_of: SmallCount,
    pub(in crate::scenario) smaller_than: usize,
}

/// `[rebind]`: the NAT in front of the client changes its mappings.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct RebindSettings {
    pub(in crate::scenario) first: Time,
    pub(in crate::scenario) every: Option<Time>,
    #[serde(default)]
    pub(in crate::scenario) address: bool,
}
