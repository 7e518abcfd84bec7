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
    /// Delays from given times on, ordered by time. Datagrams that leave the bottleneck from such a
    /// time on have that delay; if order is preserved, a datagram with a shorter delay waits for
    /// those before it.
    pub delay_steps: Vec<Step<Duration>>,
    /// The variation of the delay from datagram to datagram.
    pub jitter: Jitter,
    /// The interval between delivery slots, counted from the origin of
    /// [`Timestamp`](clearway_units::Timestamp): a time between two slots is rounded up. Models a
    /// receiver or a radio that works in slots. `None` or zero: at any time.
    pub tick: Option<Duration>,
    /// Periods during which nothing is delivered.
    pub freezes: Option<Freezes>,
    /// The bottleneck's rate; `None` for no bottleneck and no queue, zero lets nothing pass.
    pub rate: Option<Rate>,
    /// Rates from given times on, ordered by time. They apply to the datagrams in the queue and to
    /// the remainder of a datagram that is on the wire. A rate of zero freezes the direction until
    /// the next step.
    pub rate_steps: Vec<Step<Option<Rate>>>,
    /// A recorded rate of the bottleneck. Replaces `rate` and `rate_steps`.
    pub trace: Option<Trace>,
    /// Bytes that lower layers add to each payload at the bottleneck (28 for IPv4 and UDP). They
    /// count towards the rate and the queue limit, but not in the counters.
    pub overhead: u16,
    /// Drops datagrams that exceed a given rate, before the bottleneck.
    pub policer: Option<Policer>,
    /// The limit of the queue in front of the bottleneck.
    pub queue: QueueLimit,
    /// Decides which datagram leaves the queue next, which are marked and which are dropped.
    pub discipline: Discipline,
    /// The filter that drops consecutive small datagrams waiting in the queue.
    pub ack_filter: Option<AckFilter>,
    /// The queueing delay above which ECN-capable datagrams are marked CE.
    pub mark_above: Option<Duration>,
    /// The loss rules. A datagram is lost if any rule applies; the first that applies is counted.
    pub loss: Vec<LossRule>,
    /// Datagrams that are overtaken by later ones.
    pub reorder: Reorder,
    /// The probability that a datagram arrives twice.
    pub duplicate: Probability,
    /// Datagrams that arrive with a byte changed.
    pub corrupt: Corrupt,
    /// The largest payload that passes, in bytes; `None` for no limit. Larger datagrams are dropped without notice.
    pub mtu: Option<usize>,
    /// Largest payloads from given times on, ordered by time.
    pub mtu_steps: Vec<Step<Option<usize>>>,
    /// The treatment of the ECN field.
    pub ecn: EcnTreatment,
    /// ECN treatments from given times on, ordered by time.
    pub ecn_steps: Vec<Step<EcnTreatment>>,
    /// The receiver at which the datagrams arrive; `None` for one that receives them without delay.
    pub host: Option<Host>,
}

/// A value that applies from a given time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<T> {
    /// The start, counted from the first datagram that enters the link, in either direction.
    pub after: Duration,
    /// The value from then on.
    pub value: T,
}

/// The variation of the delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// Each delay differs from the configured one by at most this much in either direction,
    /// uniformly. A delay is never below zero.
    pub range: Duration,
    /// Whether a datagram with a short delay may overtake one with a long delay. Otherwise it
    /// waits.
    pub reorder_by_jitter: bool,
}

/// Datagrams that are held back so that later ones overtake them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reorder {
    /// The probability that a datagram is held back.
    pub probability: Probability,
    /// The time for which it is held back, in addition to its delay.
    pub by: Duration,
}

/// Datagrams that are delivered with one byte changed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Corrupt {
    /// The probability that a datagram is changed. An empty datagram has no byte to change.
    pub probability: Probability,
    /// After this many consecutive corrupt datagrams the next one stays intact; `None` for no
    /// limit.
    pub maximum_run: Option<u32>,
    /// The changed byte is among the first this many bytes; `None` for any byte.
    pub within: Option<usize>,
    /// Whether Version Negotiation packets stay intact. Nothing protects them, so a changed one may
    /// abort a connection attempt (RFC 9000 §6.2); a lost one does not.
    pub spare_version_negotiation: bool,
}
