//! What becomes of an unknown connection ID that comes from an address where a connection was before.
//!
//! Most likely it is one of that connection: its client has returned, such as behind a NAT that gives it back its port. But the
//! address may be another client's by now, so the ID must push out none of the connection's own. It makes an *offshoot*: an
//! entry of its own, which takes the address, leads to the same server, and from then on learns as connections do. Which of both
//! goes on is left to what is used.
//!
//! Nobody has shown anything for an offshoot. So a connection and all offshoots of it and of these have four places together.
//! A new offshoot takes the one that was not used for the longest time, except for that which it comes from. The places are
//! computed from the first ID, so all routers know the same ones. An offshoot has its place's fingerprint where a connection has
//! its first ID, and no ID has that one. A [table](super::table) has few offshoots altogether; what has no room remains a flow.

use clearway_units::Timestamp;

use super::memory::{ADDRESS, FIRST_ID, LATEST_ID, Memory};
use super::table::Fingerprint;
use crate::siphash::siphash13;

impl Memory {
    /// The entry that was at `address` before gets an offshoot there, with the ID `id`. `false` if there is no room.
    pub(super) fn branch_off(
        &mut self,
        now: Timestamp,
        address: Fingerprint,
        id: Fingerprint,
    ) -> bool {
        let Some(source) = self.learned.find(now, address) else { return false };
        let Some(first) = source.key(FIRST_ID) else { return false };
        let (server, id_len, is_offshoot) = (source.server, source.id_len, source.is_offshoot);
        let places = if is_offshoot { first.quartet() } else { self.places(first) };
        let free = places.into_iter().filter(|place| *place != first);
        let Some(place) = free.min_by_key(|place| self.place_used(now, *place)) else {
            return false;
        };
        self.learned.remove(place);
        if let Some(shared) = &self.shared {
            shared.forget(now, place);
        }
        let Some(offshoot) = self.learned.add_offshoot(now, place, server) else {
            self.learned.refuse();
            return false;
        };
        offshoot.id_len = id_len;
        self.learned.set_key(place, ADDRESS, address);
        self.learned.set_key(place, LATEST_ID, id);
        self.lengths.touch(now, id_len);
        self.tell(now, id, true);
        true
    }

    /// The places of the offshoots of the connection with this first ID.
    fn places(&self, first: Fingerprint) -> [Fingerprint; 4] {
        Fingerprint::new(siphash13(self.key(), &[3, first.number()], &[])).quartet()
    }

    /// When the offshoot with this place was last used, here or, as far as is known, at another router; `None` if there is none.
    fn place_used(&self, now: Timestamp, place: Fingerprint) -> Option<Timestamp> {
        let elsewhere = self.shared.as_ref().and_then(|shared| shared.used(now, place));
        self.learned.used(place).max(elsewhere)
    }
}
