//! A sender and its path, in virtual time.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::{Rate, Timestamp};

use crate::{
    Acknowledgement, CongestionResponse, Controller, ControllerParameters, DeliveryRateSampler,
    Limitation, Pacer, RttSnapshot, SendIndex, SendLimit, SentPacket, SpuriousLoss,
};

/// The rate of the path; with [`DELAY`], a window of 42 datagrams fully uses it.
pub(super) const RATE: Rate = Rate::from_bits_per_second(10_000_000);
/// The round-trip time without a queue.
const DELAY: Duration = Duration::from_millis(40);
/// The longest queue, in time; packets that arrive when it is full are lost. The queue is longer
/// than the path's delay, so that half a window still fully uses the path.
const QUEUE: Duration = Duration::from_millis(60);
/// The additional delay of a delayed packet.
const LATE: Duration = Duration::from_millis(30);
/// The number of later packets that must be acknowledged before a packet is declared lost (RFC 9002
/// §6.1.1).
const REORDERING: u64 = 3;

/// The outcome of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Arrives,
    Lost,
    /// The packet arrives with a CE mark.
    Marked,
    /// The packet arrives after packets that were sent later.
    Late,
}

/// The data that is available to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offer {
    Nothing,
    /// More data than can be sent is available.
    Backlog,
    /// One datagram becomes available per interval.
    Interval(Duration),
}

/// An acknowledgment in transit.
#[derive(Debug)]
struct Arrival {
    at: Timestamp,
    index: u64,
    is_marked: bool,
}

/// The sender and its path.
#[derive(Debug)]
pub(super) struct Path {
    controller: Box<dyn Controller>,
    size: u64,
    maximum_window: u64,
    now: Timestamp,
    /// When the bottleneck will have sent all queued packets.
    free_at: Timestamp,
    arrivals: Vec<Arrival>,
    /// Packets in flight, in send order.
    flight: VecDeque<SentPacket>,
    /// Packets that were declared lost but may still arrive.
    lost: Vec<SentPacket>,
    in_flight: u64,
    next_index: u64,
    largest_acked: Option<SendIndex>,
    sampler: DeliveryRateSampler,
    pacer: Pacer,
    limitation: Limitation,
    rtt: Option<RttSnapshot>,
    round: u64,
    round_began_at: u64,
    /// When the next datagram becomes available.
    offered_at: Timestamp,
    /// When the probe timeout expires, and how many probes have been sent.
    probe_at: Option<Timestamp>,
    probes: u32,
    /// Losses of packets sent before this index belong to congestion that the controller has
    /// responded to.
    boundary: u64,
    /// The boundary before the last response, which applies again if that response is undone.
    boundary_before: u64,
    responses: u64,
    still_lost: u64,
    /// The largest window since the last response, but at least the window that the response leads
    /// to. A controller may temporarily shrink its window for packet conservation or to measure the
    /// path.
    largest: u64,
}

