//! Learned connection IDs that several routers share.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clearway_units::{Random, Timestamp};

use super::Limits;
use super::table::Fingerprint;
use crate::ServerKey;

/// Number of locks among which the IDs are divided, so that threads rarely wait for each other.
const STRIPES: usize = 64;
/// Number of IDs kept per connection: the first one, and the two that the client has adopted most
/// recently.
const IDS: usize = 3;

/// Learned connection IDs that are shared by several routers with the same clients, such as those
/// of a balancer's threads: when a client's address changes, its packets may arrive at another
/// router. Memory is allocated as needed.
///
/// A router looks up only IDs here that it does not know itself, and remembers the result. It adds
/// IDs learned from a branch, or from a client that has [proved](super::Router#floods) that it
/// receives packets at its address. Each entry of a router therefore has at most three IDs here, no
/// matter what its client sends. Entries are never evicted. The routers' clocks should differ by
/// much less than the [lifetime](Limits::lifetime).
#[derive(Debug)]
pub struct SharedIds {
    key: [AtomicU64; 2],
    lifetime: Duration,
    /// Bit mask of the lengths of IDs seen so far: bit `n` represents `n` octets.
    lengths: AtomicU32,
    stripes: Vec<Mutex<Stripe>>,
}

/// A connection with learned IDs, or a branch of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Connection {
    pub(super) server: ServerKey,
    /// The connection's first ID, or the slot of a branch.
    pub(super) first: Fingerprint,
    pub(super) id_len: u8,
    pub(super) is_branch: bool,
}

/// The data about an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    of: Connection,
    /// For a first ID, the other IDs that the client has adopted most recently, latest first.
    others: [Option<Fingerprint>; IDS - 1],
    /// For a first ID, the client's latest address, and when a router last reported it.
    address: Option<Fingerprint>,
    last_published: Timestamp,
}

/// A part of the shared IDs, with its own lock. IDs are forgotten after one to two lifetimes
/// without use.
#[derive(Debug)]
struct Stripe {
    /// IDs that were used after `began`.
    young: BTreeMap<Fingerprint, Known>,
    /// IDs that were used in the previous lifetime.
    old: BTreeMap<Fingerprint, Known>,
    began: Timestamp,
    capacity: usize,
}

impl SharedIds {
    /// Creates the shared IDs of `routers` routers with these limits. `random` provides the key of
    /// all their tables.
    pub fn new(limits: Limits, routers: usize, mut random: Random) -> Self {
        let ids = limits.learned.saturating_mul(routers).saturating_mul(IDS);
        let mean = ids.div_ceil(STRIPES);
        // IDs are distributed randomly, but the number per stripe hardly ever deviates by more than
        // four standard deviations.
        let capacity = mean.saturating_add(mean.isqrt().saturating_add(1).saturating_mul(4));
        let stripe = || {
            Mutex::new(Stripe {
                young: BTreeMap::new(),
                old: BTreeMap::new(),
                began: Timestamp::ORIGIN,
                capacity,
            })
        };
        Self {
            key: [random.number(), random.number()].map(AtomicU64::new),
            lifetime: limits.lifetime,
            lengths: AtomicU32::new(0),
            stripes: std::iter::repeat_with(stripe).take(STRIPES).collect(),
        }
    }

