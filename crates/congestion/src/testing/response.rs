//! The response function: a controller's average window at a given loss rate.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::Timestamp;

use super::{SIZE, parameters};
use crate::{
    Acknowledgement, Algorithm, Controller, ControllerFactory, DeliverySnapshot, RttSnapshot,
    SendIndex, SentPacket,
};

/// The number of bursts in a flight. Each burst is acknowledged by one event, so that the time to
/// compute a cycle does not depend on the window.
const BURSTS: u64 = 32;

/// Packets sent back to back and acknowledged together. Packets are numbered from zero.
#[derive(Clone, Copy, Debug)]
struct Burst {
    index: u64,
    first: u64,
    packets: u64,
    sent_at: Timestamp,
}

#[derive(Debug)]
struct Path {
    controller: Box<dyn Controller>,
    rtt: Duration,
    now: Timestamp,
    flight: VecDeque<Burst>,
    in_flight: u64,
    bursts: u64,
    packets: u64,
    round: u64,
    round_began_at: u64,
    told_at: Timestamp,
}

/// Returns the average window in datagrams (packets sent per round-trip time) in the model of RFC
/// 9438 §5.1 and appendix A: the path has unlimited capacity, data always waits, and `distance`
/// returns the number of packets from one loss to the next. The first `settling` losses do not
/// count, and the run ends after `losses` more.
pub(crate) fn average_window(
    algorithm: Algorithm,
    rtt: Duration,
    mut distance: impl FnMut() -> u64,
    settling: u32,
    losses: u32,
) -> f64 {
    let mut path = Path::new(algorithm.build(&parameters(Some(BURSTS * SIZE))), rtt);
    // Congestion avoidance begins with the loss of the first packet.
    let mut next_loss = 0;
    let mut counted = (0, path.now);
    for loss in 0..=settling + losses {
        if loss == settling + 1 {
            counted = (path.packets, path.now);
        }
        while !path.step(next_loss) {}
        next_loss += distance();
    }
    let rounds = path.now.saturating_since(counted.1).as_secs_f64() / rtt.as_secs_f64();
    (path.packets - counted.0) as f64 / rounds
}

impl Path {
    fn new(controller: Box<dyn Controller>, rtt: Duration) -> Self {
        let now = Timestamp::from_nanos(1);
        let mut path = Self {
            controller,
            rtt,
            now,
            flight: VecDeque::new(),
            in_flight: 0,
            bursts: 0,
            packets: 0,
            round: 0,
            round_began_at: 0,
            told_at: now,
        };
        for _ in 0..BURSTS {
            path.send(1);
            path.now += rtt / BURSTS as u32;
        }
        path
    }

    fn send(&mut self, packets: u64) {
        let burst = Burst { index: self.bursts, first: self.packets, packets, sent_at: self.now };
        self.bursts += 1;
        self.packets += packets;
        self.in_flight += packets * SIZE;
        self.flight.push_back(burst);
        self.controller.on_sent(&sent(&burst, packets), self.in_flight);
    }

    /// Acknowledges the oldest burst, except for one packet if the burst contains the packet
    /// `lost`. Returns whether it does.
    fn step(&mut self, lost: u64) -> bool {
        let burst = self.flight.pop_front().expect("something is always in flight");
        self.now = self.now.max(burst.sent_at + self.rtt);
        // Two losses in one burst are counted as one loss in each of two bursts.
        let is_hit = lost < burst.first + burst.packets;
        let acked = sent(&burst, burst.packets - u64::from(is_hit));
        self.tell(&acked, is_hit.then(|| sent(&burst, 1)));
        let room = self.controller.window().saturating_sub(self.in_flight) / SIZE;
        if room > 0 {
            self.send(room);
        }
        is_hit
    }

    fn tell(&mut self, acked: &SentPacket, lost: Option<SentPacket>) {
        let prior_in_flight = self.in_flight;
        self.in_flight -= acked.bytes + lost.map_or(0, |packet| packet.bytes);
        if acked.index.0 >= self.round_began_at {
            self.round += 1;
            self.round_began_at = self.bursts;
        }
        let rtt = RttSnapshot {
            latest: self.rtt,
            smoothed: self.rtt,
            minimum: self.rtt,
            variation: Duration::ZERO,
            is_new: true,
        };
        self.controller.on_acknowledgement(&Acknowledgement {
            now: self.now,
            acked: core::slice::from_ref(acked),
            lost: lost.as_slice(),
            next_index: SendIndex(self.bursts),
            largest_acked: Some(acked.index),
            rtt: Some(rtt),
            prior_in_flight,
            bytes_in_flight: self.in_flight,
            persistent_congestion: false,
            newly_ce_marked: 0,
            rate_sample: None,
            total_delivered: 0,
            total_lost: 0,
            round: self.round,
            was_limited: true,
            was_window_limited: true,
            limited_time: self.now.saturating_since(self.told_at),
        });
        self.told_at = self.now;
    }
}

/// Returns `packets` of the burst's packets as a single packet, because the controller counts
/// bytes.
fn sent(burst: &Burst, packets: u64) -> SentPacket {
    SentPacket {
        index: SendIndex(burst.index),
        bytes: packets * SIZE,
        sent_at: burst.sent_at,
        delivery: DeliverySnapshot::default(),
    }
}
