//! A table of bounded size, in which each operation touches only a few entries.

use core::num::NonZeroU64;
use core::time::Duration;

use clearway_units::Timestamp;

use super::statistics::TableStatistics;
use crate::ServerKey;

/// Key of an entry: a 64-bit hash with a secret key. Collisions happen only by chance, and an
/// attacker cannot search for one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Fingerprint(NonZeroU64);

impl Fingerprint {
    pub(super) fn new(hash: u64) -> Self {
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    pub(super) const fn of_number(number: NonZeroU64) -> Self {
        Self(number)
    }

    pub(super) const fn number(self) -> u64 {
        self.0.get()
    }

    /// Returns the aligned group of four fingerprints that contains this one.
    pub(super) fn quartet(self) -> [Self; 4] {
        let first = self.0.get() & !3;
        [first, first | 1, first | 2, first | 3].map(Self::new)
    }
}

/// Number of index bits that select one of an entry's keys: there are up to eight.
const KEY_BITS: u32 = 3;

/// Placeholder for a missing entry number.
const NONE: u32 = u32::MAX;

/// Maximum number of expired entries to remove at a time: more than are ever created at a time, so
/// that expired entries do not block new ones.
const EXPIRED_AT_A_TIME: usize = 4;

/// An entry, which can be found by up to `K` fingerprints.
#[derive(Debug)]
pub(super) struct Entry<const K: usize> {
    pub(super) keys: [Option<Fingerprint>; K],
    /// The server that the entry leads to.
    pub(super) server: ServerKey,
    pub(super) used: Timestamp,
    /// The next less recently used entry.
    older: u32,
    /// The next more recently used entry; for a vacant one, the next vacant one.
    newer: u32,
    /// The length of the connection's IDs in octets; 0 if unknown.
    pub(super) id_len: u8,
    /// Whether the entry belongs to a connection ID that the server was observed to use.
    pub(super) is_of_server: bool,
    /// Whether the entry belongs in another table, which is full.
    pub(super) was_refused: bool,
    /// Whether the entry is a branch: an unverified client that uses an unknown ID at a
    /// connection's previous address.
    pub(super) is_branch: bool,
    /// The period in which other routers were last updated about the entry; the number repeats only
    /// after the entry's lifetime.
    pub(super) last_published: Option<u8>,
}

impl<const K: usize> Entry<K> {
    pub(super) const VACANT: Self = Self {
        keys: [None; K],
        server: ServerKey::NONE,
        used: Timestamp::ORIGIN,
        older: NONE,
        newer: NONE,
        id_len: 0,
        is_of_server: false,
        was_refused: false,
        is_branch: false,
        last_published: None,
    };

    pub(super) fn key(&self, which: usize) -> Option<Fingerprint> {
        self.keys.get(which).copied().flatten()
    }
}

/// A table that allocates all of its memory on creation.
#[derive(Debug)]
pub(super) struct Table<const K: usize> {
    entries: Vec<Entry<K>>,
    /// The first vacant entry.
    vacant: u32,
    /// The least recently used entry.
    oldest: u32,
    newest: u32,
    /// Hash table with linear probing, at least half of it free. Each value is the number of the
    /// entry, times eight, plus the number of the key.
    index: Vec<u32>,
    lifetime: Duration,
    counts: TableStatistics,
    branches: usize,
}

/// Branches may take up at most 1/`BRANCHES` of a table.
const BRANCHES: usize = 4;

impl<const K: usize> Table<K> {
    /// Maximum memory per entry, including its part of the index.
    pub(super) const BYTES_PER_ENTRY: usize =
        size_of::<Entry<K>>().saturating_add(size_of::<u32>().saturating_mul(K).saturating_mul(4));
    const MOST_ENTRIES: usize = 1 << 28;

