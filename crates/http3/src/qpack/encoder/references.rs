//! Sections that the peer's decoder has not acknowledged, and their references (RFC 9204 §2.1).

use std::collections::{BTreeMap, VecDeque};

use clearway_units::memory::{OnDemand, Unused};

use crate::qpack::QpackError;

/// Maximum number of unacknowledged sections to remember. If a peer acknowledges none, new sections
/// stop referencing the dynamic table, so memory stays bounded.
pub(super) const MAX_SECTIONS: usize = 1024;

/// A section that references the dynamic table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Section {
    /// The section's Required Insert Count.
    pub(super) required: u64,
    /// The lowest absolute index that the section references.
    pub(super) lowest: u64,
}

/// The state of the unacknowledged sections.
#[derive(Debug, Default)]
struct Open {
    /// The sections, sorted by stream; those of one stream are in the order in which they were
    /// sent. Streams are mostly used and acknowledged in the order of their IDs, so a queue is
    /// fastest.
    sections: VecDeque<(u64, Section)>,
    /// Number of sections per lowest index. Entries are evicted in order, so the lowest index
    /// limits eviction.
    lowest: BTreeMap<u64, usize>,
    /// The largest Required Insert Count of each stream that the peer's decoder may have to block.
    at_risk: BTreeMap<u64, u64>,
}

impl Unused for Open {
    fn unused() -> &'static Self {
        static UNUSED: Open =
            Open { sections: VecDeque::new(), lowest: BTreeMap::new(), at_risk: BTreeMap::new() };
        &UNUSED
    }
}

impl Open {
    /// Returns the position of the first section of a stream.
    fn place(&self, stream: u64) -> usize {
        self.sections.partition_point(|(other, _)| *other < stream)
    }
}

/// The unacknowledged sections.
#[derive(Debug, Default)]
pub(super) struct References {
    open: OnDemand<Open>,
    /// The Known Received Count (§2.1.4).
    known_received: u64,
}

impl References {
    /// Frees memory if all sections are acknowledged.
    pub(super) fn compact(&mut self) {
        let Open { sections, lowest, at_risk } = &*self.open;
        if sections.is_empty() && lowest.is_empty() && at_risk.is_empty() {
            self.open.release();
        }
    }

    /// Returns whether another section can be remembered.
    pub(super) fn has_room(&self) -> bool {
        self.open.sections.len() < MAX_SECTIONS
    }

    /// Returns the number of insertions that the peer is known to have received.
    pub(super) fn known_received(&self) -> u64 {
        self.known_received
    }

    /// Returns the lowest absolute index that a section references.
    pub(super) fn lowest(&self) -> Option<u64> {
        self.open.lowest.first_key_value().map(|(index, _)| *index)
    }

    /// Returns whether a section on `stream` may reference entries that the peer may not have yet,
    /// if it allows `max_blocked` streams to be blocked (§2.1.2).
    pub(super) fn may_block(&self, stream: u64, max_blocked: u64) -> bool {
        self.open.at_risk.contains_key(&stream) || (self.open.at_risk.len() as u64) < max_blocked
    }

    /// Records a section that was sent on `stream`.
    pub(super) fn add(&mut self, stream: u64, section: Section) {
        let Open { sections, lowest, .. } = &mut *self.open;
        match sections.back() {
            Some((last, _)) if *last > stream => {
                let place = sections.partition_point(|(other, _)| *other <= stream);
                sections.insert(place, (stream, section));
            }
            _ => sections.push_back((stream, section)),
        }
        let count = lowest.entry(section.lowest).or_default();
        *count = count.saturating_add(1);
        if section.required > self.known_received {
            let required = self.open.at_risk.entry(stream).or_default();
            *required = section.required.max(*required);
        }
    }

    /// Handles a Section Acknowledgment (§4.4.1).
    pub(super) fn acknowledge(&mut self, stream: u64) -> Result<(), QpackError> {
        let section = self.take(stream).ok_or(QpackError::NothingToAcknowledge)?;
        self.forget(section);
        self.received(section.required);
        Ok(())
    }

