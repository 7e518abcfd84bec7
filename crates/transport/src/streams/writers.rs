//! Streams on which the application is waiting for space in the send buffer.

use core::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use clearway_units::memory::release_empty_map;

/// The keys of the streams, by descending priority and, within one priority, in the order in which
/// they began to wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Writers {
    levels: BTreeMap<Reverse<i32>, VecDeque<usize>>,
}

/// The number of priorities without streams that are remembered, to avoid an allocation each time
/// one is used again.
const SPARE_LEVELS: usize = 16;

impl Writers {
    /// Removes priorities without streams.
    pub(super) fn compact(&mut self) {
        self.levels.retain(|_, level| !level.is_empty());
        release_empty_map(&mut self.levels);
    }

    pub(super) fn push(&mut self, priority: i32, key: usize) {
        if self.levels.len() >= SPARE_LEVELS {
            self.levels.retain(|_, level| !level.is_empty());
        }
        self.levels.entry(Reverse(priority)).or_default().push_back(key);
    }

    pub(super) fn remove(&mut self, priority: i32, key: usize) {
        if let Some(level) = self.levels.get_mut(&Reverse(priority)) {
            super::remove_key(level, key);
        }
    }

    /// Removes and returns the first stream if `may_go` returns true for its priority.
    pub(super) fn pop_if(&mut self, may_go: impl FnOnce(i32) -> bool) -> Option<usize> {
        let mut levels = self.levels.iter_mut();
        let (Reverse(priority), level) = levels.find(|(_, level)| !level.is_empty())?;
        if may_go(*priority) { level.pop_front() } else { None }
    }

    /// Checks that exactly these streams are waiting, each once, ordered by priority.
    ///
    /// # Panics
    /// If a check fails, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self, waiting: impl Iterator<Item = (i32, usize)>) {
        let mut wanted = waiting.collect::<Vec<_>>();
        wanted.sort_unstable();
        let levels = self.levels.iter();
        let mut found = levels
            .flat_map(|(Reverse(priority), level)| level.iter().map(move |key| (*priority, *key)))
            .collect::<Vec<_>>();
        found.sort_unstable();
        assert_eq!(found, wanted, "the streams whose application waits for room");
    }

    #[cfg(test)]
    pub(super) fn contains(&self, key: usize) -> bool {
        self.levels.values().any(|level| level.contains(&key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.values().all(VecDeque::is_empty)
    }
}
