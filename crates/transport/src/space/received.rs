use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::Timestamp;
use clearway_wire::frame::EcnCounts;
use clearway_wire::{PacketNumber, VarInt, frame};

use super::AckPolicy;
use crate::contents::PacketContents;
use crate::ecn::EcnCodepoint;
use crate::space_id::SpaceState;

/// The maximum number of remembered ranges. When there are more, the oldest is forgotten, and
/// packets up to its end count as duplicates.
const MAX_RANGES: usize = 256;

/// The maximum number of ranges in one ACK frame. Older ones were in earlier frames.
const MAX_RANGES_WRITTEN: usize = 64;

/// The size in bytes of the largest ACK frame without its ranges but with ECN counts, and of the
/// largest range: six and two integers of 8 bytes (RFC 9000 §19.3).
const MAX_ACK_LEN: usize = 1 + 6 * 8;
const MAX_RANGE_LEN: usize = 2 * 8;

/// Consecutive packet numbers that were all received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NumberRange {
    first: u64,
    last: u64,
}

/// Packets received with each ECN mark (RFC 9000 §13.4.1).
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

impl Marks {
    fn count(&mut self, ecn: EcnCodepoint) {
        let count = match ecn {
            EcnCodepoint::NotEct => return,
            EcnCodepoint::Ect0 => &mut self.ect0,
            EcnCodepoint::Ect1 => &mut self.ect1,
            EcnCodepoint::Ce => &mut self.ce,
        };
        *count = count.saturating_add(1);
    }

    /// Returns the counts for an ACK frame; `None` if no packet was marked.
    fn counts(self) -> Option<EcnCounts> {
        let Self { ect0, ect1, ce } = self;
        let is_any = ect0 > 0 || ect1 > 0 || ce > 0;
        is_any.then(|| EcnCounts {
            ect0: VarInt::saturating(ect0),
            ect1: VarInt::saturating(ect1),
            ce: VarInt::saturating(ce),
        })
    }
}

/// The received packets of a space, and when they must be acknowledged (RFC 9000 §13.2).
///
/// Receiving in order extends the newest range: constant time, no allocation.
#[derive(Debug)]
pub(crate) struct ReceivedPackets {
    policy: AckPolicy,
    acknowledge_at_once: bool,
    /// The largest sequence number of any ACK_FREQUENCY frame so far.
    frequency_sequence: Option<VarInt>,
    /// Whether the packet being processed contained an IMMEDIATE_ACK frame.
    is_requested: bool,
    /// Whether the last packet had an ECN-CE mark.
    was_marked: bool,
    /// The received ranges: ascending, neither adjacent nor overlapping, all at or above `floor`.
    ranges: VecDeque<NumberRange>,
    /// Packets below this number are no longer remembered, and count as duplicates.
    floor: u64,
    /// Ranges below this number need not be reported again, since an ACK frame that reported them
    /// was acknowledged. They are still remembered: packets missing there may be late by more than
    /// a round trip (RFC 9000 §12.3).
    reported: u64,
    largest: Option<PacketNumber>,
    largest_received_at: Timestamp,
    largest_ack_eliciting: Option<u64>,
    /// Ack-eliciting packets since the last ACK was written.
    unacknowledged_ack_eliciting: u32,
    deadline: Option<Timestamp>,
    /// The time at which the oldest ack-eliciting packet not yet covered by an ACK frame was
    /// received.
    waiting_since: Option<Timestamp>,
    /// The Largest Acknowledged field of the last ACK frame.
    largest_written: Option<u64>,
    /// The smallest packet number received since the last ACK was written.
    smallest_unacknowledged: Option<u64>,
    /// The number of packets received with each ECN mark.
    marks: Marks,
}

impl SpaceState for ReceivedPackets {
    const ENDED: Self = Self::new(AckPolicy::new(1, Duration::ZERO), true);

    fn ended() -> &'static Self {
        static ENDED: ReceivedPackets = ReceivedPackets::ENDED;
        &ENDED
    }
}

impl ReceivedPackets {
    /// Frees unused capacity.
    pub(crate) fn compact(&mut self) {
        self.ranges.shrink_to_fit();
    }