    /// Creates a table of up to `capacity` entries.
    pub(super) fn new(capacity: usize, lifetime: Duration) -> Self {
        let capacity = capacity.min(Self::MOST_ENTRIES);
        let mut entries = Vec::with_capacity(capacity);
        entries.resize_with(capacity, || Entry::VACANT);
        for (next, entry) in (1..capacity as u32).zip(&mut entries) {
            entry.newer = next;
        }
        let places = capacity.saturating_mul(K).saturating_mul(2).next_power_of_two();
        Self {
            entries,
            vacant: 0,
            oldest: NONE,
            newest: NONE,
            index: vec![NONE; places],
            lifetime,
            counts: TableStatistics::default(),
            branches: 0,
        }
    }

    pub(super) fn statistics(&self) -> TableStatistics {
        self.counts
    }

    /// Returns the entry with this key, unless it has expired.
    pub(super) fn find(&mut self, now: Timestamp, key: Fingerprint) -> Option<&mut Entry<K>> {
        let number = self.number(key)?;
        if self.is_expired(now, number) {
            self.release(number);
            return None;
        }
        self.entry_mut(number)
    }

    /// Marks the entry as used, which restarts its lifetime.
    pub(super) fn touch(&mut self, now: Timestamp, key: Fingerprint) {
        let Some(number) = self.number(key) else { return };
        self.unlink(number);
        self.append(now, number);
    }

    /// Maps this key to `server`. If the entry is new and the table is full, it replaces the least
    /// recently used entry.
    pub(super) fn put(
        &mut self,
        now: Timestamp,
        key: Fingerprint,
        server: ServerKey,
    ) -> Option<&mut Entry<K>> {
        if self.find(now, key).is_some() {
            self.touch(now, key);
        } else {
            if self.vacant == NONE && !self.expire_oldest(now) {
                self.vacate(self.oldest);
                self.counts.evicted = self.counts.evicted.saturating_add(1);
            }
            self.make(now, key)?;
        }
        let entry = self.find(now, key)?;
        entry.server = server;
        Some(entry)
    }

    /// Adds an entry with this key, which must be unused; `None` if the table is full.
    pub(super) fn add(
        &mut self,
        now: Timestamp,
        key: Fingerprint,
        server: ServerKey,
    ) -> Option<&mut Entry<K>> {
        if self.vacant == NONE && !self.expire_oldest(now) {
            return None;
        }
        let number = self.make(now, key)?;
        let entry = self.entry_mut(number)?;
        entry.server = server;
        Some(entry)
    }

    /// Adds a branch with this key, which must be unused; `None` if the table is full, or has too
    /// many branches.
    pub(super) fn add_branch(
        &mut self,
        now: Timestamp,
        key: Fingerprint,
        server: ServerKey,
    ) -> Option<&mut Entry<K>> {
        if self.has_all_branches() && !self.expire_oldest(now) || self.has_all_branches() {
            return None;
        }
        self.add(now, key, server)?;
        self.branches = self.branches.saturating_add(1);
        let entry = self.find(now, key)?;
        entry.is_branch = true;
        Some(entry)
    }

    fn has_all_branches(&self) -> bool {
        self.branches >= self.entries.len().checked_div(BRANCHES).unwrap_or(0)
    }

    /// Returns when the entry with this key was last used.
    pub(super) fn used(&self, key: Fingerprint) -> Option<Timestamp> {
        Some(self.entry(self.number(key)?)?.used)
    }

    /// Returns all entries, least recently used first.
    pub(super) fn by_use(&self) -> impl Iterator<Item = &Entry<K>> {
        core::iter::successors(self.entry(self.oldest), |entry| self.entry(entry.newer))
    }

