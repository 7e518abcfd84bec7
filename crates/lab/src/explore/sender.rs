//! The smallest sender that a controller can have: a ledger, a pacer, a sampler, and moves to make.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_congestion::{
    Acknowledgement, Controller, ControllerFactory, ControllerParameters, DeliveryRateSampler,
    Limitation, Pacer, RttSnapshot, SendIndex, SendLimit, SentPacket, Snapshot,
};
use clearway_units::Timestamp;

/// The size of every datagram, in bytes.
pub(super) const SIZE: u64 = 1200;
/// How long a packet is under way before it can be acknowledged.
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// How long a clock tick takes.
const TICK: Duration = Duration::from_millis(1);
/// For how long an idle application is silent.
const IDLE: Duration = Duration::from_secs(1);
/// A burst that the application hands over, in datagrams: more than the largest window that is explored.
const BURST: u32 = 20;
/// How often the pacer may hold a sender up within one move before that is a fault of its own.
const MAX_WAITS: u32 = 200;

/// What can happen next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Move {
    /// The application hands over twenty datagrams.
    SendBurst,
    /// All that is outstanding is acknowledged.
    AckAll,
    /// The older half of it is.
    AckHalf,
    /// All but the oldest packet is, which is lost.
    LoseOne,
    /// All is acknowledged, with a mark of congestion.
    Mark,
    /// All is acknowledged, and the application has nothing to say for a second.
    Idle,
    /// A millisecond passes.
    Tick,
}

impl Move {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::SendBurst,
        Self::AckAll,
        Self::AckHalf,
        Self::LoseOne,
        Self::Mark,
        Self::Idle,
        Self::Tick,
    ];
}

/// What a move did, as far as the rules need it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
    /// What was acknowledged and lost; none if the controller was told nothing.
    pub(super) acked: Vec<SentPacket>,
    pub(super) lost: Vec<SentPacket>,
    pub(super) is_marked: bool,
    /// The index of the next packet when the controller was told.
    pub(super) next_index: SendIndex,
    pub(super) was_limited: bool,
}

/// A sender with a controller.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) now: Timestamp,
    pub(super) controller: Box<dyn Controller>,
    pacer: Pacer,
    sampler: DeliveryRateSampler,
    limitation: Limitation,
    pub(super) outstanding: VecDeque<SentPacket>,
    /// Datagrams that the application has handed over and that are not sent.
    pub(super) waiting: u32,
    next_index: SendIndex,
    largest_acked: Option<SendIndex>,
    rtt: Option<RttSnapshot>,
    round: u64,
    round_began_at: SendIndex,
}

impl Sender {
    /// With a controller of `factory` whose window has `datagrams` and is at most `maximum`.
    pub(super) fn new(factory: &dyn ControllerFactory, datagrams: u64, maximum: u64) -> Self {
        // A time that is not zero: what is forgotten shows.
        let now = Timestamp::from_nanos(3_600_000_000_000);
        let parameters = ControllerParameters {
            max_datagram_size: SIZE,
            initial_window: Some(datagrams * SIZE),
            maximum_window: maximum * SIZE,
            seed: 1,
        };
        Self {
            now,
            controller: factory.build(&parameters),
            pacer: Pacer::new(now, SIZE),
            sampler: DeliveryRateSampler::new(now),
            limitation: Limitation::default(),
            outstanding: VecDeque::new(),
            waiting: 0,
            next_index: SendIndex(0),
            largest_acked: None,
            rtt: None,
            round: 0,
            round_began_at: SendIndex(0),
        }
    }

