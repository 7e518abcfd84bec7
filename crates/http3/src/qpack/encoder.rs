//! Encodes field sections (RFC 9204 §4.5), and manages the contents of the dynamic table.

mod policy;
mod references;
mod search;

use bytes::Bytes;
use clearway_units::memory::OnDemand;

use super::decoder_stream::{DecoderInstruction, DecoderInstructions};
use super::static_table::{self, Match};
use super::table::{Entry, Table, entry_size};
use super::{FIELD_OVERHEAD, Field, FieldLines, QpackError, integer, text};
use references::{References, Section};
use search::{Hashes, Search};

/// Divisor of the capacity: this fraction is kept free or draining. Draining entries get no new
/// references, so that they can be evicted when a new entry needs the space (RFC 9204 §2.1.1.1).
const DRAINED_PART: u64 = 4;

/// Divisor of the capacity: one entry may take at most this fraction. A larger entry would displace
/// too many others.
const LARGEST_PART: u64 = 2;

/// The encoder of one connection.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    table: Table,
    search: OnDemand<Search>,
    /// Set if the search index was freed; it is rebuilt from the table when needed.
    is_compacted: bool,
    references: References,
    feedback: DecoderInstructions,
    /// Maximum number of entries that the peer's maximum table capacity allows (§4.5.1.1).
    max_entries: u64,
    /// Number of streams that the peer allows to be blocked.
    max_blocked: u64,
    /// The table capacity in use, in bytes, even if it has not been sent to the peer yet.
    capacity: u64,
    /// The draining index: entries with lower absolute indices get no new references.
    draining: u64,
    /// The total size in bytes of the draining entries.
    draining_size: u64,
    /// Instructions for the encoder stream.
    instructions: Vec<u8>,
    /// The field lines of the section that is being encoded, without the section's prefix.
    lines: Vec<u8>,
}

/// The references of the section that is being encoded.
#[derive(Clone, Copy, Debug)]
struct Current {
    base: u64,
    required: u64,
    lowest: u64,
    /// Whether the section may reference the dynamic table.
    may_refer: bool,
    /// Whether the section may reference entries that the peer may not have yet.
    may_block: bool,
    /// Whether entries may be inserted for the section.
    may_insert: bool,
}

impl Current {
    fn refer(&mut self, index: u64) {
        self.required = self.required.max(index.saturating_add(1));
        self.lowest = self.lowest.min(index);
    }
}

impl Encoder {
    /// Enables the table. The peer allows `peer_capacity` bytes and `max_blocked` blocked streams;
    /// at most `capacity` bytes are used.
    pub(crate) fn allow(&mut self, peer_capacity: u64, capacity: u64, max_blocked: u64) {
        self.max_entries = peer_capacity / FIELD_OVERHEAD;
        self.capacity = capacity.min(peer_capacity);
        self.max_blocked = max_blocked;
    }

    /// Frees the memory that is not needed until the next section is encoded.
    pub(crate) fn compact(&mut self) {
        self.table.compact();
        self.search.release();
        self.is_compacted = true;
        self.references.compact();
        self.instructions.shrink_to_fit();
        self.lines = Vec::new();
    }

    /// Returns whether there is a dynamic table.
    pub(crate) fn has_table(&self) -> bool {
        self.capacity >= FIELD_OVERHEAD
    }

    /// Returns the instructions to write to the encoder stream, before the sections that depend on
    /// them.
    pub(crate) fn instructions(&mut self) -> &mut Vec<u8> {
        &mut self.instructions
    }

