use clearway_units::Timestamp;

/// Deadlines, at most one for each key: a binary heap that knows where each key lies.
///
/// Setting, moving and removing a deadline takes O(log n) and allocates nothing once the heap has
/// grown to the number of its keys. Keys are small numbers that are used again, such as
/// [`ConnectionHandle::index`](clearway_transport::ConnectionHandle::index).
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<(Timestamp, usize)>,
    /// For each key its place in the heap, or [`ABSENT`].
    places: Vec<usize>,
}

const ABSENT: usize = usize::MAX;

impl Timers {
    /// No deadlines.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the deadline of `key`, in place of the one that it had; `None` removes it.
    pub(crate) fn set(&mut self, key: usize, deadline: Option<Timestamp>) {
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

    /// The earliest deadline.
    pub(crate) fn earliest(&self) -> Option<Timestamp> {
        self.heap.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out a key whose deadline is not after `now`, the earliest first.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<usize> {
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

    /// Moves the entry at `place` up to where it belongs, and says where that is.
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
mod tests;
