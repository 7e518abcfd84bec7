//! Simulates one BBR flow over one path in virtual time, packet by packet.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use clearway_units::{Rate, Timestamp};

use super::link::Link;
use super::parameters_of;
use crate::bbr::Bbr;
use crate::bbr::state::BbrState;
use crate::testing::{SIZE, ms};
use crate::{
    Acknowledgement, Controller, DeliveryRateSampler, Pacer, RttSnapshot, SendIndex, SentPacket,
    SpuriousLoss,
};

const MAXIMUM_ACK_DELAY: Duration = ms(25);

/// The data that the application provides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Application {
    /// The application has more data than the network can carry.
    Backlog,
    /// The application has this many more bytes.
    Bytes(u64),
    /// The application provides a datagram whenever the rate allows one; the next is available at
    /// the given time.
    Limited(Rate, Timestamp),
    /// The application has no data.
    Paused,
}

/// When and how BBR entered a state: the bytes in flight after the ACK, and the round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entered {
    pub(super) at: Timestamp,
    pub(super) state: BbrState,
    pub(super) in_flight: u64,
    pub(super) round: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Outstanding,
    Acked,
    Lost { event: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Arrives(u64),
    Acknowledged,
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) now: Timestamp,
    pub(super) bbr: Bbr,
    pub(super) link: Link,
    /// Whether packets are declared lost only by the time threshold, increased by 60 ms.
    pub(super) tolerates_reordering: bool,
    pub(super) application: Application,
    /// The states that BBR has been in.
    pub(super) history: Vec<Entered>,
    /// The number of bytes that arrived.
    pub(super) arrived: u64,
    pub(super) lost_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) in_flight: u64,
    pub(super) last_rate: Rate,
    pub(super) samples_are_limited: bool,
    pub(super) srtt: Option<Duration>,
    sampler: DeliveryRateSampler,
    pacer: Pacer,
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    sequence: u64,
    received: VecDeque<(u64, Timestamp)>,
    ledger: VecDeque<(SentPacket, Fate)>,
    first: u64,
    /// The index before which no packet is outstanding.
    settled_below: u64,
    largest_acked: Option<SendIndex>,
    first_sample_at: Option<Timestamp>,
    variation: Duration,
    latest_rtt: Duration,
    minimum_rtt: Duration,
    round: u64,
    round_began_at: u64,
    loss_time: Option<Timestamp>,
    probe_base: Timestamp,
    probes: u32,
    release_at: Option<Timestamp>,
    limited_round: Option<u64>,
    window_limited_round: Option<u64>,
    is_application_limited: bool,
    event: u64,
    episode_began: u64,
    still_lost: u64,
}

impl Path {
    pub(super) fn new(link: Link, seed: u64) -> Self {
        let now = Timestamp::from_nanos(1_000_000_007);
        Self {
            now,
            bbr: Bbr::new(&parameters_of(seed)),
            link,
            tolerates_reordering: false,
            application: Application::Backlog,
            history: vec![Entered { at: now, state: BbrState::Startup, in_flight: 0, round: 0 }],
            arrived: 0,
            lost_bytes: 0,
            sent_bytes: 0,
            in_flight: 0,
            last_rate: Rate::ZERO,
            samples_are_limited: false,
            srtt: None,
            sampler: DeliveryRateSampler::new(now),
            pacer: Pacer::new(now, SIZE),
            events: BinaryHeap::new(),
            sequence: 0,
            received: VecDeque::new(),
            ledger: VecDeque::new(),
            first: 0,
            settled_below: 0,
            largest_acked: None,
            first_sample_at: None,
            variation: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            minimum_rtt: Duration::MAX,
            round: 0,
            round_began_at: 0,
            loss_time: None,
            probe_base: now,
            probes: 0,
            release_at: None,
            limited_round: None,
            window_limited_round: None,
            is_application_limited: false,
            event: 0,
            episode_began: 0,
            still_lost: 0,
        }
    }

    pub(super) fn state(&self) -> BbrState {
        self.bbr.state
    }

    pub(super) fn next_index(&self) -> u64 {
        self.first + self.ledger.len() as u64
    }

