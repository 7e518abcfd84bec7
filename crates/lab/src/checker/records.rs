//! The checker's records of one endpoint, derived from observed packets without relying on the
//! stack's state.

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

use super::config::EndpointConfig;
use crate::end::Side;

pub(super) use acknowledgements::{AckRequests, PeerAcks};
pub(super) use addresses::Addresses;
use connection_ids::ConnectionIds;
pub(super) use delivery::Delivery;
use early::EarlyPackets;
pub(super) use episode::{Beginning, Episode};
pub(super) use held::{Held, HeldTime};
pub(super) use ledger::{Arrival, Fate, Ledger, Lost, Packet};
pub(super) use marks::{Built, Feedback, MarkRecords};
pub(super) use mtu::MtuRecords;
pub(super) use probes::{Expiry, ProbeRecords};
pub(super) use report::{Change, Report, effective_window};
pub(super) use resets::Resets;
pub(super) use round_trip::RttRecords;
pub(super) use rounds::{Round, Rounds};
pub(super) use streams::Streams;
pub(super) use tally::Tally;

/// kInitialRtt (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The records of one endpoint.
#[derive(Debug)]
pub(super) struct EndpointRecords {
    pub(super) side: Side,
    pub(super) config: EndpointConfig,
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
    pub(super) rtt: RttRecords,
    pub(super) probes: ProbeRecords,
    pub(super) delivery: Delivery,
    pub(super) resets: Resets,
    pub(super) mtu: MtuRecords,
    pub(super) marks: MarkRecords,
    pub(super) peer_acks: PeerAcks,
    /// Whether the peer's last address change was more than a port change (RFC 9000 §9.4).
    pub(super) is_at_other_host: bool,
    /// The latest recovery metrics on this path.
    pub(super) metrics: Option<Metrics>,
    /// The largest congestion window on this path.
    pub(super) largest_window: u64,
    /// The reason why sending stopped, as reported by the stack.
    pub(super) limit: Option<SendLimit>,
    /// The time for which congestion control has limited sending.
    pub(super) held: HeldTime,
    /// The time until which the pacer delays sending, as reported by the stack.
    pub(super) paced_until: Option<Timestamp>,
    /// The number of probe timeouts that expired, in total and since the last new acknowledgment.
    pub(super) expiries: u64,
    pub(super) expiries_in_a_row: u32,
    /// The number of ack-eliciting packets received since the first probe timeout after the last
    /// new acknowledgment. For each of them, one timeout may expire without backoff.
    pub(super) ack_eliciting_since: u32,
    /// Bytes of content that the application has written.
    pub(super) written: u64,
    /// The events since the last report.
    pub(super) tally: Tally,
    /// The number of reports.
    pub(super) event: u64,
}

/// The stage of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stage {
    /// Whether the connection exists and is observed.
    pub(super) is_started: bool,
    /// Whether 1-RTT packets can be sent.
    pub(super) has_application_keys: bool,
    pub(super) is_confirmed: bool,
    pub(super) is_closed: bool,
    /// Whether a packet was received and decrypted.
    pub(super) has_opened: bool,
    pub(super) discarded: [bool; 3],
    /// Whether the peer is also observed and is the other endpoint of this connection.
    pub(super) is_peer_watched: bool,
}

/// Records of received packets: when the current idle period began (RFC 9000 §10.1), and which
/// packets are not acknowledged yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reception {
    pub(super) silent_since: Timestamp,
    pub(super) has_sent_since: bool,
    /// Received ack-eliciting packets of each space that have not been acknowledged yet.
    pub(super) unacknowledged: [Option<Unacknowledged>; 3],
    /// The peer's requests that affect this endpoint's ACK frames.
    pub(super) ack_requests: AckRequests,
    /// The last received packet of each space: its arrival time, and whether its number is the
    /// highest so far.
    pub(super) last: [Option<(Timestamp, bool)>; 3],
    /// The highest received packet number of each space.
    pub(super) highest: [Option<u64>; 3],
}

/// Received ack-eliciting packets of one space that have not been acknowledged yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unacknowledged {
    pub(super) since: Timestamp,
    /// The latest time at which an ACK frame must be sent.
    pub(super) due: Timestamp,
    pub(super) packets: u64,
    /// Whether one of the packets contained an IMMEDIATE_ACK frame.
    pub(super) is_requested: bool,
}

impl Reception {
    /// Processes a received ack-eliciting packet, which contains an IMMEDIATE_ACK frame if
    /// `is_requested`. Its acknowledgment may be delayed by `max_ack_delay`.
    pub(super) fn on_ack_eliciting(
        &mut self,
        now: Timestamp,
        space: SpaceId,
        max_ack_delay: Duration,
        is_requested: bool,
    ) {
        let delay = self.ack_requests.max_delay.unwrap_or(max_ack_delay);
        let first =
            Unacknowledged { since: now, due: now + delay, packets: 0, is_requested: false };
        let waiting = self.unacknowledged[space as usize].get_or_insert(first);
        waiting.packets += 1;
        waiting.is_requested |= is_requested;
        waiting.due = waiting.due.min(now + delay);
    }

    /// Processes a received ACK_FREQUENCY frame.
    pub(super) fn on_frequency(&mut self, frame: &AckFrequency) {
        if !self.ack_requests.on_frequency(frame) {
            return;
        }
        let waiting = self.unacknowledged[SpaceId::Application as usize].as_mut();
        if let (Some(waiting), Some(delay)) = (waiting, self.ack_requests.max_delay) {
            waiting.due = waiting.due.min(waiting.since + delay);
        }
    }

