use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const LIFETIME: u64 = 100;

fn at(nanoseconds: u64) -> Timestamp {
    Timestamp::from_nanos(nanoseconds)
}

fn table<const K: usize>(capacity: usize) -> Table<K> {
    Table::new(capacity, Duration::from_nanos(LIFETIME))
}

fn of(number: u64) -> Fingerprint {
    Fingerprint::new(number)
}

fn server(number: u64) -> ServerKey {
    ServerKey::of(&number.to_string())
}

fn is_known<const K: usize>(table: &mut Table<K>, now: u64, number: u64) -> bool {
    table.find(at(now), of(number)).is_some()
}

#[test]
fn the_entry_that_was_not_used_for_the_longest_time_makes_room() {
    let mut table = table::<1>(4);
    for number in 1..=4 {
        table.put(at(number), of(number), server(number));
    }
    table.touch(at(5), of(1));
    assert_eq!(table.find(at(5), of(1)).unwrap().server, server(1));
    table.put(at(6), of(5), server(5));
    assert!(!is_known(&mut table, 6, 2));
    assert!([1, 3, 4, 5].into_iter().all(|number| is_known(&mut table, 6, number)));
    let expected = TableStatistics { entries: 4, evicted: 1, ..TableStatistics::default() };
    assert_eq!(table.statistics(), expected);
}

#[test]
fn an_entry_whose_lifetime_has_passed_makes_room_first() {
    let mut table = table::<1>(2);
    table.put(at(0), of(1), server(1));
    table.put(at(50), of(2), server(2));
    assert!(table.add(at(99), of(3), server(3)).is_none());
    assert_eq!(table.add(at(100), of(3), server(3)).unwrap().server, server(3));
    assert!(!is_known(&mut table, 100, 1) && is_known(&mut table, 100, 2));
    let expected = TableStatistics { entries: 2, expired: 1, ..TableStatistics::default() };
    assert_eq!(table.statistics(), expected);
}

#[test]
fn entries_last_for_their_lifetime_after_they_were_used() {
    let mut table = table::<1>(4);
    table.put(at(0), of(1), server(1));
    table.touch(at(60), of(1));
    assert!(is_known(&mut table, 159, 1));
    assert!(!is_known(&mut table, 160, 1));
    assert_eq!(table.statistics(), TableStatistics { expired: 1, ..TableStatistics::default() });
}

#[test]
fn a_few_entries_expire_at_a_time() {
    let mut table = table::<3>(100);
    for number in 1..=60 {
        table.put(at(0), of(number), server(number));
    }
    table.expire(at(99));
    assert_eq!(table.statistics().expired, 0);
    for times in 1..=15 {
        table.expire(at(100));
        assert_eq!(table.statistics().expired, 4 * times);
    }
    assert_eq!(table.statistics().entries, 0);
    table.expire(at(200));
}

#[test]
fn an_entry_is_found_by_each_of_its_keys() {
    let mut table = table::<3>(4);
    table.add(at(0), of(1), server(1));
    table.set_key(of(1), 1, of(11));
    table.set_key(of(11), 2, of(21));
    for number in [1, 11, 21] {
        let entry = table.find(at(0), of(number)).unwrap();
        assert_eq!(
            (entry.server, entry.key(0), entry.key(2)),
            (server(1), Some(of(1)), Some(of(21)))
        );
    }
    table.set_key(of(1), 2, of(22));
    assert!(!is_known(&mut table, 0, 21) && is_known(&mut table, 0, 22));
    table.add(at(0), of(2), server(2));
    table.set_key(of(2), 2, of(22));
    assert_eq!(table.find(at(0), of(22)).unwrap().server, server(2));
    assert_eq!(table.find(at(0), of(1)).unwrap().key(2), None, "the other entry has this key now");
    table.remove(of(11));
    assert!([1, 11, 21].into_iter().all(|number| !is_known(&mut table, 0, number)));
    assert_eq!(table.statistics().entries, 1);
}

