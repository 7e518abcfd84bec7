//! The state that a router keeps for datagrams with unroutable connection IDs.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;

use clearway_units::Timestamp;
use clearway_wire::ConnectionId;

use super::shared::{Connection, SharedIds};
use super::table::{Entry, Fingerprint, Table};
use super::{Limits, Means};
use crate::address::words;
use crate::siphash::siphash13;
use crate::{Pool, ServerKey};

/// Lengths of connection IDs that are learned. Several connections may well have the same shorter
/// ID; QUIC versions 1 and 2 do not allow longer ones.
const LEARNABLE: RangeInclusive<usize> = 4..=ConnectionId::MAX_LEN;

/// The keys of a connection: the ID that the server was observed to use, with which the entry is
/// created; the latest ID that the client began to use and the previous one, both of which it uses
/// while it validates a path; the client's address; and its previous address.
const KEYS: usize = 5;
pub(super) const FIRST_ID: usize = 0;
pub(super) const LATEST_ID: usize = 1;
const FORMER_ID: usize = 2;
pub(super) const ADDRESS: usize = 3;
const FORMER_ADDRESS: usize = 4;

/// How many times per lifetime other routers are updated about a connection in use.
const UPDATES_PER_LIFETIME: u32 = 4;

/// For each length, the time at which a connection ID of that length was last used. Lengths that
/// were not used for the lifetime are forgotten.
#[derive(Debug)]
pub(super) struct Lengths {
    pub(super) used: [Option<Timestamp>; ConnectionId::MAX_LEN + 1],
    pub(super) lifetime: Duration,
}

impl Lengths {
    pub(super) fn touch(&mut self, now: Timestamp, length: u8) {
        if let Some(used) = self.used.get_mut(usize::from(length)) {
            *used = Some(now);
        }
    }

    fn is_in_use(&self, now: Timestamp, length: usize) -> bool {
        let used = self.used.get(length).copied().flatten();
        used.is_some_and(|used| used + self.lifetime > now)
    }
}

/// The two tables of a router.
///
/// *Flows* are unverified: they map a client's address with the client's own connection ID (in its
/// long headers), a client's address alone, or a connection ID that a server has just issued to a
/// server. They evict each other.
///
/// *Learned connections* are those whose client has used a connection ID that a server had sent to
/// it in a long header, which proves that the client receives packets at its address. They are not
/// evicted. Each has two addresses, the client's latest and its previous one, and three IDs: the
/// first one, and the two that the client began to use last. So each proof adds a bounded number of
/// IDs, no matter what anyone sends later, except for a few [branches](super::branches).
#[derive(Debug)]
pub(super) struct Memory {
    key: [u64; 2],
    pub(super) flows: Table<1>,
    pub(super) learned: Table<KEYS>,
    pub(super) lengths: Lengths,
    ids: u64,
    pub(super) shared: Option<Arc<SharedIds>>,
    unpublished: u64,
}

impl Memory {
    pub(super) const BYTES_PER_FLOW: usize = Table::<1>::BYTES_PER_ENTRY;
    pub(super) const BYTES_PER_LEARNED: usize = Table::<KEYS>::BYTES_PER_ENTRY;

    /// Creates an empty memory whose hashes use this `key`, which must equal that of `shared`.
    pub(super) fn new(limits: Limits, key: [u64; 2], shared: Option<Arc<SharedIds>>) -> Self {
        let used = [None; ConnectionId::MAX_LEN + 1];
        Self {
            key,
            flows: Table::new(limits.flows, limits.lifetime),
            learned: Table::new(limits.learned, limits.lifetime),
            lengths: Lengths { used, lifetime: limits.lifetime },
            ids: 0,
            shared,
            unpublished: 0,
        }
    }

    /// Returns the hash key.
    pub(super) fn key(&self) -> [u64; 2] {
        self.shared.as_ref().map_or(self.key, |shared| shared.key())
    }

    /// Replaces the key of an empty memory.
    pub(super) fn set_key(&mut self, key: [u64; 2]) {
        self.key = key;
        if let Some(shared) = &self.shared {
            shared.set_key(key);
        }
    }

