//! The books that the checker keeps of one end: from wire events, trusting no state of the stack's.

mod acknowledgements;
mod addresses;
mod carriers;
mod connection_ids;
mod delivery;
mod early;
mod episode;
mod held;
mod ledger;
mod marks;
mod mtu;
mod probes;
mod report;
mod resets;
mod round_trip;
mod rounds;
mod streams;
mod tally;

use core::time::Duration;

use clearway_transport::{Metrics, SendLimit, SpaceId};
use clearway_units::Timestamp;
use clearway_wire::frame::AckFrequency;

use super::terms::Terms;
use crate::end::Side;

pub(super) use acknowledgements::{AckTerms, PeerAcks};
pub(super) use addresses::Addresses;
use connection_ids::ConnectionIds;
pub(super) use delivery::Delivery;
use early::EarlyPackets;
pub(super) use episode::{Beginning, Episode};
pub(super) use held::{Held, HeldTime};
pub(super) use ledger::{Arrival, Fate, Ledger, Lost, Packet};
pub(super) use marks::{Built, Feedback, MarkBooks};
pub(super) use mtu::MtuBooks;
pub(super) use probes::{Expiry, ProbeBooks};
pub(super) use report::{Change, Report, reckoned_window};
pub(super) use resets::Resets;
pub(super) use round_trip::RttBooks;
pub(super) use rounds::{Round, Rounds};
pub(super) use streams::Streams;
pub(super) use tally::Tally;

/// kInitialRtt (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// What is known of one end.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) side: Side,
    pub(super) terms: Terms,
    pub(super) now: Timestamp,
    pub(super) ledger: Ledger,
    pub(super) rounds: Rounds,
    pub(super) episode: Episode,
    pub(super) streams: Streams,
    pub(super) addresses: Addresses,
    pub(super) connection_ids: ConnectionIds,
    pub(super) early: EarlyPackets,
    pub(super) stage: Stage,
    pub(super) reception: Reception,
    pub(super) rtt: RttBooks,
    pub(super) probes: ProbeBooks,
    pub(super) delivery: Delivery,
    pub(super) resets: Resets,
    pub(super) mtu: MtuBooks,
    pub(super) marks: MarkBooks,
    pub(super) peer_acks: PeerAcks,
    /// The peer's last change of address was not one of its port alone (RFC 9000 §9.4).
    pub(super) is_at_other_host: bool,
    /// The last report, on this path.
    pub(super) metrics: Option<Metrics>,
    /// The largest window on this path.
    pub(super) largest_window: u64,
    /// The reason that sending stopped, as reported by the stack.
    pub(super) limit: Option<SendLimit>,
    /// For how long congestion control has held data back.
    pub(super) held: HeldTime,
    /// The time until which the pacer holds data back, as reported by the stack.
    pub(super) paced_until: Option<Timestamp>,
    /// Probe timeouts that expired, ever and since something was newly acknowledged.
    pub(super) expiries: u64,
    pub(super) expiries_in_a_row: u32,
    /// Packets that came since the first of those, and wanted an answer: each may hasten one timeout.
    pub(super) signs_of_life: u32,
    /// Bytes of content that the application handed over.
    pub(super) written: u64,
    /// What happened since the last report.
    pub(super) tally: Tally,
    /// Counts reports.
    pub(super) event: u64,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stage {
    /// The connection exists and is watched.
    pub(super) is_started: bool,
    /// 1-RTT packets can be sent.
    pub(super) has_application_keys: bool,
    pub(super) is_confirmed: bool,
    pub(super) is_closed: bool,
    /// A packet was received and opened.
    pub(super) has_opened: bool,
    pub(super) discarded: [bool; 3],
    /// The peer is watched as well, and this endpoint's connection is with it.
    pub(super) is_peer_watched: bool,
}

/// When the last packet was received, and since when the next is waited for (RFC 9000 §10.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reception {
    pub(super) silent_since: Timestamp,
    pub(super) has_sent_since: bool,
    /// Ack-eliciting packets of each space that wait for an ACK frame to be sent.
    pub(super) unacknowledged: [Option<Unacknowledged>; 3],
    /// What the peer has asked of these ACK frames.
    pub(super) ack_terms: AckTerms,
    /// The last packet of each space that came: when, and whether its number is the highest so far.
    pub(super) last: [Option<(Timestamp, bool)>; 3],
    /// The highest number of each space.
    pub(super) highest: [Option<u64>; 3],
}

