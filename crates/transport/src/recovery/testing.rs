//! A sender in virtual time, with a controller that records what is reported to it.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use clearway_congestion::{
    Acknowledgement, CongestionResponse, Controller, ControllerFactory, ControllerParameters,
    Phase, RttSnapshot, SentPacket, Snapshot, SpuriousLoss, Suppressors,
};
use clearway_units::{Random, Rate, Timestamp};
use clearway_wire::{Frame, PacketNumber, Reader, VarInt, Writer, frame::Ack};

use super::{Expired, PtoContext, Recovery, RecoveryConfig, StagedPacket};
use crate::token::Token;
use crate::{SpaceId, TransportError};

pub(super) const SIZE: u64 = 1200;

/// Returns the time `milliseconds` after a starting point that is not the time origin.
pub(super) fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(10_000 + milliseconds))
}

pub(super) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// An owned copy of an [`Acknowledgement`].
#[derive(Clone, Debug)]
pub(super) struct ControllerReport {
    pub(super) acked: Vec<SentPacket>,
    pub(super) lost: Vec<SentPacket>,
    pub(super) prior_in_flight: u64,
    pub(super) bytes_in_flight: u64,
    pub(super) rtt: Option<RttSnapshot>,
    pub(super) persistent_congestion: bool,
    pub(super) round: u64,
    pub(super) was_limited: bool,
    pub(super) was_window_limited: bool,
    pub(super) totals: (u64, u64),
    pub(super) limited_time: Duration,
}

/// The effects of an ACK frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Acked {
    pub(super) newly_acked_any: bool,
    pub(super) has_rtt_sample: bool,
    /// Packets that were reported lost to the controller.
    pub(super) lost: u64,
    /// Packets that had been declared lost but arrived.
    pub(super) spuriously_lost: u64,
    pub(super) persistent_congestion: bool,
}

/// The state that all recorders of a test share.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) window: u64,
    pub(super) rate: Option<Rate>,
    pub(super) built: u64,
    pub(super) sent: Vec<(SentPacket, u64)>,
    pub(super) reports: Vec<ControllerReport>,
    pub(super) spurious: Vec<SpuriousLoss>,
}

/// A controller that reduces the window once per recovery period and does nothing else; the test
/// sets the window.
#[derive(Debug)]
struct Recorder {
    record: Arc<Mutex<Record>>,
    boundary: u64,
    minimum_window: u64,
}

impl Controller for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        self.record.lock().unwrap().sent.push((*packet, bytes_in_flight));
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        let mut response = CongestionResponse::None;
        if event.lost.iter().any(|packet| packet.index.0 >= self.boundary) {
            self.boundary = event.next_index.0;
            response = CongestionResponse::Reduced;
        }
        self.record.lock().unwrap().reports.push(ControllerReport {
            acked: event.acked.to_vec(),
            lost: event.lost.to_vec(),
            prior_in_flight: event.prior_in_flight,
            bytes_in_flight: event.bytes_in_flight,
            rtt: event.rtt,
            persistent_congestion: event.persistent_congestion,
            round: event.round,
            was_limited: event.was_limited,
            was_window_limited: event.was_window_limited,
            totals: (event.total_delivered, event.total_lost),
            limited_time: event.limited_time,
        });
        response
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.record.lock().unwrap().spurious.push(*event);
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.minimum_window = 2 * max_datagram_size;
    }

    fn window(&self) -> u64 {
        self.record.lock().unwrap().window
    }

    fn pacing_rate(&self, _: Option<&RttSnapshot>) -> Option<Rate> {
        self.record.lock().unwrap().rate
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.window(),
            slow_start_threshold: None,
            minimum_window: self.minimum_window,
            phase: Phase::SlowStart,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        }
    }
}

#[derive(Debug)]
struct RecorderFactory(Arc<Mutex<Record>>);

impl ControllerFactory for RecorderFactory {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        self.0.lock().unwrap().built += 1;
        Box::new(Recorder {
            record: Arc::clone(&self.0),
            boundary: 0,
            minimum_window: parameters.minimum_window(),
        })
    }
}

pub(super) fn config() -> RecoveryConfig {
    RecoveryConfig {
        initial_rtt: ms(333),
        packet_threshold: 3,
        skip_packet_numbers: false,
        max_datagram_size: SIZE,
        base_datagram_size: SIZE,
        initial_window: None,
        maximum_window: 1 << 30,
        ecn: false,
    }
}

/// Returns the context of a server or client after its handshake.
pub(super) fn confirmed() -> PtoContext {
    PtoContext {
        handshake_confirmed: true,
        peer_completed_address_validation: true,
        at_amplification_limit: false,
        has_handshake_keys: false,
        max_ack_delay: ms(25),
        is_client: false,
    }
}

/// Returns the context of a client that has received nothing yet.
pub(super) fn connecting_client() -> PtoContext {
    PtoContext {
        handshake_confirmed: false,
        peer_completed_address_validation: false,
        is_client: true,
        ..confirmed()
    }
}

