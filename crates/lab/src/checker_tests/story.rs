//! A hand-written event sequence, as observed at a server that sends a download.

use core::time::Duration;

use clearway_congestion::{Phase, RateSample, RttSnapshot, Snapshot, Suppressor, Suppressors};
use clearway_network::{Ecn, LinkConfig};
use clearway_transport::{
    ConnectionState, EcnCodepoint, LossThresholds, LossTrigger, LostPacket, Metrics, Observation,
    Observer, PacketObservation, SendLimit, SpaceId, TimerChange, TimerKind,
};
use clearway_units::{Rate, ReleaseTime, Timestamp};
use clearway_wire::{ConnectionId, PacketNumber, PacketType, TransportParameters, VarInt};
use clearway_wire::{Frame, Writer, frame};

use crate::checker::{Checker, Property};
use crate::end::{EndId, Side};
use crate::setup::{EndSetup, Flow, SessionKind, Setup, Traffic, Turns};

pub(crate) const SIZE: u64 = 1200;
const SERVER: EndId = EndId { flow: 0, side: Side::Server };
const CLIENT: EndId = EndId { flow: 0, side: Side::Client };
const PING: &[u8] = &[0x01];

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The event sequence of a server's connection, reported one observation at a time.
pub(crate) struct Story {
    checker: Checker,
    server: Box<dyn Observer>,
    client: Box<dyn Observer>,
    pub(crate) now: Timestamp,
    /// The metrics that the server will report next.
    pub(crate) metrics: Metrics,
    /// The send times of the server's packets; `None` once a packet's fate is known.
    sent: Vec<Option<Timestamp>>,
    client_sent: u64,
    /// The server's round-trip time.
    pub(crate) rtt: Duration,
    pub(crate) written: u64,
}

/// Returns the setup of a one-byte download in which only the property `only` is checked.
pub(crate) fn setup(network: LinkConfig, only: Property) -> Setup {
    let end = EndSetup { marks_ecn: true, ..EndSetup::default() };
    let flow = Flow {
        name: "download".to_owned(),
        group: "download".to_owned(),
        start: Duration::ZERO,
        controller: None,
        client: end.clone(),
        server: end,
        session: SessionKind::Null,
        traffic: Traffic::Download { size: 1 },
        is_optional: false,
    };
    let others = Property::ALL.into_iter().filter(|property| *property != only);
    let properties_off = others.map(|property| (property.to_string(), String::new())).collect();
    Setup { limit: ms(1), network, flows: vec![flow], properties_off, turns: Turns::default() }
}

impl Story {
    /// The endpoint that the sequence describes.
    pub(crate) const SERVER: EndId = SERVER;

    /// Begins a connection with the controller `controller`, whose handshake is confirmed at 1 s.
    /// Only the property `only` is checked.
    pub(crate) fn new(controller: &str, only: Property) -> Self {
        Self::on(LinkConfig::default(), controller, only)
    }

    /// Begins a connection whose handshake is in progress.
    pub(crate) fn handshaking(only: Property) -> Self {
        Self::begun(LinkConfig::default(), "reno", only, ConnectionState::HandshakeStarted)
    }

    /// Like [`new`](Self::new), but on the given network.
    pub(crate) fn on(network: LinkConfig, controller: &str, only: Property) -> Self {
        Self::begun(network, controller, only, ConnectionState::HandshakeConfirmed)
    }

    fn begun(
        network: LinkConfig,
        controller: &str,
        only: Property,
        state: ConnectionState,
    ) -> Self {
        let checker = Checker::new(&setup(network, only), controller, true).unwrap();
        let congestion = Snapshot {
            window: 10 * SIZE,
            slow_start_threshold: None,
            minimum_window: 2 * SIZE,
            phase: Phase::SlowStart,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        };
        let metrics = Metrics {
            rtt: None,
            pto_count: 0,
            probe_timeouts: 0,
            bytes_in_flight: 0,
            congestion,
            pacing_rate: None,
            delivery_rate: None,
            loss_thresholds: LossThresholds { packets: 3, time: ms(375) },
        };
        let mut story = Self {
            server: checker.observer(SERVER),
            client: checker.observer(CLIENT),
            checker,
            now: Timestamp::from_origin(ms(1000)),
            metrics,
            sent: Vec::new(),
            client_sent: 0,
            rtt: ms(100),
            written: 0,
        };
        story.start(state);
        story
    }

