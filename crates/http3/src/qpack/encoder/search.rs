//! The search index for fields in the encoder's dynamic table.

use std::collections::BTreeMap;

use clearway_units::memory::Unused;

use crate::qpack::table::{Entry, Table};

/// The newest entry for each field and for each name, by hash. Two fields with the same hash
/// displace each other, which only reduces compression.
#[derive(Debug, Default)]
pub(super) struct Search {
    fields: BTreeMap<u64, u64>,
    names: BTreeMap<u64, u64>,
}

impl Unused for Search {
    fn unused() -> &'static Self {
        static UNUSED: Search = Search { fields: BTreeMap::new(), names: BTreeMap::new() };
        &UNUSED
    }
}

/// The hashes of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes {
    name: u64,
    field: u64,
}

impl Hashes {
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        let name = hash(0, name);
        Self { name, field: hash(name, value) }
    }
}

/// Mixes `bytes` into the hash state `state`, eight bytes at a time. Collisions only affect which
/// entries are found, so the hash need not be secret.
fn hash(state: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| (state.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(state, |state, word| mix(state, u64::from_le_bytes(*word)));
    let tail = rest.iter().fold(bytes.len() as u64, |tail, byte| tail << 8 | u64::from(*byte));
    mix(state, tail)
}

impl Search {
    /// Indexes the entries of `table` again, after the search index was freed.
    pub(super) fn restore(&mut self, table: &Table) {
        for (index, entry) in table.entries() {
            self.insert(Hashes::new(&entry.name, &entry.value), index);
        }
    }

    /// Returns the absolute index of an entry with this name and value.
    pub(super) fn field(
        &self,
        table: &Table,
        hashes: Hashes,
        name: &[u8],
        value: &[u8],
    ) -> Option<u64> {
        let index = *self.fields.get(&hashes.field)?;
        let entry = table.get(index)?;
        (entry.name == name && entry.value == value).then_some(index)
    }

    /// Returns the absolute index of an entry with this name.
    pub(super) fn name(&self, table: &Table, hashes: Hashes, name: &[u8]) -> Option<u64> {
        let index = *self.names.get(&hashes.name)?;
        (table.get(index)?.name == name).then_some(index)
    }

    /// Checks that the search finds the newest entry for each field and name in `table`, and no
    /// others.
    #[cfg(test)]
    pub(super) fn check_caches(&self, table: &Table) {
        let mut anew = Self::default();
        anew.restore(table);
        assert_eq!(
            (&self.fields, &self.names),
            (&anew.fields, &anew.names),
            "the search index matches the table"
        );
    }

    pub(super) fn insert(&mut self, hashes: Hashes, index: u64) {
        self.fields.insert(hashes.field, index);
        self.names.insert(hashes.name, index);
    }

    pub(super) fn remove(&mut self, index: u64, entry: &Entry) {
        let hashes = Hashes::new(&entry.name, &entry.value);
        if self.fields.get(&hashes.field) == Some(&index) {
            self.fields.remove(&hashes.field);
        }
        if self.names.get(&hashes.name) == Some(&index) {
            self.names.remove(&hashes.name);
        }
    }
}