    fn schedule(&mut self, at: Timestamp, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Runs until `condition` holds; panics if this takes longer than `limit`.
    pub(super) fn run_until(&mut self, limit: Duration, condition: impl Fn(&Self) -> bool) {
        let end = self.now + limit;
        self.transmit();
        while !condition(self) {
            assert!(self.now < end, "not within {limit:?}: {:?} {:?}", self.history, self.bbr);
            self.step(end);
        }
    }

    pub(super) fn run_to_state(&mut self, state: BbrState) {
        self.run_until(Duration::from_secs(60), |path| path.state() == state);
    }

    /// Makes the application produce datagrams at `rate` from this point on.
    pub(super) fn limit(&mut self, rate: Rate) {
        self.application = Application::Limited(rate, self.now);
    }

    /// Runs until BBR leaves `state`, and returns how it entered the next one.
    pub(super) fn run_out_of(&mut self, state: BbrState) -> Entered {
        assert_eq!(self.state(), state);
        self.run_until(Duration::from_secs(60), |path| path.state() != state);
        *self.history.last().unwrap()
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.transmit();
        while self.now < end {
            self.step(end);
        }
    }

    /// Returns the bytes per second that arrive over the next `time`.
    pub(super) fn goodput(&mut self, time: Duration) -> f64 {
        let (before, began) = (self.arrived, self.now);
        self.run_for(time);
        (self.arrived - before) as f64 / self.now.saturating_since(began).as_secs_f64()
    }

    fn step(&mut self, end: Timestamp) {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let due = [event, self.release_at, self.loss_time, self.probe_at(), self.data_at()];
        let next = due.into_iter().flatten().min().unwrap_or(end).min(end);
        assert!(next >= self.now);
        self.now = next;
        if event.is_some_and(|at| at <= next) {
            let Some(Reverse((_, _, event))) = self.events.pop() else { unreachable!() };
            match event {
                Event::Arrives(index) => self.arrives(index),
                Event::Acknowledged => self.acknowledged(),
            }
        } else if self.loss_time.is_some_and(|at| at <= next) {
            let prior = self.in_flight;
            self.settle(&[], prior);
        } else if self.probe_at().is_some_and(|at| at <= next) {
            self.probes += 1;
            self.send();
            self.send();
        }
        self.transmit();
    }

    fn data_at(&self) -> Option<Timestamp> {
        match self.application {
            Application::Limited(_, at) if at > self.now => Some(at),
            _ => None,
        }
    }

    fn probe_timeout(&self) -> Duration {
        match self.srtt {
            Some(srtt) => srtt + (4 * self.variation).max(ms(1)) + MAXIMUM_ACK_DELAY,
            None => ms(999),
        }
    }

    fn probe_at(&self) -> Option<Timestamp> {
        let is_armed = self.in_flight > 0 && self.loss_time.is_none();
        is_armed.then(|| self.probe_base + self.probe_timeout() * (1 << self.probes.min(10)))
    }

    fn has_data(&self) -> bool {
        match self.application {
            Application::Backlog => true,
            Application::Bytes(bytes) => bytes > 0,
            Application::Limited(_, at) => at <= self.now,
            Application::Paused => false,
        }
    }

    fn rtt_snapshot(&self, is_new: bool) -> Option<RttSnapshot> {
        self.srtt.map(|smoothed| RttSnapshot {
            latest: self.latest_rtt,
            smoothed,
            minimum: self.minimum_rtt,
            variation: self.variation,
            is_new,
        })
    }

    fn transmit(&mut self) {
        self.release_at = None;
        loop {
            let has_room = self.in_flight + SIZE <= self.bbr.window();
            let rate = self.bbr.pacing_rate(self.rtt_snapshot(false).as_ref());
            let release = self.pacer.release(self.now, rate, SIZE);
            if !self.has_data() {
                self.is_application_limited = has_room && release.is_ok();
                if self.is_application_limited {
                    self.sampler.on_application_limited(self.in_flight);
                }
                return;
            }
            self.is_application_limited = false;
            if !has_room {
                self.window_limited_round = Some(self.round);
            }
            if !has_room || release.is_err() {
                self.limited_round = Some(self.round);
                self.release_at = release.err().filter(|_| has_room).map(|at| at.deadline());
                if self.release_at.is_some() {
                    self.pacer.on_waiting();
                }
                return;
            }
            match &mut self.application {
                Application::Bytes(bytes) => *bytes = bytes.saturating_sub(SIZE),
                Application::Limited(rate, at) => *at += rate.time_for(SIZE).unwrap(),
                _ => {}
            }
            self.send();
        }
    }

    fn send(&mut self) {
        if core::mem::take(&mut self.is_application_limited) {
            self.sampler.on_application_limited(self.in_flight);
        }
        let delivery = self.sampler.on_sent(self.now, SIZE, self.in_flight);
        let index = SendIndex(self.next_index());
        let packet = SentPacket { index, bytes: SIZE, sent_at: self.now, delivery };
        self.in_flight += SIZE;
        self.sent_bytes += SIZE;
        self.probe_base = self.now;
        self.ledger.push_back((packet, Fate::Outstanding));
        self.pacer.on_sent(self.now, SIZE);
        let window = self.bbr.window();
        self.bbr.on_sent(&packet, self.in_flight);
        assert!(self.bbr.window() >= window);
        if let Some(at) = self.link.carry(self.now, index.0, SIZE) {
            self.schedule(at, Event::Arrives(index.0));
        }
    }

    fn arrives(&mut self, index: u64) {
        self.arrived += SIZE;
        self.received.push_back((index, self.now));
        if let Some(at) = self.link.answer(self.now) {
            self.schedule(at, Event::Acknowledged);
        }
    }

    /// Processes an ACK of everything that had been received when the ACK was sent.
    fn acknowledged(&mut self) {
        let prior = self.in_flight;
        let mut indexes = Vec::new();
        while let Some(&(index, at)) = self.received.front()
            && at + self.link.delay <= self.now
        {
            self.received.pop_front();
            indexes.push(index);
        }
        indexes.sort_unstable();
        let mut acked = Vec::new();
        for index in indexes {
            let Some(slot) = index.checked_sub(self.first) else { continue };
            let (packet, fate) = self.ledger[slot as usize];
            self.ledger[slot as usize].1 = Fate::Acked;
            self.sampler.on_delivered(self.now, &packet);
            self.largest_acked = self.largest_acked.max(Some(packet.index));
            if packet.index.0 >= self.round_began_at {
                self.round += 1;
                self.round_began_at = self.next_index();
            }
            match fate {
                Fate::Outstanding => {
                    self.in_flight -= SIZE;
                    acked.push(packet);
                }
                Fate::Lost { event } if event >= self.episode_began => self.arrives_late(packet),
                _ => {}
            }
        }
        if let Some(newest) = acked.last() {
            self.sample_rtt(self.now.saturating_since(newest.sent_at));
            self.probes = 0;
            self.probe_base = self.now;
        }
        self.settle(&acked, prior);
    }

    fn arrives_late(&mut self, packet: SentPacket) {
        self.still_lost -= 1;
        let (window, still_lost) = (self.bbr.window(), self.still_lost);
        let total_delivered = self.sampler.delivered();
        let event = SpuriousLoss { now: self.now, packet, still_lost, total_delivered };
        self.bbr.on_spurious_loss(&event);
        assert!(self.bbr.window() >= window, "S14");
        self.note_state();
    }

    fn sample_rtt(&mut self, rtt: Duration) {
        self.first_sample_at = self.first_sample_at.or(Some(self.now));
        self.latest_rtt = rtt;
        self.minimum_rtt = self.minimum_rtt.min(rtt);
        match self.srtt {
            Some(srtt) => {
                self.variation = (3 * self.variation + srtt.abs_diff(rtt)) / 4;
                self.srtt = Some((7 * srtt + rtt) / 8);
            }
            None => (self.srtt, self.variation) = (Some(rtt), rtt / 2),
        }
    }

    /// Detects lost packets, and returns whether the losses prove persistent congestion.
    fn detect_losses(&mut self) -> (Vec<SentPacket>, bool) {
        self.loss_time = None;
        let Some(largest) = self.largest_acked else { return (Vec::new(), false) };
        let (more, packets) =
            if self.tolerates_reordering { (ms(60), u64::MAX) } else { (ms(0), 3) };
        let threshold = self.srtt.unwrap_or(ms(333)).max(self.latest_rtt) * 9 / 8 + more;
        let (mut lost, mut is_persistent) = (Vec::new(), false);
        let mut run_began = None;
        let skipped = (self.settled_below.max(self.first) - self.first) as usize;
        for (packet, fate) in self.ledger.iter_mut().skip(skipped) {
            self.settled_below = packet.index.0;
            if packet.index >= largest {
                break;
            }
            if *fate == Fate::Acked {
                run_began = None;
            }
            if *fate != Fate::Outstanding {
                continue;
            }
            let late_at = packet.sent_at + threshold.max(ms(1));
            if packet.index.0.saturating_add(packets) > largest.0 && late_at > self.now {
                self.loss_time = Some(late_at);
                break;
            }
            *fate = Fate::Lost { event: self.event };
            lost.push(*packet);
            if self.first_sample_at.is_some_and(|at| packet.sent_at > at) {
                let began = *run_began.get_or_insert(packet.sent_at);
                let base = self.srtt.unwrap_or(ms(333)) + (4 * self.variation).max(ms(1));
                let span = packet.sent_at.saturating_since(began);
                is_persistent |= span > 3 * (base + MAXIMUM_ACK_DELAY);
            }
        }
        (lost, is_persistent)
    }

    fn settle(&mut self, acked: &[SentPacket], prior_in_flight: u64) {
        let (lost, persistent_congestion) = self.detect_losses();
        lost.iter().for_each(|packet| self.lose(packet.bytes));
        let rtt = self.rtt_snapshot(!acked.is_empty());
        let rate_sample = self.sampler.sample(rtt.map(|rtt| rtt.minimum));
        if let Some(sample) = rate_sample {
            (self.last_rate, self.samples_are_limited) =
                (sample.rate, sample.is_application_limited);
        }
        if !acked.is_empty() || !lost.is_empty() {
            let marked: Vec<_> =
                acked.iter().filter(|packet| self.link.marked.remove(&packet.index.0)).collect();
            let is_recent = |limited: u64| limited + 1 >= self.round;
            let event = Acknowledgement {
                now: self.now,
                acked,
                lost: &lost,
                next_index: SendIndex(self.next_index()),
                largest_acked: self.largest_acked,
                rtt,
                prior_in_flight,
                bytes_in_flight: self.in_flight,
                persistent_congestion,
                newly_ce_marked: marked.len() as u64,
                rate_sample,
                total_delivered: self.sampler.delivered(),
                total_lost: self.sampler.lost(),
                round: self.round,
                was_limited: self.limited_round.is_some_and(is_recent),
                was_window_limited: self.window_limited_round.is_some_and(is_recent),
                limited_time: Duration::ZERO,
            };
            self.tell(&event);
        }
        self.event += 1;
        self.forget();
    }

    fn lose(&mut self, lost: u64) {
        self.in_flight -= lost;
        self.lost_bytes += lost;
        self.sampler.on_lost(lost);
        if let Application::Bytes(bytes) = &mut self.application {
            *bytes += lost;
        }
    }

    fn tell(&mut self, event: &Acknowledgement<'_>) {
        let before = self.bbr.snapshot();
        self.bbr.on_acknowledgement(event);
        let after = self.bbr.snapshot();
        assert!(after.window >= 4 * SIZE, "S3");
        assert!(after.suppressors.active().all(|(_, since)| since <= event.round), "S5");
        assert!(self.bbr.pacing_rate(event.rtt.as_ref()) > Some(Rate::ZERO) || event.rtt.is_none());
        if after.congestion_events != before.congestion_events {
            assert_eq!(after.congestion_events, before.congestion_events + 1, "S4");
            self.episode_began = self.event;
            self.still_lost = 0;
        }
        self.still_lost += event.lost.len() as u64;
        self.note_state();
    }

    fn note_state(&mut self) {
        let (at, state, in_flight) = (self.now, self.bbr.state, self.in_flight);
        if self.history.last().is_none_or(|entered| entered.state != state) {
            self.history.push(Entered { at, state, in_flight, round: self.bbr.rounds.count });
        }
    }

    /// Removes acknowledged packets; losses are kept for three seconds.
    fn forget(&mut self) {
        while let Some((packet, fate)) = self.ledger.front() {
            let is_old = packet.sent_at + Duration::from_secs(3) < self.now;
            match fate {
                Fate::Acked => {}
                Fate::Lost { .. } if is_old => {}
                _ => break,
            }
            self.ledger.pop_front();
            self.first += 1;
        }
    }
}
