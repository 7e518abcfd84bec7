//! The contents of a link.

use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::Timestamp;
use slab::Slab;

use crate::counters::increment;
use crate::flows::Flows;
use crate::{Counters, Datagram, DropReason, Dropped, Way};

/// The maximum number of payload buffers that are kept for reuse.
const SPARE_BUFFERS: usize = 1024;

/// A datagram that enters the link.
#[derive(Debug)]
pub(crate) struct EnteringDatagram {
    pub(crate) number: u64,
    pub(crate) binding: u64,
    pub(crate) datagram: Datagram,
}

/// A datagram inside the link. It stays in its slot; queues hold only the slot's number.
#[derive(Debug)]
pub(crate) struct Transit {
    pub(crate) datagram: Datagram,
    pub(crate) number: u64,
    pub(crate) binding: u64,
    pub(crate) entered: Timestamp,
    pub(crate) queued: Duration,
    /// The index of the flow's counters.
    pub(crate) place: usize,
    pub(crate) travel: Travel,
    pub(crate) is_marked: bool,
    pub(crate) is_copy: bool,
    /// Whether the datagram was counted as lost on entry, so that it only takes up queue space and
    /// transmission time.
    pub(crate) is_lost: bool,
}

impl Transit {
    /// Creates a datagram that has just entered.
    pub(crate) fn new(
        now: Timestamp,
        entry: EnteringDatagram,
        place: usize,
        travel: Travel,
    ) -> Self {
        Self {
            datagram: entry.datagram,
            number: entry.number,
            binding: entry.binding,
            entered: now,
            queued: Duration::ZERO,
            place,
            travel,
            is_marked: false,
            is_copy: false,
            is_lost: false,
        }
    }
}

/// The random values drawn on entry for the path after the bottleneck.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Travel {
    /// The jitter in nanoseconds; the middle of the range means no change.
    pub(crate) jitter: u64,
    /// The additional delay of a datagram that later ones may overtake.
    pub(crate) held_back: Option<Duration>,
    pub(crate) is_duplicated: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Inside {
    pub(crate) transits: Slab<Transit>,
    pub(crate) counters: Counters,
    /// Drops after entry that have not been returned yet; `None` if they are not recorded.
    pub(crate) drops: Option<VecDeque<Dropped>>,
    spare: Vec<Vec<u8>>,
}

impl Inside {
    /// Creates an empty link.
    pub(crate) fn new(records_drops: bool) -> Self {
        Self { drops: records_drops.then(VecDeque::new), ..Self::default() }
    }

    /// Returns an empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() > 0 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Counts a drop, wherever in the link it happened.
    pub(crate) fn count_drop(
        &mut self,
        way: Way,
        reason: DropReason,
        flows: &mut Flows,
        place: usize,
    ) {
        self.counters.of_mut(way).count_drop(reason);
        if let Some(counters) = flows.at(place) {
            increment(&mut counters.dropped);
        }
    }

    /// Records the drop of a datagram that was inside the link.
    pub(crate) fn note_drop(&mut self, way: Way, at: Timestamp, reason: DropReason, one: &Transit) {
        if let Some(drops) = &mut self.drops {
            drops.push_back(Dropped {
                way,
                number: one.number,
                flow: one.datagram.flow,
                length: one.datagram.payload.len(),
                at,
                reason,
                is_copy: one.is_copy,
            });
        }
    }
}
