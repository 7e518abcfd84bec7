use crate::Timestamp;

/// Deadlines, at most one for each key: an indexed binary heap.
///
/// Setting, moving and removing a deadline takes O(log n) time and does not allocate once the heap
/// has grown to the number of keys. Keys should be small numbers that are reused, such as slab
/// indices: memory use is proportional to the largest key.
#[derive(Debug, Default)]
pub struct Timers {
    heap: Vec<(Timestamp, usize)>,
    /// The position of each key in the heap, or [`ABSENT`].
    places: Vec<usize>,
}

const ABSENT: usize = usize::MAX;

impl Timers {
    /// Creates an empty set of deadlines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the deadline of `key`, replacing the previous one; `None` removes it.
    pub fn set(&mut self, key: usize, deadline: Option<Timestamp>) {
        let place = self.places.get(key).copied().unwrap_or(ABSENT);
        match deadline {
            None if place == ABSENT => {}
            None => self.remove_at(place),
            Some(deadline) if place == ABSENT => {
                if key >= self.places.len() {
                    self.places.resize(key + 1, ABSENT);
                }
                self.heap.push((deadline, key));
                self.rise(self.heap.len() - 1);
            }
            Some(deadline) if self.heap[place].0 == deadline => {}
            Some(deadline) => {
                self.heap[place].0 = deadline;
                let place = self.rise(place);
                self.sink(place);
            }
        }
    }

    /// Returns the earliest deadline.
    #[inline]
    pub fn earliest(&self) -> Option<Timestamp> {
        self.heap.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns the key with the earliest deadline, if that is not after `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Timestamp) -> Option<usize> {
        let (deadline, key) = *self.heap.first()?;
        if deadline > now {
            return None;
        }
        self.remove_at(0);
        Some(key)
    }

    fn remove_at(&mut self, place: usize) {
        let (_, key) = self.heap.swap_remove(place);
        self.places[key] = ABSENT;
        if place < self.heap.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    /// Moves the entry at `place` up to its correct position, and returns that position.
    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = self.heap.get(left).map(|_| left) else { break };
            if self.heap.get(left + 1).is_some_and(|right| *right < self.heap[left]) {
                child = left + 1;
            }
            if entry <= self.heap[child] {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Timestamp, usize)) {
        self.heap[place] = entry;
        self.places[entry.1] = place;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Timers;
    use crate::Timestamp;

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

    /// Checks that each key's position is correct, and that no entry is earlier than its parent.
    fn check_caches(timers: &Timers) {
        for (place, (deadline, key)) in timers.heap.iter().enumerate() {
            assert_eq!(timers.places[*key], place);
            assert!(place == 0 || timers.heap[(place - 1) / 2] <= (*deadline, *key));
        }
        let present = timers.places.iter().filter(|place| **place != super::ABSENT).count();
        assert_eq!(present, timers.heap.len());
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
                check_caches(&timers);
            }
        }
    }
}