    /// Processes a received packet.
    pub(super) fn on_received(&mut self, now: Timestamp, space: SpaceId, number: u64) {
        self.silent_since = now;
        self.has_sent_since = false;
        let highest = &mut self.highest[space as usize];
        self.last[space as usize] = Some((now, highest.is_none_or(|highest| number > highest)));
        *highest = (*highest).max(Some(number));
    }

    /// Returns whether the last received packet of `space` has the highest number so far.
    pub(super) fn is_newest(&self, space: SpaceId) -> bool {
        self.last[space as usize].is_some_and(|(_, is_newest)| is_newest)
    }

    /// Returns whether a packet received at `now` is newer, in some space, than everything received
    /// before; also returns true if nothing was received.
    pub(super) fn is_news(&self, now: Timestamp) -> bool {
        let mut present = self.last.iter().flatten().filter(|(at, _)| *at == now).peekable();
        present.peek().is_none() || present.any(|(_, is_newest)| *is_newest)
    }
}

impl EndpointRecords {
    /// Creates empty records.
    pub(super) fn new(side: Side, config: EndpointConfig) -> Self {
        let rounds = Rounds::new(Timestamp::ORIGIN, 0, config.initial_window);
        let rtt = RttRecords::new(config.initial_rtt);
        let mtu = MtuRecords::new(config.max_datagram_size);
        Self {
            side,
            config,
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
            probes: ProbeRecords::default(),
            delivery: Delivery::default(),
            resets: Resets::default(),
            mtu,
            marks: MarkRecords::default(),
            peer_acks: PeerAcks::default(),
            is_at_other_host: false,
            metrics: None,
            largest_window: 0,
            limit: None,
            held: HeldTime::default(),
            paced_until: None,
            expiries: 0,
            expiries_in_a_row: 0,
            ack_eliciting_since: 0,
            written: 0,
            tally: Tally::default(),
            event: 0,
        }
    }

    /// Returns the maximum datagram size, called MDS in the properties.
    pub(super) fn datagram(&self) -> u64 {
        self.mtu.size
    }

    /// Returns the congestion window, called C in the properties.
    pub(super) fn window(&self) -> u64 {
        self.metrics.as_ref().map_or(self.config.initial_window, |m| m.congestion.window)
    }

    /// Returns the expected minimum window.
    pub(super) fn floor(&self) -> u64 {
        self.config.kind.floor() * self.datagram()
    }

    /// Returns the unused part of the window.
    pub(super) fn room(&self) -> u64 {
        self.window().saturating_sub(self.ledger.in_flight())
    }

    /// Returns the smoothed RTT, once there is a sample.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        Some(self.metrics.as_ref()?.rtt?.smoothed)
    }

    /// Returns the time after sending at which this endpoint declares a packet lost (RFC 9002
    /// §6.1.2); zero if there is no RTT sample. After reordering, the threshold may be up to two
    /// round trips or a probe timeout.
    pub(super) fn time_threshold(&self) -> Duration {
        let Some(metrics) = &self.metrics else { return Duration::ZERO };
        let Some(rtt) = metrics.rtt else { return Duration::ZERO };
        let longest = (2 * rtt.smoothed).max(self.probe_timeout());
        let least = rtt.smoothed.max(rtt.latest) * 9 / 8;
        metrics.loss_thresholds.time.min(least.max(longest))
    }

    /// Returns the probe timeout without backoff, including the maximum ACK delay of the peer (RFC
    /// 9002 §6.2.1).
    pub(super) fn probe_timeout(&self) -> Duration {
        let (smoothed, variation) = match self.metrics.as_ref().and_then(|metrics| metrics.rtt) {
            Some(rtt) => (rtt.smoothed, rtt.variation),
            None => (self.rtt.assumed, self.rtt.assumed / 2),
        };
        smoothed + (4 * variation).max(Duration::from_millis(1)) + self.config.peer_max_ack_delay
    }

    /// Returns the earliest time at which a probe timer may expire (RFC 9002 §6.2.1).
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

    /// Returns how many more bytes the anti-amplification limit allows; `None` if there is no
    /// limit. A client need not validate its server's address (RFC 9000 §8.1).
    pub(super) fn credit(&self) -> Option<u64> {
        match self.side {
            Side::Client => None,
            Side::Server => self.addresses.credit(),
        }
    }

    /// Like [`credit`](Self::credit), but returns the lower value of two addresses while the server
    /// probes the previous one.
    pub(super) fn least_credit(&self) -> Option<u64> {
        match self.side {
            Side::Client => None,
            Side::Server => self.addresses.least_credit(),
        }
    }

    /// Returns whether data allowed by the peer's flow control is certainly waiting: the
    /// application has written more than was sent on all streams in total, including framing.
    pub(super) fn has_backlog(&self) -> bool {
        self.written > self.streams.kept() && self.streams.permits(self.datagram())
    }

    /// Returns whether the stack reports that congestion control limits sending.
    pub(super) fn is_held(&self) -> bool {
        self.limit.is_some_and(SendLimit::is_congestion_control)
    }

    /// Returns whether a space's keys are discarded.
    pub(super) fn is_discarded(&self, space: SpaceId) -> bool {
        self.stage.discarded[space as usize]
    }

    /// Restarts congestion control on another path (RFC 9000 §9.4).
    pub(super) fn start_path(&mut self) {
        let smoothed = self.smoothed().unwrap_or_default().min(INITIAL_RTT);
        self.ledger.start_path();
        self.mtu.start_path();
        self.marks.start_path();
        let next = self.ledger.next_index();
        self.rounds = Rounds::new(self.now, next, self.config.initial_window);
        self.rounds.spoil();
        self.episode = Episode::default();
        self.rtt = RttRecords::new(self.config.initial_rtt.max(smoothed));
        self.probes.reset(self.now);
        self.metrics = None;
        self.largest_window = 0;
        self.tally = Tally::default();
    }
}