/// Ack-eliciting packets of a space for which no ACK frame was sent yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unacknowledged {
    pub(super) since: Timestamp,
    /// When an ACK frame has to be sent at the latest.
    pub(super) due: Timestamp,
    pub(super) packets: u64,
    /// An IMMEDIATE_ACK frame was among them.
    pub(super) is_asked: bool,
}

impl Reception {
    /// An ack-eliciting packet came, with an IMMEDIATE_ACK frame if `is_asked`. It may wait for `max_ack_delay`.
    pub(super) fn on_ack_eliciting(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        max_ack_delay: Duration,
        is_asked: bool,
    ) {
        let delay = self.ack_terms.max_delay.unwrap_or(max_ack_delay);
        let first = Unacknowledged { since: now, due: now + delay, packets: 0, is_asked: false };
        let waiting = self.unacknowledged[space as usize].get_or_insert(first);
        waiting.packets += 1;
        waiting.is_asked |= is_asked;
        waiting.due = waiting.due.min(now + delay);
    }

    /// An ACK_FREQUENCY frame came.
    pub(super) fn on_frequency(&mut self, frame: &AckFrequency) {
        if !self.ack_terms.on_frequency(frame) {
            return;
        }
        let waiting = self.unacknowledged[SpaceId::Application as usize].as_mut();
        if let (Some(waiting), Some(delay)) = (waiting, self.ack_terms.max_delay) {
            waiting.due = waiting.due.min(waiting.since + delay);
        }
    }

    /// A packet came.
    pub(super) fn on_received(&mut self, now: Timestamp, space: SpaceId, number: u64) {
        self.silent_since = now;
        self.has_sent_since = false;
        let highest = &mut self.highest[space as usize];
        self.last[space as usize] = Some((now, highest.is_none_or(|highest| number > highest)));
        *highest = (*highest).max(Some(number));
    }

    /// Whether the last packet of `space` that came has the highest number so far.
    pub(super) fn is_newest(&self, space: SpaceId) -> bool {
        self.last[space as usize].is_some_and(|(_, is_newest)| is_newest)
    }

    /// What comes at this moment is newer than all before it, in some space; so if nothing came.
    pub(super) fn is_news(&self, now: Timestamp) -> bool {
        let mut present = self.last.iter().flatten().filter(|(at, _)| *at == now).peekable();
        present.peek().is_none() || present.any(|(_, is_newest)| *is_newest)
    }
}

impl Books {
    /// Nothing has happened.
    pub(super) fn new(side: Side, terms: Terms) -> Self {
        let rounds = Rounds::new(Timestamp::ORIGIN, 0, terms.initial_window);
        let rtt = RttBooks::new(terms.initial_rtt);
        let mtu = MtuBooks::new(terms.max_datagram_size);
        Self {
            side,
            terms,
            now: Timestamp::ORIGIN,
            ledger: Ledger::default(),
            rounds,
            episode: Episode::default(),
            streams: Streams::default(),
            addresses: Addresses::default(),
            connection_ids: ConnectionIds::default(),
            early: EarlyPackets::default(),
            stage: Stage::default(),
            reception: Reception::default(),
            rtt,
            probes: ProbeBooks::default(),
            delivery: Delivery::default(),
            resets: Resets::default(),
            mtu,
            marks: MarkBooks::default(),
            peer_acks: PeerAcks::default(),
            is_at_other_host: false,
            metrics: None,
            largest_window: 0,
            limit: None,
            held: HeldTime::default(),
            paced_until: None,
            expiries: 0,
            expiries_in_a_row: 0,
            signs_of_life: 0,
            written: 0,
            tally: Tally::default(),
            event: 0,
        }
    }

    /// MDS.
    pub(super) fn datagram(&self) -> u64 {
        self.mtu.size
    }

    /// C: how much may be in flight.
    pub(super) fn window(&self) -> u64 {
        self.metrics.as_ref().map_or(self.terms.initial_window, |m| m.congestion.window)
    }

