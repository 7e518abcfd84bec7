//! Builds traces event by event.

use core::time::Duration;

use crate::findings::{Finding, FindingId, FindingsBuilder};
use crate::read::{
    Blocked, BlockedUpdate, CongestionState, Event, EventKind, Frame, LossTrigger, Lost, Metrics,
    Packet, PacketType, Parameters, Reading,
};

pub(super) const DATAGRAM: u64 = 1200;
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(10);

pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns a metric of a finding by name.
pub(super) fn metric<'a>(finding: &'a Finding, name: &str) -> &'a str {
    let known = finding.metrics.iter().find(|(known, _)| *known == name);
    known.map_or_else(|| panic!("no {name:?} in {finding:?}"), |(_, value)| value)
}

/// Counts the words of a headline. A number with its unit counts as one word.
fn words(headline: &str) -> usize {
    headline.split_whitespace().filter(|word| !["s", "ms", "µs", "%"].contains(word)).count()
}

/// The trace of a server that sends a download.
pub(super) struct Story {
    builder: FindingsBuilder,
    pub(super) now: Duration,
    pub(super) next: u64,
    offset: u64,
    pub(super) window: u64,
    pub(super) in_flight: u64,
    pub(super) length: u64,
}

impl Story {
    /// Begins a connection whose handshake is complete, and whose window was larger before.
    pub(super) fn begin(window: u64) -> Self {
        let mut story = Self {
            builder: FindingsBuilder::default(),
            now: Duration::ZERO,
            next: 0,
            offset: 0,
            window: 0,
            in_flight: 0,
            length: DATAGRAM,
        };
        story.event(EventKind::PacketReceived(Packet {
            packet_type: PacketType::Initial,
            number: Some(0),
            length: Some(1200),
            frames: Some(vec![Frame::Crypto { offset: 0, length: Some(300) }]),
            ..Packet::default()
        }));
        story.event(EventKind::Parameters(Box::new(Parameters {
            is_local: Some(false),
            max_ack_delay: Some(ms(25)),
            max_idle_timeout: Some(Duration::from_secs(30)),
            ..Parameters::default()
        })));
        story.event(EventKind::ConnectionState("handshake_confirmed".into()));
        story.metrics(Metrics {
            smoothed_rtt: Some(ROUND_TRIP),
            latest_rtt: Some(ROUND_TRIP),
            minimum_rtt: Some(ROUND_TRIP),
            rtt_variation: Some(ms(1)),
            ..Metrics::default()
        });
        story.set_window(100 * DATAGRAM);
        story.set_window(window);
        story
    }

    pub(super) fn event(&mut self, kind: EventKind) {
        self.builder.on_event(&Event { at: self.now, kind });
    }

    pub(super) fn metrics(&mut self, metrics: Metrics) {
        self.event(EventKind::Metrics(Box::new(metrics)));
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.window = window;
        self.metrics(Metrics { congestion_window: Some(window), ..Metrics::default() });
    }

    pub(super) fn state(&mut self, state: CongestionState) {
        self.event(EventKind::CongestionState(state));
    }

    pub(super) fn blocked(&mut self, reason: Blocked) {
        let update = BlockedUpdate { stream: None, reason: Some(reason) };
        self.event(EventKind::Blocked(update));
    }

    fn log_in_flight(&mut self) {
        let bytes_in_flight = Some(self.in_flight);
        self.metrics(Metrics { bytes_in_flight, ..Metrics::default() });
    }

    /// Sends a packet with these frames.
    pub(super) fn send_frames(&mut self, frames: Vec<Frame>, length: u64) {
        let packet = Packet {
            packet_type: PacketType::OneRtt,
            number: Some(self.next),
            length: Some(length),
            frames: Some(frames),
            ..Packet::default()
        };
        self.next += 1;
        self.in_flight += length;
        self.event(EventKind::PacketSent(packet));
        self.log_in_flight();
    }

    pub(super) fn send(&mut self) {
        let length = self.length - 40;
        let frame =
            Frame::Stream { stream: 0, offset: self.offset, length: Some(length), is_last: false };
        self.offset += length;
        self.send_frames(vec![frame], self.length);
    }

    /// Sends as much as the window allows.
    pub(super) fn fill(&mut self) {
        while self.in_flight + self.length <= self.window {
            self.send();
        }
    }

    pub(super) fn receive(&mut self, frames: Vec<Frame>) {
        self.event(EventKind::PacketReceived(Packet {
            packet_type: PacketType::OneRtt,
            number: Some(0),
            length: Some(40),
            frames: Some(frames),
            ..Packet::default()
        }));
    }

    /// Acknowledges these packets, of `length` each, after `delay`.
    pub(super) fn acknowledge(&mut self, first: u64, last: u64, delay: Duration) {
        let ack =
            Frame::Ack { ranges: vec![first..=last], delay: Some(delay), ce: None, ect: None };
        self.receive(vec![ack]);
        let bytes = (last - first + 1) * self.length;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.log_in_flight();
    }

    /// Reports a total of `ce` ECN-CE marks, without acknowledging anything new.
    pub(super) fn mark(&mut self, ce: u64) {
        let (ranges, delay) = (vec![0..=0], Some(Duration::ZERO));
        self.receive(vec![Frame::Ack { ranges, delay, ce: Some(ce), ect: None }]);
    }

    pub(super) fn lose(&mut self, number: u64) {
        self.event(EventKind::PacketLost(Lost {
            packet_type: PacketType::OneRtt,
            number: Some(number),
            trigger: Some(LossTrigger::ReorderingThreshold),
            ..Lost::default()
        }));
        self.in_flight = self.in_flight.saturating_sub(self.length);
        self.log_in_flight();
    }

    /// Fills the window and acknowledges everything one round trip later.
    pub(super) fn round(&mut self) {
        let first = self.next;
        self.fill();
        self.now += ROUND_TRIP;
        self.acknowledge(first, self.next - 1, Duration::ZERO);
    }

    pub(super) fn finish(self) -> Vec<Finding> {
        let findings = self.builder.finish(Reading::default()).findings;
        for Finding { headline, .. } in &findings {
            assert!(words(headline) <= 12, "more than twelve words: {headline:?}");
        }
        findings
    }

    pub(super) fn finds(self) -> Vec<FindingId> {
        self.finish().iter().map(|finding| finding.id).collect()
    }
}
