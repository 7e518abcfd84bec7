use core::ops::Range;

/// A set of offsets, stored as sorted, disjoint ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct RangeSet {
    ranges: Vec<Range<u64>>,
}

impl RangeSet {
    /// Releases excess capacity.
    pub(super) fn compact(&mut self) {
        self.ranges.shrink_to_fit();
    }

    /// Returns the range with the smallest offsets.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first().cloned()
    }

    /// Returns all ranges in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.ranges.iter()
    }

    /// Adds `added`.
    pub(super) fn insert(&mut self, added: Range<u64>) {
        if added.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end < added.start);
        let to = self.ranges.partition_point(|range| range.start <= added.end);
        let touched = self.ranges.get(from..to).unwrap_or_default();
        let start = touched.first().map_or(added.start, |range| range.start.min(added.start));
        let end = touched.last().map_or(added.end, |range| range.end.max(added.end));
        self.ranges.splice(from..to, core::iter::once(start..end));
    }

    /// Removes `removed`.
    pub(super) fn remove(&mut self, removed: Range<u64>) {
        if removed.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end <= removed.start);
        let to = self.ranges.partition_point(|range| range.start < removed.end);
        let touched = self.ranges.get(from..to).unwrap_or_default();
        let before = touched.first().map(|range| range.start..removed.start);
        let after = touched.last().map(|range| removed.end..range.end);
        let kept = [before, after].into_iter().flatten().filter(|range| !range.is_empty());
        self.ranges.splice(from..to, kept.collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RangeSet;

    proptest! {
        /// Compares the range set with a set of single offsets.
        #[test]
        fn insert_and_remove_do_what_a_set_does(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..40, 0_u64..12), 0..30)
        ) {
            let mut set = RangeSet::default();
            let mut model = std::collections::BTreeSet::new();
            for (is_insert, start, length) in steps {
                let range = start..start + length;
                if is_insert {
                    set.insert(range.clone());
                    model.extend(range);
                } else {
                    set.remove(range.clone());
                    model.retain(|offset| !range.contains(offset));
                }
                let offsets: Vec<u64> = set.iter().cloned().flatten().collect();
                prop_assert_eq!(offsets, model.iter().copied().collect::<Vec<_>>());
                let mut neighbours = set.iter().zip(set.iter().skip(1));
                prop_assert!(neighbours.all(|(low, high)| low.end < high.start));
                prop_assert!(set.iter().all(|range| !range.is_empty()));
            }
        }
    }
}
