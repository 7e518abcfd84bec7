//! Serialized tables of a router, for the process that replaces this one.
//!
//! ```text
//! Format (8) = 1
//! Key (128)             of the fingerprints
//! Lengths (21 x 64)     time since IDs of each length were last used, or all ones
//! Flows                 a table of entries with one fingerprint
//! Learned               a table of entries with five fingerprints
//!
//! Table {
//!   Count (32)
//!   Entry (..) ...      least recently used first
//! }
//! Entry {
//!   Fingerprint (64) ... 0 for none
//!   Server (64)
//!   Age (64)
//!   ID Length (8)
//!   Flags (8)            1: server's connection ID, 2: rejected by the full table, 4: branch
//! }
//! ```
//! Times are stored in nanoseconds.

use core::num::NonZeroU64;

use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, Reader};

use super::memory::{Lengths, Memory};
use super::table::{Entry, Fingerprint, Table};
use crate::ServerKey;

const FORMAT: u8 = 1;
/// The value that marks a missing age.
const NEVER: u64 = u64::MAX;

const IS_OF_SERVER: u8 = 1;
const WAS_REFUSED: u8 = 2;
const IS_BRANCH: u8 = 4;

impl Memory {
    pub(super) fn save(&self, now: Timestamp) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        self.key().iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        for used in &self.lengths.used {
            bytes.extend(used.map_or(NEVER, |used| age(now, used)).to_be_bytes());
        }
        self.flows.save(now, &mut bytes);
        self.learned.save(now, &mut bytes);
        bytes
    }

    /// Restores saved state into this empty memory. Returns `None` if the state, or a part of it,
    /// was invalid.
    pub(super) fn restore(&mut self, now: Timestamp, saved: &[u8]) -> Option<()> {
        let mut reader = Reader::new(saved);
        if reader.u8("format").ok()? != FORMAT {
            return None;
        }
        let key = [word(&mut reader)?, word(&mut reader)?];
        let mut used = [None; ConnectionId::MAX_LEN + 1];
        for used in &mut used {
            *used = Some(word(&mut reader)?).filter(|age| *age != NEVER).map(|age| ago(now, age));
        }
        self.set_key(key);
        self.lengths = Lengths { used, ..self.lengths };
        self.flows.restore(now, &mut reader)?;
        self.learned.restore(now, &mut reader)?;
        self.publish_all();
        Some(())
    }
}

impl<const K: usize> Table<K> {
    fn save(&self, now: Timestamp, bytes: &mut Vec<u8>) {
        let count = u32::try_from(self.statistics().entries).unwrap_or(u32::MAX);
        bytes.extend(count.to_be_bytes());
        for entry in self.by_use() {
            for key in entry.keys {
                bytes.extend(key.map_or(0, Fingerprint::number).to_be_bytes());
            }
            bytes.extend(entry.server.number().to_be_bytes());
            bytes.extend(age(now, entry.used).to_be_bytes());
            let flags = [
                (entry.is_of_server, IS_OF_SERVER),
                (entry.was_refused, WAS_REFUSED),
                (entry.is_branch, IS_BRANCH),
            ];
            let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag);
            bytes.extend([entry.id_len, flags.fold(0, |all, flag| all | flag)]);
        }
    }

    /// Restores entries; if there is too little room, the most recently used ones are kept.
    fn restore(&mut self, now: Timestamp, reader: &mut Reader<'_>) -> Option<()> {
        let count = u32::from_be_bytes(reader.array("count").ok()?);
        for _ in 0..count {
            let mut keys = [None; K];
            for key in &mut keys {
                *key = NonZeroU64::new(word(reader)?).map(Fingerprint::of_number);
            }
            let server = ServerKey::of_number(word(reader)?);
            let used = ago(now, word(reader)?);
            let id_len = reader.u8("ID length").ok()?;
            let flags = reader.u8("flags").ok()?;
            let mut entry = Entry::VACANT;
            (entry.keys, entry.server, entry.used, entry.id_len) = (keys, server, used, id_len);
            entry.is_of_server = flags & IS_OF_SERVER != 0;
            entry.was_refused = flags & WAS_REFUSED != 0;
            entry.is_branch = flags & IS_BRANCH != 0;
            self.insert(entry);
        }
        Some(())
    }
}

fn age(now: Timestamp, used: Timestamp) -> u64 {
    u64::try_from(now.saturating_since(used).as_nanos()).unwrap_or(NEVER)
}

/// Returns the time `age` ago, or the start of this process's clock if that is later.
fn ago(now: Timestamp, age: u64) -> Timestamp {
    Timestamp::from_nanos(now.as_nanos().saturating_sub(age))
}

fn word(reader: &mut Reader<'_>) -> Option<u64> {
    reader.array("number").ok().map(u64::from_be_bytes)
}

#[cfg(test)]
#[path = "saved_tests.rs"]
mod tests;