    /// Returns the key for the routers' hashes, which is the same in all routers.
    pub(super) fn key(&self) -> [u64; 2] {
        self.key.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    /// Adopts the hash key of another process's routers, whose state all of these routers restore.
    /// These routers must be empty.
    pub(super) fn set_key(&self, key: [u64; 2]) {
        self.key.iter().zip(key).for_each(|(word, new)| word.store(new, Ordering::Relaxed));
    }

    /// Returns whether an ID of this length has been recorded.
    pub(super) fn has_length(&self, length: usize) -> bool {
        let bit = u32::try_from(length).ok().and_then(|length| 1_u32.checked_shl(length));
        bit.is_some_and(|bit| self.lengths.load(Ordering::Relaxed) & bit != 0)
    }

    /// Returns the connection of an ID, and marks it as used.
    pub(super) fn find(&self, now: Timestamp, id: Fingerprint) -> Option<Connection> {
        Some(self.stripe(now, id)?.touch(id)?.of)
    }

    /// Returns the latest address of the client of the connection with this first ID, as last
    /// reported by a router.
    pub(super) fn address(&self, now: Timestamp, first: Fingerprint) -> Option<Fingerprint> {
        self.stripe(now, first)?.get(first)?.address
    }

    /// Returns when a router last reported the connection with this first ID.
    pub(super) fn used(&self, now: Timestamp, first: Fingerprint) -> Option<Timestamp> {
        Some(self.stripe(now, first)?.get(first)?.last_published)
    }

    /// Removes the connection with this first ID.
    pub(super) fn forget(&self, now: Timestamp, first: Fingerprint) {
        let known = self.stripe(now, first).and_then(|stripe| stripe.get(first));
        let others = known.map_or([None; IDS - 1], |known| known.others);
        for id in others.into_iter().flatten().chain([first]) {
            if let Some(mut stripe) = self.stripe(now, id) {
                stripe.remove(id, first);
            }
        }
    }

    /// Records that a connection's client uses `id`, which may be the connection's first ID, at
    /// `address`. Returns `false` if there is no room.
    #[must_use]
    pub(super) fn learn(
        &self,
        now: Timestamp,
        of: Connection,
        id: Fingerprint,
        address: Option<Fingerprint>,
    ) -> bool {
        if let Some(bit) = 1_u32.checked_shl(of.id_len.into()) {
            self.lengths.fetch_or(bit, Ordering::Relaxed);
        }
        let first = of.first;
        let other = Known { of, others: [None; IDS - 1], address, last_published: now };
        let Some(mut stripe) = self.stripe(now, first) else { return false };
        let before = stripe.touch(first).filter(|before| before.of.first == first);
        let mut others = before.map_or(other.others, |before| before.others);
        let later = before.filter(|before| before.last_published > now).unwrap_or(other);
        let is_other = id != first && !others.contains(&Some(id));
        let mut replaced = None;
        if is_other {
            replaced = others.last().copied().flatten();
            others.rotate_right(1);
            if let Some(latest) = others.first_mut() {
                *latest = Some(id);
            }
        }
        let has_room = stripe.put(first, Known { others, ..later });
        // Hold one lock at a time.
        drop(stripe);
        if let Some(replaced) = replaced
            && let Some(mut stripe) = self.stripe(now, replaced)
        {
            stripe.remove(replaced, first);
        }
        has_room && (id == first || self.stripe(now, id).is_some_and(|mut it| it.put(id, other)))
    }

    fn stripe(&self, now: Timestamp, id: Fingerprint) -> Option<MutexGuard<'_, Stripe>> {
        let place = id.number().checked_rem(self.stripes.len() as u64)?;
        let stripe = self.stripes.get(usize::try_from(place).ok()?)?;
        // No code that panics runs while the lock is held.
        let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
        stripe.age(now, self.lifetime);
        Some(stripe)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let len = |stripe: &Mutex<Stripe>| {
            let stripe = stripe.lock().unwrap();
            stripe.young.len() + stripe.old.len()
        };
        self.stripes.iter().map(len).sum()
    }
}

impl Stripe {
    fn age(&mut self, now: Timestamp, lifetime: Duration) {
        if now < self.began + lifetime {
            return;
        }
        self.old = core::mem::take(&mut self.young);
        if now >= self.began + lifetime.saturating_mul(2) {
            self.old.clear();
        }
        self.began = now;
    }

    fn get(&self, id: Fingerprint) -> Option<Known> {
        self.young.get(&id).or_else(|| self.old.get(&id)).copied()
    }

    fn touch(&mut self, id: Fingerprint) -> Option<Known> {
        if let Some(known) = self.old.remove(&id) {
            self.young.insert(id, known);
        }
        self.young.get(&id).copied()
    }

    /// Records data about an ID, unless another connection already has this ID: a client may have
    /// forged it. Returns `false` if there is no room.
    fn put(&mut self, id: Fingerprint, known: Known) -> bool {
        let before = self.touch(id);
        if before.is_none() && self.young.len().saturating_add(self.old.len()) >= self.capacity {
            return false;
        }
        if before.is_none_or(|before| before.of.first == known.of.first) {
            self.young.insert(id, known);
        }
        true
    }

