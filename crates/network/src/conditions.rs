use core::time::Duration;

use clearway_units::Rate;

use crate::{
    AckFilter, Discipline, EcnTreatment, Freezes, Host, LossRule, Policer, Probability, QueueLimit,
    Trace,
};

/// The effects of one direction of a link on datagrams. The default is a perfect wire.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Conditions {
    /// The travel time of a datagram after the bottleneck.
    pub delay: Duration,
    /// Delays that take effect at given times, ordered by time. Each applies to datagrams that
    /// leave the bottleneck at that time or later. If order is preserved, a datagram with a shorter
    /// delay waits for earlier datagrams.
    pub delay_steps: Vec<Step<Duration>>,
    /// The variation of the delay between datagrams.
    pub jitter: Jitter,
    /// The interval between delivery slots, counted from the origin of
    /// [`Timestamp`](clearway_units::Timestamp): a delivery time between two slots is rounded up.
    /// Models a receiver or a radio that works in slots. With `None` or zero, datagrams are
    /// delivered at any time.
    pub tick: Option<Duration>,
    /// Periods during which nothing is delivered.
    pub freezes: Option<Freezes>,
    /// The bottleneck's rate. `None` means that there is no bottleneck and no queue; with zero, no
    /// datagram passes.
    pub rate: Option<Rate>,
    /// Rates that take effect at given times, ordered by time. They apply to the datagrams in the
    /// queue and to the remainder of a datagram on the wire. A rate of zero freezes the direction
    /// until the next step.
    pub rate_steps: Vec<Step<Option<Rate>>>,
    /// A recorded rate for the bottleneck. Replaces `rate` and `rate_steps`.
    pub trace: Option<Trace>,
    /// Bytes that lower layers add to each payload at the bottleneck (28 for IPv4 and UDP). These
    /// bytes count towards the rate and the queue limit, but are not included in the counters.
    pub overhead: u16,
    /// A policer before the bottleneck, which drops datagrams that exceed a given rate.
    pub policer: Option<Policer>,
    /// The limit of the queue in front of the bottleneck.
    pub queue: QueueLimit,
    /// The discipline that decides which datagram leaves the queue next, and which datagrams are
    /// marked or dropped.
    pub discipline: Discipline,
    /// The filter that drops consecutive small datagrams waiting in the queue.
    pub ack_filter: Option<AckFilter>,
    /// The queueing delay above which ECN-capable datagrams are marked CE.
    pub mark_above: Option<Duration>,
    /// The loss rules. A datagram is lost if any rule applies; the loss is attributed to the first
    /// such rule.
    pub loss: Vec<LossRule>,
    /// The reordering of datagrams: some are delayed so that later ones overtake them.
    pub reorder: Reorder,
    /// The probability that a datagram arrives twice.
    pub duplicate: Probability,
    /// The corruption of datagrams, which changes one byte.
    pub corrupt: Corrupt,
    /// The largest payload that passes, in bytes; `None` for no limit. Larger datagrams are
    /// silently dropped.
    pub mtu: Option<usize>,
    /// Largest payloads that take effect at given times, ordered by time.
    pub mtu_steps: Vec<Step<Option<usize>>>,
    /// The treatment of the ECN field.
    pub ecn: EcnTreatment,
    /// ECN treatments that take effect at given times, ordered by time.
    pub ecn_steps: Vec<Step<EcnTreatment>>,
    /// The host that receives the datagrams; `None` for one that processes them without delay.
    pub host: Option<Host>,
}

/// A value that takes effect at a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<T> {
    /// The start of the step, counted from the first datagram that enters the link in either
    /// direction.
    pub after: Duration,
    /// The value that applies from then on.
    pub value: T,
}

/// The variation of the delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// Maximum deviation of each delay from the configured one, in either direction. Deviations are
    /// uniformly distributed, and delays are never below zero.
    pub range: Duration,
    /// Whether a datagram with a short delay may overtake a datagram with a long delay. If not, it
    /// waits.
    pub reorder_by_jitter: bool,
}

/// Reordering: some datagrams are delayed so that later ones overtake them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reorder {
    /// The probability that a datagram is delayed.
    pub probability: Probability,
    /// The additional delay of a delayed datagram.
    pub by: Duration,
}

/// Corruption: some datagrams are delivered with one byte changed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Corrupt {
    /// The probability that a datagram is changed. An empty datagram has no byte to change.
    pub probability: Probability,
    /// Number of consecutive corrupt datagrams after which the next one remains intact; `None` for
    /// no limit.
    pub maximum_run: Option<u32>,
    /// Number of bytes at the start among which the changed byte is chosen; `None` for any byte.
    pub within: Option<usize>,
    /// Whether Version Negotiation packets remain intact. These packets are not protected, so a
    /// corrupt one may abort a connection attempt (RFC 9000 §6.2), whereas a lost one does not.
    pub spare_version_negotiation: bool,
}