    /// Creates the state before any packet. `acknowledge_at_once` is for the Initial and Handshake
    /// spaces (RFC 9000 §13.2.1).
    pub(crate) const fn new(policy: AckPolicy, acknowledge_at_once: bool) -> Self {
        Self {
            policy,
            acknowledge_at_once,
            frequency_sequence: None,
            is_requested: false,
            was_marked: false,
            ranges: VecDeque::new(),
            floor: 0,
            reported: 0,
            largest: None,
            largest_received_at: Timestamp::ORIGIN,
            largest_ack_eliciting: None,
            unacknowledged_ack_eliciting: 0,
            deadline: None,
            waiting_since: None,
            largest_written: None,
            smallest_unacknowledged: None,
            marks: Marks { ect0: 0, ect1: 0, ce: 0 },
        }
    }

    /// Returns whether packet `number` was received before, or is too old to tell.
    pub(crate) fn is_duplicate(&self, number: PacketNumber) -> bool {
        let number = number.get();
        if number < self.floor {
            return true;
        }
        if self.ranges.back().is_none_or(|newest| newest.last < number) {
            return false;
        }
        let position = self.ranges.partition_point(|range| range.last < number);
        self.ranges.get(position).is_some_and(|range| range.first <= number)
    }

    /// Records the authenticated packet `number`, received at `now`. `ecn` is the mark of its
    /// datagram. A duplicate changes nothing.
    pub(crate) fn on_packet(
        &mut self,
        number: PacketNumber,
        now: Timestamp,
        ack_eliciting: bool,
        ecn: EcnCodepoint,
    ) {
        if self.is_duplicate(number) {
            return;
        }
        self.marks.count(ecn);
        let first_of_range = self.insert(number.get());
        if self.largest.is_none_or(|largest| largest < number) {
            self.largest = Some(number);
            self.largest_received_at = now;
        }
        self.reported = self.reported.min(number.get());
        let smallest = self.smallest_unacknowledged.unwrap_or(number.get());
        self.smallest_unacknowledged = Some(smallest.min(number.get()));
        let is_marked = ecn == EcnCodepoint::Ce;
        let was_marked = core::mem::replace(&mut self.was_marked, is_marked);
        let is_requested = core::mem::take(&mut self.is_requested);
        if ack_eliciting {
            let out_of_order = self.is_out_of_order(number.get(), first_of_range);
            self.largest_ack_eliciting = self.largest_ack_eliciting.max(Some(number.get()));
            let mark = is_marked && (self.policy.acknowledges_every_mark || !was_marked);
            let at_once =
                is_requested || mark || out_of_order || self.reaches_reordering(number.get());
            self.schedule(now, at_once);
        }
    }

    /// Applies the peer's ACK_FREQUENCY `frame` (draft-ietf-quic-ack-frequency §4), whose policy is
    /// `requested`. An obsolete frame is ignored. A packet that is already waiting to be
    /// acknowledged does not wait longer because of this.
    pub(crate) fn on_frequency(&mut self, frame: &frame::AckFrequency, requested: AckPolicy) {
        if self.frequency_sequence.is_some_and(|newest| frame.sequence <= newest) {
            return;
        }
        self.frequency_sequence = Some(frame.sequence);
        self.policy = requested;
        let due = self.waiting_since.map(|since| since + requested.alarm());
        self.deadline = self.deadline.min(due);
    }

    /// Records that the packet being processed contains an IMMEDIATE_ACK frame
    /// (draft-ietf-quic-ack-frequency §5).
    pub(crate) fn on_immediate_ack(&mut self) {
        self.is_requested = true;
    }

    /// Returns whether the packet has a lower number than another ack-eliciting one, or packets
    /// between the two are missing (RFC 9000 §13.2.1). `first_of_range` is the first of the
    /// consecutive packets up to this one. Always false if the peer tolerates reordering.
    fn is_out_of_order(&self, number: u64, first_of_range: u64) -> bool {
        self.policy.reordering_threshold == 1
            && self.largest_ack_eliciting.is_some_and(|largest| {
                number < largest || first_of_range > largest.max(self.reported)
            })
    }