    fn start(&mut self, state: ConnectionState) {
        let id = ConnectionId::new(&[1; 8]).unwrap();
        let parameters = TransportParameters {
            initial_max_data: VarInt::saturating(1 << 40),
            initial_max_stream_data_bidi_local: VarInt::saturating(1 << 40),
            initial_max_stream_data_bidi_remote: VarInt::saturating(1 << 40),
            initial_max_stream_data_uni: VarInt::saturating(1 << 40),
            ..TransportParameters::default()
        };
        for side in [clearway_transport::Side::Client, clearway_transport::Side::Server] {
            let observations = [
                Observation::Started {
                    side,
                    remote: "10.0.0.1:1".parse().unwrap(),
                    local_id: id,
                    remote_id: id,
                    original_destination_id: id,
                },
                Observation::ParametersSet { owner: side.peer(), parameters: &parameters },
                Observation::StateUpdated(state),
            ];
            for observation in &observations {
                self.observer(side.is_server()).observe(Timestamp::ORIGIN, observation);
            }
        }
    }

    fn observer(&mut self, is_server: bool) -> &mut Box<dyn Observer> {
        if is_server { &mut self.server } else { &mut self.client }
    }

    /// Returns the property that was violated, if one was.
    pub(crate) fn violation(&self) -> Option<&'static str> {
        self.checker.violation().map(|violation| violation.property)
    }

    pub(crate) fn checker(&self) -> &Checker {
        &self.checker
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Reports an observation at the server.
    pub(crate) fn tell(&mut self, observation: &Observation<'_>) {
        self.server.observe(self.now, observation);
    }

    fn packet(number: u64, payload: &[u8], is_probe: bool) -> PacketObservation<'_> {
        PacketObservation {
            packet_type: PacketType::OneRtt,
            number: PacketNumber::new(number).unwrap(),
            key_phase: false,
            size: SIZE as usize,
            payload,
            is_probe,
            is_path_probe: false,
            is_mtu_probe: false,
            ecn: EcnCodepoint::NotEct,
        }
    }

    /// Sends a full packet with `payload` from the server.
    pub(crate) fn send_payload(&mut self, payload: &[u8], is_probe: bool) {
        let number = self.sent.len() as u64;
        self.sent.push(Some(self.now));
        self.tell(&Observation::PacketSent(Self::packet(number, payload, is_probe)));
        self.metrics.bytes_in_flight += SIZE;
    }

    /// Sends a packet with `payload` from the client.
    pub(crate) fn client_sends(&mut self, packet_type: PacketType, number: u64, payload: &[u8]) {
        let packet = PacketObservation { packet_type, ..Self::packet(number, payload, false) };
        let mut client = self.checker.observer(CLIENT);
        client.observe(self.now, &Observation::PacketSent(packet));
    }

    /// Submits the packets that the server has built to the network in a datagram of `size` bytes.
    pub(crate) fn submit(&mut self, ecn: Ecn, size: usize) {
        self.checker.on_submitted(self.now, SERVER, "10.0.0.1:1".parse().unwrap(), ecn, size);
    }

    /// Sends `count` full packets from the server, in datagrams with the ECN codepoint `ecn`.
    pub(crate) fn send_with(&mut self, ecn: Ecn, count: u64) {
        for _ in 0..count {
            self.send(1);
            self.submit(ecn, SIZE as usize);
        }
    }

    /// Receives a PING from the client with the ECN codepoint `ecn`.
    pub(crate) fn receive_with(&mut self, ecn: Ecn) {
        self.checker.on_delivered(SERVER, "10.0.0.1:1".parse().unwrap(), ecn, &[0; 1200]);
        self.receive(&Frame::Ping);
    }

    /// Sends an ACK frame from the server for the client's packet 0, with the given counts of
    /// ECT(0), ECT(1) and CE.
    pub(crate) fn send_ack(&mut self, counts: Option<[u32; 3]>) {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        let ranges = core::iter::once(PacketNumber::ZERO..=PacketNumber::ZERO);
        frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, counts.map(ecn_counts))
            .unwrap();
        let length = writer.written();
        let number = self.sent.len() as u64;
        self.sent.push(None);
        self.tell(&Observation::PacketSent(Self::packet(number, &buffer[..length], false)));
    }

    /// Sends an Initial packet with a PING from the server, in a datagram of `size` bytes.
    pub(crate) fn send_initial(&mut self, size: usize) {
        let packet = PacketObservation {
            packet_type: PacketType::Initial,
            size,
            ..Self::packet(0, PING, false)
        };
        self.tell(&Observation::PacketSent(packet));
        self.submit(Ecn::NotEct, size);
    }

    /// Receives packet `number` from the client, after which the path's destination is `port`.
    pub(crate) fn move_with(&mut self, number: u64, port: u16) {
        let packet = Self::packet(number, PING, false);
        self.tell(&Observation::PacketReceived(packet));
        self.tell(&Observation::PathUpdated {
            socket: clearway_transport::SocketIndex(0),
            remote: ([10, 0, 0, 1], port).into(),
            is_validated: true,
            is_new_path: false,
        });
    }

    /// Changes the client's address to `remote`. `is_new_path` is whether the server reports this
    /// as a new path.
    pub(crate) fn move_to(&mut self, remote: &str, is_new_path: bool) {
        self.tell(&Observation::PathUpdated {
            socket: clearway_transport::SocketIndex(0),
            remote: remote.parse().unwrap(),
            is_validated: true,
            is_new_path,
        });
    }

    /// Sends `count` full packets from the server.
    pub(crate) fn send(&mut self, count: u64) {
        for _ in 0..count {
            self.send_payload(PING, false);
        }
    }

    /// Sends an MTU probe of `size` bytes from the server.
    pub(crate) fn probe_mtu(&mut self, size: u64) {
        let number = self.sent.len() as u64;
        self.sent.push(Some(self.now));
        let probe = Self::packet(number, PING, false);
        let probe = PacketObservation { size: size as usize, is_mtu_probe: true, ..probe };
        self.tell(&Observation::PacketSent(probe));
        self.metrics.bytes_in_flight += SIZE;
    }

    /// Sends a full packet of `size` bytes from the server.
    pub(crate) fn send_large(&mut self, size: u64) {
        let number = self.sent.len() as u64;
        self.sent.push(Some(self.now));
        let packet = Self::packet(number, PING, false);
        self.tell(&Observation::PacketSent(PacketObservation { size: size as usize, ..packet }));
        self.metrics.bytes_in_flight += SIZE;
    }

    /// Reports that the size of the server's full datagrams is now `size` bytes.
    pub(crate) fn use_mtu(&mut self, size: u64) {
        let (old, new) = (SIZE as u16, size as u16);
        self.tell(&Observation::MtuUpdated { old, new, is_done: false });
        self.metrics.congestion.minimum_window = 2 * size;
    }

    pub(crate) fn probe(&mut self) {
        self.send_payload(PING, true);
    }

    /// Fills the server's congestion window.
    pub(crate) fn fill(&mut self) {
        let room = self.metrics.congestion.window.saturating_sub(self.metrics.bytes_in_flight);
        self.send(room / SIZE);
    }

    /// Delivers one of the server's packets to the client.
    pub(crate) fn arrive(&mut self, number: u64) {
        let packet = Self::packet(number, PING, false);
        self.client.observe(self.now, &Observation::PacketReceived(packet));
    }

    /// Acknowledges packets `first` to `last`, after recording their arrival. The caller must
    /// report the controller's response separately.
    pub(crate) fn acknowledge(&mut self, first: u64, last: u64) {
        self.acknowledge_with(first, last, None);
    }

    /// Like [`acknowledge`](Self::acknowledge), with counts of ECT(0), ECT(1) and CE.
    pub(crate) fn acknowledge_with(&mut self, first: u64, last: u64, counts: Option<[u32; 3]>) {
        for number in first..=last {
            self.arrive(number);
        }
        self.acknowledge_counting(first, last, counts);
    }

    /// Like [`acknowledge`](Self::acknowledge), but without reports of arrivals.
    pub(crate) fn acknowledge_only(&mut self, first: u64, last: u64) {
        self.acknowledge_counting(first, last, None);
    }

    fn acknowledge_counting(&mut self, first: u64, last: u64, counts: Option<[u32; 3]>) {
        let number = |value| PacketNumber::new(value).unwrap();
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        let ranges = core::iter::once(number(first)..=number(last));
        frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, counts.map(ecn_counts))
            .unwrap();
        let length = writer.written();
        if let Some(Some(sent_at)) = self.sent.get(last as usize) {
            self.sample(self.now.saturating_since(*sent_at));
        }
        for number in first..=last.min(self.sent.len() as u64 - 1) {
            if self.sent[number as usize].take().is_some() {
                self.metrics.bytes_in_flight -= SIZE;
            }
        }
        let packet = Self::packet(self.client_sent, &buffer[..length], false);
        self.client_sent += 1;
        self.client.observe(self.now, &Observation::PacketSent(packet));
        self.server.observe(self.now, &Observation::PacketReceived(packet));
    }

    /// Receives a packet with one frame from the client.
    pub(crate) fn receive(&mut self, frame: &Frame<'_>) {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        frame.encode(&mut writer).unwrap();
        let length = writer.written();
        let packet = Self::packet(self.client_sent, &buffer[..length], false);
        self.client_sent += 1;
        self.client.observe(self.now, &Observation::PacketSent(packet));
        self.server.observe(self.now, &Observation::PacketReceived(packet));
    }

    /// Receives a packet from the client with a PING, and with an ACK frame that acknowledges
    /// nothing new.
    pub(crate) fn receive_ping_with_ack(&mut self) {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        Frame::Ping.encode(&mut writer).unwrap();
        let ranges = core::iter::once(PacketNumber::ZERO..=PacketNumber::ZERO);
        frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, None).unwrap();
        let length = writer.written();
        let packet = Self::packet(self.client_sent, &buffer[..length], false);
        self.client_sent += 1;
        self.client.observe(self.now, &Observation::PacketSent(packet));
        self.server.observe(self.now, &Observation::PacketReceived(packet));
    }

    /// Sends Handshake packet 0 from the client.
    pub(crate) fn client_sends_handshake_packet(&mut self) {
        let packet = PacketObservation {
            packet_type: PacketType::Handshake,
            ..Self::packet(0, PING, false)
        };
        self.client.observe(self.now, &Observation::PacketSent(packet));
    }

    /// Delivers the client's Handshake packet to the server, and its acknowledgment to the client.
    pub(crate) fn server_acknowledges_handshake_packet(&mut self) {
        let of = |payload| PacketObservation {
            packet_type: PacketType::Handshake,
            ..Self::packet(0, payload, false)
        };
        self.server.observe(self.now, &Observation::PacketReceived(of(PING)));
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        let ranges = core::iter::once(PacketNumber::ZERO..=PacketNumber::ZERO);
        frame::Ack::encode_ranges(&mut writer, VarInt::ZERO, ranges, None).unwrap();
        let length = writer.written();
        self.server.observe(self.now, &Observation::PacketSent(of(&buffer[..length])));
        self.client.observe(self.now, &Observation::PacketReceived(of(&buffer[..length])));
    }

    /// Ends the client's turn. The client's next deadline is `deadline` from now.
    pub(crate) fn settle_client(&mut self, deadline: Option<Duration>) {
        let deadline = deadline.map(|after| self.now + after);
        self.checker.on_settled(self.now, CLIENT, deadline, 0);
    }

    pub(crate) fn sample(&mut self, latest: Duration) {
        let minimum = self.metrics.rtt.map_or(latest, |rtt| rtt.minimum.min(latest));
        let variation = latest / 8;
        let smoothed = latest;
        self.metrics.rtt =
            Some(RttSnapshot { latest, smoothed, minimum, variation, is_new: false });
        self.metrics.loss_thresholds.time = smoothed.max(latest) * 9 / 8;
    }

    /// Declares one of the server's packets lost.
    pub(crate) fn lose(&mut self, number: u64) {
        if self.sent[number as usize].take().is_some() {
            self.metrics.bytes_in_flight -= SIZE;
        }
        self.tell(&Observation::PacketLost(LostPacket {
            space: SpaceId::Application,
            number: PacketNumber::new(number).unwrap(),
            bytes: SIZE,
            trigger: LossTrigger::ReorderingThreshold,
            thresholds: self.metrics.loss_thresholds,
        }));
    }

    /// Reports the server's metrics.
    pub(crate) fn report(&mut self) {
        let metrics = self.metrics;
        self.tell(&Observation::Metrics(&metrics));
    }

    pub(crate) fn set_window(&mut self, datagrams: u64) {
        self.metrics.congestion.window = datagrams * SIZE;
    }

    pub(crate) fn set_threshold(&mut self, datagrams: u64) {
        self.metrics.congestion.slow_start_threshold = Some(datagrams * SIZE);
    }

    pub(crate) fn set_phase(&mut self, phase: Phase) {
        self.metrics.congestion.phase = phase;
    }

    pub(crate) fn set_rate(&mut self, bytes_per_second: u64) {
        self.metrics.pacing_rate = Some(Rate::from_bytes_per_second(bytes_per_second));
    }

    pub(crate) fn set_sample(&mut self, delivered: u64, interval: Duration) {
        self.metrics.delivery_rate = Some(RateSample {
            rate: Rate::from_transfer(delivered, interval).unwrap(),
            delivered,
            interval,
            prior_delivered: 0,
            is_application_limited: false,
        });
    }

    pub(crate) fn suppress(&mut self, suppressor: Suppressor, holds: bool, round: u64) {
        self.metrics.congestion.suppressors.set(suppressor, holds, round);
    }

    pub(crate) fn limit(&mut self, new: SendLimit) {
        self.tell(&Observation::SendLimitUpdated { old: None, new });
    }

    pub(crate) fn paced(&mut self, wait: Duration) {
        let release = ReleaseTime::at(self.now + wait);
        self.limit(SendLimit::Pacer(release));
        let change = TimerChange::Paced(release);
        self.tell(&Observation::TimerUpdated { timer: TimerKind::Pacing, change });
    }

    /// Ends the server's turn. The server's next deadline is `deadline` from now.
    pub(crate) fn settle(&mut self, deadline: Option<Duration>) {
        let deadline = deadline.map(|after| self.now + after);
        self.checker.on_settled(self.now, SERVER, deadline, self.written);
    }

    /// Fills the window and leaves more data waiting.
    pub(crate) fn hold(&mut self) {
        self.fill();
        self.limit(SendLimit::Window);
        self.settle(Some(ms(100)));
    }

    /// Adds a round trip in which a full window arrives; after it the window is `datagrams`
    /// datagrams.
    pub(crate) fn round(&mut self, datagrams: u64) {
        let (first, last) = self.flight();
        self.wait(self.rtt);
        self.acknowledge(first, last);
        self.set_window(datagrams);
        self.report();
        self.hold();
    }

    /// Returns the first and the last packet that are neither acknowledged nor lost.
    pub(crate) fn flight(&self) -> (u64, u64) {
        let first = self.sent.iter().position(Option::is_some).unwrap();
        let last = self.sent.iter().rposition(Option::is_some).unwrap();
        (first as u64, last as u64)
    }

    /// Acknowledges a whole flight except the first packet, which is lost, and reports a window
    /// reduction to `datagrams` datagrams.
    pub(crate) fn cut(&mut self, datagrams: u64) {
        let (first, last) = self.flight();
        self.wait(self.rtt);
        self.acknowledge(first + 1, last);
        self.lose(first);
        self.note_cut(datagrams);
        self.report();
    }

    /// Records a reduction of the congestion window.
    pub(crate) fn note_cut(&mut self, datagrams: u64) {
        self.set_window(datagrams);
        self.set_threshold(datagrams);
        self.set_phase(Phase::Recovery);
        self.metrics.congestion.congestion_events += 1;
    }

    /// Lets a probe timeout expire.
    pub(crate) fn expire(&mut self) {
        self.metrics.pto_count += 1;
        self.metrics.probe_timeouts += 1;
        self.report();
    }

    /// Begins congestion avoidance with a full window of `datagrams` datagrams.
    pub(crate) fn avoiding(controller: &str, only: Property, datagrams: u64) -> Self {
        let mut story = Self::new(controller, only);
        story.hold();
        story.cut(if controller == "reno" { 5 } else { 7 });
        story.set_phase(Phase::CongestionAvoidance);
        story.hold();
        story.round(datagrams);
        story
    }
}

fn ecn_counts([ect0, ect1, ce]: [u32; 3]) -> frame::EcnCounts {
    frame::EcnCounts { ect0: ect0.into(), ect1: ect1.into(), ce: ce.into() }
}

/// Asserts that the sequence violates the only property that is checked.
pub(crate) fn violates(only: Property, tell: impl FnOnce(&mut Story)) {
    let mut story = Story::new("reno", only);
    tell(&mut story);
    assert_eq!(story.violation(), Some(only.id()), "the sequence should not pass");
}

/// Asserts that the sequence does not violate the only property that is checked.
pub(crate) fn respects(only: Property, tell: impl FnOnce(&mut Story)) {
    let mut story = Story::new("reno", only);
    tell(&mut story);
    assert_eq!(story.checker().violation(), None);
}