    /// Processes a part of the peer's decoder stream.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<(), QpackError> {
        for &byte in bytes {
            match self.feedback.push(byte)? {
                Some(DecoderInstruction::Acknowledge(stream)) => {
                    self.references.acknowledge(stream)?;
                }
                Some(DecoderInstruction::Cancel(stream)) => self.references.cancel(stream),
                Some(DecoderInstruction::Increment(increment)) => {
                    self.references.increment(increment, self.table.inserted())?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Appends the encoded section of `fields` to `output`. Entries are inserted only if
    /// `may_insert` is set, which requires that the encoder stream can accept instructions.
    pub(crate) fn encode(
        &mut self,
        stream: u64,
        fields: &FieldLines,
        may_insert: bool,
        output: &mut Vec<u8>,
    ) {
        let may_refer = self.has_table() && self.references.has_room();
        let mut current = Current {
            base: self.table.inserted(),
            required: 0,
            lowest: u64::MAX,
            may_refer,
            may_block: self.references.may_block(stream, self.max_blocked),
            may_insert: may_insert && may_refer,
        };
        if core::mem::take(&mut self.is_compacted) && self.has_table() {
            self.search.restore(&self.table);
        }
        self.lines.clear();
        for field in fields.iter() {
            self.field(&mut current, field);
        }
        self.prefix(&current, output);
        output.extend_from_slice(&self.lines);
        if current.required > 0 {
            let section = Section { required: current.required, lowest: current.lowest };
            self.references.add(stream, section);
        }
    }

    /// Appends the Encoded Field Section Prefix (§4.5.1).
    fn prefix(&self, current: &Current, output: &mut Vec<u8>) {
        if current.required == 0 {
            output.extend_from_slice(&[0, 0]);
            return;
        }
        let range = self.max_entries.saturating_mul(2);
        let encoded = current.required.checked_rem(range).unwrap_or(0).saturating_add(1);
        integer::encode(output, 0, 8, encoded);
        match current.base.checked_sub(current.required) {
            Some(delta) => integer::encode(output, 0, 7, delta),
            None => {
                let delta = current.required.saturating_sub(current.base).saturating_sub(1);
                integer::encode(output, 0x80, 7, delta);
            }
        }
    }

    fn field(&mut self, current: &mut Current, field: Field<'_>) {
        let known = static_table::find(field.name, field.value);
        if let Match::Field(index) = known
            && !field.sensitive
        {
            // Indexed Field Line (§4.5.2): 1 T Index(6+).
            integer::encode(&mut self.lines, 0b1100_0000, 6, index);
            return;
        }
        // Fields that are never inserted need not be looked up.
        let is_repeated = current.may_refer
            && !field.sensitive
            && policy::is_worth_inserting(field.name, field.value);
        let hashes = is_repeated.then(|| Hashes::new(field.name, field.value));
        if let Some(hashes) = hashes
            && let Some(index) = self.entry(current, field, known, hashes)
        {
            self.indexed(current, index);
            return;
        }
        self.literal(current, field, known, hashes);
    }

    /// Returns the entry for a field of the current section; the entry may be inserted by this
    /// call.
    fn entry(
        &mut self,
        current: &mut Current,
        field: Field<'_>,
        known: Match,
        hashes: Hashes,
    ) -> Option<u64> {
        let found = self.search.field(&self.table, hashes, field.name, field.value);
        let index = match found {
            Some(index) if index >= self.draining => Some(index),
            Some(index) => {
                let duplicate = self.duplicate(current, index, hashes);
                duplicate.or_else(|| self.insert(current, field, known, hashes))
            }
            None => self.insert(current, field, known, hashes),
        };
        index.filter(|index| self.may_refer_to(current, *index))
    }

    /// Returns whether the current section may reference an entry without violating the limit on
    /// blocked streams.
    fn may_refer_to(&self, current: &Current, index: u64) -> bool {
        index < self.references.known_received() || current.may_block
    }

    /// Appends a field line that references an entry of the dynamic table.
    fn indexed(&mut self, current: &mut Current, index: u64) {
        current.refer(index);
        match index.checked_sub(current.base) {
            // Indexed Field Line with Post-Base Index (§4.5.3): 0001 Index(4+).
            Some(post_base) => integer::encode(&mut self.lines, 0b0001_0000, 4, post_base),
            // Indexed Field Line (§4.5.2): 1 T Index(6+).
            None => {
                let relative = current.base.saturating_sub(index).saturating_sub(1);
                integer::encode(&mut self.lines, 0b1000_0000, 6, relative);
            }
        }
    }

    /// Appends a field line with a literal value, and with a name reference if possible.
    fn literal(
        &mut self,
        current: &mut Current,
        field: Field<'_>,
        known: Match,
        hashes: Option<Hashes>,
    ) {
        let never_index = u8::from(field.sensitive);
        match known {
            Match::Field(index) | Match::Name(index) => {
                // Literal Field Line with Name Reference (§4.5.4): 01 N T Index(4+).
                integer::encode(&mut self.lines, 0b0101_0000 | (never_index << 5), 4, index);
            }
            Match::None => {
                let name = hashes.and_then(|it| self.search.name(&self.table, it, field.name));
                let name = name
                    .filter(|index| *index >= self.draining && self.may_refer_to(current, *index));
                match name.map(|index| (index, index.checked_sub(current.base))) {
                    // Literal Field Line with Post-Base Name Reference (§4.5.5): 0000 N Index(3+).
                    Some((index, Some(post_base))) => {
                        current.refer(index);
                        integer::encode(&mut self.lines, never_index << 3, 3, post_base);
                    }
                    Some((index, None)) => {
                        current.refer(index);
                        let relative = current.base.saturating_sub(index).saturating_sub(1);
                        let flags = 0b0100_0000 | (never_index << 5);
                        integer::encode(&mut self.lines, flags, 4, relative);
                    }
                    // Literal Field Line with Literal Name (§4.5.6): 001 N H Length(3+).
                    None => {
                        let flags = 0b0010_0000 | (never_index << 4);
                        text::write(&mut self.lines, flags, 3, field.name);
                    }
                }
            }
        }
        text::write(&mut self.lines, 0, 7, field.value);
    }

    /// Inserts a field if it is worth inserting and there is space for it. Returns its absolute
    /// index.
    fn insert(
        &mut self,
        current: &Current,
        field: Field<'_>,
        known: Match,
        hashes: Hashes,
    ) -> Option<u64> {
        let size = entry_size(field.name.len(), field.value.len());
        if !current.may_insert || size > self.capacity / LARGEST_PART {
            return None;
        }
        self.announce_capacity();
        self.make_room(current, size, u64::MAX).then_some(())?;
        match known {
            // Insert with Name Reference (§4.3.2): 1 T Index(6+).
            Match::Field(index) | Match::Name(index) => {
                integer::encode(&mut self.instructions, 0b1100_0000, 6, index);
            }
            Match::None => match self.search.name(&self.table, hashes, field.name) {
                Some(index) => {
                    let relative = self.relative(index);
                    integer::encode(&mut self.instructions, 0b1000_0000, 6, relative);
                }
                // Insert with Literal Name (§4.3.3): 01 H Length(5+).
                None => text::write(&mut self.instructions, 0b0100_0000, 5, field.name),
            },
        }
        text::write(&mut self.instructions, 0, 7, field.value);
        let name = match known {
            Match::Field(index) | Match::Name(index) => {
                let entry = static_table::entry(index);
                Bytes::from_static(entry.map_or(&[], |(name, _)| name.as_bytes()))
            }
            Match::None => Bytes::copy_from_slice(field.name),
        };
        let value = Bytes::copy_from_slice(field.value);
        Some(self.add(Entry { name, value }, hashes))
    }

    /// Duplicates an entry that is about to be evicted (§4.3.4). Returns its new absolute index.
    fn duplicate(&mut self, current: &Current, index: u64, hashes: Hashes) -> Option<u64> {
        if !current.may_insert {
            return None;
        }
        let entry = self.table.get(index)?.clone();
        self.make_room(current, entry.size(), index).then_some(())?;
        let relative = self.relative(index);
        // Duplicate: 000 Index(5+).
        integer::encode(&mut self.instructions, 0, 5, relative);
        Some(self.add(entry, hashes))
    }

    /// Returns the relative index of an entry in an instruction (§3.2.5).
    fn relative(&self, index: u64) -> u64 {
        self.table.inserted().saturating_sub(index).saturating_sub(1)
    }

    /// Checks cached values against the table and the sections.
    #[cfg(test)]
    pub(super) fn check_caches(&self) {
        self.table.check_caches();
        self.references.check_caches();
        if !self.is_compacted {
            self.search.check_caches(&self.table);
        }
        let drained = self.table.entries().filter(|(index, _)| *index < self.draining);
        let size = drained.map(|(_, entry)| entry.size()).sum::<u64>();
        assert_eq!(self.draining_size, size, "the size of the entries being drained");
    }

    /// Sends Set Dynamic Table Capacity (§4.3.1), 001 Capacity(5+), before the first insertion.
    fn announce_capacity(&mut self) {
        if self.table.capacity() != self.capacity {
            self.table.set_capacity(self.capacity);
            integer::encode(&mut self.instructions, 0b0010_0000, 5, self.capacity);
        }
    }

    /// Evicts entries with indices below `end` until there is room for `size` bytes. Does so only
    /// if this makes enough room and is allowed (§2.1.1): the peer has received the entries, and no
    /// unacknowledged section references them.
    fn make_room(&mut self, current: &Current, size: u64, end: u64) -> bool {
        let lowest = self.references.lowest().unwrap_or(u64::MAX).min(current.lowest);
        let end = end.min(lowest).min(self.references.known_received());
        let (mut room, mut last) = (self.table.room(), self.table.dropped());
        while room < size {
            match self.table.get(last).filter(|_| last < end) {
                Some(entry) => room = room.saturating_add(entry.size()),
                None => return false,
            }
            last = last.saturating_add(1);
        }
        while self.table.dropped() < last
            && let Some((index, entry)) = self.table.evict()
        {
            self.search.remove(index, &entry);
            if index < self.draining {
                self.draining_size = self.draining_size.saturating_sub(entry.size());
            } else {
                self.draining = index.saturating_add(1);
            }
        }
        true
    }

    /// Returns whether the peer has acknowledged all sections and insertions.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.references.lowest().is_none()
            && self.references.at_risk() == 0
            && self.references.known_received() == self.table.inserted()
    }

    fn add(&mut self, entry: Entry, hashes: Hashes) -> u64 {
        let index = self.table.inserted();
        self.table.insert(entry);
        self.search.insert(hashes, index);
        // Advances the draining index (§2.1.1.1).
        while self.table.room().saturating_add(self.draining_size) < self.capacity / DRAINED_PART
            && let Some(entry) = self.table.get(self.draining).filter(|_| self.draining < index)
        {
            self.draining_size = self.draining_size.saturating_add(entry.size());
            self.draining = self.draining.saturating_add(1);
        }
        index
    }
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