    /// Returns whether the peer, which tolerates some reordering, can now declare a packet lost, or
    /// learns that packet `number`, which it has declared lost, arrived after all
    /// (draft-ietf-quic-ack-frequency §6.2).
    fn reaches_reordering(&self, number: u64) -> bool {
        let threshold = self.policy.reordering_threshold;
        if threshold <= 1 {
            return false;
        }
        // The largest packet that could be declared lost based on the last ACK frame.
        let reported_missing =
            self.largest_written.and_then(|largest| largest.checked_sub(threshold));
        if reported_missing.is_some_and(|missing| number <= missing) {
            return true;
        }
        let from = reported_missing.map_or(0, |missing| missing.saturating_add(1)).max(self.floor);
        let largest = self.largest_ack_eliciting.unwrap_or(0);
        let first = self.first_missing(from);
        first < largest && largest.saturating_sub(first) >= threshold
    }

    /// Returns the smallest number that was not received, starting at `from`.
    fn first_missing(&self, from: u64) -> u64 {
        let position = self.ranges.partition_point(|range| range.last < from);
        let holding = self.ranges.get(position).filter(|range| range.first <= from);
        holding.map_or(from, |range| range.last.saturating_add(1))
    }

    fn schedule(&mut self, now: Timestamp, at_once: bool) {
        self.unacknowledged_ack_eliciting = self.unacknowledged_ack_eliciting.saturating_add(1);
        let at_once = at_once
            || self.acknowledge_at_once
            || self.unacknowledged_ack_eliciting >= self.policy.ack_eliciting_threshold;
        let due = if at_once { now } else { now + self.policy.alarm() };
        self.waiting_since = self.waiting_since.or(Some(now));
        self.deadline = Some(self.deadline.map_or(due, |deadline| deadline.min(due)));
    }

    /// Adds `number`, which is not in any range, and returns the first number of its range.
    fn insert(&mut self, number: u64) -> u64 {
        // The usual case: the packet follows the newest one.
        if let Some(newest) = self.ranges.back_mut()
            && newest.last.checked_add(1) == Some(number)
        {
            newest.last = number;
            return newest.first;
        }
        let position = self.ranges.partition_point(|range| range.last < number);
        let joins_next =
            self.ranges.get(position).is_some_and(|next| Some(next.first) == number.checked_add(1));
        let previous = position.checked_sub(1).and_then(|before| self.ranges.get(before)).copied();
        let previous = previous.filter(|range| range.last.checked_add(1) == Some(number));
        let first = previous.map_or(number, |range| range.first);
        let last = if joins_next {
            self.ranges.remove(position).map_or(number, |next| next.last)
        } else {
            number
        };
        let joined = NumberRange { first, last };
        if previous.is_some() {
            if let Some(range) = self.ranges.get_mut(position.saturating_sub(1)) {
                *range = joined;
            }
        } else {
            self.ranges.insert(position, joined);
        }
        if self.ranges.len() > MAX_RANGES
            && let Some(oldest) = self.ranges.pop_front()
        {
            self.floor = self.floor.max(oldest.last.saturating_add(1));
        }
        first
    }

    /// Returns the largest packet number received.
    pub(crate) fn largest(&self) -> Option<PacketNumber> {
        self.largest
    }

    /// Returns whether a packet before the largest is missing.
    pub(crate) fn has_gap(&self) -> bool {
        let is_whole = |range: &NumberRange| range.first == 0;
        self.ranges.len() > 1 || !self.ranges.front().is_none_or(is_whole)
    }