    /// Handles a Stream Cancellation (§4.4.2), which may be for a stream without sections.
    pub(super) fn cancel(&mut self, stream: u64) {
        while let Some(section) = self.take(stream) {
            self.forget(section);
        }
        if let Some(open) = self.open.used() {
            open.at_risk.remove(&stream);
        }
    }

    /// Removes and returns the oldest section of a stream.
    fn take(&mut self, stream: u64) -> Option<Section> {
        let open = self.open.used()?;
        let place = open.place(stream);
        if open.sections.get(place)?.0 != stream {
            return None;
        }
        open.sections.remove(place).map(|(_, section)| section)
    }

    /// Handles an Insert Count Increment (§4.4.3) when `inserted` entries have been inserted.
    pub(super) fn increment(&mut self, increment: u64, inserted: u64) -> Result<(), QpackError> {
        if increment == 0 {
            return Err(QpackError::IncrementZero);
        }
        let known = self.known_received.saturating_add(increment);
        if known > inserted {
            return Err(QpackError::IncrementTooLarge);
        }
        self.received(known);
        Ok(())
    }

    fn received(&mut self, known: u64) {
        if known > self.known_received {
            self.known_received = known;
            if let Some(open) = self.open.used() {
                open.at_risk.retain(|_, required| *required > known);
            }
        }
    }

    fn forget(&mut self, section: Section) {
        if let Some(count) = self.open.lowest.get_mut(&section.lowest) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.open.lowest.remove(&section.lowest);
            }
        }
    }

    /// Checks the counts and the streams at risk against the sections.
    #[cfg(test)]
    pub(super) fn check_caches(&self) {
        let Open { sections, lowest, at_risk } = &*self.open;
        let (mut counts, mut required) = (BTreeMap::new(), BTreeMap::new());
        for (stream, section) in sections {
            *counts.entry(section.lowest).or_default() += 1;
            let most: &mut u64 = required.entry(*stream).or_default();
            *most = section.required.max(*most);
        }
        required.retain(|_, required| *required > self.known_received);
        assert!(sections.iter().is_sorted_by_key(|(stream, _)| *stream), "{sections:?}");
        assert_eq!((lowest, at_risk), (&counts, &required), "the counts match the sections");
    }

    #[cfg(test)]
    pub(super) fn at_risk(&self) -> usize {
        self.open.at_risk.len()
    }
}

#[cfg(test)]
mod tests {
    use clearway_units::Random;

    use super::*;

    /// For any order of sending, acknowledging and canceling: a stream's oldest section is
    /// acknowledged first, and the lowest referenced index is known.
    #[test]
    fn sections_are_acknowledged_in_the_order_of_their_stream() {
        let mut random = Random::from_number(1);
        let (mut references, mut model) = (References::default(), Vec::<(u64, Section)>::new());
        for required in 1..5_000 {
            let stream = random.number() % 16;
            match random.number() % 8 {
                0 => {
                    references.cancel(stream);
                    model.retain(|(other, _)| *other != stream);
                }
                1..4 => {
                    let place = model.iter().position(|(other, _)| *other == stream);
                    let expected = place.map(|place| model.remove(place).1);
                    let known = references.known_received();
                    let is_known = references.acknowledge(stream).is_ok();
                    assert_eq!(is_known, expected.is_some());
                    let required = expected.map_or(known, |section| section.required.max(known));
                    assert_eq!(references.known_received(), required);
                }
                _ => {
                    let section = Section { required, lowest: random.number() % 8 };
                    references.add(stream, section);
                    model.push((stream, section));
                }
            }
            let lowest = model.iter().map(|(_, section)| section.lowest).min();
            assert_eq!(references.lowest(), lowest);
            assert_eq!(references.has_room(), model.len() < MAX_SECTIONS);
        }
    }
}
