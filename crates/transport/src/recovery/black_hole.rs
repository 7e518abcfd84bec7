use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::{Timestamp, pack_fields};

use super::ledger::LedgerPacket;

/// So many large packets in a row have to be lost (RFC 8899 §5.1.2: MAX_PROBES, which isolated losses do not reach).
const LEAST_LOST: u32 = 3;

/// The number of large packets, and of round trips in which they were sent, over which the part that was lost is counted. A
/// queue that overflows loses as many only until the sender has heard of it.
const SAMPLE: (u32, u32) = (32, 8);

/// One in this many large packets lost is more than a path is used for that loses regardless of the size: no controller keeps
/// a queue that full, and a smaller size costs little beside such losses.
const MOST_LOST: u32 = 4;

/// Looks for a path that carries small packets and no large ones any more (RFC 8899 §4.3).
///
/// Congestion also drops large packets in a row, and may spare a small one among them. The difference is in what was
/// sent later. Therefore all of these are required: several packets above the base size were lost; a smaller packet that
/// was sent after the first of them was acknowledged, and none as large; and the lost packets were sent over a round
/// trip or more, or a probe timeout has expired since. After a timeout the first of two probes is of full size
/// (`connection/transmit.rs`), so that its acknowledgement clears a path that lost a whole flight to congestion.
///
/// A path may also lose only some of the large packets, for example if one of its links fragments them, or where paths of
/// different sizes are used in turn. Acknowledgements of the others disprove a black hole each time. Therefore the part that was
/// lost counts, too: a quarter over eight round trips.
#[derive(Debug)]
pub(super) struct BlackHole {
    /// The largest datagram that every path carries.
    base: u64,
    losses: Option<Losses>,
    /// The newest packet that was acknowledged, and the newest above the base size with its bytes.
    newest: Option<SendIndex>,
    newest_large: Option<(SendIndex, u64)>,
    timed_out_at: Option<Timestamp>,
    sample: Sample,
    /// Packets before were evidence once, or had the chance to be.
    boundary: SendIndex,
}

pack_fields!(BlackHole { base, losses, newest, newest_large, timed_out_at, sample, boundary });

/// The fate of large packets in a row, whatever their order.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    first_sent_at: Timestamp,
    last_sent_at: Timestamp,
    packets: u32,
    lost: u32,
}

pack_fields!(Sample { first_sent_at, last_sent_at, packets, lost });

impl Sample {
    fn add(&mut self, sent_at: Timestamp, is_lost: bool) {
        if self.packets == 0 {
            self.first_sent_at = sent_at;
        }
        self.last_sent_at = self.last_sent_at.max(sent_at);
        self.packets = self.packets.saturating_add(1);
        self.lost = self.lost.saturating_add(u32::from(is_lost));
    }

    /// Whether too many were lost; `None` until there are enough of them.
    fn verdict(&self, smoothed_rtt: Duration) -> Option<bool> {
        let (packets, round_trips) = SAMPLE;
        let span = self.last_sent_at.saturating_since(self.first_sent_at);
        let is_whole = self.packets >= packets && span >= smoothed_rtt.saturating_mul(round_trips);
        is_whole.then(|| self.lost.saturating_mul(MOST_LOST) >= self.packets)
    }
}

/// Large packets that were lost, with none as large acknowledged that was sent later.
#[derive(Clone, Copy, Debug)]
struct Losses {
    first: SendIndex,
    first_sent_at: Timestamp,
    last_sent_at: Timestamp,
    packets: u32,
    /// The bytes of the smallest.
    smallest: u64,
}

pack_fields!(Losses { first, first_sent_at, last_sent_at, packets, smallest });

impl BlackHole {
    /// The state before the first packet.
    pub(super) fn new(base: u64) -> Self {
        Self {
            base,
            losses: None,
            newest: None,
            newest_large: None,
            timed_out_at: None,
            sample: Sample::default(),
            boundary: SendIndex::default(),
        }
    }

    /// `packet`, which is no probe of a path or its MTU, was acknowledged.
    pub(super) fn on_acknowledged(&mut self, packet: &LedgerPacket) {
        self.newest = self.newest.max(Some(packet.index));
        if packet.bytes <= self.base {
            return;
        }
        if packet.index >= self.boundary {
            self.sample.add(packet.sent_at, false);
        }
        if self.newest_large.is_none_or(|(newest, _)| newest < packet.index) {
            self.newest_large = Some((packet.index, packet.bytes));
        }
        let disproves = |it: &Losses| packet.index >= it.first && packet.bytes >= it.smallest;
        self.losses = self.losses.filter(|losses| !disproves(losses));
    }

    /// `packet`, which is no probe of a path or its MTU, was declared lost.
    pub(super) fn on_lost(&mut self, packet: &LedgerPacket) {
        let is_disproved =
            |(newest, bytes): (SendIndex, u64)| newest > packet.index && bytes >= packet.bytes;
        let is_evidence = packet.bytes > self.base && packet.index >= self.boundary;
        if is_evidence {
            self.sample.add(packet.sent_at, true);
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

    /// A probe timeout expired.
    pub(super) fn on_timeout(&mut self, now: Timestamp) {
        self.timed_out_at = Some(now);
    }

    /// Whether the path has become a black hole for large packets, after all packets of an event were reported. `next` is
    /// the index of the next packet: those sent before are not evidence a second time.
    pub(super) fn conclude(&mut self, smoothed_rtt: Duration, next: SendIndex) -> bool {
        let is_found = self.loses_all(smoothed_rtt) || self.loses_too_many(smoothed_rtt);
        if is_found {
            self.losses = None;
            self.sample = Sample::default();
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

    fn loses_too_many(&mut self, smoothed_rtt: Duration) -> bool {
        let Some(verdict) = self.sample.verdict(smoothed_rtt) else { return false };
        self.sample = Sample::default();
        verdict
    }
}

#[cfg(test)]
#[path = "black_hole_tests.rs"]
mod tests;
