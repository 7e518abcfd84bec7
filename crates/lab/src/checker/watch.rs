//! Observes one endpoint: converts observations to records, and applies the rules.

use core::time::Duration;
use std::net::SocketAddr;

use clearway_congestion::{Phase, Snapshot};
use clearway_network::Ecn;
use clearway_transport::{
    ConnectionState, LossTrigger, LostPacket, Metrics, PacketObservation, SendLimit, SpaceId,
    TimerChange,
};
use clearway_units::Timestamp;
use clearway_wire::{Frame, PacketType, frame};

use super::config::EndpointConfig;
use super::contents;
use super::properties::{Property, PropertySet};
use super::records::{
    Arrival, Beginning, Built, Change, EndpointRecords, Fate, Feedback, Packet, Report, Round,
    Tally, effective_window,
};
use super::rule::{SentEvent, Settled};
use super::rules::{Failure, Rules};
use crate::end::Side;

/// An endpoint's records and rules.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) records: EndpointRecords,
    rules: Rules,
    on: PropertySet,
    /// The local socket and the peer address of the current path, as reported by the stack.
    path: Option<(u32, SocketAddr)>,
}

/// The packet numbers acknowledged by a received packet, for the event history.
pub(super) struct Acknowledged {
    pub(super) space: SpaceId,
    pub(super) ranges: Option<(u64, u64)>,
}

/// Returns the packet number space of a packet type.
pub(super) const fn space_of(packet_type: PacketType) -> SpaceId {
    match packet_type {
        PacketType::Initial => SpaceId::Initial,
        PacketType::Handshake => SpaceId::Handshake,
        PacketType::ZeroRtt | PacketType::OneRtt => SpaceId::Application,
    }
}

impl Watch {
    pub(super) fn new(side: Side, config: EndpointConfig, on: PropertySet) -> Self {
        Self {
            records: EndpointRecords::new(side, config),
            rules: Rules::default(),
            on,
            path: None,
        }
    }

    /// Returns the number of CUBIC congestion avoidance phases that were checked.
    #[cfg(test)]
    pub(super) fn stages_judged(&self) -> u64 {
        self.rules.stages_judged()
    }

    /// Returns whether `property` is checked at this endpoint.
    pub(super) fn is_on(&self, property: Property) -> bool {
        self.on.contains(property)
    }

