//! Observes one endpoint: turns observations into records, and applies its rules.

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

use super::books::{
    Arrival, Beginning, Books, Built, Change, Fate, Feedback, Packet, Report, Round, Tally,
    reckoned_window,
};
use super::contents;
use super::properties::{Property, PropertySet};
use super::rule::{SentEvent, Settled};
use super::rules::{Failure, Rules};
use super::terms::Terms;
use crate::end::Side;

/// The records of an endpoint and its rules.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) books: Books,
    rules: Rules,
    on: PropertySet,
    /// The socket from which and the address to which datagrams are sent, as reported by the stack.
    path: Option<(u32, SocketAddr)>,
}

/// The packet numbers that a received packet acknowledged, for the history.
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
    pub(super) fn new(side: Side, terms: Terms, on: PropertySet) -> Self {
        Self { books: Books::new(side, terms), rules: Rules::default(), on, path: None }
    }

    /// Returns how many stages of CUBIC's congestion avoidance were judged.
    #[cfg(test)]
    pub(super) fn stages_judged(&self) -> u64 {
        self.rules.stages_judged()
    }

    /// Returns whether `property` is checked here.
    pub(super) fn is_on(&self, property: Property) -> bool {
        self.on.contains(property)
    }

    /// Turns a violation that the records themselves detect into a failure of `property`, if that
    /// is checked.
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
        let books = &mut self.books;
        books.now = now;
        let space = space_of(packet.packet_type);
        let mut within_limits = Ok(());
        let mut marks_reported = Ok(());
        let contents = contents::read(packet.payload, |frame| {
            books.delivery.on_frame_sent(space, packet.number.get(), frame);
            match frame {
                Frame::Stream(stream) => {
                    if let Err(explanation) = books.streams.on_sent(stream) {
                        within_limits = Err(explanation);
                    }
                }
                Frame::ResetStream(reset) => books.streams.on_reset_sent(reset.stream_id),
                Frame::ResetStreamAt(reset) => books.streams.on_reset_sent(reset.stream_id),
                Frame::AckFrequency(request) => {
                    books.peer_acks.on_requested(packet.number.get(), request);
                }
                Frame::Ack(ack) => marks_reported = books.marks.on_ack_sent(space, ack.ecn),
                Frame::PathChallenge(challenge) => {
                    books.addresses.on_challenge_built(challenge.data);
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
        books.addresses.on_packet_built(entry.bytes, packet.is_path_probe);
        if space == SpaceId::Initial && (books.side == Side::Client || contents.is_ack_eliciting) {
            books.addresses.on_initial_built();
        }
        let early = books.early.on_sent(packet.packet_type, packet.payload);
        let is_padding = contents.is_in_flight && !books.ledger.awaits_acknowledgement_in(space);
        if (contents.is_ack_eliciting || is_padding) && !packet.is_path_probe {
            books.probes.on_sent(space, now);
        }
        let is_probe_of_path = packet.is_path_probe || packet.is_mtu_probe;
        if packet.is_mtu_probe {
            books.mtu.on_sent();
        }
        if contents.is_ack_eliciting && space == SpaceId::Application && !is_probe_of_path {
            books.delivery.on_ack_eliciting_sent();
        }
        books.marks.on_built(Built {
            space,
            number: packet.number.get(),
            counts: contents.is_in_flight && !is_probe_of_path,
            is_probe: packet.is_probe,
        });
        let unique = books.ledger.send(space, packet.number.get(), entry);
        books.stage.has_application_keys |= packet.packet_type == PacketType::OneRtt;
        if contents.has_ack {
            books.reception.unacknowledged[space as usize] = None;
        }
        if contents.is_ack_eliciting && !books.reception.has_sent_since {
            books.reception.has_sent_since = true;
            books.reception.silent_since = now;
        }
        if contents.is_in_flight && books.episode.is_open && !packet.is_path_probe {
            books.episode.out += entry.bytes;
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
        self.rules.on_sent(self.on, &self.books, &event)?;
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
        let books = &mut self.books;
        books.now = now;
        books.stage.is_peer_watched &= arrival != Arrival::Unknown;
        books.stage.has_opened = true;
        let space = space_of(packet.packet_type);
        books.reception.on_received(now, space, packet.number.get());
        if books.side == Side::Server && space == SpaceId::Handshake {
            books.addresses.on_handshake_packet();
        }
        let mut sent_only = Ok(());
        let mut ranges = None;
        let mut is_requested = false;
        let is_newest = books.reception.is_newest(space);
        let mut is_confirmed = books.stage.is_confirmed;
        // A payload that is already known is not decoded again.
        let payload = if arrival == Arrival::Data { &[] } else { packet.payload };
        let contents = contents::read(payload, |frame| {
            books.delivery.on_frame_received(frame);
            match frame {
                Frame::HandshakeDone => is_confirmed = true,
                Frame::NewConnectionId(new) => books.resets.on_token(new.reset_token.as_bytes()),
                Frame::Ack(ack) => {
                    let first = ack.ranges().next().map(|range| range.start().get());
                    ranges = Some((first.unwrap_or(0), ack.largest.get()));
                    if let Err(explanation) = acknowledge(books, space, ack, is_confirmed) {
                        sent_only = Err(explanation);
                    }
                }
                Frame::MaxData(max) => books.streams.on_max_data(max.maximum.get()),
                Frame::MaxStreamData(max) => {
                    books.streams.on_max_stream_data(max.stream_id, max.maximum.get());
                }
                Frame::PathResponse(response) => books.addresses.on_response(response.data),
                Frame::AckFrequency(request) => books.reception.on_frequency(request),
                Frame::ImmediateAck => is_requested = true,
                _ => {}
            }
        });
        let is_ack_eliciting = contents.is_ack_eliciting || arrival == Arrival::Data;
        books.marks.on_received(space, Ecn::from_bits(packet.ecn.bits()), is_ack_eliciting);
        if is_ack_eliciting && books.expiries_in_a_row > 0 {
            books.ack_eliciting_since += 1;
        }
        if is_newest && is_ack_eliciting && contents.has_ack && space == SpaceId::Application {
            let base = books.rtt.probe_timeout() + books.peer_acks.max_delay();
            books.probes.on_peer_activity(now, base);
        }
        if is_ack_eliciting {
            let delay = books.terms.max_ack_delay;
            books.reception.on_ack_eliciting(now, space, delay, is_requested);
        }
        self.own(Property::S7, sent_only)?;
        self.rules.on_received(self.on, &self.books, is_ack_eliciting)?;
        Ok(Acknowledged { space, ranges })
    }

    pub(super) fn on_lost(&mut self, now: Timestamp, lost: &LostPacket) -> Result<(), Failure> {
        let books = &mut self.books;
        books.now = now;
        let tally = &mut books.tally;
        tally.prior_in_flight.get_or_insert(books.ledger.in_flight());
        let enough = books.terms.packet_threshold;
        books.delivery.on_lost(lost.space, lost.number.get());
        // A packet that the host could not send is not lost by a threshold, and its loss is not a
        // sign of congestion.
        let is_unsent = lost.trigger == LossTrigger::Refused;
        if is_unsent {
            books.probes.reset(now);
            books.ledger.exempt(lost.space, lost.number.get());
        }
        match books.ledger.lose(lost.space, lost.number.get(), books.event, enough) {
            Ok(lost) => {
                let packet = lost.packet;
                if packet.is_mtu_probe && packet.is_on(books.ledger.path()) {
                    books.mtu.on_lost();
                }
                if packet.counts(books.ledger.path()) {
                    tally.lost += 1;
                    tally.lost_bytes += packet.bytes;
                    if packet.is_marked {
                        books.marks.on_lost(packet.index);
                    }
                    tally.largest_lost = tally.largest_lost.max(Some(packet.index));
                    books.rounds.spoil();
                }
                match is_unsent {
                    true => Ok(()),
                    false => self.rules.on_lost(self.on, &self.books, &lost),
                }
            }
            Err(explanation) => self.own(Property::S1, Err(explanation)),
        }
    }

    pub(super) fn on_metrics(&mut self, now: Timestamp, after: &Metrics) -> Result<(), Failure> {
        let books = &mut self.books;
        books.now = now;
        books.tally.pending = books.tally.pending.saturating_sub(1);
        if let Some(before) = &mut books.metrics
            && !books.tally.has_event()
            && is_quiet(before, after)
        {
            before.bytes_in_flight = after.bytes_in_flight;
            books.mtu.is_new = false;
            let pending = books.tally.pending;
            books.tally = Tally { pending, ..Tally::default() };
            return self.rules.on_quiet(self.on, &self.books, after);
        }
        let before = books.metrics.unwrap_or_else(|| first_metrics(after, books));
        let expired = after.probe_timeouts > before.probe_timeouts;
        if expired {
            books.expiries = after.probe_timeouts;
            books.expiries_in_a_row += 1;
            books.rounds.spoil();
        }
        let mut tally = core::mem::take(&mut books.tally);
        if tally.acked > 0 || tally.lost > 0 {
            tally.held = books.held.take(now);
        }
        let change = Change::between(&before, after);
        if tally.spurious > 0 || change.is_undo {
            books.rounds.spoil();
        }
        if books.episode.is_open {
            books.episode.delivered += tally.acked;
        }
        books.episode.missing = books.episode.missing.saturating_sub(tally.returned);
        let round = end_round(books, &tally, after);
        let report = Report { before: &before, after, tally: &tally, change, round };
        self.rules.on_report(self.on, &self.books, &report)?;
        if expired {
            self.rules.on_probe_timeout(self.on, &self.books)?;
            let expiry = self.books.earliest_expiry();
            self.books.probes.on_expired(expiry, now);
        }
        if after.rtt.is_some_and(|after| before.rtt.is_some_and(|it| it.minimum < after.minimum)) {
            self.books.rtt.restart_minimum();
        }
        conclude(&mut self.books, &report);
        self.books.mtu.is_new = false;
        self.books.event += 1;
        self.books.metrics = Some(*after);
        self.books.largest_window = self.books.largest_window.max(after.congestion.window);
        // The ACK frames that have not been reported on yet.
        self.books.tally.pending = tally.pending;
        Ok(())
    }

    pub(super) fn on_limit(&mut self, now: Timestamp, limit: SendLimit) {
        self.books.now = now;
        self.books.limit = Some(limit);
        self.books.held.on_stopped(now, limit.is_congestion_control());
    }

    /// Processes a new size of full datagrams.
    pub(super) fn on_mtu(&mut self, now: Timestamp, size: u16) -> Result<(), Failure> {
        self.books.now = now;
        let verdict = self.books.mtu.on_updated(u64::from(size));
        self.rules.on_mtu(&self.books);
        self.own(Property::S25, verdict)
    }

    pub(super) fn on_pacing(&mut self, now: Timestamp, change: TimerChange) -> Result<(), Failure> {
        self.books.now = now;
        match change {
            TimerChange::Paced(release) => {
                self.books.paced_until = Some(release.deadline());
                self.rules.on_paced(self.on, &self.books, release.deadline())
            }
            TimerChange::Set(_) | TimerChange::Expired | TimerChange::Cancelled => {
                self.books.paced_until = None;
                Ok(())
            }
        }
    }

    pub(super) fn on_started(&mut self, now: Timestamp, remote: SocketAddr) {
        self.path = Some((0, remote));
        let books = &mut self.books;
        books.now = now;
        books.stage.is_started = true;
        books.stage.is_peer_watched = true;
        books.reception.silent_since = now;
    }

    pub(super) fn on_state(&mut self, now: Timestamp, state: ConnectionState) {
        let stage = &mut self.books.stage;
        self.books.now = now;
        match state {
            ConnectionState::HandshakeStarted | ConnectionState::HandshakeComplete => {}
            ConnectionState::HandshakeConfirmed => stage.is_confirmed = true,
            ConnectionState::Closing | ConnectionState::Draining | ConnectionState::Closed => {
                stage.is_closed = true;
            }
        }
    }

    pub(super) fn on_discarded(&mut self, now: Timestamp, space: SpaceId) {
        let books = &mut self.books;
        books.now = now;
        let in_flight = books.ledger.in_flight();
        books.ledger.discard(space);
        books.marks.on_discarded(&books.ledger);
        if books.tally.pending > 0 {
            books.tally.discarded += in_flight.saturating_sub(books.ledger.in_flight());
        }
        books.delivery.discard(space);
        books.probes.reset(now);
        books.stage.discarded[space as usize] = true;
        books.reception.unacknowledged[space as usize] = None;
        books.rounds.spoil();
    }

    /// Processes a client that starts over in another version: its first attempt is never
    /// acknowledged.
    pub(super) fn on_begun_again(&mut self, now: Timestamp) {
        let books = &mut self.books;
        books.now = now;
        books.ledger.abandon(SpaceId::Initial);
        books.marks.on_discarded(&books.ledger);
        books.delivery.discard(SpaceId::Initial);
        books.probes.reset(now);
        books.rounds.spoil();
    }

    /// Processes the server's rejection of early data: its packets are never acknowledged, and
    /// their contents are retransmitted.
    pub(super) fn on_early_data_rejected(&mut self, now: Timestamp) {
        let books = &mut self.books;
        books.now = now;
        books.delivery.on_abandoned(SpaceId::Application);
        books.ledger.abandon(SpaceId::Application);
        books.marks.on_discarded(&books.ledger);
        books.streams.restart();
        books.probes.reset(now);
        books.rounds.spoil();
    }

    pub(super) fn on_new_path(&mut self, now: Timestamp) {
        self.books.now = now;
        self.books.start_path();
        self.rules.on_path(&self.books);
    }

    /// Processes a change of the destination to `remote`. If it is a new address, only a packet
    /// with the highest number so far may have caused the change (RFC 9000 §9.3).
    ///
    /// `is_validated`: the stack reports that the peer is there, which only its response to a
    /// challenge that was sent there shows (RFC 9000 §8.2.3).
    pub(super) fn on_moved(
        &mut self,
        now: Timestamp,
        (socket, remote): (u32, SocketAddr),
        is_validated: bool,
    ) -> Result<(), Failure> {
        if is_validated && self.books.side == Side::Server {
            self.own(Property::S23, self.books.addresses.check_validated(remote))?;
        }
        // The validation of a path is also reported, without a change of address.
        let path = (socket, remote);
        let before = self.path.replace(path);
        let is_there = before == Some(path);
        self.books.is_at_other_host = before.is_some_and(|(_, old)| old.ip() != remote.ip());
        if !is_validated {
            self.books.addresses.on_move_to_unvalidated(remote);
        }
        if !is_there {
            self.books.ledger.leave_address();
            self.books.probes.reset(now);
            self.rules.on_moved(&self.books);
        }
        let verdict = match is_there || self.books.reception.is_news(now) {
            true => Ok(()),
            false => Err("a reordered packet made its address the current path".to_owned()),
        };
        self.own(Property::S16, verdict)
    }

    /// Processes the endpoint's report that ECN validation failed on the current path.
    pub(super) fn on_ecn_given_up(&mut self) -> Result<(), Failure> {
        let verdict = self.books.marks.on_given_up();
        self.own(Property::L10, verdict)
    }

    /// Processes the end of the connection by a stateless reset.
    pub(super) fn on_reset(&mut self) -> Result<(), Failure> {
        self.own(Property::S23, self.books.resets.check())
    }

    pub(super) fn on_settled(
        &mut self,
        now: Timestamp,
        deadline: Option<Timestamp>,
        written: u64,
    ) -> Result<(), Failure> {
        let books = &mut self.books;
        books.now = now;
        books.written = written;
        let (is_held, is_full) = (books.is_held(), books.room() < books.datagram());
        books.rounds.on_settled(now, is_held, is_full);
        self.own(Property::S26, marks_reported_at_once(&self.books))?;
        self.rules.on_settled(self.on, &self.books, &Settled { deadline })
    }

    pub(super) fn on_delivered(&mut self, from: SocketAddr, datagram: &[u8]) {
        let Books { addresses, terms, stage, .. } = &mut self.books;
        addresses.on_delivered(from, datagram.len() as u64);
        // Only a client that receives packets can have built it (RFC 9000 §8.1). A corrupt first
        // packet creates a connection that is observed but never used, and a first packet that came
        // from two addresses creates two.
        let is_blind = !terms.is_observed || !stage.has_opened || addresses.has_other_connection();
        if is_blind && contents::has_handshake_packet(datagram) {
            addresses.look_away();
        }
    }

    /// Processes a datagram that was sent on this path.
    pub(super) fn on_path_used(
        &mut self,
        socket: u32,
        to: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), Failure> {
        let verdict = self.books.connection_ids.on_sent(socket, to, datagram);
        let is_judged = self.books.terms.is_observed;
        self.own(Property::S27, if is_judged { verdict } else { Ok(()) })
    }

    /// Returns whether this endpoint has another connection, which is not observed.
    pub(super) fn has_other_connection(&self) -> bool {
        self.books.side == Side::Server && self.books.addresses.has_other_connection()
    }

    /// Records that the peer's packets may belong to a connection other than the observed one.
    pub(super) fn on_peer_unknown(&mut self) {
        self.books.stage.is_peer_watched = false;
    }

    /// Checks the records' own rules on addresses. A client's sending is not limited: it need not
    /// validate its server (RFC 9000 §8.1).
    pub(super) fn on_submitted(
        &mut self,
        to: SocketAddr,
        ecn: Ecn,
        size: u64,
    ) -> Result<(), Failure> {
        let Books { marks, terms, ledger, .. } = &mut self.books;
        let marked = marks.on_submitted(ecn, terms.uses_ecn, ledger);
        self.own(Property::L10, marked)?;
        let padded = self.books.addresses.check_padding(size);
        self.own(Property::S12, padded)?;
        if self.books.side == Side::Client {
            return Ok(());
        }
        let verdict = self.books.addresses.on_submitted(to, size);
        self.own(Property::S12, verdict)
    }
}

/// Checks that a packet received with CE is acknowledged immediately (RFC 9000 §13.2.1), so that
/// the sender can respond.
fn marks_reported_at_once(books: &Books) -> Result<(), String> {
    let may_send = books.credit().is_none_or(|credit| credit >= books.datagram());
    let waits =
        |space: &SpaceId| books.marks.has_unreported_ce(*space) && !books.is_discarded(*space);
    match SpaceId::ALL.into_iter().find(waits).filter(|_| may_send && !books.stage.is_closed) {
        Some(space) => Err(format!("a packet in {space:?} came with CE and was not acknowledged")),
        None => Ok(()),
    }
}

/// Processes a received ACK frame: adds newly acknowledged packets to the tally.
fn acknowledge(
    books: &mut Books,
    space: SpaceId,
    ack: &frame::Ack<'_>,
    is_confirmed: bool,
) -> Result<(), String> {
    let now = books.now;
    let Books { ledger, tally, episode, rounds, stage, delivery, mtu, peer_acks, marks, .. } =
        books;
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
            // As in RFC 9002 §A.7, where lost packets are no longer among those that can be newly
            // acknowledged.
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
    // A packet that probed another path reveals nothing about this one.
    if let Some(packet) = largest.filter(|packet| packet.is_on(path) && is_ack_eliciting) {
        let sample = now.saturating_since(packet.sent_at);
        tally.rtt = Some(sample);
        tally.one_way = packet.arrived_at.checked_since(packet.sent_at);
        tally.one_way = tally.one_way.filter(|_| packet.arrived_at < Timestamp::FAR_FUTURE);
        let delay = match space {
            SpaceId::Application => books.peer_acks.delay(ack.delay.get(), is_confirmed),
            SpaceId::Initial | SpaceId::Handshake => Duration::ZERO,
        };
        books.rtt.on_sample(now, sample, delay);
    }
    if is_any {
        books.probes.reset(now);
        books.expiries_in_a_row = 0;
        books.ack_eliciting_since = 0;
    }
    match not_arrived {
        Some(number) if stage.is_peer_watched => {
            Err(format!("packet {number} of {space:?} was acknowledged but has not arrived"))
        }
        _ => Ok(()),
    }
}

/// Returns whether only the bytes in flight have changed, as in reports after a packet.
fn is_quiet(before: &Metrics, after: &Metrics) -> bool {
    before.congestion == after.congestion
        && before.pacing_rate == after.pacing_rate
        && before.probe_timeouts == after.probe_timeouts
        && before.pto_count == after.pto_count
        && before.rtt == after.rtt
        && before.delivery_rate == after.delivery_rate
}

/// Returns a controller's metrics before any event.
fn first_metrics(after: &Metrics, books: &Books) -> Metrics {
    let congestion = Snapshot {
        window: books.terms.initial_window,
        slow_start_threshold: None,
        phase: Phase::SlowStart,
        congestion_events: 0,
        undone_events: 0,
        ..after.congestion
    };
    let bytes_in_flight = books.tally.prior_in_flight.unwrap_or(0);
    Metrics {
        rtt: None,
        pto_count: 0,
        probe_timeouts: books.expiries,
        bytes_in_flight,
        congestion,
        delivery_rate: None,
        ..*after
    }
}

/// Adds the acknowledged packets to the round, and ends it if it is over.
fn end_round(books: &mut Books, tally: &Tally, after: &Metrics) -> Option<Round> {
    if !tally.has_event() {
        return None;
    }
    books.rounds.on_acknowledged(tally.acked, tally.growing, after.congestion.phase);
    tally.ends_round.then(|| {
        let next = books.ledger.next_index();
        books.rounds.end(books.now, next, reckoned_window(after), after.congestion.phase)
    })
}

/// Updates the recovery period to its state after the report.
fn conclude(books: &mut Books, report: &Report<'_>) {
    let Report { after, tally, change, .. } = report;
    let next = books.ledger.next_index();
    let episode = &mut books.episode;
    let window_before = episode.window_before;
    if change.is_undo {
        episode.undo();
    }
    if change.is_cut {
        books.marks.on_reduced(next);
        let prior = tally.prior_in_flight.unwrap_or(after.bytes_in_flight);
        let before = if change.is_undo { change.before.max(window_before) } else { change.before };
        episode.begin(Beginning {
            next_index: next,
            event: books.event,
            window_before: before,
            in_flight: prior,
            delivered: tally.acked,
            missing: tally.lost,
        });
        if books.terms.kind.is_loss_based() && after.congestion.phase != Phase::Recovery {
            books.episode.collapse(next);
        }
        books.episode.can_be_undone &= tally.ce_marks == 0;
        return;
    }
    if tally.ce_marks > 0 && tally.acked > 0 {
        // The network itself signaled congestion (RFC 9002 §7.1), so the last reduction was not a
        // mistake.
        episode.can_be_undone = false;
        books.marks.on_answered();
    }
    episode.missing += tally.lost;
    if tally.largest_acked.is_some_and(|index| index >= episode.boundary) {
        episode.is_open = false;
    }
}
