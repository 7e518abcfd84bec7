//! A minimal sender for a controller: a ledger, a pacer and a sampler, and the events that can
//! happen to it.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_congestion::{
    Acknowledgement, Controller, ControllerParameters, DeliveryRateSampler, Limitation, Pacer,
    RttSnapshot, SendIndex, SendLimit, SentPacket, Snapshot,
};
use clearway_units::Timestamp;

use super::moves::Move;

/// The size of every datagram, in bytes.
pub(super) const SIZE: u64 = 1200;
/// The time after which a sent packet can be acknowledged.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(20);
/// The duration of a tick: about the time scale of CUBIC's curve and BBR's cycles, and long enough
/// for an acknowledgment after a tick to multiply the smoothed RTT.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// The duration of an idle period of the application: longer than the interval of BBR's ProbeRTT.
const IDLE: Duration = Duration::from_secs(6);
/// The size of a burst written by the application, in datagrams: larger than the largest window
/// that is explored.
const BURST: u32 = 20;
/// The number of times that the pacer may delay a sender within one event; more than that counts as
/// a violation.
const MAX_WAITS: u32 = 200;

/// An event's effects, as needed by the rules.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
    /// The lost packets, followed by the acknowledged ones; empty if nothing was reported to the
    /// controller.
    packets: Vec<SentPacket>,
    lost: usize,
    pub(super) is_marked: bool,
    /// The index of the next packet when the event was reported.
    pub(super) next_index: SendIndex,
    pub(super) was_limited: bool,
}

impl Step {
    pub(super) fn acked(&self) -> &[SentPacket] {
        &self.packets[self.lost..]
    }

    pub(super) fn lost(&self) -> &[SentPacket] {
        &self.packets[..self.lost]
    }
}

/// A sender with a controller.
#[derive(Clone, Debug)]
pub(super) struct Sender<C> {
    pub(super) now: Timestamp,
    pub(super) controller: C,
    pub(super) pacer: Pacer,
    pub(super) sampler: DeliveryRateSampler,
    pub(super) limitation: Limitation,
    pub(super) outstanding: VecDeque<SentPacket>,
    /// Datagrams that the application has written but that have not been sent.
    pub(super) waiting: u32,
    pub(super) next_index: SendIndex,
    largest_acked: Option<SendIndex>,
    pub(super) rtt: Option<RttSnapshot>,
    pub(super) round: u64,
    pub(super) round_began_at: SendIndex,
}

impl<C: Controller> Sender<C> {
    /// Creates a sender with a controller created by `make`. Its window is `datagrams` datagrams
    /// initially and at most `maximum`.
    pub(super) fn new(
        make: impl Fn(&ControllerParameters) -> C,
        datagrams: u64,
        maximum: u64,
    ) -> Self {
        // The start time is not zero, so that omissions are detected.
        let now = Timestamp::from_nanos(3_600_000_000_000);
        let parameters = ControllerParameters {
            max_datagram_size: SIZE,
            initial_window: Some(datagrams * SIZE),
            maximum_window: maximum * SIZE,
            seed: 1,
        };
        Self {
            now,
            controller: make(&parameters),
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

    /// Returns the bytes in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.outstanding.len() as u64 * SIZE
    }

    /// Returns whether the event `step` can happen now.
    pub(super) fn permits(&self, step: Move) -> bool {
        match step {
            Move::SendBurst => self.waiting < BURST,
            Move::AckAll | Move::Mark => !self.outstanding.is_empty(),
            Move::AckHalf | Move::LoseOne => self.outstanding.len() > 1,
            Move::Idle => true,
            Move::Tick => !self.outstanding.is_empty() || self.waiting > 0,
        }
    }

    /// Applies the event `step`, and then sends as much as possible.
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
                self.wait_until(self.now + TICK);
                self.silence()
            }
        };
        self.send();
        made
    }

    /// Returns the effects of an event that is not reported to the controller.
    fn silence(&self) -> Step {
        let snapshot = self.controller.snapshot();
        Step {
            before: snapshot,
            after: snapshot,
            packets: Vec::new(),
            lost: 0,
            is_marked: false,
            next_index: self.next_index,
            was_limited: false,
        }
    }

    /// Removes the first `count` packets from the ledger: the first `lost_count` of them as lost,
    /// and the rest as acknowledged.
    fn acknowledge(&mut self, count: usize, lost_count: usize, is_marked: bool) -> Step {
        let newest = count.checked_sub(1).and_then(|last| self.outstanding.get(last)).copied();
        let Some(newest) = newest else { return self.silence() };
        // The pacer continues to release packets in the meantime.
        self.wait_until(newest.sent_at + ROUND_TRIP);
        let prior_in_flight = self.in_flight();
        let packets: Vec<SentPacket> = self.outstanding.drain(..count).collect();
        let (lost, acked) = packets.split_at(lost_count);
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
        // A lost packet is retransmitted.
        self.waiting += lost_count as u32;
        Step {
            before,
            after: self.controller.snapshot(),
            packets,
            lost: lost_count,
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

    /// If nothing is outstanding, advances time until the pacer releases a packet.
    pub(super) fn wait_for_pacer(&mut self) {
        if let (true, Some(release)) = (self.outstanding.is_empty(), self.limitation.pacer_deadline)
        {
            self.now = self.now.max(release);
            self.send();
        }
    }

    /// Advances time, and sends the packets that the pacer releases in the meantime.
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

    /// Sends until something prevents it, and records the reason.
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
}