    /// Adds an entry as the most recently used one. It is ignored if one of its keys is taken; if
    /// the table is full, it replaces the least recently used entry.
    pub(super) fn insert(&mut self, entry: Entry<K>) {
        let keys = entry.keys.into_iter().zip(0..).filter_map(|(key, which)| Some((key?, which)));
        let keys: Vec<_> = keys.collect();
        let has_one_twice = (1..keys.len()).any(|at| {
            let (before, rest) = keys.split_at(at);
            rest.first().is_some_and(|(key, _)| before.iter().any(|(other, _)| other == key))
        });
        let is_taken = keys.iter().any(|(key, _)| self.number(*key).is_some());
        let is_one_too_many = entry.is_branch && self.has_all_branches();
        if keys.is_empty() || has_one_twice || is_taken || is_one_too_many {
            return;
        }
        if self.vacant == NONE {
            self.vacate(self.oldest);
        }
        let number = self.vacant;
        let Some(vacant) = self.entry_mut(number) else { return };
        let (next, used) = (vacant.newer, entry.used);
        let branches = usize::from(entry.is_branch);
        *vacant = Entry { older: NONE, newer: NONE, ..entry };
        self.vacant = next;
        self.append(used, number);
        for (key, which) in keys {
            self.add_to_index(key, number, which);
        }
        self.counts.entries = self.counts.entries.saturating_add(1);
        self.branches = self.branches.saturating_add(branches);
    }

    /// Counts an entry of another table that was rejected because this table is full.
    pub(super) fn refuse(&mut self) {
        self.counts.refused = self.counts.refused.saturating_add(1);
    }

    /// Sets key number `which` of the entry that has the key `of` to `key`, and removes `key` from
    /// any other entry.
    pub(super) fn set_key(&mut self, of: Fingerprint, which: usize, key: Fingerprint) {
        self.forget_key(key);
        let Some(number) = self.number(of) else { return };
        let old = self.entry(number).and_then(|entry| entry.key(which));
        if let Some(place) = old.and_then(|old| self.find_place(old)) {
            self.take_key(place);
        }
        if let Some(at) = self.entry_mut(number).and_then(|entry| entry.keys.get_mut(which)) {
            *at = Some(key);
        }
        self.add_to_index(key, number, which);
    }

    /// Returns key number `which` of the entry that has the key `of`.
    pub(super) fn key_of(&self, of: Fingerprint, which: usize) -> Option<Fingerprint> {
        self.entry(self.number(of)?)?.key(which)
    }

    /// Removes this key from its entry, which remains in the table.
    pub(super) fn forget_key(&mut self, key: Fingerprint) {
        if let Some(place) = self.find_place(key) {
            self.take_key(place);
        }
    }

    pub(super) fn remove(&mut self, key: Fingerprint) {
        if let Some(number) = self.number(key) {
            self.vacate(number);
        }
    }

    /// Removes a few of the expired entries.
    pub(super) fn expire(&mut self, now: Timestamp) {
        for _ in 0..EXPIRED_AT_A_TIME {
            if !self.expire_oldest(now) {
                break;
            }
        }
    }

    fn expire_oldest(&mut self, now: Timestamp) -> bool {
        let is_expired = self.is_expired(now, self.oldest);
        if is_expired {
            self.release(self.oldest);
        }
        is_expired
    }

    fn is_expired(&self, now: Timestamp, number: u32) -> bool {
        self.entry(number).is_some_and(|entry| entry.used + self.lifetime <= now)
    }

    fn release(&mut self, number: u32) {
        self.vacate(number);
        self.counts.expired = self.counts.expired.saturating_add(1);
    }

    /// Turns a vacant entry into one with `key` as its first key.
    fn make(&mut self, now: Timestamp, key: Fingerprint) -> Option<u32> {
        let number = self.vacant;
        let entry = self.entry_mut(number)?;
        *entry.keys.first_mut()? = Some(key);
        self.vacant = core::mem::replace(&mut entry.newer, NONE);
        self.append(now, number);
        self.add_to_index(key, number, 0);
        self.counts.entries = self.counts.entries.saturating_add(1);
        Some(number)
    }

    fn vacate(&mut self, number: u32) {
        let Some(entry) = self.entry(number) else { return };
        let branches = usize::from(entry.is_branch);
        for key in entry.keys.into_iter().flatten() {
            self.remove_from_index(key);
        }
        self.unlink(number);
        let next = self.vacant;
        if let Some(entry) = self.entry_mut(number) {
            *entry = Entry { newer: next, ..Entry::VACANT };
        }
        self.vacant = number;
        self.counts.entries = self.counts.entries.saturating_sub(1);
        self.branches = self.branches.saturating_sub(branches);
    }

