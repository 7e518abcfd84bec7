//! A sender in virtual time, for testing the controllers.
//!
//! The sender has its own ledger, reports to the controller what a transport would, and checks
//! every event of every test against the invariants (S3 to S6, S16, and the bounds of RFC 9937).

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_units::Timestamp;

mod recovery;
pub(crate) mod response;

use recovery::Recovery;

use crate::{
    Acknowledgement, Algorithm, Controller, ControllerFactory, ControllerParameters,
    DeliverySnapshot, Phase, Quantity, RttSnapshot, SendIndex, SentPacket, Snapshot, SpuriousLoss,
};

pub(crate) const SIZE: u64 = 1200;
pub(crate) const MAXIMUM_WINDOW: u64 = 100_000 * SIZE;

/// The controllers that [`Sender`] supports: those that respond to each loss episode with one
/// window reduction.
pub(crate) const LOSS_BASED: [Algorithm; 2] = [Algorithm::Reno, Algorithm::Cubic];

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) fn parameters(initial_window: Option<u64>) -> ControllerParameters {
    let (max_datagram_size, maximum_window) = (SIZE, MAXIMUM_WINDOW);
    ControllerParameters { max_datagram_size, initial_window, maximum_window, seed: 1 }
}

/// The outcome of a packet in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Acked,
    Lost,
    Waits,
}

/// The contents of an event in addition to the outcomes of packets.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Report {
    pub(crate) ce_marked: u64,
    pub(crate) persistent_congestion: bool,
}

#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) now: Timestamp,
    pub(crate) rtt: Duration,
    pub(crate) flight: Vec<SentPacket>,
    pub(crate) lost: Vec<SentPacket>,
    pub(crate) round: u64,
    in_flight: u64,
    next_index: u64,
    /// The sender's own record of the recovery boundary.
    boundary: u64,
    boundary_before: u64,
    largest_acked: Option<SendIndex>,
    round_began_at: u64,
    held_since: Option<Timestamp>,
    held: Duration,
    limited_round: Option<u64>,
    recovery: Option<Recovery>,
    pub(crate) maximum_window: u64,
    /// Whether acknowledgments provide no RTT sample.
    pub(crate) hides_rtt: bool,
}

impl Sender {
    pub(crate) fn new(controller: Box<dyn Controller>, rtt: Duration) -> Self {
        Self {
            controller,
            now: Timestamp::from_nanos(7),
            rtt,
            flight: Vec::new(),
            lost: Vec::new(),
            round: 0,
            in_flight: 0,
            next_index: 0,
            boundary: 0,
            boundary_before: 0,
            largest_acked: None,
            round_began_at: 0,
            held_since: None,
            held: Duration::ZERO,
            limited_round: None,
            recovery: None,
            maximum_window: MAXIMUM_WINDOW,
            hides_rtt: false,
        }
    }

    /// Creates a sender with `algorithm`, in congestion avoidance with a window of `datagrams`.
    pub(crate) fn avoiding(algorithm: Algorithm, datagrams: u64, rtt: Duration) -> Self {
        let beta = if algorithm == Algorithm::Reno { 2.0 } else { 1.0 / 0.7 };
        let initial = ((datagrams * SIZE) as f64 * beta).round() as u64;
        let mut sender = Self::new(algorithm.build(&parameters(Some(initial))), rtt);
        sender.fill();
        sender.wait(rtt);
        sender.settle_one(Fate::Lost);
        sender.acknowledge_all();
        sender.fill();
        sender.wait(rtt);
        sender.acknowledge_first(1);
        assert_eq!(sender.snapshot().phase, Phase::CongestionAvoidance);
        let (window, expected) = (sender.window(), datagrams * SIZE);
        assert!(
            window.abs_diff(expected) <= SIZE / 2,
            "{algorithm}: a loss reduced the window from {initial} to {window} bytes, expected \
             {expected} within {} (half a datagram)",
            SIZE / 2
        );
        sender
    }

    pub(crate) fn window(&self) -> u64 {
        self.controller.window()
    }

    pub(crate) fn datagrams(&self) -> f64 {
        self.window() as f64 / SIZE as f64
    }

    /// Returns the window; in recovery, the window at its end.
    pub(crate) fn target(&self) -> u64 {
        target(&self.snapshot())
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.controller.snapshot()
    }

