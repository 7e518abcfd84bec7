//! Branches: how a router handles an unknown connection ID from the previous address of a
//! connection.
//!
//! Most likely, the ID belongs to that connection: its client has returned to the address, for
//! example behind a NAT that assigns the former port again. But the address may belong to another
//! client by now, so the new ID must not evict any of the connection's own IDs. Instead, it creates
//! a *branch*: a separate entry, which takes over the address, leads to the same server, and from
//! then on learns like a connection. Of the two entries, the one that is used survives.
//!
//! Branches are unverified, so a connection and all its descendants share four slots. A new branch
//! takes the least recently used slot, except for that of its parent. The slots are computed from
//! the first ID, so all routers agree on them. A branch stores its slot's fingerprint where a
//! connection stores its first ID; no connection ID has that fingerprint. The total number of
//! branches in a [table](super::table) is small; if there is no room, the ID remains a flow.

use clearway_units::Timestamp;

use super::memory::{ADDRESS, FIRST_ID, LATEST_ID, Memory};
use super::table::Fingerprint;
use crate::siphash::siphash13;

impl Memory {
    /// Creates a branch of the entry whose previous address is `address`, with the ID `id`. Returns
    /// `false` if there is no room.
    pub(super) fn create_branch(
        &mut self,
        now: Timestamp,
        address: Fingerprint,
        id: Fingerprint,
    ) -> bool {
        let Some(source) = self.learned.find(now, address) else { return false };
        let Some(first) = source.key(FIRST_ID) else { return false };
        let (server, id_len, is_branch) = (source.server, source.id_len, source.is_branch);
        let places = if is_branch { first.quartet() } else { self.places(first) };
        let free = places.into_iter().filter(|place| *place != first);
        let Some(place) = free.min_by_key(|place| self.place_used(now, *place)) else {
            return false;
        };
        self.learned.remove(place);
        if let Some(shared) = &self.shared {
            shared.forget(now, place);
        }
        let Some(branch) = self.learned.add_branch(now, place, server) else {
            self.learned.refuse();
            return false;
        };
        branch.id_len = id_len;
        self.learned.set_key(place, ADDRESS, address);
        self.learned.set_key(place, LATEST_ID, id);
        self.lengths.touch(now, id_len);
        self.publish(now, id, true);
        true
    }

    /// Returns the slots for the branches of the connection with this first ID.
    fn places(&self, first: Fingerprint) -> [Fingerprint; 4] {
        Fingerprint::new(siphash13(self.key(), &[3, first.number()], &[])).quartet()
    }

    /// Returns when the branch in this slot was last used, here or (as far as known) by another
    /// router; `None` if the slot is empty.
    fn place_used(&self, now: Timestamp, place: Fingerprint) -> Option<Timestamp> {
        let elsewhere = self.shared.as_ref().and_then(|shared| shared.used(now, place));
        self.learned.used(place).max(elsewhere)
    }
}
