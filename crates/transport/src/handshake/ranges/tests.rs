use proptest::prelude::*;

use super::RangeSet;

proptest! {
    /// Against a set of single offsets.
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
