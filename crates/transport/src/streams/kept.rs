//! How much written data is kept, by the priority of its streams.

use std::collections::BTreeMap;

use clearway_units::memory::give_back_map;

/// How many priorities without data are remembered, so that one that comes and goes does not allocate each time.
const SPARE_LEVELS: usize = 16;

/// Bytes that were written and not acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    total: u64,
    /// By priority; the highest is sent first.
    levels: BTreeMap<i32, u64>,
}

impl Kept {
    /// The bytes of all streams.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The bytes of the streams that are sent before or together with one of this priority. What is less urgent waits
    /// for it in the send buffer, and must not take the room from it.
    pub(super) fn of_at_least(&self, priority: i32) -> u64 {
        self.levels.range(priority..).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Forgets priorities without data.
    pub(super) fn rest(&mut self) {
        self.levels.retain(|_, bytes| *bytes > 0);
        give_back_map(&mut self.levels);
    }

    pub(super) fn add(&mut self, priority: i32, bytes: u64) {
        if self.levels.len() >= SPARE_LEVELS {
            self.levels.retain(|level, bytes| *bytes > 0 || *level == priority);
        }
        let kept = self.levels.entry(priority).or_default();
        *kept = kept.saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    pub(super) fn remove(&mut self, priority: i32, bytes: u64) {
        let kept = self.levels.entry(priority).or_default();
        debug_assert!(*kept >= bytes, "bytes leave the send buffer once");
        *kept = kept.saturating_sub(bytes);
        self.total = self.total.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_less_urgent_takes_no_room() {
        let mut kept = Kept::default();
        kept.add(0, 100);
        assert_eq!([-1, 0, 1].map(|priority| kept.of_at_least(priority)), [100, 100, 0]);
        kept.add(3, 10);
        assert_eq!([-1, 0, 1, 3, 4].map(|it| kept.of_at_least(it)), [110, 110, 10, 10, 0]);
        kept.remove(0, 100);
        kept.remove(3, 4);
        assert_eq!((kept.total(), kept.of_at_least(0)), (6, 6));
    }

    #[test]
    fn priorities_without_data_are_forgotten() {
        let mut kept = Kept::default();
        for priority in 0..1000 {
            kept.add(priority, 1);
            kept.remove(priority, 1);
        }
        assert!(kept.levels.len() <= SPARE_LEVELS + 1, "{}", kept.levels.len());
    }
}