    fn entry(&self, number: u32) -> Option<&Entry<K>> {
        self.entries.get(number as usize)
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut Entry<K>> {
        self.entries.get_mut(number as usize)
    }

    /// Removes an entry from the usage order.
    fn unlink(&mut self, number: u32) {
        let Some(&Entry { older, newer, .. }) = self.entry(number) else { return };
        match self.entry_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entry_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    /// Appends an entry to the usage order as the most recently used one.
    fn append(&mut self, now: Timestamp, number: u32) {
        let older = core::mem::replace(&mut self.newest, number);
        match self.entry_mut(older) {
            Some(entry) => entry.newer = number,
            None => self.oldest = number,
        }
        if let Some(entry) = self.entry_mut(number) {
            (entry.used, entry.older, entry.newer) = (now, older, NONE);
        }
    }
}

/// The index.
impl<const K: usize> Table<K> {
    /// Wraps `place` around at the end of the index.
    fn around(&self, place: usize) -> usize {
        // The length is a power of two.
        place & self.index.len().wrapping_sub(1)
    }

    fn home(&self, key: Fingerprint) -> usize {
        self.around(key.0.get() as usize)
    }

    fn set(&mut self, place: usize, number: u32) {
        if let Some(at) = self.index.get_mut(place) {
            *at = number;
        }
    }

    /// Returns the number of the entry at this position in the index, and the number of its key
    /// that is stored there.
    fn at(&self, place: usize) -> Option<(u32, usize)> {
        let number = self.index.get(place).copied().filter(|number| *number != NONE)?;
        Some((number >> KEY_BITS, (number & ((1 << KEY_BITS) - 1)) as usize))
    }

    fn key_at(&self, place: usize) -> Option<Fingerprint> {
        let (number, which) = self.at(place)?;
        self.entry(number)?.key(which)
    }

    /// Returns the position of `key` in the index, or the free position where it would be.
    fn place(&self, key: Fingerprint) -> usize {
        let mut place = self.home(key);
        while self.key_at(place).is_some_and(|other| other != key) {
            place = self.around(place.wrapping_add(1));
        }
        place
    }

    fn find_place(&self, key: Fingerprint) -> Option<usize> {
        Some(self.place(key)).filter(|place| self.at(*place).is_some())
    }

    fn number(&self, key: Fingerprint) -> Option<u32> {
        self.at(self.place(key)).map(|(number, _)| number)
    }

    fn add_to_index(&mut self, key: Fingerprint, number: u32, which: usize) {
        let mut place = self.home(key);
        while self.at(place).is_some() {
            place = self.around(place.wrapping_add(1));
        }
        self.set(place, number << KEY_BITS | which as u32);
    }

    /// Removes the key at this position in the index from its entry.
    fn take_key(&mut self, place: usize) {
        let Some((number, which)) = self.at(place) else { return };
        self.free(place);
        if let Some(key) = self.entry_mut(number).and_then(|entry| entry.keys.get_mut(which)) {
            *key = None;
        }
    }

    fn remove_from_index(&mut self, key: Fingerprint) {
        if let Some(place) = self.find_place(key) {
            self.free(place);
        }
    }

    /// Frees a position in the index, and moves the keys after it that would otherwise no longer be
    /// found.
    fn free(&mut self, mut free: usize) {
        let mut place = free;
        self.set(free, NONE);
        loop {
            place = self.around(place.wrapping_add(1));
            let Some(key) = self.key_at(place) else { return };
            let from_home = self.around(place.wrapping_sub(self.home(key)));
            let from_free = self.around(place.wrapping_sub(free));
            if from_home >= from_free {
                let number = self.index.get(place).copied().unwrap_or(NONE);
                self.set(free, number);
                self.set(place, NONE);
                free = place;
            }
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