    /// The least window that is expected.
    pub(super) fn floor(&self) -> u64 {
        self.terms.kind.floor() * self.datagram()
    }

    /// What the window leaves.
    pub(super) fn room(&self) -> u64 {
        self.window().saturating_sub(self.ledger.in_flight())
    }

    /// The smoothed round-trip time, once there is a sample.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        Some(self.metrics.as_ref()?.rtt?.smoothed)
    }

    /// How long after it was sent a packet is lost (RFC 9002 §6.1.2), according to this endpoint; zero without a sample.
    /// After reordering that may be up to two round trips or a probe timeout.
    pub(super) fn time_threshold(&self) -> Duration {
        let Some(metrics) = &self.metrics else { return Duration::ZERO };
        let Some(rtt) = metrics.rtt else { return Duration::ZERO };
        let longest = (2 * rtt.smoothed).max(self.probe_timeout());
        let least = rtt.smoothed.max(rtt.latest) * 9 / 8;
        metrics.loss_thresholds.time.min(least.max(longest))
    }

    /// The probe timeout without backoff, with the longest delay that the peer may add (RFC 9002 §6.2.1).
    pub(super) fn probe_timeout(&self) -> Duration {
        let (smoothed, variation) = match self.metrics.as_ref().and_then(|metrics| metrics.rtt) {
            Some(rtt) => (rtt.smoothed, rtt.variation),
            None => (self.rtt.assumed, self.rtt.assumed / 2),
        };
        smoothed + (4 * variation).max(Duration::from_millis(1)) + self.terms.peer_max_ack_delay
    }

    /// When a probe timer may expire at the earliest (RFC 9002 §6.2.1).
    pub(super) fn earliest_expiry(&self) -> Expiry {
        let base = self.rtt.probe_timeout();
        let is_armed = |space| self.ledger.awaits_acknowledgement_in(space);
        self.probes.earliest(
            |space| match space {
                SpaceId::Application if !self.stage.is_confirmed => None,
                SpaceId::Application => {
                    is_armed(space).then_some(base + self.peer_acks.max_delay())
                }
                SpaceId::Initial | SpaceId::Handshake => is_armed(space).then_some(base),
            },
            base,
        )
    }

    /// How much may be sent to an address that is not validated; `None` if there is no such limit. A
    /// client need not validate its server (RFC 9000 §8.1).
    pub(super) fn credit(&self) -> Option<u64> {
        match self.side {
            Side::Client => None,
            Side::Server => self.addresses.credit(),
        }
    }

    /// As [`credit`](Self::credit), the less of two addresses while the server probes the previous one.
    pub(super) fn least_credit(&self) -> Option<u64> {
        match self.side {
            Side::Client => None,
            Side::Server => self.addresses.least_credit(),
        }
    }

    /// Data surely waits that the peer's flow control permits: the application handed over more than
    /// was sent on all streams together, framing included.
    pub(super) fn has_backlog(&self) -> bool {
        self.written > self.streams.kept() && self.streams.permits(self.datagram())
    }

    /// Whether the stack reports that congestion control holds data back.
    pub(super) fn is_held(&self) -> bool {
        self.limit.is_some_and(SendLimit::is_congestion_control)
    }

    /// Whether a space's keys are gone.
    pub(super) fn is_discarded(&self, space: SpaceId) -> bool {
        self.stage.discarded[space as usize]
    }

    /// Congestion control restarts on another path (RFC 9000 §9.4).
    pub(super) fn start_path(&mut self) {
        let smoothed = self.smoothed().unwrap_or_default().min(INITIAL_RTT);
        self.ledger.start_path();
        self.mtu.start_path();
        self.marks.start_path();
        let next = self.ledger.next_index();
        self.rounds = Rounds::new(self.now, next, self.terms.initial_window);
        self.rounds.spoil();
        self.episode = Episode::default();
        self.rtt = RttBooks::new(self.terms.initial_rtt.max(smoothed));
        self.probes.reset(self.now);
        self.metrics = None;
        self.largest_window = 0;
        self.tally = Tally::default();
    }
}