    /// Removes an ID if it belongs to this connection.
    fn remove(&mut self, id: Fingerprint, connection: Fingerprint) {
        for ids in [&mut self.young, &mut self.old] {
            if ids.get(&id).is_some_and(|known| known.of.first == connection) {
                ids.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { flows: 8, learned: 64, lifetime: Duration::from_secs(60) };

    fn id(number: u64) -> Fingerprint {
        Fingerprint::new(number)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_origin(Duration::from_secs(seconds))
    }

    fn server(number: u8) -> ServerKey {
        ServerKey::of(&number.to_string())
    }

    fn connection(first: u64, server: u8) -> Connection {
        Connection { server: self::server(server), first: id(first), id_len: 8, is_branch: false }
    }

    fn learn(shared: &SharedIds, seconds: u64, server: u8, (first, other): (u64, u64)) -> bool {
        shared.learn(at(seconds), connection(first, server), id(other), Some(id(1000 + other)))
    }

    fn shared() -> SharedIds {
        SharedIds::new(LIMITS, 2, Random::from_number(1))
    }

    #[test]
    fn a_connection_is_found_by_three_ids() {
        let shared = shared();
        assert!(learn(&shared, 0, 1, (1, 1)));
        assert!(shared.has_length(8) && !shared.has_length(4));
        for latest in [2, 3, 4] {
            assert!(learn(&shared, 0, 1, (1, latest)));
        }
        for (number, is_known) in [(1, true), (2, false), (3, true), (4, true)] {
            let found = shared.find(at(1), id(number));
            assert_eq!(found, is_known.then(|| connection(1, 1)), "{number}");
        }
        assert_eq!(shared.len(), 3);
    }

    #[test]
    fn no_connection_takes_the_id_of_another() {
        let shared = shared();
        for number in [1, 2] {
            assert!(learn(&shared, 0, number, (number.into(), number.into())));
        }
        assert!(learn(&shared, 0, 2, (2, 1)));
        assert!(learn(&shared, 0, 2, (2, 3)));
        assert_eq!(shared.find(at(0), id(1)).unwrap().server, server(1));
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let shared = shared();
        for number in 1..=20 {
            assert!(learn(&shared, 0, 1, (number, number)));
        }
        for seconds in (10..300).step_by(10) {
            assert!(shared.find(at(seconds), id(1)).is_some());
        }
        for number in 2..=20 {
            assert_eq!(shared.find(at(300), id(number)), None);
        }
        assert_eq!(shared.len(), 1);
    }

    #[test]
    fn a_connection_is_forgotten_with_all_of_its_ids() {
        let shared = shared();
        for (first, other) in [(1, 1), (1, 2), (1, 3), (5, 5)] {
            assert!(learn(&shared, 0, 1, (first, other)));
        }
        shared.forget(at(1), id(1));
        assert_eq!(shared.len(), 1);
        assert_eq!(shared.find(at(1), id(5)), Some(connection(5, 1)));
        shared.forget(at(1), id(1));
        assert_eq!(shared.used(at(1), id(1)), None);
    }

    /// Restored routers report their entries in any order.
    #[test]
    fn a_connection_is_where_it_was_last() {
        let shared = shared();
        for (seconds, other) in [(3, 1), (5, 2), (4, 3)] {
            assert!(learn(&shared, seconds, 1, (1, other)));
        }
        assert_eq!(shared.address(at(6), id(1)), Some(id(1002)));
        assert_eq!(shared.used(at(6), id(1)), Some(at(5)));
    }

    /// Existing entries are not evicted, but can still change.
    #[test]
    fn a_full_table_refuses() {
        let shared = shared();
        let refused = (1..=2000)
            .filter(|number| !learn(&shared, 0, 1, (*number, *number)))
            .collect::<Vec<_>>();
        // Each stripe has room for six, and for twelve more because of random variation.
        assert_eq!((shared.len(), refused.len()), (64 * 18, 2000 - 64 * 18));
        assert!(shared.find(at(1), id(1)).is_some());
        assert!(learn(&shared, 1, 1, (1, 1)));
    }
}
