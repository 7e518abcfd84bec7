//! What a router remembers of datagrams whose connection IDs are not routable.

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

/// The lengths of connection IDs that are learned. Shorter ones belong to several connections too easily, longer ones exist
/// in neither version 1 nor version 2.
const LEARNABLE: RangeInclusive<usize> = 4..=ConnectionId::MAX_LEN;

/// The keys of a connection: the ID that the server was seen to use, by which it is made, then the one that the client
/// began to use last and the one before, both of which it uses while it validates a path, the client's address, and the one
/// that it had before.
const KEYS: usize = 5;
pub(super) const FIRST_ID: usize = 0;
pub(super) const LATEST_ID: usize = 1;
const FORMER_ID: usize = 2;
pub(super) const ADDRESS: usize = 3;
const FORMER_ADDRESS: usize = 4;

/// Other routers are told again of a connection in use in each of so many parts of its lifetime.
const TELLINGS: u32 = 4;

/// When connection IDs of each length were last used. Those of a length that was not used for the lifetime are forgotten.
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

/// Two tables.
///
/// *Flows* are all of which nobody has shown that they exist: the server of a client's address with the client's own
/// connection ID, which its long headers have; of a client's address alone; and of connection IDs that servers have just
/// issued. They push each other out.
///
/// *Learned* are the connections whose client has used a connection ID that a server had sent to it in a long header, which
/// shows that it receives what is sent to its address. They are not pushed out. Each has two addresses, the one that its
/// client last sent from and the one before, and three IDs: the first one, and the two that the client has begun to use last.
/// So their number grows only with what clients have shown, whatever they or others send after that, but for a few
/// [offshoots](super::offshoots).
#[derive(Debug)]
pub(super) struct Memory {
    key: [u64; 2],
    pub(super) flows: Table<1>,
    pub(super) learned: Table<KEYS>,
    pub(super) lengths: Lengths,
    ids: u64,
    pub(super) shared: Option<Arc<SharedIds>>,
    untold: u64,
}

impl Memory {
    pub(super) const BYTES_PER_FLOW: usize = Table::<1>::BYTES_PER_ENTRY;
    pub(super) const BYTES_PER_LEARNED: usize = Table::<KEYS>::BYTES_PER_ENTRY;

    /// A memory whose hashes have this `key`, which is that of `shared`.
    pub(super) fn new(limits: Limits, key: [u64; 2], shared: Option<Arc<SharedIds>>) -> Self {
        let used = [None; ConnectionId::MAX_LEN + 1];
        Self {
            key,
            flows: Table::new(limits.flows, limits.lifetime),
            learned: Table::new(limits.learned, limits.lifetime),
            lengths: Lengths { used, lifetime: limits.lifetime },
            ids: 0,
            shared,
            untold: 0,
        }
    }

    /// The key of its hashes.
    pub(super) fn key(&self) -> [u64; 2] {
        self.shared.as_ref().map_or(self.key, |shared| shared.key())
    }

    /// Takes another key, when nothing is known yet.
    pub(super) fn set_key(&mut self, key: [u64; 2]) {
        self.key = key;
        if let Some(shared) = &self.shared {
            shared.set_key(key);
        }
    }

