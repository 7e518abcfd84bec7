use core::ops::Range;
use std::collections::VecDeque;

/// Disjoint ranges of stream offsets in ascending order. Adjacent ranges are merged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RangeSet {
    ranges: VecDeque<Range<u64>>,
}

impl RangeSet {
    /// Returns whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the lowest range.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// Creates an empty set.
    pub(super) const fn new() -> Self {
        Self { ranges: VecDeque::new() }
    }

    /// Removes all offsets.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds `range`.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let index = self.ranges.partition_point(|held| held.end < range.start);
        let touching =
            self.ranges.range(index..).take_while(|held| held.start <= range.end).count();
        if touching == 0 {
            self.ranges.insert(index, range);
            return;
        }
        let last = index.saturating_add(touching.saturating_sub(1));
        let end = self.ranges.get(last).map_or(range.end, |held| held.end.max(range.end));
        if let Some(held) = self.ranges.get_mut(index) {
            held.start = held.start.min(range.start);
            held.end = end;
        }
        self.ranges.drain(index.saturating_add(1)..=last);
    }

    /// Removes `range`.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut index = self.ranges.partition_point(|held| held.end <= range.start);
        while let Some(held) = self.ranges.get_mut(index).filter(|held| held.start < range.end) {
            let above = range.end..held.end;
            if held.start < range.start {
                held.end = range.start;
                index = index.saturating_add(1);
                if !above.is_empty() {
                    self.ranges.insert(index, above);
                }
            } else if above.is_empty() {
                self.ranges.remove(index);
            } else {
                held.start = range.end;
            }
        }
    }

    /// Returns whether `range` and the set have no offset in common.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn is_disjoint(&self, range: &Range<u64>) -> bool {
        self.ranges.iter().all(|held| held.end <= range.start || range.end <= held.start)
    }

    /// Returns all ranges, in ascending order.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn all(&self) -> impl Iterator<Item = &Range<u64>> {
        self.ranges.iter()
    }

    /// Returns the parts of `range` that are not in the set, in ascending order.
    pub(super) fn gaps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let index = self.ranges.partition_point(|held| held.end <= range.start);
        let mut from = range.start;
        self.ranges
            .range(index..)
            .take_while({
                let end = range.end;
                move |held| held.start < end
            })
            .cloned()
            .chain(core::iter::once(range.end..range.end))
            .filter_map(move |held| {
                let gap = from..held.start;
                from = held.end;
                (!gap.is_empty()).then_some(gap)
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn members(set: &RangeSet) -> BTreeSet<u64> {
        set.ranges.iter().flat_map(Clone::clone).collect()
    }

    fn is_normal(set: &RangeSet) -> bool {
        let each = set.ranges.iter().all(|range| !range.is_empty());
        let pairs = set.ranges.iter().zip(set.ranges.iter().skip(1));
        each && pairs.into_iter().all(|(left, right)| left.end < right.start)
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..60),
            from in 0u64..70,
            length in 0u64..30,
        ) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (inserts, start, length) in steps {
                let range = start..start + length;
                if inserts {
                    model.extend(range.clone());
                    set.insert(range);
                } else {
                    model.retain(|number| !range.contains(number));
                    set.remove(range);
                }
                prop_assert_eq!(&members(&set), &model);
                prop_assert!(is_normal(&set));
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert_eq!(set.first().map(|range| range.start), model.first().copied());
            }
            let gaps: BTreeSet<u64> = set.gaps(from..from + length).flatten().collect();
            let expected: BTreeSet<u64> =
                (from..from + length).filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(gaps, expected);
        }
    }
}
