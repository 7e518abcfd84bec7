//! Loss detection and congestion control events (RFC 9002).
//!
//! [`Recovery`] is the only part that changes the bytes in flight. The modules in this folder have
//! the following contents: `ledger`, `sent_space` and `packet` hold the packets, `rtt` the RTT
//! estimate, `reordering` the loss thresholds, `number_room` the length of packet numbers, `pto`
//! the probe timer, `persistent` persistent congestion, `black_hole` the detection of MTU black
//! holes, `ecn` ECN validation. The methods are in `send`, `acknowledge`, `loss` and `timers`.

mod acknowledge;
mod black_hole;
mod checked;
mod ecn;
mod ledger;
mod loss;
mod number_room;
mod packet;
mod packing;
mod persistent;
mod pto;
mod reordering;
mod rounds;
mod rtt;
mod send;
mod sent_space;
mod stats;
#[cfg(test)]
mod testing;
mod timers;

use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::{
    Algorithm, Controller, ControllerFactory, ControllerParameters, DeliveryRateSampler,
    Limitation, Pacer, RateSample, SendIndex, SentPacket,
};
use clearway_units::packed::Pack;
use clearway_units::{Random, Timestamp};
use clearway_wire::PacketNumber;

use self::black_hole::BlackHole;
use self::ecn::Ecn;
use self::ledger::Ledger;
#[cfg(any(test, debug_assertions))]
use self::packet::PacketState;
use self::persistent::PersistentCongestion;
use self::pto::ProbeTimer;
use self::reordering::Reordering;
use self::rounds::Rounds;
use self::rtt::Rtt;
use crate::SpaceId;
use crate::observer::LostPacket;
use crate::space_id::PerSpace;
use crate::token::Token;
use clearway_units::memory::{OnDemand, Unused};

pub use self::ledger::PacketCounts;
pub(crate) use self::number_room::NumberRoom;
pub(crate) use self::packet::StagedPacket;
pub(crate) use self::pto::PtoContext;
pub use self::stats::RecoveryStats;
pub(crate) use self::timers::Expired;

/// The settings of [`Recovery`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(crate) struct RecoveryConfig {
    /// The round-trip time that timers assume until there is a sample.
    pub(crate) initial_rtt: Duration,
    /// The initial packet threshold (RFC 9002 §6.1.1).
    pub(crate) packet_threshold: u64,
    /// Whether packet numbers are skipped at random (RFC 9000 §21.4).
    pub(crate) skip_packet_numbers: bool,
    /// The largest UDP payload to send initially, in bytes.
    pub(crate) max_datagram_size: u64,
    /// The largest UDP payload that every path carries, in bytes.
    pub(crate) base_datagram_size: u64,
    /// The initial congestion window, in bytes; `None` for the one in RFC 9002 §7.2.
    pub(crate) initial_window: Option<u64>,
    /// The largest congestion window, in bytes.
    pub(crate) maximum_window: u64,
    /// Whether packets are marked with ECN on paths that support it.
    pub(crate) ecn: bool,
}

impl RecoveryConfig {
    fn controller_parameters(
        &self,
        max_datagram_size: u64,
        random: &mut Random,
    ) -> ControllerParameters {
        ControllerParameters {
            max_datagram_size,
            initial_window: self.initial_window,
            maximum_window: self.maximum_window,
            seed: random.number(),
        }
    }
}

/// Loss detection, the probe timer, and the congestion controller with the events reported to it.
#[derive(Debug)]
pub(crate) struct Recovery {
    config: RecoveryConfig,
    factory: Arc<dyn ControllerFactory>,
    random: Random,
    ledger: Ledger,
    path: PathState,
    ecn: Ecn,
    timer: ProbeTimer,
    /// The time at which the next packet of each space will be declared lost by the time threshold.
    loss_times: PerSpace<Option<Timestamp>>,
    /// The next packet number of the Application space to skip.
    next_skip: u64,
    /// ACK-only packets sent since the last ack-eliciting packet, per space.
    acks_in_a_row: PerSpace<u32>,
    last_sent_at: Timestamp,
    /// The time at which a datagram that validates another path was last sent.
    sent_elsewhere_at: Timestamp,
    max_datagram_size: u64,
    /// The peer's `max_ack_delay`, as last reported.
    max_ack_delay: Duration,
    /// The number of events reported to the controller: acknowledgments and loss detection
    /// timeouts.
    event: u64,
    batch: OnDemand<EventBuffers>,
}