#[test]
fn tables_without_room() {
    let mut none = table::<1>(0);
    assert!(none.put(at(0), of(1), server(1)).is_none());
    assert!(none.add(at(0), of(1), server(1)).is_none());
    assert!(none.find(at(0), of(1)).is_none());
    none.expire(at(0));
    let mut one = table::<1>(1);
    one.put(at(0), of(1), server(1));
    one.put(at(0), of(2), server(2));
    assert!(!is_known(&mut one, 0, 1) && is_known(&mut one, 0, 2));
}

#[test]
fn the_memory_of_an_entry() {
    fn check<const K: usize>(bytes_per_entry: usize) {
        assert_eq!(Table::<K>::BYTES_PER_ENTRY, bytes_per_entry);
        for capacity in [1, 2, 3, 100, 1_000, 1_025, 4_097] {
            let table = table::<K>(capacity);
            let bytes = size_of_val(&*table.entries) + size_of_val(&*table.index);
            assert!(bytes <= capacity * bytes_per_entry, "{bytes} for {capacity}");
        }
    }
    check::<1>(56);
    check::<3>(104);
}

/// A simple model of a table that ignores run time and memory: the entries in order of use, each
/// with its keys, its server and the time of its last use.
#[derive(Default)]
struct Model(VecDeque<([Option<u64>; 3], ServerKey, u64)>);

impl Model {
    fn place(&self, key: u64) -> Option<usize> {
        self.0.iter().position(|(keys, ..)| keys.contains(&Some(key)))
    }

    fn touch(&mut self, now: u64, key: u64) {
        if let Some(mut entry) = self.place(key).and_then(|place| self.0.remove(place)) {
            entry.2 = now;
            self.0.push_back(entry);
        }
    }

    fn add(&mut self, now: u64, key: u64, server: ServerKey) {
        self.0.push_back(([Some(key), None, None], server, now));
    }

    fn set_key(&mut self, of: u64, which: usize, key: u64) {
        if let Some(place) = self.place(key) {
            self.0[place].0.iter_mut().filter(|at| **at == Some(key)).for_each(|at| *at = None);
        }
        if let Some(place) = self.place(of) {
            self.0[place].0[which] = Some(key);
        }
    }
}

proptest! {
    /// There are few keys, and they have the same low bits, so that they collide in the index.
    #[test]
    fn a_table_is_as_its_model(
        capacity in 1_usize..12,
        steps in prop::collection::vec((0..6_u8, 1..24_u64, 0..4_u64, 1..24_u64, 0..3_usize), 1..300),
    ) {
        let mut table = table::<3>(capacity);
        let mut model = Model::default();
        let spread = |number: u64| of(number % 5 + (number << 32));
        let mut now = 0;
        for (step, number, passed, other, which) in steps {
            now += passed * passed;
            // This is called more often than necessary, so that exactly the unexpired entries are
            // left.
            (0..capacity).for_each(|_| table.expire(at(now)));
            model.0.retain(|(.., used)| used + LIFETIME > now);
            let is_known = model.place(number).is_some();
            let is_full = model.0.len() == capacity;
            match step {
                0 | 1 => {
                    if !is_known {
                        if is_full {
                            model.0.pop_front();
                        }
                        model.add(now, number, server(number));
                    }
                    model.touch(now, number);
                    let place = model.place(number).unwrap();
                    model.0[place].1 = server(other);
                    table.put(at(now), spread(number), server(other));
                }
                2 => if !is_known {
                    let added = table.add(at(now), spread(number), server(number)).is_some();
                    prop_assert_eq!(added, !is_full);
                    if added {
                        model.add(now, number, server(number));
                    }
                }
                3 => {
                    model.touch(now, number);
                    table.touch(at(now), spread(number));
                }
                4 => if number != other {
                    model.set_key(number, which, other);
                    table.set_key(spread(number), which, spread(other));
                }
                _ => {
                    if let Some(place) = model.place(number) {
                        model.0.remove(place);
                    }
                    table.remove(spread(number));
                }
            }
            for number in 1..24 {
                let found = table.find(at(now), spread(number));
                let found = found.map(|entry| (entry.server, entry.keys));
                let expected = model.place(number).map(|place| model.0[place]);
                let expected = expected.map(|(keys, server, _)| (server, keys.map(|key| key.map(spread))));
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(table.statistics().entries, model.0.len());
        }
    }
}