impl Path {
    pub(super) fn new(controller: Box<dyn Controller>, parameters: &ControllerParameters) -> Self {
        let (now, size) = (Timestamp::from_nanos(1_000_000_007), parameters.max_datagram_size);
        let largest = controller.window();
        Self {
            controller,
            size,
            maximum_window: parameters.maximum_window,
            now,
            free_at: now,
            arrivals: Vec::new(),
            flight: VecDeque::new(),
            lost: Vec::new(),
            in_flight: 0,
            next_index: 0,
            largest_acked: None,
            sampler: DeliveryRateSampler::new(now),
            pacer: Pacer::new(now, size),
            limitation: Limitation::default(),
            rtt: None,
            round: 0,
            round_began_at: 0,
            offered_at: now,
            probe_at: None,
            probes: 0,
            boundary: 0,
            boundary_before: 0,
            responses: 0,
            still_lost: 0,
            largest,
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.controller.window()
    }

    pub(super) fn delivered(&self) -> u64 {
        self.sampler.delivered()
    }

    pub(super) fn next_index(&self) -> u64 {
        self.next_index
    }

    pub(super) fn replace_controller(
        &mut self,
        replace: impl FnOnce(Box<dyn Controller>) -> Box<dyn Controller>,
    ) {
        let stand_in = crate::Reno::new(&ControllerParameters {
            max_datagram_size: self.size,
            initial_window: None,
            maximum_window: self.maximum_window,
            seed: 0,
        });
        let controller = core::mem::replace(&mut self.controller, Box::new(stand_in));
        self.controller = replace(controller);
    }

    /// Runs for `time` with the data in `offer`. `fate` returns a packet's outcome, given its
    /// index.
    pub(super) fn run(&mut self, time: Duration, offer: Offer, fate: &mut dyn FnMut(u64) -> Fate) {
        let end = self.now + time;
        self.offered_at = self.now;
        loop {
            let release = self.send(offer, fate);
            let arrival = self.arrivals.iter().map(|arrival| arrival.at).min();
            let offered = matches!(offer, Offer::Interval(_)).then_some(self.offered_at);
            // Data that is already available and waiting does not have its own event time.
            let offered = offered.filter(|at| *at > self.now);
            let next = [release, arrival, offered, self.probe_at].into_iter().flatten().min();
            match next {
                Some(next) if next <= end => self.now = next.max(self.now),
                _ => break,
            }
            while let Some(place) = self.arrivals.iter().position(|arrival| arrival.at <= self.now)
            {
                let arrival = self.arrivals.swap_remove(place);
                self.on_arrival(&arrival);
            }
            if self.probe_at.is_some_and(|at| at <= self.now) {
                self.probes += 1;
                self.transmit(fate);
            }
        }
        self.now = end;
    }

    /// Sends as much as allowed. Returns when the pacer allows more.
    fn send(&mut self, offer: Offer, fate: &mut dyn FnMut(u64) -> Fate) -> Option<Timestamp> {
        loop {
            let has_data = match offer {
                Offer::Nothing => false,
                Offer::Backlog => true,
                Offer::Interval(_) => self.offered_at <= self.now,
            };
            let has_room = self.in_flight + self.size <= self.controller.window();
            let rate = self.controller.pacing_rate(self.rtt.as_ref());
            assert!(rate != Some(Rate::ZERO), "bounds: a pacing rate of 0");
            let released = self.pacer.release(self.now, rate, self.size);
            let limit = match released {
                _ if !has_data => SendLimit::Application,
                _ if !has_room => SendLimit::Window,
                Err(release) => SendLimit::Pacer(release),
                Ok(()) => {
                    if let Offer::Interval(interval) = offer {
                        self.offered_at += interval;
                    }
                    self.transmit(fate);
                    continue;
                }
            };
            let may_send = has_room && released.is_ok();
            self.limitation.on_stopped(self.now, limit, self.round, may_send);
            return match limit {
                SendLimit::Pacer(release) => {
                    self.pacer.on_waiting();
                    Some(release.deadline())
                }
                _ => None,
            };
        }
    }

    fn transmit(&mut self, fate: &mut dyn FnMut(u64) -> Fate) {
        let (index, before) = (self.next_index, self.in_flight);
        self.next_index += 1;
        if self.limitation.take_application_limited(self.now) {
            self.sampler.on_application_limited(before);
        }
        let delivery = self.sampler.on_sent(self.now, self.size, before);
        let packet =
            SentPacket { index: SendIndex(index), bytes: self.size, sent_at: self.now, delivery };
        self.in_flight += self.size;
        self.flight.push_back(packet);
        self.pacer.on_sent(self.now, self.size);
        self.controller.on_sent(&packet, self.in_flight);
        self.check_bounds();
        self.set_probe();
        let fate = fate(index);
        if fate == Fate::Lost || self.free_at.saturating_since(self.now) > QUEUE {
            return;
        }
        let takes = RATE.time_for(self.size).expect("the rate is not 0");
        self.free_at = self.free_at.max(self.now) + takes;
        let late = if fate == Fate::Late { LATE } else { Duration::ZERO };
        let is_marked = fate == Fate::Marked;
        self.arrivals.push(Arrival { at: self.free_at + DELAY + late, index, is_marked });
    }

    /// Returns the time without a response after which a packet is sent regardless of the window
    /// (RFC 9002 §6.2.1).
    fn timeout(&self) -> Duration {
        let rtt = self.rtt.map_or(Duration::from_millis(333), |rtt| rtt.smoothed);
        rtt * 3 * 2_u32.pow(self.probes.min(6))
    }

    fn set_probe(&mut self) {
        self.probe_at = (self.in_flight > 0).then(|| self.now + self.timeout());
    }

    fn on_arrival(&mut self, arrival: &Arrival) {
        let index = SendIndex(arrival.index);
        if let Some(place) = self.lost.iter().position(|packet| packet.index == index) {
            let packet = self.lost.swap_remove(place);
            return self.on_late(packet);
        }
        let Some(place) = self.flight.iter().position(|packet| packet.index == index) else {
            return;
        };
        let packet = self.flight.remove(place).expect("the packet is in flight");
        self.probes = 0;
        let prior_in_flight = self.in_flight;
        self.largest_acked = self.largest_acked.max(Some(index));
        let prior_round = self.round;
        if arrival.index >= self.round_began_at {
            self.round += 1;
            self.round_began_at = self.next_index;
        }
        self.note_rtt(self.now.saturating_since(packet.sent_at));
        self.sampler.on_delivered(self.now, &packet);
        let lost = self.detect_losses();
        self.in_flight = self.flight.iter().map(|packet| packet.bytes).sum();
        let persistent = self.is_persistent(&lost);
        self.report(&[packet], &lost, prior_in_flight, prior_round, arrival.is_marked, persistent);
        self.set_probe();
    }

    fn note_rtt(&mut self, latest: Duration) {
        let rtt = self.rtt.map_or(
            RttSnapshot {
                latest,
                smoothed: latest,
                minimum: latest,
                variation: latest / 2,
                is_new: true,
            },
            |rtt| RttSnapshot {
                latest,
                smoothed: (rtt.smoothed * 7 + latest) / 8,
                minimum: rtt.minimum.min(latest),
                variation: (rtt.variation * 3 + rtt.smoothed.abs_diff(latest)) / 4,
                is_new: true,
            },
        );
        self.rtt = Some(rtt);
    }

    fn detect_losses(&mut self) -> Vec<SentPacket> {
        let largest = self.largest_acked.map_or(0, |index| index.0);
        let mut lost = Vec::new();
        self.flight.retain(|packet| {
            let is_lost = packet.index.0 + REORDERING <= largest;
            if is_lost {
                lost.push(*packet);
            }
            !is_lost
        });
        lost.iter().for_each(|packet| self.sampler.on_lost(packet.bytes));
        self.lost.extend(&lost);
        lost
    }

    /// Returns whether everything sent over a long period was lost (RFC 9002 §7.6).
    fn is_persistent(&self, lost: &[SentPacket]) -> bool {
        let (Some(first), Some(last), Some(rtt)) = (lost.first(), lost.last(), self.rtt) else {
            return false;
        };
        last.sent_at.saturating_since(first.sent_at) > rtt.smoothed * 9
    }

    fn report(
        &mut self,
        acked: &[SentPacket],
        lost: &[SentPacket],
        prior_in_flight: u64,
        prior_round: u64,
        is_marked: bool,
        persistent_congestion: bool,
    ) {
        let held = self.limitation.take(self.now, prior_round, self.round);
        let event = Acknowledgement {
            now: self.now,
            acked,
            lost,
            next_index: SendIndex(self.next_index),
            largest_acked: self.largest_acked,
            rtt: self.rtt,
            prior_in_flight,
            bytes_in_flight: self.in_flight,
            persistent_congestion,
            newly_ce_marked: is_marked.into(),
            rate_sample: self.sampler.sample(self.rtt.map(|rtt| rtt.minimum)),
            total_delivered: self.sampler.delivered(),
            total_lost: self.sampler.lost(),
            round: self.round,
            was_limited: held.was_limited,
            was_window_limited: held.was_window_limited,
            limited_time: held.limited_time,
        };
        let response = self.controller.on_acknowledgement(&event);
        self.check_bounds();
        self.check_response(&event, response);
        self.check_growth(&event, response);
        self.still_lost += lost.len() as u64;
        self.pacer.on_rate(self.now, self.controller.pacing_rate(self.rtt.as_ref()));
        if self.in_flight == 0 && self.controller.bursts_after_idle() {
            self.pacer.on_quiet(self.now);
        }
    }

    fn check_bounds(&self) {
        let (now, window, snapshot) =
            (self.now, self.controller.window(), self.controller.snapshot());
        let least = 2 * self.size;
        assert!(window >= least, "bounds: at {now:?} the window is {window} bytes, below {least}");
        let most = self.maximum_window;
        assert!(window <= most, "bounds: at {now:?} the window is {window} bytes, above {most}");
        assert_eq!(
            snapshot.window, window,
            "bounds: the snapshot reports a different window at {now:?}"
        );
    }

    fn check_response(&mut self, event: &Acknowledgement<'_>, response: CongestionResponse) {
        let now = self.now;
        let is_after = |boundary: u64| {
            event.lost.iter().any(|packet| packet.index.0 >= boundary)
                || event.newly_ce_marked > 0 && event.largest_acked >= Some(SendIndex(boundary))
        };
        let is_congested = !event.lost.is_empty() || event.newly_ce_marked > 0;
        let is_reduced = response == CongestionResponse::Reduced;
        assert!(
            is_congested || !is_reduced,
            "response: a reduction without congestion, at {now:?}"
        );
        if !event.persistent_congestion {
            // An episode that was undone may begin again, so its boundary may already be known.
            let may_be_known = !is_after(self.boundary_before.max(self.boundary));
            let must_be_known = !is_after(self.boundary.min(self.boundary_before));
            assert!(
                is_reduced || may_be_known,
                "response: no reduction for new congestion, at {now:?}"
            );
            assert!(!is_reduced || !must_be_known, "response: repeated, at {now:?}");
        }
        if is_reduced {
            self.responses += 1;
            self.boundary = self.next_index;
            self.boundary_before = self.next_index;
            self.still_lost = 0;
        }
        let counted = self.controller.snapshot().congestion_events;
        let responses = self.responses;
        assert!(counted == responses || counted == 0, "response: {counted} of {responses} counted");
    }

    fn check_growth(&mut self, event: &Acknowledgement<'_>, response: CongestionResponse) {
        let (now, window) = (self.now, self.controller.window());
        let grown = window.saturating_sub(self.largest);
        assert!(
            event.was_limited || grown == 0,
            "growth: {grown} bytes although the window did not limit sending, at {now:?}"
        );
        // This is the window that the response leads to, if the controller reports it.
        let threshold = self.controller.snapshot().slow_start_threshold;
        self.largest = match (response, threshold) {
            (CongestionResponse::Reduced, Some(threshold)) => window.max(threshold),
            _ => window.max(self.largest),
        };
    }

    fn on_late(&mut self, packet: SentPacket) {
        if packet.index.0 >= self.boundary {
            return;
        }
        self.still_lost = self.still_lost.saturating_sub(1);
        self.controller.on_spurious_loss(&SpuriousLoss {
            now: self.now,
            packet,
            still_lost: self.still_lost,
            total_delivered: self.sampler.delivered(),
        });
        self.check_bounds();
        self.largest = self.largest.max(self.controller.window());
        if self.still_lost == 0 {
            // The response may have been undone, in which case packets sent before it count as new
            // again.
            self.boundary_before = 0;
        }
    }
}
