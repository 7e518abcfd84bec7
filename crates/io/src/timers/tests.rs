use std::collections::BTreeMap;

use clearway_units::Timestamp;
use proptest::prelude::*;

use super::Timers;

fn at(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos(nanoseconds)
}

#[test]
fn the_earliest_deadline_comes_first() {
    let mut timers = Timers::new();
    timers.set(3, Some(at(30)));
    timers.set(1, Some(at(10)));
    timers.set(2, Some(at(20)));
    assert_eq!(timers.earliest(), Some(at(10)));
    assert_eq!(timers.pop_due(at(9)), None);
    assert_eq!(timers.pop_due(at(25)), Some(1));
    assert_eq!(timers.pop_due(at(25)), Some(2));
    assert_eq!(timers.pop_due(at(25)), None);
    assert_eq!(timers.earliest(), Some(at(30)));
}

#[test]
fn a_key_has_one_deadline_that_can_move_and_go() {
    let mut timers = Timers::new();
    timers.set(0, Some(at(10)));
    timers.set(1, Some(at(20)));
    timers.set(0, Some(at(30)));
    assert_eq!(timers.earliest(), Some(at(20)));
    timers.set(1, None);
    timers.set(7, None);
    assert_eq!(timers.pop_due(at(100)), Some(0));
    assert_eq!(timers.earliest(), None);
}

proptest! {
    #[test]
    fn behaves_like_a_sorted_map(
        steps in prop::collection::vec((0usize..12, prop::option::of(0u64..50), any::<bool>()), 0..200),
    ) {
        let mut timers = Timers::new();
        let mut model = BTreeMap::new();
        for (key, deadline, pops) in steps {
            timers.set(key, deadline.map(at));
            match deadline {
                Some(deadline) => model.insert(key, deadline),
                None => model.remove(&key),
            };
            let earliest = model.iter().map(|(key, deadline)| (*deadline, *key)).min();
            prop_assert_eq!(timers.earliest(), earliest.map(|(deadline, _)| at(deadline)));
            if pops && let Some((deadline, key)) = earliest {
                prop_assert_eq!(timers.pop_due(at(deadline)), Some(key));
                model.remove(&key);
            }
        }
    }
}