#[derive(Debug)]
pub(super) struct Bench {
    pub(super) recovery: Recovery,
    pub(super) record: Arc<Mutex<Record>>,
    pub(super) context: PtoContext,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(config())
    }

    pub(super) fn with(config: RecoveryConfig) -> Self {
        let record = Arc::new(Mutex::new(Record { window: 1 << 20, ..Record::default() }));
        let factory = Arc::new(RecorderFactory(Arc::clone(&record)));
        let recovery = Recovery::new(at(0), config, factory, Random::from_number(7));
        Self { recovery, record, context: confirmed() }
    }

    /// Builds a packet with one token that contains the packet's number.
    pub(super) fn stage(&mut self, space: SpaceId, change: impl FnOnce(&mut StagedPacket)) -> u64 {
        let number = self.recovery.next_packet_number(space).unwrap();
        let mut packet = StagedPacket {
            number,
            bytes: SIZE,
            ack_eliciting: true,
            in_flight: true,
            is_probe_of_path: false,
            is_off_path: false,
            is_marked: false,
        };
        change(&mut packet);
        let mut tokens = vec![token(number.get())];
        self.recovery.stage(space, packet, &mut tokens).unwrap();
        assert!(tokens.is_empty());
        number.get()
    }

    pub(super) fn send_in(&mut self, space: SpaceId, now: Timestamp) -> u64 {
        let number = self.stage(space, |_| {});
        self.recovery.transmitted(now).unwrap();
        number
    }

    pub(super) fn send(&mut self, now: Timestamp) -> u64 {
        self.send_in(SpaceId::Application, now)
    }

    /// Sends a packet that contains only an ACK frame.
    pub(super) fn send_ack_only(&mut self, now: Timestamp) -> u64 {
        let number = self.stage(SpaceId::Application, |packet| {
            packet.ack_eliciting = false;
            packet.in_flight = false;
        });
        self.recovery.transmitted(now).unwrap();
        number
    }

    /// Processes an ACK frame with `ranges`, in descending order.
    pub(super) fn try_ack(
        &mut self,
        space: SpaceId,
        now: Timestamp,
        ack_delay: Duration,
        ranges: &[(u64, u64)],
    ) -> Result<Acked, TransportError> {
        let mut buffer = [0; 1500];
        let mut writer = Writer::new(&mut buffer);
        let number = |value| PacketNumber::new(value).unwrap();
        let descending = ranges.iter().map(|(first, last)| number(*first)..=number(*last));
        let written = Ack::encode_ranges(&mut writer, VarInt::ZERO, descending, None).unwrap();
        assert_eq!(written, ranges.len());
        let frame = Frame::decode(&mut Reader::new(writer.filled())).unwrap();
        let Frame::Ack(ack) = frame else { panic!("an ACK was written") };
        let reported = self.record.lock().unwrap().reports.len();
        let before = self.recovery.stats();
        let outcome = self.recovery.on_ack(space, now, &ack, ack_delay, &self.context)?;
        let after = self.recovery.stats();
        let record = self.record.lock().unwrap();
        let lost =
            record.reports.iter().skip(reported).map(|report| report.lost.len() as u64).sum();
        drop(record);
        Ok(Acked {
            newly_acked_any: outcome.newly_acked_any,
            has_rtt_sample: outcome.has_rtt_sample,
            lost,
            spuriously_lost: after.counts.packets_spuriously_lost
                - before.counts.packets_spuriously_lost,
            persistent_congestion: after.persistent_congestion_total
                > before.persistent_congestion_total,
        })
    }

    pub(super) fn ack_in(
        &mut self,
        space: SpaceId,
        now: Timestamp,
        ranges: &[(u64, u64)],
    ) -> Acked {
        self.try_ack(space, now, Duration::ZERO, ranges).unwrap()
    }

    pub(super) fn ack(&mut self, now: Timestamp, ranges: &[(u64, u64)]) -> Acked {
        self.ack_in(SpaceId::Application, now, ranges)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.recovery
            .loss_deadline(&self.context)
            .or_else(|| self.recovery.probe_deadline(&self.context))
    }

    pub(super) fn expire(&mut self, now: Timestamp) -> Expired {
        self.recovery.on_deadline(now, &self.context).unwrap()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.recovery.stats().bytes_in_flight
    }

    /// Returns the numbers of the packets whose tokens were returned as lost since the last call.
    pub(super) fn lost(&mut self) -> Vec<u64> {
        let mut tokens = Vec::new();
        self.recovery.take_lost(&mut tokens);
        tokens.iter().map(|(_, token)| number_of(token)).collect()
    }

    pub(super) fn acked(&mut self) -> Vec<u64> {
        let mut tokens = Vec::new();
        self.recovery.take_acked(&mut tokens);
        tokens.iter().map(|(_, token)| number_of(token)).collect()
    }

    /// Returns the tokens of the packet that the next probe would retransmit.
    pub(super) fn probe(&mut self, space: SpaceId) -> Vec<u64> {
        let mut tokens = Vec::new();
        self.recovery.probe_tokens(space, &mut tokens);
        tokens.iter().map(number_of).collect()
    }

    pub(super) fn reports(&self) -> Vec<ControllerReport> {
        self.record.lock().unwrap().reports.clone()
    }

    pub(super) fn last_report(&self) -> ControllerReport {
        self.reports().pop().expect("the controller has a report")
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.record.lock().unwrap().window = window;
    }
}

pub(super) fn token(number: u64) -> Token {
    Token::NewConnectionId { sequence: number }
}

pub(super) fn number_of(token: &Token) -> u64 {
    match token {
        Token::NewConnectionId { sequence } => *sequence,
        other => panic!("no test sends {other:?}"),
    }
}
