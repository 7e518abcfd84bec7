//! The interface between a transport and a congestion controller.

use core::fmt::Debug;
use core::time::Duration;

use clearway_units::packed::{Pack, Packer, Unpacker};
use clearway_units::{Rate, Timestamp};

use crate::{SendIndex, SentPacket};

/// The parameters for creating a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub struct ControllerParameters {
    /// The largest UDP payload that the path carries, in bytes.
    pub max_datagram_size: u64,
    /// The initial window in bytes; `None` for the one in RFC 9002 §7.2.
    pub initial_window: Option<u64>,
    /// The largest window, in bytes.
    pub maximum_window: u64,
    /// The seed of the controller's random numbers.
    pub seed: u64,
}

impl ControllerParameters {
    /// Returns the initial window in bytes: as configured, or min(10 x size, max(14720, 2 x size))
    /// (RFC 9002 §7.2).
    pub fn initial_window(&self) -> u64 {
        let size = self.max_datagram_size;
        let standard = size.saturating_mul(10).min(size.saturating_mul(2).max(14_720));
        self.initial_window.unwrap_or(standard).max(self.minimum_window()).min(self.maximum_window)
    }

    /// Returns the minimum window: two datagrams (RFC 9002 §7.2).
    pub fn minimum_window(&self) -> u64 {
        self.max_datagram_size.saturating_mul(2)
    }
}

/// The round-trip time estimate (RFC 9002 §5). There is no estimate before the first sample (law
/// 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttSnapshot {
    /// The latest sample.
    pub latest: Duration,
    /// The smoothed RTT.
    pub smoothed: Duration,
    /// The minimum of all samples.
    pub minimum: Duration,
    /// The RTT variation: the mean deviation of the samples.
    pub variation: Duration,
    /// Whether the `latest` sample was taken in this event.
    pub is_new: bool,
}

/// All consequences of one received acknowledgment, or of one loss detection timeout.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement<'a> {
    /// When the acknowledgment or timeout was processed.
    pub now: Timestamp,
    /// Newly acknowledged in-flight packets, in send order. Packets that had been declared lost
    /// before are excluded; see [`SpuriousLoss`].
    pub acked: &'a [SentPacket],
    /// Packets newly declared lost, in send order. Path and MTU probes are excluded.
    pub lost: &'a [SentPacket],
    /// The index of the next packet to be sent; a recovery boundary set in this event must be this
    /// index.
    pub next_index: SendIndex,
    /// The highest index acknowledged so far, including this event.
    pub largest_acked: Option<SendIndex>,
    /// The round-trip time estimate; `None` until there is one.
    pub rtt: Option<RttSnapshot>,
    /// Bytes in flight before this event.
    pub prior_in_flight: u64,
    /// Bytes in flight after this event.
    pub bytes_in_flight: u64,
    /// Whether the losses establish persistent congestion (RFC 9002 §7.6).
    pub persistent_congestion: bool,
    /// The number of packets that the peer newly reported as CE-marked; 0 without ECN.
    pub newly_ce_marked: u64,
    /// The delivery-rate sample of this event, if there is a valid one.
    pub rate_sample: Option<crate::RateSample>,
    /// Bytes delivered on this path so far, including this event. Counted like
    /// [`DeliverySnapshot::delivered`](crate::DeliverySnapshot::delivered).
    pub total_delivered: u64,
    /// Bytes declared lost on this path so far, including this event. Counted like
    /// [`DeliverySnapshot::lost`](crate::DeliverySnapshot::lost).
    pub total_lost: u64,
    /// The number of the current packet-timed round: it increases by one when a packet that was
    /// sent after the round began is acknowledged.
    pub round: u64,
    /// Whether the window or the pacer limited the sender while data was waiting, at any time in
    /// this round or the previous one. If not, the window must not grow (RFC 9002 §7.8).
    pub was_limited: bool,
    /// Like `was_limited`, but only for the window.
    pub was_window_limited: bool,
    /// How long the window or the pacer has delayed data since the previous event.
    pub limited_time: Duration,
}

/// An event: a packet that had been declared lost was acknowledged after all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpuriousLoss {
    /// When the loss was found to be spurious.
    pub now: Timestamp,
    /// The packet that was acknowledged.
    pub packet: SentPacket,
    /// The number of packets lost since the last congestion response that are still missing.
    pub still_lost: u64,
    /// Bytes delivered on this path so far, including this packet.
    pub total_delivered: u64,
}