    /// Converts a violation that the records themselves detect to a failure of `property`, if the
    /// property is checked.
    fn own(&self, property: Property, verdict: Result<(), String>) -> Result<(), Failure> {
        match verdict {
            Err(explanation) if self.on.contains(property) => {
                Err(Failure::new(property, explanation))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn on_sent(
        &mut self,
        now: Timestamp,
        packet: &PacketObservation<'_>,
    ) -> Result<bool, Failure> {
        let records = &mut self.records;
        records.now = now;
        let space = space_of(packet.packet_type);
        let mut within_limits = Ok(());
        let mut marks_reported = Ok(());
        let contents = contents::read(packet.payload, |frame| {
            records.delivery.on_frame_sent(space, packet.number.get(), frame);
            match frame {
                Frame::Stream(stream) => {
                    if let Err(explanation) = records.streams.on_sent(stream) {
                        within_limits = Err(explanation);
                    }
                }
                Frame::ResetStream(reset) => records.streams.on_reset_sent(reset.stream_id),
                Frame::ResetStreamAt(reset) => records.streams.on_reset_sent(reset.stream_id),
                Frame::AckFrequency(request) => {
                    records.peer_acks.on_requested(packet.number.get(), request);
                }
                Frame::Ack(ack) => marks_reported = records.marks.on_ack_sent(space, ack.ecn),
                Frame::PathChallenge(challenge) => {
                    records.addresses.on_challenge_built(challenge.data);
                }
                _ => {}
            }
        });
        let entry = Packet {
            index: 0,
            sent_at: now,
            arrived_at: Timestamp::FAR_FUTURE,
            bytes: packet.size as u64,
            path: 0,
            loss_event: 0,
            fate: Fate::Outstanding,
            is_ack_eliciting: contents.is_ack_eliciting,
            is_in_flight: contents.is_in_flight,
            is_exempt: packet.is_path_probe || packet.is_mtu_probe,
            is_mtu_probe: packet.is_mtu_probe,
            is_off_path: packet.is_path_probe,
            is_marked: false,
            acks_before: 0,
            concerns_receiver: contents.concerns_receiver,
        };
        records.addresses.on_packet_built(entry.bytes, packet.is_path_probe);
        if space == SpaceId::Initial && (records.side == Side::Client || contents.is_ack_eliciting)
        {
            records.addresses.on_initial_built();
        }
        let early = records.early.on_sent(packet.packet_type, packet.payload);
        let is_padding = contents.is_in_flight && !records.ledger.awaits_acknowledgement_in(space);
        if (contents.is_ack_eliciting || is_padding) && !packet.is_path_probe {
            records.probes.on_sent(space, now);
        }
        let is_probe_of_path = packet.is_path_probe || packet.is_mtu_probe;
        if packet.is_mtu_probe {
            records.mtu.on_sent();
        }
        if contents.is_ack_eliciting && space == SpaceId::Application && !is_probe_of_path {
            records.delivery.on_ack_eliciting_sent();
        }
        records.marks.on_built(Built {
            space,
            number: packet.number.get(),
            counts: contents.is_in_flight && !is_probe_of_path,
            is_probe: packet.is_probe,
        });
        let unique = records.ledger.send(space, packet.number.get(), entry);
        records.stage.has_application_keys |= packet.packet_type == PacketType::OneRtt;
        if contents.has_ack {
            records.reception.unacknowledged[space as usize] = None;
        }
        if contents.is_ack_eliciting && !records.reception.has_sent_since {
            records.reception.has_sent_since = true;
            records.reception.silent_since = now;
        }
        if contents.is_in_flight && records.episode.is_open && !packet.is_path_probe {
            records.episode.out += entry.bytes;
        }
        let event = SentEvent {
            space,
            bytes: entry.bytes,
            is_ack_eliciting: contents.is_ack_eliciting,
            is_in_flight: contents.is_in_flight,
            is_probe: packet.is_probe,
            is_path_probe: packet.is_path_probe,
            is_mtu_probe: packet.is_mtu_probe,
        };
        self.own(Property::S1, unique)?;
        self.own(Property::S18, within_limits)?;
        self.own(Property::S26, marks_reported)?;
        self.own(Property::S28, early)?;
        self.rules.on_sent(self.on, &self.records, &event)?;
        Ok(contents.is_ack_eliciting)
    }

    /// Processes a received packet. `arrival` is its state in the peer's records, if the peer is
    /// observed.
    pub(super) fn on_received(
        &mut self,
        now: Timestamp,
        packet: &PacketObservation<'_>,
        arrival: Arrival,
    ) -> Result<Acknowledged, Failure> {
        let records = &mut self.records;
        records.now = now;
        records.stage.is_peer_watched &= arrival != Arrival::Unknown;
        records.stage.has_opened = true;
        let space = space_of(packet.packet_type);
        records.reception.on_received(now, space, packet.number.get());
        if records.side == Side::Server && space == SpaceId::Handshake {
            records.addresses.on_handshake_packet();
        }
        let mut sent_only = Ok(());
        let mut ranges = None;
        let mut is_requested = false;
        let is_newest = records.reception.is_newest(space);
        let mut is_confirmed = records.stage.is_confirmed;
        // A known payload is not decoded again.
        let payload = if arrival == Arrival::Data { &[] } else { packet.payload };
        let contents = contents::read(payload, |frame| {
            records.delivery.on_frame_received(frame);
            match frame {
                Frame::HandshakeDone => is_confirmed = true,
                Frame::NewConnectionId(new) => records.resets.on_token(new.reset_token.as_bytes()),
                Frame::Ack(ack) => {
                    let first = ack.ranges().next().map(|range| range.start().get());
                    ranges = Some((first.unwrap_or(0), ack.largest.get()));
                    if let Err(explanation) = acknowledge(records, space, ack, is_confirmed) {
                        sent_only = Err(explanation);
                    }
                }
                Frame::MaxData(max) => records.streams.on_max_data(max.maximum.get()),
                Frame::MaxStreamData(max) => {
                    records.streams.on_max_stream_data(max.stream_id, max.maximum.get());
                }
                Frame::PathResponse(response) => records.addresses.on_response(response.data),
                Frame::AckFrequency(request) => records.reception.on_frequency(request),
                Frame::ImmediateAck => is_requested = true,
                _ => {}
            }
        });
        let is_ack_eliciting = contents.is_ack_eliciting || arrival == Arrival::Data;
        records.marks.on_received(space, Ecn::from_bits(packet.ecn.bits()), is_ack_eliciting);
        if is_ack_eliciting && records.expiries_in_a_row > 0 {
            records.ack_eliciting_since += 1;
        }
        if is_newest && is_ack_eliciting && contents.has_ack && space == SpaceId::Application {
            let base = records.rtt.probe_timeout() + records.peer_acks.max_delay();
            records.probes.on_peer_activity(now, base);
        }
        if is_ack_eliciting {
            let delay = records.config.max_ack_delay;
            records.reception.on_ack_eliciting(now, space, delay, is_requested);
        }
        self.own(Property::S7, sent_only)?;
        self.rules.on_received(self.on, &self.records, is_ack_eliciting)?;
        Ok(Acknowledged { space, ranges })
    }

    pub(super) fn on_lost(&mut self, now: Timestamp, lost: &LostPacket) -> Result<(), Failure> {
        let records = &mut self.records;
        records.now = now;
        let tally = &mut records.tally;
        tally.prior_in_flight.get_or_insert(records.ledger.in_flight());
        let enough = records.config.packet_threshold;
        records.delivery.on_lost(lost.space, lost.number.get());
        // A packet that the host could not send was not declared lost by a threshold, and its loss
        // is not a congestion signal.
        let is_unsent = lost.trigger == LossTrigger::Refused;
        if is_unsent {
            records.probes.reset(now);
            records.ledger.exempt(lost.space, lost.number.get());
        }
        match records.ledger.lose(lost.space, lost.number.get(), records.event, enough) {
            Ok(lost) => {
                let packet = lost.packet;
                if packet.is_mtu_probe && packet.is_on(records.ledger.path()) {
                    records.mtu.on_lost();
                }
                if packet.counts(records.ledger.path()) {
                    tally.lost += 1;
                    tally.lost_bytes += packet.bytes;
                    if packet.is_marked {
                        records.marks.on_lost(packet.index);
                    }
                    tally.largest_lost = tally.largest_lost.max(Some(packet.index));
                    records.rounds.spoil();
                }
                match is_unsent {
                    true => Ok(()),
                    false => self.rules.on_lost(self.on, &self.records, &lost),
                }
            }
            Err(explanation) => self.own(Property::S1, Err(explanation)),
        }
    }

    pub(super) fn on_metrics(&mut self, now: Timestamp, after: &Metrics) -> Result<(), Failure> {
        let records = &mut self.records;
        records.now = now;
        records.tally.pending = records.tally.pending.saturating_sub(1);
        if let Some(before) = &mut records.metrics
            && !records.tally.has_event()
            && is_quiet(before, after)
        {
            before.bytes_in_flight = after.bytes_in_flight;
            records.mtu.is_new = false;
            let pending = records.tally.pending;
            records.tally = Tally { pending, ..Tally::default() };
            return self.rules.on_quiet(self.on, &self.records, after);
        }
        let before = records.metrics.unwrap_or_else(|| first_metrics(after, records));
        let expired = after.probe_timeouts > before.probe_timeouts;
        if expired {
            records.expiries = after.probe_timeouts;
            records.expiries_in_a_row += 1;
            records.rounds.spoil();
        }
        let mut tally = core::mem::take(&mut records.tally);
        if tally.acked > 0 || tally.lost > 0 {
            tally.held = records.held.take(now);
        }
        let change = Change::between(&before, after);
        if tally.spurious > 0 || change.is_undo {
            records.rounds.spoil();
        }
        if records.episode.is_open {
            records.episode.delivered += tally.acked;
        }
        records.episode.missing = records.episode.missing.saturating_sub(tally.returned);
        let round = end_round(records, &tally, after);
        let report = Report { before: &before, after, tally: &tally, change, round };
        self.rules.on_report(self.on, &self.records, &report)?;
        if expired {
            self.rules.on_probe_timeout(self.on, &self.records)?;
            let expiry = self.records.earliest_expiry();
            self.records.probes.on_expired(expiry, now);
        }
        if after.rtt.is_some_and(|after| before.rtt.is_some_and(|it| it.minimum < after.minimum)) {
            self.records.rtt.restart_minimum();
        }
        conclude(&mut self.records, &report);
        self.records.mtu.is_new = false;
        self.records.event += 1;
        self.records.metrics = Some(*after);
        self.records.largest_window = self.records.largest_window.max(after.congestion.window);
        // These ACK frames have not been reported on yet.
        self.records.tally.pending = tally.pending;
        Ok(())
    }

    pub(super) fn on_limit(&mut self, now: Timestamp, limit: SendLimit) {
        self.records.now = now;
        self.records.limit = Some(limit);
        self.records.held.on_stopped(now, limit.is_congestion_control());
    }

    /// Processes a change in the size of full datagrams.
    pub(super) fn on_mtu(&mut self, now: Timestamp, size: u16) -> Result<(), Failure> {
        self.records.now = now;
        let verdict = self.records.mtu.on_updated(u64::from(size));
        self.rules.on_mtu(&self.records);
        self.own(Property::S25, verdict)
    }

    pub(super) fn on_pacing(&mut self, now: Timestamp, change: TimerChange) -> Result<(), Failure> {
        self.records.now = now;
        match change {
            TimerChange::Paced(release) => {
                self.records.paced_until = Some(release.deadline());
                self.rules.on_paced(self.on, &self.records, release.deadline())
            }
            TimerChange::Set(_) | TimerChange::Expired | TimerChange::Cancelled => {
                self.records.paced_until = None;
                Ok(())
            }
        }
    }

    pub(super) fn on_started(&mut self, now: Timestamp, remote: SocketAddr) {
        self.path = Some((0, remote));
        let records = &mut self.records;
        records.now = now;
        records.stage.is_started = true;
        records.stage.is_peer_watched = true;
        records.reception.silent_since = now;
    }

    pub(super) fn on_state(&mut self, now: Timestamp, state: ConnectionState) {
        let stage = &mut self.records.stage;
        self.records.now = now;
        match state {
            ConnectionState::HandshakeStarted | ConnectionState::HandshakeComplete => {}
            ConnectionState::HandshakeConfirmed => stage.is_confirmed = true,
            ConnectionState::Closing | ConnectionState::Draining | ConnectionState::Closed => {
                stage.is_closed = true;
            }
        }
    }

    pub(super) fn on_discarded(&mut self, now: Timestamp, space: SpaceId) {
        let records = &mut self.records;
        records.now = now;
        let in_flight = records.ledger.in_flight();
        records.ledger.discard(space);
        records.marks.on_discarded(&records.ledger);
        if records.tally.pending > 0 {
            records.tally.discarded += in_flight.saturating_sub(records.ledger.in_flight());
        }
        records.delivery.discard(space);
        records.probes.reset(now);
        records.stage.discarded[space as usize] = true;
        records.reception.unacknowledged[space as usize] = None;
        records.rounds.spoil();
    }

    /// Handles a client that starts over with another QUIC version: packets of its first attempt
    /// are never acknowledged.
    pub(super) fn on_begun_again(&mut self, now: Timestamp) {
        let records = &mut self.records;
        records.now = now;
        records.ledger.abandon(SpaceId::Initial);
        records.marks.on_discarded(&records.ledger);
        records.delivery.discard(SpaceId::Initial);
        records.probes.reset(now);
        records.rounds.spoil();
    }

    /// Handles the server's rejection of early data: the 0-RTT packets are never acknowledged, and
    /// their contents are retransmitted.
    pub(super) fn on_early_data_rejected(&mut self, now: Timestamp) {
        let records = &mut self.records;
        records.now = now;
        records.delivery.on_abandoned(SpaceId::Application);
        records.ledger.abandon(SpaceId::Application);
        records.marks.on_discarded(&records.ledger);
        records.streams.restart();
        records.probes.reset(now);
        records.rounds.spoil();
    }

    pub(super) fn on_new_path(&mut self, now: Timestamp) {
        self.records.now = now;
        self.records.start_path();
        self.rules.on_path(&self.records);
    }

    /// Processes a change of the destination to `remote`. If the address is new, only a packet with
    /// the highest number so far may have caused the change (RFC 9000 §9.3).
    ///
    /// `is_validated` states that the stack reports the address as validated, which requires a
    /// response to a challenge that was sent to it (RFC 9000 §8.2.3).
    pub(super) fn on_moved(
        &mut self,
        now: Timestamp,
        (socket, remote): (u32, SocketAddr),
        is_validated: bool,
    ) -> Result<(), Failure> {
        if is_validated && self.records.side == Side::Server {
            self.own(Property::S23, self.records.addresses.check_validated(remote))?;
        }
        // Path validation is also reported if the address does not change.
        let path = (socket, remote);
        let before = self.path.replace(path);
        let is_there = before == Some(path);
        self.records.is_at_other_host = before.is_some_and(|(_, old)| old.ip() != remote.ip());
        if !is_validated {
            self.records.addresses.on_move_to_unvalidated(remote);
        }
        if !is_there {
            self.records.ledger.leave_address();
            self.records.probes.reset(now);
            self.rules.on_moved(&self.records);
        }
        let verdict = match is_there || self.records.reception.is_news(now) {
            true => Ok(()),
            false => Err("a reordered packet caused a migration to its address".to_owned()),
        };
        self.own(Property::S16, verdict)
    }

    /// Processes the endpoint's report that ECN validation failed on the current path.
    pub(super) fn on_ecn_given_up(&mut self) -> Result<(), Failure> {
        let verdict = self.records.marks.on_given_up();
        self.own(Property::L10, verdict)
    }

    /// Handles the end of the connection by a stateless reset.
    pub(super) fn on_reset(&mut self) -> Result<(), Failure> {
        self.own(Property::S23, self.records.resets.check())
    }

    pub(super) fn on_settled(
        &mut self,
        now: Timestamp,
        deadline: Option<Timestamp>,
        written: u64,
    ) -> Result<(), Failure> {
        let records = &mut self.records;
        records.now = now;
        records.written = written;
        let (is_held, is_full) = (records.is_held(), records.room() < records.datagram());
        records.rounds.on_settled(now, is_held, is_full);
        self.own(Property::S26, marks_reported_at_once(&self.records))?;
        self.rules.on_settled(self.on, &self.records, &Settled { deadline })
    }

    pub(super) fn on_delivered(&mut self, from: SocketAddr, datagram: &[u8]) {
        let EndpointRecords { addresses, config, stage, .. } = &mut self.records;
        addresses.on_delivered(from, datagram.len() as u64);
        // Only a client that receives packets can have built this packet (RFC 9000 §8.1). A corrupt
        // first packet creates a connection that is observed but never used, and a first packet
        // that arrives from two addresses creates two connections.
        let is_unobservable =
            !config.is_observed || !stage.has_opened || addresses.has_other_connection();
        if is_unobservable && contents::has_handshake_packet(datagram) {
            addresses.stop_checking();
        }
    }

    /// Processes a datagram that was sent on this path.
    pub(super) fn on_path_used(
        &mut self,
        socket: u32,
        to: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), Failure> {
        let verdict = self.records.connection_ids.on_sent(socket, to, datagram);
        let is_judged = self.records.config.is_observed;
        self.own(Property::S27, if is_judged { verdict } else { Ok(()) })
    }

    /// Returns whether this endpoint has another connection that is not observed.
    pub(super) fn has_other_connection(&self) -> bool {
        self.records.side == Side::Server && self.records.addresses.has_other_connection()
    }

    /// Records that the peer's packets may belong to a connection other than the observed one.
    pub(super) fn on_peer_unknown(&mut self) {
        self.records.stage.is_peer_watched = false;
    }

    /// Applies the records' own rules about addresses. A client may send without limit, because it
    /// need not validate its server's address (RFC 9000 §8.1).
    pub(super) fn on_submitted(
        &mut self,
        to: SocketAddr,
        ecn: Ecn,
        size: u64,
    ) -> Result<(), Failure> {
        let EndpointRecords { marks, config, ledger, .. } = &mut self.records;
        let marked = marks.on_submitted(ecn, config.uses_ecn, ledger);
        self.own(Property::L10, marked)?;
        let padded = self.records.addresses.check_padding(size);
        self.own(Property::S12, padded)?;
        if self.records.side == Side::Client {
            return Ok(());
        }
        let verdict = self.records.addresses.on_submitted(to, size);
        self.own(Property::S12, verdict)
    }
}

/// Checks that packets received with CE are acknowledged immediately (RFC 9000 §13.2.1), so that
/// the sender can respond.
fn marks_reported_at_once(records: &EndpointRecords) -> Result<(), String> {
    let may_send = records.credit().is_none_or(|credit| credit >= records.datagram());
    let waits =
        |space: &SpaceId| records.marks.has_unreported_ce(*space) && !records.is_discarded(*space);
    match SpaceId::ALL.into_iter().find(waits).filter(|_| may_send && !records.stage.is_closed) {
        Some(space) => Err(format!(
            "a packet in {space:?} arrived with CE and was not \
            acknowledged immediately"
        )),
        None => Ok(()),
    }
}

/// Processes a received ACK frame: adds newly acknowledged packets to the tally.
fn acknowledge(
    records: &mut EndpointRecords,
    space: SpaceId,
    ack: &frame::Ack<'_>,
    is_confirmed: bool,
) -> Result<(), String> {
    let now = records.now;
    let EndpointRecords {
        ledger,
        tally,
        episode,
        rounds,
        stage,
        delivery,
        mtu,
        peer_acks,
        marks,
        ..
    } = records;
    tally.pending += 1;
    tally.prior_in_flight.get_or_insert(ledger.in_flight());
    let (path, acks_sent) = (ledger.path(), ledger.acks_sent(space));
    let mut feedback = Feedback {
        counts: ack.ecn.map(Into::into),
        raises_largest: ledger.largest_acknowledged(space) < Some(ack.largest.get()),
        round: rounds.number(),
        ..Feedback::default()
    };
    let mut largest = None;
    let mut is_ack_eliciting = false;
    let mut is_any = false;
    let mut not_arrived = None;
    for range in ack.ranges() {
        let (first, last) = (range.start().get(), range.end().get());
        ledger.acknowledge(space, first, last, |number, packet| {
            delivery.on_acknowledged(space, number);
            if space == SpaceId::Application {
                peer_acks.on_acknowledged(number);
            }
            if packet.arrived_at > now {
                not_arrived = Some(number);
            }
            if packet.is_forgotten(acks_sent) {
                return;
            }
            is_any = true;
            feedback.note(packet, path);
            // As in RFC 9002 §A.7, lost packets cannot be newly acknowledged.
            is_ack_eliciting |= packet.is_ack_eliciting && packet.fate == Fate::Outstanding;
            if number == ack.largest.get() && packet.fate == Fate::Outstanding {
                largest = Some(*packet);
            }
            if packet.is_mtu_probe && packet.is_on(path) {
                mtu.on_acknowledged(packet.bytes, packet.fate == Fate::Outstanding);
            }
            if packet.is_in_flight && packet.is_on(path) {
                marks.on_acknowledged(packet.index);
                tally.note(packet, episode);
                tally.ends_round |= rounds.is_ended_by(packet.index);
            }
        })?;
    }
    if is_any {
        let (ce_marks, is_marked) = marks.on_ack(space, &feedback);
        tally.ce_marks += ce_marks;
        if is_marked {
            rounds.spoil();
        }
    }
    // A packet that probed another path provides no information about this one.
    if let Some(packet) = largest.filter(|packet| packet.is_on(path) && is_ack_eliciting) {
        let sample = now.saturating_since(packet.sent_at);
        tally.rtt = Some(sample);
        tally.one_way = packet.arrived_at.checked_since(packet.sent_at);
        tally.one_way = tally.one_way.filter(|_| packet.arrived_at < Timestamp::FAR_FUTURE);
        let delay = match space {
            SpaceId::Application => records.peer_acks.delay(ack.delay.get(), is_confirmed),
            SpaceId::Initial | SpaceId::Handshake => Duration::ZERO,
        };
        records.rtt.on_sample(now, sample, delay);
    }
    if is_any {
        records.probes.reset(now);
        records.expiries_in_a_row = 0;
        records.ack_eliciting_since = 0;
    }
    match not_arrived {
        Some(number) if stage.is_peer_watched => {
            Err(format!("packet {number} of {space:?} was acknowledged but has not arrived"))
        }
        _ => Ok(()),
    }
}

/// Returns whether only the bytes in flight have changed, as in the reports after each packet.
fn is_quiet(before: &Metrics, after: &Metrics) -> bool {
    before.congestion == after.congestion
        && before.pacing_rate == after.pacing_rate
        && before.probe_timeouts == after.probe_timeouts
        && before.pto_count == after.pto_count
        && before.rtt == after.rtt
        && before.delivery_rate == after.delivery_rate
}

/// Returns a controller's metrics before any event.
fn first_metrics(after: &Metrics, records: &EndpointRecords) -> Metrics {
    let congestion = Snapshot {
        window: records.config.initial_window,
        slow_start_threshold: None,
        phase: Phase::SlowStart,
        congestion_events: 0,
        undone_events: 0,
        ..after.congestion
    };
    let bytes_in_flight = records.tally.prior_in_flight.unwrap_or(0);
    Metrics {
        rtt: None,
        pto_count: 0,
        probe_timeouts: records.expiries,
        bytes_in_flight,
        congestion,
        delivery_rate: None,
        ..*after
    }
}

/// Adds the acknowledged packets to the round, and ends the round if it is complete.
fn end_round(records: &mut EndpointRecords, tally: &Tally, after: &Metrics) -> Option<Round> {
    if !tally.has_event() {
        return None;
    }
    records.rounds.on_acknowledged(tally.acked, tally.growing, after.congestion.phase);
    tally.ends_round.then(|| {
        let next = records.ledger.next_index();
        records.rounds.end(records.now, next, effective_window(after), after.congestion.phase)
    })
}

/// Updates the recovery period to its state after the report.
fn conclude(records: &mut EndpointRecords, report: &Report<'_>) {
    let Report { after, tally, change, .. } = report;
    let next = records.ledger.next_index();
    let episode = &mut records.episode;
    let window_before = episode.window_before;
    if change.is_undo {
        episode.undo();
    }
    if change.is_cut {
        records.marks.on_reduced(next);
        let prior = tally.prior_in_flight.unwrap_or(after.bytes_in_flight);
        let before = if change.is_undo { change.before.max(window_before) } else { change.before };
        episode.begin(Beginning {
            next_index: next,
            event: records.event,
            window_before: before,
            in_flight: prior,
            delivered: tally.acked,
            missing: tally.lost,
        });
        if records.config.kind.is_loss_based() && after.congestion.phase != Phase::Recovery {
            records.episode.collapse(next);
        }
        records.episode.can_be_undone &= tally.ce_marks == 0;
        return;
    }
    if tally.ce_marks > 0 && tally.acked > 0 {
        // The network itself signaled congestion (RFC 9002 §7.1), so the last reduction was not a
        // mistake.
        episode.can_be_undone = false;
        records.marks.on_answered();
    }
    episode.missing += tally.lost;
    if tally.largest_acked.is_some_and(|index| index >= episode.boundary) {
        episode.is_open = false;
    }
}