    pub(crate) fn metrics(&self) -> BTreeMap<&'static str, Quantity> {
        metrics(&*self.controller)
    }

    pub(crate) fn next_index(&self) -> u64 {
        self.next_index
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn send_one(&mut self) {
        self.in_flight += SIZE;
        let packet = SentPacket {
            index: SendIndex(self.next_index),
            bytes: SIZE,
            sent_at: self.now,
            delivery: DeliverySnapshot::default(),
        };
        self.next_index += 1;
        self.flight.push(packet);
        let before = self.window();
        self.controller.on_sent(&packet, self.in_flight);
        assert_eq!(self.window(), before, "sending changes nothing (S6)");
        if let Some(recovery) = &mut self.recovery {
            recovery.on_sent(packet.bytes);
        }
    }

    /// Sends one datagram whether or not the window allows it, as when the probe timer expires.
    pub(crate) fn probe(&mut self) {
        if let Some(recovery) = &mut self.recovery {
            recovery.on_probe(SIZE);
        }
        self.send_one();
    }

    fn has_room(&self) -> bool {
        self.in_flight + SIZE <= self.window()
    }

    /// Sends until the window is full; more data remains waiting.
    pub(crate) fn fill(&mut self) {
        while self.has_room() {
            self.send_one();
        }
        self.held_since = self.held_since.or(Some(self.now));
        self.limited_round = Some(self.round);
    }

    /// Sends `datagrams` datagrams if the window allows it, and leaves no data waiting.
    pub(crate) fn send(&mut self, datagrams: u64) {
        for _ in 0..datagrams {
            if !self.has_room() {
                break;
            }
            self.send_one();
        }
        if let Some(since) = self.held_since.take() {
            self.held += self.now.saturating_since(since);
        }
    }

    /// Acknowledges everything in flight in one event.
    pub(crate) fn acknowledge_all(&mut self) {
        self.settle(Report::default(), |_| Fate::Acked);
    }

    /// Acknowledges the oldest packets in flight in one event.
    pub(crate) fn acknowledge_first(&mut self, count: usize) {
        let prior_in_flight = self.in_flight;
        let acked: Vec<_> = self.flight.drain(..count.min(self.flight.len())).collect();
        self.in_flight -= acked.iter().map(|packet| packet.bytes).sum::<u64>();
        self.tell(Report::default(), prior_in_flight, &acked, &[]);
    }

    /// Makes every packet in flight `bytes` bytes long.
    pub(crate) fn resize_flight(&mut self, bytes: u64) {
        self.flight.iter_mut().for_each(|packet| packet.bytes = bytes);
        self.in_flight = bytes * self.flight.len() as u64;
    }

    /// Applies `fate` to the oldest packet in flight, in a separate event.
    pub(crate) fn settle_one(&mut self, fate: Fate) {
        let first = self.flight.first().map(|packet| packet.index);
        self.settle(Report::default(), |packet| match Some(packet.index) == first {
            true => fate,
            false => Fate::Waits,
        });
    }

    /// Runs a backlogged round without loss: everything in flight is acknowledged a round-trip time
    /// later, `batch` packets at a time, and new packets are sent on each acknowledgment.
    pub(crate) fn clean_round(&mut self, batch: usize) {
        self.fill();
        self.wait(self.rtt);
        let mut left = self.flight.len();
        while left > 0 {
            let now = left.min(batch);
            self.acknowledge_first(now);
            left -= now;
            self.fill();
        }
    }

    /// Processes one event: decides the outcome of every packet in flight, and passes on `report`.
    pub(crate) fn settle(&mut self, report: Report, mut fate: impl FnMut(&SentPacket) -> Fate) {
        let prior_in_flight = self.in_flight;
        let (mut acked, mut lost) = (Vec::new(), Vec::new());
        self.flight.retain(|packet| {
            let fate = fate(packet);
            match fate {
                Fate::Acked => acked.push(*packet),
                Fate::Lost => lost.push(*packet),
                Fate::Waits => {}
            }
            fate == Fate::Waits
        });
        self.in_flight = self.flight.iter().map(|packet| packet.bytes).sum();
        self.lost.extend(&lost);
        self.tell(report, prior_in_flight, &acked, &lost);
    }

    fn tell(
        &mut self,
        report: Report,
        prior_in_flight: u64,
        acked: &[SentPacket],
        lost: &[SentPacket],
    ) {
        let prior_round = self.round;
        if let Some(last) = acked.last() {
            self.largest_acked = self.largest_acked.max(Some(last.index));
            if last.index.0 >= self.round_began_at {
                self.round += 1;
                self.round_began_at = self.next_index;
            }
        }
        let (was_limited, limited_time) = self.take_limited(prior_round);
        let event = Acknowledgement {
            now: self.now,
            acked,
            lost,
            next_index: SendIndex(self.next_index),
            largest_acked: self.largest_acked,
            rtt: self
                .largest_acked
                .filter(|_| !self.hides_rtt)
                .map(|_| self.rtt_snapshot(!acked.is_empty())),
            prior_in_flight,
            bytes_in_flight: self.in_flight,
            persistent_congestion: report.persistent_congestion,
            newly_ce_marked: report.ce_marked,
            rate_sample: None,
            total_delivered: 0,
            total_lost: 0,
            round: self.round,
            was_limited,
            was_window_limited: was_limited,
            limited_time,
        };
        let before = self.snapshot();
        self.controller.on_acknowledgement(&event);
        self.check(&before, &event);
    }

    fn take_limited(&mut self, prior_round: u64) -> (bool, Duration) {
        let mut time = core::mem::take(&mut self.held);
        if let Some(since) = &mut self.held_since {
            time += self.now.saturating_since(*since);
            *since = self.now;
            self.limited_round = Some(prior_round);
        }
        (self.limited_round.is_some_and(|limited| limited + 1 >= self.round), time)
    }

    pub(crate) fn rtt_snapshot(&self, is_new: bool) -> RttSnapshot {
        RttSnapshot {
            latest: self.rtt,
            smoothed: self.rtt,
            minimum: self.rtt,
            variation: Duration::ZERO,
            is_new,
        }
    }

    fn check(&mut self, before: &Snapshot, event: &Acknowledgement<'_>) {
        let after = self.snapshot();
        let bounds = after.minimum_window..=self.maximum_window.max(after.minimum_window);
        assert!(bounds.contains(&after.window), "S3: {after:?}");
        let is_new = event.lost.iter().any(|packet| packet.index.0 >= self.boundary)
            || (event.newly_ce_marked > 0 && event.largest_acked >= Some(SendIndex(self.boundary)));
        let cuts = after.congestion_events - before.congestion_events;
        if event.persistent_congestion {
            assert!(cuts <= 1);
        } else {
            assert_eq!(
                cuts,
                u64::from(is_new),
                "S4, S16: one reduction per recovery period: {event:?}"
            );
        }
        if cuts == 1 {
            self.boundary_before = core::mem::replace(&mut self.boundary, self.next_index);
            assert!(target(&after) <= target(before));
            let least = if event.persistent_congestion { 0 } else { target(before) / 2 };
            assert!(target(&after) + SIZE >= least, "S4: {before:?} {after:?}");
            self.recovery = None;
        } else {
            let acked: u64 = event.acked.iter().map(|packet| packet.bytes).sum();
            let grown = target(&after).checked_sub(target(before)).expect("S6: never smaller");
            assert!(grown <= acked, "S6: {grown} > {acked}");
            assert!(event.was_limited || grown == 0, "S6: growth without a full window");
        }
        self.check_recovery(&after, event);
        for (suppressor, since) in after.suppressors.active() {
            assert!(since <= event.round, "S5: {suppressor:?} since {since}");
        }
    }

    /// Checks the limits of PRR while an episode is open, and that none of its state remains after
    /// the episode.
    fn check_recovery(&mut self, after: &Snapshot, event: &Acknowledgement<'_>) {
        if after.phase != Phase::Recovery {
            self.recovery = None;
            return;
        }
        let least = after.minimum_window;
        let recovery = self.recovery.get_or_insert_with(|| Recovery::new(event, least));
        recovery.check(after, event, self.maximum_window);
    }

    /// Reports that a packet declared lost arrived after all; `still_lost` other packets have not
    /// arrived.
    pub(crate) fn arrives_late(&mut self, packet: SentPacket, still_lost: u64) {
        let before = self.snapshot();
        self.controller.on_spurious_loss(&SpuriousLoss {
            now: self.now,
            packet,
            still_lost,
            total_delivered: 0,
        });
        let after = self.snapshot();
        assert!(target(&after) >= target(&before), "S14");
        let undone = after.undone_events - before.undone_events;
        assert!(undone == 0 || (still_lost == 0 && undone == 1), "S14");
        if undone == 1 {
            self.boundary = self.boundary_before;
            self.recovery = None;
            assert_ne!(after.phase, Phase::Recovery);
        } else {
            assert_eq!(after.window, before.window);
        }
    }
}

/// Returns the metrics that a controller reports, by name.
pub(crate) fn metrics(controller: &dyn Controller) -> BTreeMap<&'static str, Quantity> {
    let mut metrics = BTreeMap::new();
    controller.metrics(&mut |metric| {
        assert!(metrics.insert(metric.name, metric.quantity).is_none(), "{}: twice", metric.name);
    });
    metrics
}

fn target(snapshot: &Snapshot) -> u64 {
    match (snapshot.phase, snapshot.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold.max(snapshot.minimum_window),
        _ => snapshot.window,
    }
}