/// The phase of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Slow start, with exponential growth.
    SlowStart,
    /// Conservative slow start (RFC 9406 §4.2).
    ConservativeSlowStart,
    /// Congestion avoidance, with linear or cubic growth.
    CongestionAvoidance,
    /// The recovery period of the current loss episode (RFC 9002 §7.3.2).
    Recovery,
    /// Another phase, under the name that its controller uses.
    Other(&'static str),
}

impl Phase {
    /// Returns the name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::ConservativeSlowStart => "conservative_slow_start",
            Self::CongestionAvoidance => "congestion_avoidance",
            Self::Recovery => "recovery",
            Self::Other(name) => name,
        }
    }
}

/// A reason why the window does not grow. Each reason is limited in time, which the lab's checker
/// verifies (law 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Suppressor {
    /// The packets of the current loss episode are not yet acknowledged.
    Recovery,
    /// Neither the window nor the pacer limited the sender in the last round.
    NotLimited,
    /// Conservative slow start grows at a quarter of the rate (RFC 9406 §4.2).
    ConservativeSlowStart,
    /// The window is at its configured maximum.
    MaximumWindow,
    /// BBR sends more slowly than the path delivers, to drain the bottleneck's queue, for three
    /// rounds or until the next probe.
    Draining,
    /// BBR sends as fast as the path delivers until it is time to probe for more, after at most
    /// three seconds.
    Cruising,
    /// BBR keeps little in flight, to measure the round-trip time without a queue: for 200 ms, or
    /// a few rounds if that is longer.
    ProbeRtt,
    /// BBR's response to losses of the current cycle limits it to less than its path model allows,
    /// until the next probe.
    ShortTermBound,
    /// BBR's window is limited to what the last bandwidth probe found to be safe. Each probe raises
    /// it, exponentially while nothing is lost.
    LongTermBound,
}

impl Suppressor {
    const COUNT: usize = 9;
    /// All variants, in declaration order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Recovery,
        Self::NotLimited,
        Self::ConservativeSlowStart,
        Self::MaximumWindow,
        Self::Draining,
        Self::Cruising,
        Self::ProbeRtt,
        Self::ShortTermBound,
        Self::LongTermBound,
    ];
}

/// The reasons why the window currently does not grow, each with the round in which it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub struct Suppressors {
    /// One bit per active reason, at its position in [`Suppressor::ALL`]. Using options would
    /// double the size, and a snapshot is copied for every observer.
    active: u16,
    /// The rounds in which the active reasons began; zero for inactive ones.
    since: [u64; Suppressor::COUNT],
}

impl Suppressors {
    /// Sets whether `suppressor` is active in `round`. If it was already active, the round in which
    /// it began is kept.
    pub fn set(&mut self, suppressor: Suppressor, holds: bool, round: u64) {
        let since = if holds { self.since(suppressor).unwrap_or(round) } else { 0 };
        let bit = 1 << suppressor as u16;
        self.active = if holds { self.active | bit } else { self.active & !bit };
        self.since[suppressor as usize] = since;
    }

    /// Returns the round in which `suppressor` began, if it is active.
    pub fn since(&self, suppressor: Suppressor) -> Option<u64> {
        let holds = self.active & (1 << suppressor as u16) != 0;
        holds.then_some(self.since[suppressor as usize])
    }

    /// Returns the active reasons, each with the round in which it began.
    pub fn active(&self) -> impl Iterator<Item = (Suppressor, u64)> + '_ {
        Suppressor::ALL.into_iter().filter_map(|s| self.since(s).map(|round| (s, round)))
    }
}

/// How a [`Controller`] responded to the congestion that an [`Acknowledgement`] reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionResponse {
    /// There was no congestion, or the controller had already responded to it.
    None,
    /// The controller reduced its window, which begins a loss episode. [Spurious
    /// losses](SpuriousLoss) are reported and counted from here on.
    Reduced,
}

