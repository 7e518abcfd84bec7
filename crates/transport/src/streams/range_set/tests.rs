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