    /// Bytes in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.outstanding.len() as u64 * SIZE
    }

    /// Whether `step` can happen now.
    pub(super) fn permits(&self, step: Move) -> bool {
        match step {
            Move::SendBurst => self.waiting < BURST,
            Move::AckAll | Move::Mark => !self.outstanding.is_empty(),
            Move::AckHalf | Move::LoseOne => self.outstanding.len() > 1,
            Move::Idle => true,
            Move::Tick => !self.outstanding.is_empty() || self.waiting > 0,
        }
    }

    /// Makes `step` happen, and sends what may be sent then.
    pub(super) fn make(&mut self, step: Move) -> Step {
        let outstanding = self.outstanding.len();
        let made = match step {
            Move::SendBurst => {
                self.waiting = BURST;
                self.silence()
            }
            Move::AckAll => self.acknowledge(outstanding, 0, false),
            Move::AckHalf => self.acknowledge(outstanding.div_ceil(2), 0, false),
            Move::LoseOne => self.acknowledge(outstanding, 1, false),
            Move::Mark => self.acknowledge(outstanding, 0, true),
            Move::Idle => {
                self.waiting = 0;
                let made = match outstanding {
                    0 => self.silence(),
                    _ => self.acknowledge(outstanding, 0, false),
                };
                self.send();
                self.now += IDLE;
                made
            }
            Move::Tick => {
                self.now += TICK;
                self.silence()
            }
        };
        self.send();
        made
    }

    /// The controller is told nothing.
    fn silence(&self) -> Step {
        let snapshot = self.controller.snapshot();
        Step {
            before: snapshot,
            after: snapshot,
            acked: Vec::new(),
            lost: Vec::new(),
            is_marked: false,
            next_index: self.next_index,
            was_limited: false,
        }
    }

    /// The first `count` packets leave the ledger, the first `lost` of them without having arrived.
    fn acknowledge(&mut self, count: usize, lost: usize, is_marked: bool) -> Step {
        let packets: Vec<SentPacket> = self.outstanding.iter().take(count).copied().collect();
        let Some(newest) = packets.last().copied() else { return self.silence() };
        // What the pacer spread goes on meanwhile.
        self.wait_until(newest.sent_at + ROUND_TRIP);
        let prior_in_flight = self.in_flight();
        let packets: Vec<SentPacket> = self.outstanding.drain(..count).collect();
        let (lost, acked) = packets.split_at(lost);
        for packet in acked {
            self.sampler.on_delivered(self.now, packet);
        }
        for packet in lost {
            self.sampler.on_lost(packet.bytes);
        }
        self.largest_acked = self.largest_acked.max(Some(newest.index));
        let prior_round = self.round;
        if newest.index >= self.round_began_at {
            self.round += 1;
            self.round_began_at = self.next_index;
        }
        self.sample_rtt(self.now.saturating_since(newest.sent_at));
        let rate_sample = self.sampler.sample(self.rtt.map(|rtt| rtt.minimum));
        let held = self.limitation.take(self.now, prior_round, self.round);
        let before = self.controller.snapshot();
        self.controller.on_acknowledgement(&Acknowledgement {
            now: self.now,
            acked,
            lost,
            next_index: self.next_index,
            largest_acked: self.largest_acked,
            rtt: self.rtt,
            prior_in_flight,
            bytes_in_flight: self.in_flight(),
            persistent_congestion: false,
            newly_ce_marked: u64::from(is_marked),
            rate_sample,
            total_delivered: self.sampler.delivered(),
            total_lost: self.sampler.lost(),
            round: self.round,
            was_limited: held.was_limited,
            was_window_limited: held.was_window_limited,
            limited_time: held.limited_time,
        });
        self.pacer.on_rate(self.now, self.controller.pacing_rate(self.rtt.as_ref()));
        if self.outstanding.is_empty() && self.controller.bursts_after_idle() {
            self.pacer.on_quiet(self.now);
        }
        // A lost packet is sent again.
        self.waiting += lost.len() as u32;
        Step {
            before,
            after: self.controller.snapshot(),
            acked: acked.to_vec(),
            lost: lost.to_vec(),
            is_marked,
            next_index: self.next_index,
            was_limited: held.was_limited,
        }
    }

    fn sample_rtt(&mut self, latest: Duration) {
        let smoothed = self.rtt.map_or(latest, |rtt| (rtt.smoothed * 7 + latest) / 8);
        let minimum = self.rtt.map_or(latest, |rtt| rtt.minimum.min(latest));
        let variation = self
            .rtt
            .map_or(latest / 2, |rtt| (rtt.variation * 3 + rtt.smoothed.abs_diff(latest)) / 4);
        self.rtt = Some(RttSnapshot { latest, smoothed, minimum, variation, is_new: true });
    }

    /// Time passes, and what the pacer holds back goes when it may.
    fn wait_until(&mut self, until: Timestamp) {
        for _ in 0..MAX_WAITS {
            match self.limitation.pacer_deadline {
                Some(release) if release < until && self.waiting > 0 => {
                    self.now = self.now.max(release);
                    self.send();
                }
                _ => break,
            }
        }
        self.now = self.now.max(until);
    }

    /// Sends until something stops it, and notes what.
    fn send(&mut self) {
        let limit = loop {
            if self.waiting == 0 {
                break SendLimit::Application;
            }
            if self.in_flight() + SIZE > self.controller.window() {
                break SendLimit::Window;
            }
            let rate = self.controller.pacing_rate(self.rtt.as_ref());
            if let Err(release) = self.pacer.release(self.now, rate, SIZE) {
                break SendLimit::Pacer(release);
            }
            self.send_one();
        };
        if matches!(limit, SendLimit::Pacer(_)) {
            self.pacer.on_waiting();
        }
        let permitted = self.in_flight() + SIZE <= self.controller.window();
        self.limitation.on_stopped(self.now, limit, self.round, permitted);
        if self.limitation.is_application_limited {
            self.sampler.on_application_limited(self.in_flight());
        }
    }

    fn send_one(&mut self) {
        let delivery = self.sampler.on_sent(self.now, SIZE, self.in_flight());
        let packet =
            SentPacket { index: self.next_index, bytes: SIZE, sent_at: self.now, delivery };
        self.next_index = SendIndex(self.next_index.0 + 1);
        self.outstanding.push_back(packet);
        self.waiting -= 1;
        self.pacer.on_sent(self.now, SIZE);
        let in_flight = self.in_flight();
        self.controller.on_sent(&packet, in_flight);
    }

    /// The indices that stand for now in a canonical form: of the next packet, of the round, and of bytes
    /// delivered and lost.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            now: self.now,
            next_index: self.next_index.0,
            round: self.round,
            delivered: self.sampler.delivered(),
            lost: self.sampler.lost(),
        }
    }

    /// What decides what can happen from here on.
    pub(super) fn describe(&self) -> String {
        let Self { controller, limitation, outstanding, waiting, rtt, .. } = self;
        let sent: Vec<_> =
            outstanding.iter().map(|packet| (packet.index, packet.sent_at)).collect();
        format!("{waiting} {sent:?} {rtt:?} {limitation:?} {controller:?}")
    }
}

/// What absolute numbers are counted from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) now: Timestamp,
    pub(super) next_index: u64,
    pub(super) round: u64,
    pub(super) delivered: u64,
    pub(super) lost: u64,
}