    /// Shares all learned connections with the other routers.
    pub(super) fn publish_all(&mut self) {
        let Some(shared) = &self.shared else { return };
        for entry in self.learned.by_use() {
            let Some(connection) = described(entry) else { continue };
            let ids = [FIRST_ID, FORMER_ID, LATEST_ID].map(|which| entry.key(which));
            for id in ids.into_iter().flatten() {
                if !shared.learn(entry.used, connection, id, entry.key(ADDRESS)) {
                    self.unpublished = self.unpublished.saturating_add(1);
                }
            }
        }
    }

    pub(super) fn flows(&self) -> &Table<1> {
        &self.flows
    }

    pub(super) fn learned(&self) -> &Table<KEYS> {
        &self.learned
    }

    /// Returns the number of learned IDs.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// Returns how many updates about an ID were dropped because the shared IDs were full.
    pub(super) fn unpublished(&self) -> u64 {
        self.unpublished
    }

    /// Removes a few of the expired entries.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.flows.expire(now);
        self.learned.expire(now);
    }

    /// Selects the server for a long header from `client`.
    pub(super) fn long(
        &mut self,
        now: Timestamp,
        pool: &Pool,
        (client, local): (SocketAddr, SocketAddr),
        (destination, source): (&[u8], &[u8]),
    ) -> Option<(ServerKey, Means)> {
        let (address, id) = (self.address(client), self.id(destination));
        let flow = self.flow(client, source);
        let of_id = self.find(now, pool, id).or_else(|| self.find_shared(now, pool, id));
        let of_flow = self.flows.find(now, flow).map(|entry| entry.server);
        let of_flow = of_flow.filter(|server| is_reachable(pool, *server));
        if of_id.is_some() {
            self.use_id(now, id, address);
        }
        // If the client's own ID has zero length or is reused, the flow may belong to an earlier
        // connection.
        if let Some(server) = of_flow.filter(|server| of_id.is_none_or(|of_id| of_id == *server)) {
            self.flows.touch(now, flow);
            return Some((server, Means::Flow));
        }
        if let Some(server) = of_id {
            return Some((server, Means::Learned));
        }
        // This may be a new client.
        let of_address = self.find(now, pool, address);
        let takes_it = |key: &ServerKey| pool.server(*key).is_some_and(|it| it.takes_new_clients());
        let (server, means) = match of_address.filter(takes_it) {
            Some(server) => (server, Means::Address),
            None => (pool.by_hash(client, local)?.0, Means::Hash),
        };
        self.flows.put(now, flow, server);
        Some((server, means))
    }

    /// Selects the server for a short header from `client`. `octets` is everything after the first
    /// octet.
    pub(super) fn short(
        &mut self,
        now: Timestamp,
        pool: &Pool,
        (client, local): (SocketAddr, SocketAddr),
        octets: &[u8],
    ) -> Option<(ServerKey, Means)> {
        let address = self.address(client);
        if let Some((id, server)) = self.find_id(now, pool, octets) {
            self.use_id(now, id, address);
            return Some((server, Means::Learned));
        }
        if let Some(server) = self.find(now, pool, address) {
            self.learn_from_client(now, pool, address, octets);
            return Some((server, Means::Address));
        }
        let (server, _) = pool.by_hash(client, local)?;
        self.flows.put(now, address, server);
        Some((server, Means::Hash))
    }

    /// Learns from a long header with this unroutable Source Connection ID, which `server` has sent
    /// to `client`.
    pub(super) fn learn_from_server(
        &mut self,
        now: Timestamp,
        server: ServerKey,
        client: SocketAddr,
        source: &[u8],
    ) {
        if !LEARNABLE.contains(&source.len()) {
            let address = self.address(client);
            // The address may have belonged to an earlier connection.
            self.learned.forget_key(address);
            self.flows.put(now, address, server);
            return;
        }
        let id = self.id(source);
        if self.learned.find(now, id).is_some() {
            return;
        }
        let is_known = self.flows.find(now, id).is_some_and(|entry| entry.server == server);
        self.ids = self.ids.saturating_add(u64::from(!is_known));
        self.put_id(now, id, server, source.len() as u8, true);
    }

    /// Returns the server of an ID or an address, if it is reachable.
    fn find(&mut self, now: Timestamp, pool: &Pool, key: Fingerprint) -> Option<ServerKey> {
        let of_connection = self.learned.find(now, key).map(|entry| entry.server);
        // While the server of a connection is down, its client is tracked as a new client.
        of_connection.filter(|server| is_reachable(pool, *server)).or_else(|| {
            let of_newcomer = self.flows.find(now, key).map(|entry| entry.server);
            of_newcomer.filter(|server| is_reachable(pool, *server))
        })
    }

    /// Returns the known ID that a short header begins with. The longest IDs are tried first, since
    /// a longer ID may begin with a short one by chance.
    fn find_id(
        &mut self,
        now: Timestamp,
        pool: &Pool,
        octets: &[u8],
    ) -> Option<(Fingerprint, ServerKey)> {
        for length in LEARNABLE.rev() {
            if self.lengths.is_in_use(now, length)
                && let Some(id) = octets.get(..length)
            {
                let id = self.id(id);
                if let Some(server) = self.find(now, pool, id) {
                    return Some((id, server));
                }
            }
        }
        for length in LEARNABLE.rev() {
            if self.shared.as_ref().is_some_and(|shared| shared.has_length(length))
                && let Some(id) = octets.get(..length)
            {
                let id = self.id(id);
                if let Some(server) = self.find_shared(now, pool, id) {
                    return Some((id, server));
                }
            }
        }
        None
    }

    /// Returns the server of an ID that another router has learned, if it is reachable. This router
    /// then also keeps the connection, if it has room.
    fn find_shared(&mut self, now: Timestamp, pool: &Pool, id: Fingerprint) -> Option<ServerKey> {
        let known = self.shared.as_ref()?.find(now, id)?;
        if !is_reachable(pool, known.server) {
            return None;
        }
        if self.learned.find(now, known.first).is_none() {
            let added = match known.is_branch {
                true => self.learned.add_branch(now, known.first, known.server),
                false => self.learned.add(now, known.first, known.server),
            };
            match added {
                Some(connection) => connection.id_len = known.id_len,
                None => {
                    self.learned.refuse();
                    return Some(known.server);
                }
            }
        }
        if id != known.first {
            self.set_latest_id(known.first, id);
        }
        self.lengths.touch(now, known.id_len);
        Some(known.server)
    }

    /// Updates the other routers about the connection with this ID, which its client uses:
    /// immediately if the ID or its address is new, and otherwise from time to time.
    pub(super) fn publish(&mut self, now: Timestamp, id: Fingerprint, is_new: bool) {
        let Some(shared) = &self.shared else { return };
        let part = self.lengths.lifetime.checked_div(UPDATES_PER_LIFETIME).unwrap_or_default();
        let parts = now.since_origin().as_nanos().checked_div(part.as_nanos());
        // The counter wraps only after far more than a lifetime.
        let part = parts.unwrap_or_default() as u8;
        let Some(entry) = self.learned.find(now, id) else { return };
        if !is_new && entry.last_published == Some(part) {
            return;
        }
        entry.last_published = Some(part);
        let Some(connection) = described(entry) else { return };
        if !shared.learn(now, connection, id, entry.key(ADDRESS)) {
            self.unpublished = self.unpublished.saturating_add(1);
        }
    }

    /// Records that the client of the connection with this key has begun to use another ID.
    fn set_latest_id(&mut self, key: Fingerprint, id: Fingerprint) {
        let latest = self.learned.key_of(key, LATEST_ID);
        self.learned.set_key(key, LATEST_ID, id);
        if let Some(former) = latest.filter(|latest| *latest != id) {
            self.learned.set_key(key, FORMER_ID, former);
        }
    }

    /// Records that the client of the connection with the ID `id` is at `address`.
    fn set_address(&mut self, id: Fingerprint, known: Option<Fingerprint>, address: Fingerprint) {
        self.learned.set_key(id, ADDRESS, address);
        if let Some(former) = known {
            self.learned.set_key(id, FORMER_ADDRESS, former);
        }
    }

    /// Records that a known ID came from `address`.
    fn use_id(&mut self, now: Timestamp, id: Fingerprint, address: Fingerprint) {
        if let Some(connection) = self.learned.find(now, id) {
            let (id_len, known) = (connection.id_len, connection.key(ADDRESS));
            self.learned.touch(now, id);
            self.lengths.touch(now, id_len);
            let is_new = known != Some(address);
            if is_new {
                self.set_address(id, known, address);
            }
            return self.publish(now, id, is_new);
        }
        let Some(newcomer) = self.flows.find(now, id) else { return };
        let (server, id_len, is_of_server) =
            (newcomer.server, newcomer.id_len, newcomer.is_of_server);
        self.flows.touch(now, id);
        self.lengths.touch(now, id_len);
        if !is_of_server {
            return;
        }
        match self.learned.add(now, id, server) {
            Some(connection) => {
                connection.id_len = id_len;
                self.learned.set_key(id, ADDRESS, address);
                self.flows.remove(id);
                self.publish(now, id, true);
            }
            None => self.refuse(now, id, address, server),
        }
    }

    /// Handles a connection for which there is no room.
    fn refuse(&mut self, now: Timestamp, id: Fingerprint, address: Fingerprint, server: ServerKey) {
        let newcomer = self.flows.find(now, id);
        if newcomer.is_some_and(|it| !core::mem::replace(&mut it.was_refused, true)) {
            self.learned.refuse();
        }
        // The address may have belonged to another connection.
        self.learned.forget_key(address);
        self.flows.put(now, address, server);
    }

    /// Learns an unknown ID from a known address: the server has issued it in an encrypted packet.
    fn learn_from_client(
        &mut self,
        now: Timestamp,
        pool: &Pool,
        address: Fingerprint,
        octets: &[u8],
    ) {
        let connection = self.learned.find(now, address);
        let connection = connection.filter(|it| is_reachable(pool, it.server));
        let (id_len, server, is_connection) = match connection {
            Some(connection) => (connection.id_len, connection.server, true),
            None => {
                let Some(newcomer) = self.flows.find(now, address) else { return };
                let server = newcomer.server;
                self.flows.touch(now, address);
                let id_len = pool.server(server).and_then(|server| server.id_len).unwrap_or(0);
                (id_len as u8, server, false)
            }
        };
        let is_there = is_connection && self.is_there(now, address);
        if is_there {
            self.learned.touch(now, address);
        }
        let length = usize::from(id_len);
        let Some(id) = octets.get(..length).filter(|_| LEARNABLE.contains(&length)) else { return };
        let id = self.id(id);
        // The ID may belong to an unreachable server.
        if self.learned.find(now, id).is_some() || self.flows.find(now, id).is_some() {
            return;
        }
        self.ids = self.ids.saturating_add(1);
        if is_there {
            self.set_latest_id(address, id);
            self.lengths.touch(now, id_len);
            self.publish(now, id, true);
        } else if !(is_connection && self.create_branch(now, address, id)) {
            self.put_id(now, id, server, id_len, false);
        }
    }

    /// Returns whether `address` is the latest address of its connection's client, as far as this
    /// and other routers know. Otherwise, the address may belong to another client by now.
    fn is_there(&mut self, now: Timestamp, address: Fingerprint) -> bool {
        let Some(connection) = self.learned.find(now, address) else { return false };
        let (first, known) = (connection.key(FIRST_ID), connection.key(ADDRESS));
        let elsewhere = self.shared.as_ref().zip(first);
        let elsewhere = elsewhere.and_then(|(shared, first)| shared.address(now, first));
        known == Some(address) && elsewhere.is_none_or(|it| it == address)
    }

    fn put_id(
        &mut self,
        now: Timestamp,
        id: Fingerprint,
        server: ServerKey,
        id_len: u8,
        is_of_server: bool,
    ) {
        self.lengths.touch(now, id_len);
        if let Some(newcomer) = self.flows.put(now, id, server) {
            (newcomer.id_len, newcomer.is_of_server) = (id_len, is_of_server);
        }
    }

    fn address(&self, client: SocketAddr) -> Fingerprint {
        let [high, low, port] = words(client);
        Fingerprint::new(siphash13(self.key(), &[0, high, low, port], &[]))
    }

    fn flow(&self, client: SocketAddr, source: &[u8]) -> Fingerprint {
        let [high, low, port] = words(client);
        Fingerprint::new(siphash13(self.key(), &[1, high, low, port], source))
    }

    fn id(&self, id: &[u8]) -> Fingerprint {
        Fingerprint::new(siphash13(self.key(), &[2], id))
    }
}

/// Returns a connection in the form shared with other routers.
fn described(entry: &Entry<KEYS>) -> Option<Connection> {
    let Entry { server, id_len, is_branch, .. } = *entry;
    Some(Connection { server, first: entry.key(FIRST_ID)?, id_len, is_branch })
}

fn is_reachable(pool: &Pool, key: ServerKey) -> bool {
    pool.server(key).is_some_and(|server| server.is_reachable())
}