    /// Tells other routers of all connections that were learned.
    pub(super) fn tell_all(&mut self) {
        let Some(shared) = &self.shared else { return };
        for entry in self.learned.by_use() {
            let Some(connection) = described(entry) else { continue };
            let ids = [FIRST_ID, FORMER_ID, LATEST_ID].map(|which| entry.key(which));
            for id in ids.into_iter().flatten() {
                if !shared.learn(entry.used, connection, id, entry.key(ADDRESS)) {
                    self.untold = self.untold.saturating_add(1);
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

    /// How many IDs were learned.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// How often other routers could not be told of an ID, since there was no room.
    pub(super) fn untold(&self) -> u64 {
        self.untold
    }

    /// Removes a few of the entries that were not used for their lifetime.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.flows.expire(now);
        self.learned.expire(now);
    }

    /// The server of a long header of `client`.
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
        // With an empty ID of the client, or one that it uses again, the flow may be that of an earlier connection.
        if let Some(server) = of_flow.filter(|server| of_id.is_none_or(|of_id| of_id == *server)) {
            self.flows.touch(now, flow);
            return Some((server, Means::Flow));
        }
        if let Some(server) = of_id {
            return Some((server, Means::Learned));
        }
        // The client may be new.
        let of_address = self.find(now, pool, address);
        let takes_it = |key: &ServerKey| pool.server(*key).is_some_and(|it| it.takes_new_clients());
        let (server, means) = match of_address.filter(takes_it) {
            Some(server) => (server, Means::Address),
            None => (pool.by_hash(client, local)?.0, Means::Hash),
        };
        self.flows.put(now, flow, server);
        Some((server, means))
    }

    /// The server of a short header of `client`. `octets` is what follows the first.
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

    /// `server` has sent a long header with this source connection ID, which is not routable, to `client`.
    pub(super) fn learn_from_server(
        &mut self,
        now: Timestamp,
        server: ServerKey,
        client: SocketAddr,
        source: &[u8],
    ) {
        if !LEARNABLE.contains(&source.len()) {
            let address = self.address(client);
            // An earlier connection may have had the address.
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

    /// The server of an ID or an address, if it can be reached.
    fn find(&mut self, now: Timestamp, pool: &Pool, key: Fingerprint) -> Option<ServerKey> {
        let of_connection = self.learned.find(now, key).map(|entry| entry.server);
        // While the server of a connection is down, its client is known as a newcomer.
        of_connection.filter(|server| is_reachable(pool, *server)).or_else(|| {
            let of_newcomer = self.flows.find(now, key).map(|entry| entry.server);
            of_newcomer.filter(|server| is_reachable(pool, *server))
        })
    }

    /// The known ID that a short header begins with. The longest ones are tried first: what begins with a short ID by
    /// chance may be a longer one.
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

    /// The server of an ID that another router has learned, if it can be reached. This one knows the connection from then on,
    /// if it has room.
    fn find_shared(&mut self, now: Timestamp, pool: &Pool, id: Fingerprint) -> Option<ServerKey> {
        let known = self.shared.as_ref()?.find(now, id)?;
        if !is_reachable(pool, known.server) {
            return None;
        }
        if self.learned.find(now, known.first).is_none() {
            let added = match known.is_offshoot {
                true => self.learned.add_offshoot(now, known.first, known.server),
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

    /// Tells other routers of the connection with this ID, which its client uses: at once if that or its address is new, and
    /// otherwise now and then.
    pub(super) fn tell(&mut self, now: Timestamp, id: Fingerprint, is_new: bool) {
        let Some(shared) = &self.shared else { return };
        let part = self.lengths.lifetime.checked_div(TELLINGS).unwrap_or_default();
        let parts = now.since_origin().as_nanos().checked_div(part.as_nanos());
        // As many parts as a number has are far more than a lifetime.
        let part = parts.unwrap_or_default() as u8;
        let Some(entry) = self.learned.find(now, id) else { return };
        if !is_new && entry.told == Some(part) {
            return;
        }
        entry.told = Some(part);
        let Some(connection) = described(entry) else { return };
        if !shared.learn(now, connection, id, entry.key(ADDRESS)) {
            self.untold = self.untold.saturating_add(1);
        }
    }

    /// The client of the connection with this key has begun to use another ID.
    fn set_latest_id(&mut self, key: Fingerprint, id: Fingerprint) {
        let latest = self.learned.key_of(key, LATEST_ID);
        self.learned.set_key(key, LATEST_ID, id);
        if let Some(former) = latest.filter(|latest| *latest != id) {
            self.learned.set_key(key, FORMER_ID, former);
        }
    }

    /// The client of the connection with the ID `id` is at `address`.
    fn set_address(&mut self, id: Fingerprint, known: Option<Fingerprint>, address: Fingerprint) {
        self.learned.set_key(id, ADDRESS, address);
        if let Some(former) = known {
            self.learned.set_key(id, FORMER_ADDRESS, former);
        }
    }

    /// A known ID has come from `address`.
    fn use_id(&mut self, now: Timestamp, id: Fingerprint, address: Fingerprint) {
        if let Some(connection) = self.learned.find(now, id) {
            let (id_len, known) = (connection.id_len, connection.key(ADDRESS));
            self.learned.touch(now, id);
            self.lengths.touch(now, id_len);
            let is_new = known != Some(address);
            if is_new {
                self.set_address(id, known, address);
            }
            return self.tell(now, id, is_new);
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
                self.tell(now, id, true);
            }
            None => self.refuse(now, id, address, server),
        }
    }

    /// There is no room for the connection.
    fn refuse(&mut self, now: Timestamp, id: Fingerprint, address: Fingerprint, server: ServerKey) {
        let newcomer = self.flows.find(now, id);
        if newcomer.is_some_and(|it| !core::mem::replace(&mut it.was_refused, true)) {
            self.learned.refuse();
        }
        // Another connection may have had the address.
        self.learned.forget_key(address);
        self.flows.put(now, address, server);
    }

    /// A known address uses an ID that is not known: its server has issued it in a packet that the balancer cannot read.
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
        // It may be that of a server that cannot be reached.
        if self.learned.find(now, id).is_some() || self.flows.find(now, id).is_some() {
            return;
        }
        self.ids = self.ids.saturating_add(1);
        if is_there {
            self.set_latest_id(address, id);
            self.lengths.touch(now, id_len);
            self.tell(now, id, true);
        } else if !(is_connection && self.branch_off(now, address, id)) {
            self.put_id(now, id, server, id_len, false);
        }
    }

    /// Whether `address` is the one that the client of its connection last came from, as far as is known here and at other
    /// routers. Otherwise another client may have it by now.
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

/// What other routers are told of a connection.
fn described(entry: &Entry<KEYS>) -> Option<Connection> {
    let Entry { server, id_len, is_offshoot, .. } = *entry;
    Some(Connection { server, first: entry.key(FIRST_ID)?, id_len, is_offshoot })
}

fn is_reachable(pool: &Pool, key: ServerKey) -> bool {
    pool.server(key).is_some_and(|server| server.is_reachable())
}