/// A controller's state for observers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Snapshot {
    /// The congestion window in bytes: the number of bytes that may be in flight. In recovery it
    /// may change with every acknowledgment (RFC 9937).
    pub window: u64,
    /// The slow start threshold in bytes, if there is one. In recovery it is the window that
    /// recovery leads to.
    pub slow_start_threshold: Option<u64>,
    /// The smallest window that this controller ever sets, in bytes.
    pub minimum_window: u64,
    /// The current phase.
    pub phase: Phase,
    /// The reasons why the window does not grow.
    pub suppressors: Suppressors,
    /// The number of window reductions because of congestion.
    pub congestion_events: u64,
    /// The number of window reductions that were undone because the losses were spurious.
    pub undone_events: u64,
}

/// A variable of a controller, with the name from its specification, in lower case. Used only in
/// traces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Metric {
    /// The name: lower-case letters, digits and underscores. A name always has the same unit.
    pub name: &'static str,
    /// The variable's value.
    pub quantity: Quantity,
}

/// A value with its unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Quantity {
    /// An amount of data in bytes.
    Bytes(u64),
    /// A length of time.
    Time(Duration),
    /// An amount of data over time.
    Rate(Rate),
}

/// A congestion controller.
///
/// To add a controller, implement this trait; a connection gets its controller from a
/// [`ControllerFactory`]. Every method must be a pure function of the state and its arguments: no
/// clock, and no randomness except from the seed in [`ControllerParameters`].
pub trait Controller: Debug + Send {
    /// Returns the name by which users select the controller.
    fn name(&self) -> &'static str;

    /// Returns whether a sender that has nothing in flight may begin with a burst (RFC 9002 §7.7).
    /// A controller whose pacing rate is the path's rate must return false, because a queue built
    /// by a burst would not drain.
    fn bursts_after_idle(&self) -> bool {
        true
    }

    /// Called when a packet that counts as in flight was sent. `bytes_in_flight` includes that
    /// packet.
    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64);

    /// Called once for each processed acknowledgment and each expired loss timer. Returns whether
    /// the window was reduced because of congestion; loss recovery relies on this.
    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse;

    /// Called when a packet that was declared lost is acknowledged, before the
    /// [`on_acknowledgement`](Self::on_acknowledgement) of the same ACK.
    fn on_spurious_loss(&mut self, event: &SpuriousLoss);

    /// Called when the path's maximum datagram size changes.
    fn on_max_datagram_size(&mut self, max_datagram_size: u64);

    /// Returns the congestion window in bytes.
    fn window(&self) -> u64;

    /// Returns the rate at which to send; `None` while there is no basis for one.
    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate>;

    /// Returns the state for observers.
    fn snapshot(&self) -> Snapshot;

    /// Reports variables that are not in the [`snapshot`](Self::snapshot), for traces. Variables
    /// without a value are not reported.
    fn metrics(&self, _report: &mut dyn FnMut(Metric)) {}

    /// Writes the entire state and returns a function that restores the controller from it, so that
    /// an idle connection needs to keep only a few bytes. Returns `None`, without writing anything,
    /// if the controller cannot be packed.
    fn pack(&self, _into: &mut Packer) -> Option<UnpackController> {
        None
    }
}

/// Restores a controller from the bytes that [`Controller::pack`] wrote.
pub type UnpackController = fn(&mut Unpacker<'_>) -> Box<dyn Controller>;

/// Creates a [`Controller`] for each new path.
pub trait ControllerFactory: Debug + Send + Sync {
    /// Creates a new controller.
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller>;
}

#[cfg(test)]
mod tests {
    use super::{Suppressor, Suppressors};

    #[test]
    fn a_suppressor_keeps_the_round_it_began_in_until_it_ends() {
        let mut suppressors = Suppressors::default();
        for (place, suppressor) in Suppressor::ALL.into_iter().enumerate() {
            assert_eq!(suppressor as usize, place);
            assert_eq!(suppressors.since(suppressor), None);
            suppressors.set(suppressor, true, 7);
            suppressors.set(suppressor, true, 9);
            assert_eq!(suppressors.since(suppressor), Some(7));
        }
        assert_eq!(suppressors.active().count(), Suppressor::ALL.len());
        for suppressor in Suppressor::ALL {
            suppressors.set(suppressor, false, 10);
            assert_eq!(suppressors.since(suppressor), None);
        }
        assert_eq!(suppressors, Suppressors::default());
    }
}
