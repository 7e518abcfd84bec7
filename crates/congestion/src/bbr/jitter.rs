//! The mean extra delay of packets on paths that reorder.
//!
//! If each packet has a different delay, as on some radio links and with per-packet load balancing,
//! the minimum round-trip time is that of the fastest packet. A window computed from it alone
//! leaves the path empty most of the time. The draft has no remedy for this: its ACK aggregation
//! (BBR.extra_acked) counts what arrives in one burst, and here the ACKs arrive one by one.
//!
//! A longer round-trip time may also be a queue, which must not make the window larger. But packets
//! leave a queue in the order in which they entered it, so a packet that is acknowledged after one
//! that was sent later was delayed by something else, and the time between the two ACKs is a delay
//! that no queue explains. On a path that preserves the order it is always zero.
//!
//! By Little's law, the delivery rate times the mean of this time is the amount in flight because
//! of it. So the mean is added to the minimum round-trip time wherever a bandwidth-delay product is
//! computed ([`window`](super::window)).

use core::time::Duration;

use clearway_units::Timestamp;
use clearway_units::packed::Pack;

use crate::inspect::{Inspect, StateValue, Visit};
use crate::{Acknowledgement, SendIndex};

/// The number of marks: they cover the last two smoothed round-trip times, so delays are measured
/// with an accuracy of one eighth of a round trip. Longer delays count as two round trips.
const MARKS: usize = 16;
const MARKS_PER_ROUND_TRIP: u32 = 8;

/// The minimum number of packets per round. A round with fewer packets is merged with the next
/// (N_RTT_SAMPLE of RFC 9406).
const SAMPLES: u32 = 8;

/// A time, and the newest packet that had been acknowledged by then.
#[derive(Clone, Copy, Debug, Pack)]
struct Mark {
    newest: SendIndex,
    at: Timestamp,
}

/// The mean delay due to reordering.
#[derive(Clone, Debug, Default, Pack)]
pub(super) struct Jitter {
    /// Marks for increasingly later packets, latest first.
    marks: [Option<Mark>; MARKS],
    /// The sum of the delays of this round's packets.
    sum: Duration,
    /// The number of this round's packets.
    packets: u32,
    delay: Duration,
}

impl Jitter {
    /// Returns the mean time by which packets are delayed because others overtake them. It rises to
    /// the mean of a round immediately, and falls toward a smaller mean by a quarter of the
    /// difference per round. So it never exceeds what was measured, and is zero a few rounds after
    /// reordering has ended.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Counts the packets that `event` acknowledges, and then marks the newest.
    pub(super) fn note(&mut self, event: &Acknowledgement<'_>) {
        for packet in event.acked {
            self.note_packet(event.now, packet.index);
        }
        let (Some(newest), Some(rtt)) = (event.acked.last(), event.rtt) else { return };
        let interval = rtt.smoothed / MARKS_PER_ROUND_TRIP;
        let is_due = self.marks[0]
            .is_none_or(|mark| newest.index > mark.newest && event.now >= mark.at + interval);
        if is_due {
            self.marks.rotate_right(1);
            self.marks[0] = Some(Mark { newest: newest.index, at: event.now });
        }
    }

    /// Counts one packet that was acknowledged at `now`, either in time or after it was declared
    /// lost.
    pub(super) fn note_packet(&mut self, now: Timestamp, index: SendIndex) {
        let overtaking = self.marks.iter().flatten().take_while(|mark| mark.newest > index);
        let delay = overtaking.last().map_or(Duration::ZERO, |mark| now.saturating_since(mark.at));
        self.sum = self.sum.saturating_add(delay);
        self.packets = self.packets.saturating_add(1);
    }

    /// Ends a round.
    pub(super) fn end_round(&mut self) {
        if self.packets < SAMPLES {
            return;
        }
        let mean = self.sum / self.packets;
        self.delay = match self.delay.checked_sub(mean) {
            Some(excess) => mean + excess * 3 / 4,
            None => mean,
        };
        self.sum = Duration::ZERO;
        self.packets = 0;
    }
}

impl Inspect for Jitter {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { marks, sum, packets, delay } = self;
        for mark in marks {
            let (newest, at) = (mark.map(|mark| mark.newest), mark.map(|mark| mark.at));
            visit("mark_newest", StateValue::optional(newest, StateValue::Index));
            visit("mark_at", StateValue::optional(at, StateValue::Time));
        }
        visit("reordering_delay_sum", StateValue::Duration(*sum));
        visit("reordering_packets", StateValue::Count(u64::from(*packets)));
        visit("reordering_delay", StateValue::Duration(*delay));
    }
}

#[cfg(test)]
#[path = "jitter_tests.rs"]
mod tests;
