//! A cache of responses (RFC 1035 §7.4, RFC 2308).

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, Record};
use moka::Expiry;
use moka::sync::Cache as Store;

use super::question::Key;
use crate::stored::Stored;

/// Maximum TTL of a response, in seconds.
const MAX_TTL: u32 = 86_400;
/// Maximum TTL of a negative response, in seconds (RFC 2308 §5).
const MAX_NEGATIVE_TTL: u32 = 10_800;
/// Estimated overhead of an entry in bytes, in addition to its key and response.
const OVERHEAD: usize = 200;

/// The cached responses.
#[derive(Debug)]
pub(crate) struct Cache {
    store: Store<Key, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    stored: Arc<Stored>,
    since: Instant,
}

impl Cache {
    /// Creates a cache of at most `entries` responses, which occupy at most `bytes` bytes.
    pub(crate) fn new(entries: u64, bytes: u64) -> Self {
        // An entry weighs its size, and at least so much that `entries` entries weigh `bytes`.
        let least = u32::try_from(bytes.checked_div(entries).unwrap_or(0)).unwrap_or(u32::MAX);
        let store = Store::builder()
            .max_capacity(if entries == 0 { 0 } else { bytes })
            .weigher(move |key: &Key, entry: &Entry| {
                let size = entry.stored.size().saturating_add(key.len()).saturating_add(OVERHEAD);
                u32::try_from(size).unwrap_or(u32::MAX).max(least)
            })
            .expire_after(Lifetime)
            .build();
        Self { store }
    }

    /// Returns the response to a question, and its age in seconds.
    pub(crate) fn get(&self, key: &[u8], now: Instant) -> Option<(Arc<Stored>, u32)> {
        let entry = self.store.get(key)?;
        let age = now.saturating_duration_since(entry.since).as_secs();
        let age = u32::try_from(age).ok().filter(|age| *age < entry.stored.ttl)?;
        Some((entry.stored, age))
    }

    /// Inserts a response, which expires after its TTL.
    pub(crate) fn insert(&self, key: Key, stored: Arc<Stored>, now: Instant) {
        self.store.insert(key, Entry { stored, since: now });
    }

    /// Returns the number of entries and their size in bytes, both approximate.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.store.entry_count(), self.store.weighted_size())
    }

    /// Completes pending evictions.
    #[cfg(test)]
    pub(crate) fn settle(&self) {
        self.store.run_pending_tasks();
    }
}

/// Expires each entry after its TTL.
struct Lifetime;

impl Expiry<Key, Entry> for Lifetime {
    fn expire_after_create(&self, _: &Key, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(entry.stored.ttl.into()))
    }

    fn expire_after_update(
        &self,
        _: &Key,
        entry: &Entry,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(Duration::from_secs(entry.stored.ttl.into()))
    }
}

/// Returns how long a response may be used, in seconds; 0 if it must not be cached.
pub(crate) fn lifetime(response: &Message) -> u32 {
    if response.metadata.truncation {
        return 0;
    }
    let is_negative = match response.metadata.response_code {
        ResponseCode::NoError => response.answers.is_empty(),
        ResponseCode::NXDomain => true,
        _ => return 0,
    };
    let smallest = response.all_sections().map(ttl).min().unwrap_or(0);
    match response.authorities.iter().find_map(minimum) {
        // A name that does not exist, or has no such records: also at the end of aliases.
        Some(minimum) if is_negative || has_aliases(response) => {
            smallest.min(minimum).min(MAX_NEGATIVE_TTL)
        }
        // RFC 2308 §5: not cached without a SOA record.
        None if is_negative => 0,
        _ => smallest.min(MAX_TTL),
    }
}

/// Returns the TTL of a record, or 0 if it is invalid (RFC 2181 §8).
fn ttl(record: &Record) -> u32 {
    match record.ttl > i32::MAX.unsigned_abs() {
        true => 0,
        false => record.ttl,
    }
}

/// Returns the negative TTL of a SOA record (RFC 2308 §4).
fn minimum(record: &Record) -> Option<u32> {
    match &record.data {
        RData::SOA(soa) => Some(soa.minimum),
        _ => None,
    }
}

fn has_aliases(response: &Message) -> bool {
    response.answers.iter().any(|record| matches!(record.data, RData::CNAME(_)))
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod cache_tests;
