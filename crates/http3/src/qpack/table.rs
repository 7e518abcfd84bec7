//! The dynamic table (RFC 9204 §3.2), used by both encoder and decoder.

use std::collections::VecDeque;

use bytes::Bytes;

use super::FIELD_OVERHEAD;

/// One entry of the dynamic table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Bytes,
    pub(crate) value: Bytes,
}

impl Entry {
    /// Returns the entry's size in bytes (§3.2.1).
    pub(crate) fn size(&self) -> u64 {
        entry_size(self.name.len(), self.value.len())
    }
}

/// Returns the size of an entry whose name and value have these lengths (§3.2.1).
pub(crate) fn entry_size(name: usize, value: usize) -> u64 {
    (name as u64).saturating_add(value as u64).saturating_add(FIELD_OVERHEAD)
}

/// The dynamic table, with entries in order of age, oldest first. Entries are identified by their
/// absolute index (§3.2.4).
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: VecDeque<Entry>,
    /// Number of entries ever inserted: the absolute index of the next one.
    inserted: u64,
    size: u64,
    capacity: u64,
}

impl Table {
    /// Frees unused memory.
    pub(crate) fn compact(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Returns the entries with their absolute indices, oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &Entry)> {
        (self.dropped()..).zip(&self.entries)
    }

    /// Returns the number of entries ever inserted.
    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the unused capacity in bytes.
    pub(crate) fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.size)
    }

    /// Returns the absolute index of the oldest entry, or of the next entry to insert if there are
    /// none.
    pub(crate) fn dropped(&self) -> u64 {
        self.inserted.saturating_sub(self.entries.len() as u64)
    }

    /// Returns the entry with an absolute index, if it was inserted and not evicted.
    pub(crate) fn get(&self, index: u64) -> Option<&Entry> {
        let place = index.checked_sub(self.dropped())?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// Returns the absolute index for a relative index in an encoder instruction (§3.2.5).
    pub(crate) fn absolute(&self, relative: u64) -> Option<u64> {
        self.inserted.checked_sub(relative)?.checked_sub(1)
    }

    /// Evicts the oldest entry.
    pub(crate) fn evict(&mut self) -> Option<(u64, Entry)> {
        let index = self.dropped();
        let entry = self.entries.pop_front()?;
        self.size = self.size.saturating_sub(entry.size());
        Some((index, entry))
    }

    /// Sets the capacity, and evicts entries that no longer fit (§3.2.2).
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        while self.size > capacity && self.evict().is_some() {}
    }

    /// Adds an entry, and evicts other entries to make room (§3.2.2). Returns `false` if the entry
    /// is larger than the table.
    pub(crate) fn insert(&mut self, entry: Entry) -> bool {
        let size = entry.size();
        if size > self.capacity {
            return false;
        }
        while self.room() < size && self.evict().is_some() {}
        self.size = self.size.saturating_add(size);
        self.inserted = self.inserted.saturating_add(1);
        self.entries.push_back(entry);
        true
    }

    /// Checks the cached size against the entries.
    #[cfg(test)]
    pub(crate) fn check_caches(&self) {
        assert_eq!(
            self.size,
            self.entries.iter().map(Entry::size).sum(),
            "the cached size matches the entries"
        );
        assert!(self.size <= self.capacity && self.inserted >= self.entries.len() as u64);
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}