    /// Returns when an ACK must be sent at the latest; `None` if no ack-eliciting packet is
    /// unacknowledged.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// Returns whether an ACK must be sent now.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns whether an ACK would report anything new, in which case it is worth adding to a
    /// packet.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.smallest_unacknowledged.is_some()
    }

    /// Writes an ACK frame into `contents`, with the newest ranges first, as many as fit, and with
    /// ECN counts once a marked packet was received (RFC 9000 §13.4.1). Returns `false` if there is
    /// nothing to acknowledge or no room.
    pub(crate) fn write_ack(
        &mut self,
        now: Timestamp,
        ack_delay_exponent: u8,
        contents: &mut PacketContents<'_, '_>,
    ) -> bool {
        self.write_ranges(now, ack_delay_exponent, MAX_RANGES_WRITTEN, contents)
    }

    /// Writes an ACK frame even if the last one may have arrived, and leaves `reserved` bytes of
    /// the packet free.
    pub(crate) fn write_last_ack(
        &mut self,
        now: Timestamp,
        ack_delay_exponent: u8,
        reserved: usize,
        contents: &mut PacketContents<'_, '_>,
    ) {
        let room = contents.remaining().saturating_sub(reserved).saturating_sub(MAX_ACK_LEN);
        let ranges = room.div_euclid(MAX_RANGE_LEN).min(MAX_RANGES_WRITTEN);
        if ranges > 0 {
            self.write_ranges(now, ack_delay_exponent, ranges, contents);
        }
    }

    fn write_ranges(
        &mut self,
        now: Timestamp,
        ack_delay_exponent: u8,
        most: usize,
        contents: &mut PacketContents<'_, '_>,
    ) -> bool {
        let Some(largest) = self.largest else { return false };
        let held = now.saturating_since(self.largest_received_at).as_micros();
        let delay = held.checked_shr(u32::from(ack_delay_exponent)).unwrap_or(0);
        let delay = VarInt::saturating(u64::try_from(delay).unwrap_or(u64::MAX));
        let ranges = self.unreported().take(most).filter_map(to_numbers);
        if contents.push_ack(delay, ranges, largest, self.marks.counts()).is_err() {
            return false;
        }
        self.unacknowledged_ack_eliciting = 0;
        self.deadline = None;
        self.waiting_since = None;
        self.largest_written = Some(largest.get());
        self.smallest_unacknowledged = None;
        true
    }

    /// Handles the acknowledgment of an ACK frame up to `largest`: its ranges need not be reported
    /// again (RFC 9000 §13.2.4).
    pub(crate) fn on_ack_acknowledged(&mut self, largest: PacketNumber) {
        let reported = largest.get().saturating_add(1);
        // A late packet below `largest` may have been received after that frame was written.
        let reported = self.smallest_unacknowledged.map_or(reported, |number| number.min(reported));
        self.reported = self.reported.max(reported);
    }

    /// Checks that all cached values agree with the ranges.
    ///
    /// # Panics
    /// If a value does not agree, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check_caches(&self) {
        let mut pairs = self.ranges.iter().zip(self.ranges.iter().skip(1));
        let are_apart = pairs.all(|(before, after)| before.last.saturating_add(1) < after.first);
        assert!(are_apart, "{:?}", self.ranges);
        let is_known = |range: &NumberRange| range.first <= range.last && range.first >= self.floor;
        assert!(self.ranges.iter().all(is_known), "{:?} from {}", self.ranges, self.floor);
        let newest = self.ranges.back().map(|range| range.last);
        assert_eq!(self.largest.map(PacketNumber::get), newest, "the largest packet number");
        let waits = self.unacknowledged_ack_eliciting > 0;
        assert_eq!((self.deadline.is_some(), self.waiting_since.is_some()), (waits, waits));
        assert!(!waits || self.smallest_unacknowledged.is_some(), "an ACK frame is due");
        let smallest = self.smallest_unacknowledged.unwrap_or(u64::MAX);
        assert!(self.reported <= smallest, "packet {smallest} must be reported");
    }

    /// Returns the ranges that may not have been reported to the peer, newest first.
    fn unreported(&self) -> impl Iterator<Item = NumberRange> {
        let newest = self.ranges.iter().rev().take_while(|range| range.last >= self.reported);
        newest.map(|range| NumberRange { first: range.first.max(self.reported), last: range.last })
    }
}

fn to_numbers(range: NumberRange) -> Option<RangeInclusive<PacketNumber>> {
    Some(PacketNumber::new(range.first)?..=PacketNumber::new(range.last)?)
}

#[cfg(test)]
#[path = "received_tests.rs"]
mod tests;
