use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use super::packet::LedgerPacket;

/// Minimum number of consecutive large packets that must be lost (RFC 8899 §5.1.2: MAX_PROBES,
/// which isolated losses do not reach).
const LEAST_LOST: u32 = 3;

/// The number of large packets and of round trips over which lost packets are counted.
const SAMPLE_PACKETS: u32 = 32;
const SAMPLE_ROUNDS: u32 = 8;

/// A path that loses one in this many large packets counts as a black hole. No controller keeps a
/// queue that full, and where smaller packets are lost just as often, the smaller size costs
/// little.
const LOST_OF: u32 = 4;

/// Detects a path that still carries small packets but no longer carries large ones (RFC 8899
/// §4.3).
///
/// Congestion also drops consecutive large packets, and may spare a small one among them. The
/// difference is in what was sent later. Therefore all of these are required: several packets above
/// the base size were lost; a smaller packet sent after the first of them was acknowledged, but
/// none as large; and the lost packets were sent over a round trip or more, or a probe timeout has
/// expired since. After a timeout the first of two probes has full size (`connection/transmit.rs`),
/// so its acknowledgment clears a path that lost a whole flight to congestion.
///
/// A path may also lose only some of the large packets, for example where a link fragments them.
/// Acknowledgments of the others disprove a black hole each time. Therefore the loss rate counts,
/// too: a quarter over eight round trips, with losses in half of them. A queue or receive buffer
/// that overflows drops that many only until the sender notices.
#[derive(Debug, Pack)]
pub(super) struct BlackHole {
    /// The largest datagram that every path carries.
    base: u64,
    losses: Option<Losses>,
    /// The newest acknowledged packet, and the newest one above the base size with its size in
    /// bytes.
    newest: Option<SendIndex>,
    newest_large: Option<(SendIndex, u64)>,
    timed_out_at: Option<Timestamp>,
    sample: BlackHoleSample,
    /// Packets before this index are not considered: they were already used as evidence, or could
    /// have been.
    boundary: SendIndex,
}

/// Counts of large packets, and of those lost, over several round trips.
#[derive(Clone, Copy, Debug, Default, Pack)]
struct BlackHoleSample {
    packets: u32,
    lost: u32,
    rounds: u32,
    /// The round trips in which a packet was lost.
    lossy_rounds: u32,
    is_lossy_round: bool,
    /// The round trip ends when a packet with this index or a later one is acknowledged.
    round_end: SendIndex,
}

impl BlackHoleSample {
    fn add(&mut self, is_lost: bool) {
        self.packets = self.packets.saturating_add(1);
        self.lost = self.lost.saturating_add(u32::from(is_lost));
        self.is_lossy_round |= is_lost;
    }

    fn end_round(&mut self, next: SendIndex) {
        self.rounds = self.rounds.saturating_add(1);
        self.lossy_rounds = self.lossy_rounds.saturating_add(u32::from(self.is_lossy_round));
        self.is_lossy_round = false;
        self.round_end = next;
    }

    fn is_whole(&self) -> bool {
        self.packets >= SAMPLE_PACKETS && self.rounds >= SAMPLE_ROUNDS
    }

    fn loses_too_many(&self) -> bool {
        self.lost.saturating_mul(LOST_OF) >= self.packets
            && self.lossy_rounds.saturating_mul(2) >= self.rounds
    }
}

/// Lost large packets, after which no packet as large was sent and acknowledged.
#[derive(Clone, Copy, Debug, Pack)]
struct Losses {
    first: SendIndex,
    first_sent_at: Timestamp,
    last_sent_at: Timestamp,
    packets: u32,
    /// The size of the smallest lost packet, in bytes.
    smallest: u64,
}

impl BlackHole {
    /// Creates the state before the first packet.
    pub(super) fn new(base: u64) -> Self {
        Self {
            base,
            losses: None,
            newest: None,
            newest_large: None,
            timed_out_at: None,
            sample: BlackHoleSample::default(),
            boundary: SendIndex::default(),
        }
    }

    /// Handles the acknowledgment of `packet`, which is not a probe of a path or its MTU.
    pub(super) fn on_acknowledged(&mut self, packet: &LedgerPacket) {
        self.newest = self.newest.max(Some(packet.index));
        if packet.bytes <= self.base {
            return;
        }
        if packet.index >= self.boundary {
            self.sample.add(false);
        }
        if self.newest_large.is_none_or(|(newest, _)| newest < packet.index) {
            self.newest_large = Some((packet.index, packet.bytes));
        }
        let disproves = |it: &Losses| packet.index >= it.first && packet.bytes >= it.smallest;
        self.losses = self.losses.filter(|losses| !disproves(losses));
    }

    /// Handles the loss of `packet`, which is not a probe of a path or its MTU.
    pub(super) fn on_lost(&mut self, packet: &LedgerPacket) {
        let is_disproved =
            |(newest, bytes): (SendIndex, u64)| newest > packet.index && bytes >= packet.bytes;
        let is_evidence = packet.bytes > self.base && packet.index >= self.boundary;
        if is_evidence {
            self.sample.add(true);
        }
        if !is_evidence || self.newest_large.is_some_and(is_disproved) {
            return;
        }
        let losses = self.losses.get_or_insert(Losses {
            first: packet.index,
            first_sent_at: packet.sent_at,
            last_sent_at: packet.sent_at,
            packets: 0,
            smallest: packet.bytes,
        });
        losses.packets = losses.packets.saturating_add(1);
        losses.smallest = losses.smallest.min(packet.bytes);
        losses.last_sent_at = losses.last_sent_at.max(packet.sent_at);
    }

    /// Records that a probe timeout expired.
    pub(super) fn on_timeout(&mut self, now: Timestamp) {
        self.timed_out_at = Some(now);
    }

    /// Returns whether the path has become a black hole for large packets, after all packets of an
    /// event were reported. `next` is the index of the next packet: those sent before it are not
    /// used as evidence again.
    pub(super) fn conclude(&mut self, smoothed_rtt: Duration, next: SendIndex) -> bool {
        let is_found = self.loses_all(smoothed_rtt) || self.loses_too_many(next);
        if is_found {
            self.losses = None;
            self.sample = BlackHoleSample { round_end: next, ..BlackHoleSample::default() };
            self.boundary = next;
        }
        is_found
    }

    fn loses_all(&self, smoothed_rtt: Duration) -> bool {
        let Some(losses) = self.losses else { return false };
        let span = losses.last_sent_at.saturating_since(losses.first_sent_at);
        let is_lasting = span >= smoothed_rtt
            || self.timed_out_at.is_some_and(|expired| expired > losses.first_sent_at);
        losses.packets >= LEAST_LOST
            && self.newest.is_some_and(|newest| newest > losses.first)
            && is_lasting
    }

    fn loses_too_many(&mut self, next: SendIndex) -> bool {
        if self.newest.is_some_and(|newest| newest >= self.sample.round_end) {
            self.sample.end_round(next);
        }
        if !self.sample.is_whole() {
            return false;
        }
        let is_found = self.sample.loses_too_many();
        self.sample = BlackHoleSample { round_end: next, ..BlackHoleSample::default() };
        is_found
    }
}

#[cfg(test)]
#[path = "black_hole_tests.rs"]
mod tests;