/// The state of one path, reset when the path changes (RFC 9000 §9.4).
#[derive(Debug)]
struct PathState {
    controller: Box<dyn Controller>,
    pacer: Pacer,
    sampler: DeliveryRateSampler,
    rtt: Rtt,
    reordering: Reordering,
    rounds: Rounds,
    limitation: Limitation,
    persistent: PersistentCongestion,
    black_hole: BlackHole,
    /// Whether a black hole was detected that has not been [taken](Recovery::take_black_hole) yet.
    is_black_hole: bool,
    largest_acknowledged: Option<SendIndex>,
    last_rate_sample: Option<RateSample>,
    /// The event in which the controller last reduced its window.
    episode_began: u64,
    /// The number of packets lost in the current loss episode that are still missing.
    still_lost: u64,
}

/// Buffers that are reused for every event to avoid allocations.
#[derive(Debug, Default)]
struct EventBuffers {
    staged: Vec<(SpaceId, PacketNumber)>,
    numbers: Vec<u64>,
    ranges: Vec<(u64, u64)>,
    acked: Vec<SentPacket>,
    lost: Vec<SentPacket>,
    spurious: Vec<(SentPacket, u64)>,
    /// The acknowledged tokens that the caller has not taken yet.
    acked_tokens: Vec<(SpaceId, Token)>,
    lost_tokens: Vec<(SpaceId, Token)>,
    lost_packets: Vec<LostPacket>,
    /// The excess of the newest RTT sample of the Application space over the smoothed RTT.
    rtt_growth: Option<Duration>,
}

impl Unused for EventBuffers {
    fn unused() -> &'static Self {
        static UNUSED: EventBuffers = EventBuffers {
            staged: Vec::new(),
            numbers: Vec::new(),
            ranges: Vec::new(),
            acked: Vec::new(),
            lost: Vec::new(),
            spurious: Vec::new(),
            acked_tokens: Vec::new(),
            lost_tokens: Vec::new(),
            lost_packets: Vec::new(),
            rtt_growth: None,
        };
        &UNUSED
    }
}

impl Recovery {
    /// Creates the state before the first packet. `factory` creates the controllers of this path
    /// and of every later one.
    pub(crate) fn new(
        now: Timestamp,
        config: RecoveryConfig,
        factory: Arc<dyn ControllerFactory>,
        mut random: Random,
    ) -> Self {
        let ledger = Ledger::new();
        let rtt = Rtt::new(config.initial_rtt);
        let parameters = config.controller_parameters(config.max_datagram_size, &mut random);
        let reordering = Reordering::new(config.packet_threshold);
        let next = ledger.next_index();
        let loss = (reordering, BlackHole::new(config.base_datagram_size));
        let path = PathState::new(now, &*factory, &parameters, rtt, loss, next, 0);
        let mut recovery = Self {
            config,
            factory,
            random,
            ledger,
            path,
            ecn: Ecn::new(config.ecn),
            timer: ProbeTimer::new(now),
            loss_times: PerSpace::default(),
            next_skip: u64::MAX,
            acks_in_a_row: PerSpace::default(),
            last_sent_at: now,
            sent_elsewhere_at: now,
            max_datagram_size: config.max_datagram_size,
            max_ack_delay: Duration::ZERO,
            event: 0,
            batch: OnDemand::default(),
        };
        recovery.choose_next_skip();
        recovery
    }

    /// Returns the largest packet number of `space` that the peer acknowledged.
    pub(crate) fn largest_acknowledged(&self, space: SpaceId) -> Option<PacketNumber> {
        self.ledger.space(space).largest_acknowledged()
    }

    /// Returns the probe timeout without backoff, for the timeouts that are multiples of it (RFC
    /// 9000 §8.2.4, §10.1, §10.2).
    pub(crate) fn pto(&self, max_ack_delay: Duration) -> Duration {
        self.path.rtt.pto_base(max_ack_delay)
    }

    /// Returns the congestion window, in bytes.
    pub(crate) fn window(&self) -> u64 {
        self.path.controller.window()
    }

    /// Swaps `into` with the tokens that were acknowledged since the last call, in order. The
    /// contents of `into` are dropped and its memory is reused.
    pub(crate) fn take_acked(&mut self, into: &mut Vec<(SpaceId, Token)>) {
        into.clear();
        if let Some(batch) = self.batch.used() {
            core::mem::swap(into, &mut batch.acked_tokens);
        }
    }

    /// Like [`take_acked`](Self::take_acked), for lost tokens. A lost token may later be returned
    /// as acknowledged if the loss was spurious.
    pub(crate) fn take_lost(&mut self, into: &mut Vec<(SpaceId, Token)>) {
        into.clear();
        if let Some(batch) = self.batch.used() {
            core::mem::swap(into, &mut batch.lost_tokens);
        }
    }

    /// Clears `into` and swaps it with the packets that were declared lost since the last call.
    pub(crate) fn take_lost_packets(&mut self, into: &mut Vec<LostPacket>) {
        into.clear();
        if let Some(batch) = self.batch.used() {
            core::mem::swap(into, &mut batch.lost_packets);
        }
    }

    /// Returns the excess of the newest RTT sample over the smoothed RTT, if there was a sample in
    /// the Application space since the last call. Zero if the sample was shorter.
    pub(crate) fn take_rtt_growth(&mut self) -> Option<Duration> {
        self.batch.used()?.rtt_growth.take()
    }

    /// Returns whether a black hole for large packets was detected since the last call (RFC 8899
    /// §4.3).
    pub(crate) fn take_black_hole(&mut self) -> bool {
        core::mem::take(&mut self.path.is_black_hole)
    }

    /// Sets the path's maximum datagram size to `bytes` (RFC 9002 §7.2). The window keeps its size
    /// in bytes unless that is below the controller's minimum (RFC 8899 §3, item 7).
    pub(crate) fn set_max_datagram_size(&mut self, now: Timestamp, bytes: u64) {
        if self.max_datagram_size != bytes {
            self.max_datagram_size = bytes;
            self.path.pacer.set_max_datagram_size(now, bytes);
            self.path.controller.on_max_datagram_size(bytes);
        }
    }

    /// Replaces a controller that has panicked with a built-in one. Returns the old controller.
    pub(crate) fn replace_controller(&mut self) -> Box<dyn Controller> {
        let parameters =
            self.config.controller_parameters(self.max_datagram_size, &mut self.random);
        core::mem::replace(&mut self.path.controller, Algorithm::Reno.build(&parameters))
    }

    /// Frees memory that only a busy connection needs, since the connection is idle.
    pub(crate) fn compact(&mut self, now: Timestamp) {
        self.forget(SpaceId::Application, now);
        self.ledger.compact();
        self.ecn.compact();
        self.random.compact();
        let EventBuffers { staged, acked_tokens, lost_tokens, lost_packets, .. } = &*self.batch;
        let is_taken = acked_tokens.is_empty() && lost_tokens.is_empty();
        if staged.is_empty() && is_taken && lost_packets.is_empty() {
            self.batch.release();
        }
    }

    /// Returns whether no packet of `space` awaits an acknowledgment.
    pub(crate) fn is_nothing_outstanding(&self, space: SpaceId) -> bool {
        !self.ledger.space(space).awaits_acknowledgement()
    }
}

#[cfg(any(test, debug_assertions))]
impl Recovery {
    /// Checks that all cached values agree with the packets.
    ///
    /// # Panics
    /// If a cached value does not agree, which is a bug in this crate.
    pub(crate) fn check_caches(&self) {
        self.ledger.check_caches();
        for space in SpaceId::ALL {
            let sent = self.ledger.space(space);
            let largest = sent.largest_acknowledged().map_or(0, PacketNumber::get);
            let mut overtaken = sent.packets().filter(|packet| {
                packet.number < largest && packet.state == PacketState::Outstanding
            });
            let first = overtaken.next();
            assert_eq!(
                self.loss_times.get(space).is_some(),
                first.is_some(),
                "{space:?}: {first:?}"
            );
        }
    }

    /// Returns how many packets are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.ledger.remembered()
    }
}

impl PathState {
    fn new(
        now: Timestamp,
        factory: &dyn ControllerFactory,
        parameters: &ControllerParameters,
        rtt: Rtt,
        (reordering, black_hole): (Reordering, BlackHole),
        next: SendIndex,
        event: u64,
    ) -> Self {
        Self {
            controller: factory.build(parameters),
            pacer: Pacer::new(now, parameters.max_datagram_size),
            sampler: DeliveryRateSampler::new(now),
            rtt,
            reordering,
            rounds: Rounds::new(next),
            limitation: Limitation::default(),
            persistent: PersistentCongestion::new(),
            black_hole,
            is_black_hole: false,
            largest_acknowledged: None,
            last_rate_sample: None,
            episode_began: event,
            still_lost: 0,
        }
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
