//! The servers at one point in time.

mod error;

use core::net::SocketAddr;
use std::collections::BTreeMap;

use clearway_wire::ConnectionId;
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};
use hashbrown::HashMap;

use crate::address::{AddressFault, words};
use crate::maglev::{Candidate, Maglev};
use crate::server_key::ServerKey;
use crate::siphash::siphash24;

pub use error::PoolError;

/// The traffic that a server may receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    /// New clients and existing connections.
    Active,
    /// Existing connections only.
    Draining,
    /// No traffic: the server is unreachable.
    Down,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// The server's name, unique in its pool.
    pub name: String,
    /// The address to which the server's datagrams are sent.
    pub address: SocketAddr,
    /// The server IDs in the server's connection IDs, per configuration; empty if the server does
    /// not issue QUIC-LB IDs.
    pub ids: Vec<(ConfigId, ServerId)>,
    /// The length of the server's connection IDs in octets, if they are not QUIC-LB IDs. If `None`,
    /// the length is learned from the long headers that the server sends.
    pub id_len: Option<usize>,
    /// The server's share of new clients, relative to that of other servers; 0 for none.
    pub weight: u32,
    /// The traffic that the server may receive.
    pub state: ServerState,
    /// Whether the server's datagrams are preceded by a [preface](clearway_wire::preface).
    pub has_preface: bool,
}

impl Server {
    /// Returns whether the server may receive datagrams of existing connections.
    pub fn is_reachable(&self) -> bool {
        self.state != ServerState::Down
    }

    /// Returns whether the server may receive new clients.
    pub fn takes_new_clients(&self) -> bool {
        self.state == ServerState::Active && self.weight > 0
    }
}

/// The servers at one point in time. Every change requires a new pool, which is passed to the
/// [router](crate::Router).
///
/// # Which connection IDs are routable
///
/// In a long header, an ID is routable if it has exactly the length of its configuration, contains
/// the server ID of a server in the pool, and states that length in its first octet if the
/// configuration requires it (draft-ietf-quic-load-balancers §4.1). A short header does not state
/// the length, so the packet only needs to begin with such an ID. Configurations may have IDs of
/// different lengths: the first octet states the configuration.
///
/// # Length of server IDs
///
/// A client chooses the Destination Connection ID of its first packet at random, with 8 to 20
/// octets. If the ID happens to look like a routable one, the client is sent to the server that it
/// identifies, even if that server is draining or has a weight of 0. If servers use `n` of the
/// `256^length` server IDs of a configuration, this affects `n / 256^length` of the IDs with its
/// configuration number and length. The same can happen to the IDs of a server that does not issue
/// QUIC-LB IDs, where it misroutes a connection. So server IDs should be longer than the number of
/// servers requires, and sparse (§5.1): with 4 octets and 1,000 servers, 1 ID in 4 million is
/// mistaken for a routable one, or 1 in 137 million if the first octet states the length.
///
/// # Changes that keep connections
///
/// With several balancers, the pools change at different times. No connection is misrouted in the
/// meantime if
///
/// * a configuration is added to all pools before servers use it, and removed only when no
///   connection uses its IDs;
/// * a server is first added to all pools with a weight of 0, and only then gets its weight;
/// * a server is set to draining, and removed from the pools only when its connections have ended.
#[derive(Clone, Debug)]
pub struct Pool {
    codecs: [Option<IdCodec>; ConfigId::COUNT],
    /// The servers in the order in which they were passed. Other fields refer to them by index.
    servers: Vec<(ServerKey, Server)>,
    /// The servers' keys and indices, sorted by key.
    by_key: Vec<(ServerKey, u16)>,
    by_address: BTreeMap<[u64; 3], u16>,
    /// Maps server IDs to servers, per configuration.
    by_id: [HashMap<u128, u16>; ConfigId::COUNT],
    maglev: Maglev,
    seed: u64,
}

impl Pool {
    /// Maximum number of servers in a pool: each has ten rows of the Maglev table. With more than
    /// 655 servers, their shares of new clients differ by more than a percent.
    pub const MAX_SERVERS: usize = crate::maglev::ROWS / 10;

    /// Creates a pool of `servers` whose connection IDs have the formats `codecs`.
    ///
    /// # Errors
    /// Returns an error if the configurations and servers contradict each other, or there are too
    /// many servers.
    pub fn new(codecs: Vec<IdCodec>, servers: Vec<Server>) -> Result<Self, PoolError> {
        if servers.len() > Self::MAX_SERVERS {
            return Err(PoolError::TooManyServers(servers.len()));
        }
        let mut pool = Self {
            codecs: Default::default(),
            servers: Vec::new(),
            by_key: Vec::new(),
            by_address: BTreeMap::new(),
            by_id: Default::default(),
            maglev: Maglev::new([]),
            seed: 0,
        };
        codecs.into_iter().try_for_each(|codec| pool.add_codec(codec))?;
        let with_key = |server: Server| (ServerKey::of(&server.name), server);
        pool.servers = servers.into_iter().map(with_key).collect();
        pool.index_keys()?;
        pool.index_addresses()?;
        pool.index_ids()?;
        pool.maglev = Maglev::new(pool.candidates());
        Ok(pool)
    }

    /// Sets the seed of the address hash, which is 0 by default. Balancers that share their clients
    /// must use the same seed: a client's first packets may arrive at several of them. Clients that
    /// know the seed can choose their server.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the servers with their keys, in the order in which they were passed.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = (ServerKey, &Server)> {
        self.servers.iter().map(|(key, server)| (*key, server))
    }

    /// Returns the connection ID formats, ordered by configuration.
    pub fn codecs(&self) -> impl Iterator<Item = &IdCodec> {
        self.codecs.iter().flatten()
    }

    /// Returns the server with this key.
    pub fn server(&self, key: ServerKey) -> Option<&Server> {
        let at = self.by_key.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        let (_, place) = self.by_key.get(at)?;
        Some(self.at(*place)?.1)
    }

    /// Returns the server at this address.
    pub fn by_address(&self, address: SocketAddr) -> Option<(ServerKey, &Server)> {
        self.at(*self.by_address.get(&words(address))?)
    }

    /// Returns the server with this server ID.
    pub fn by_id(&self, config: ConfigId, id: &ServerId) -> Option<(ServerKey, &Server)> {
        // All IDs of a configuration have the same length.
        let ids = self.by_id.get(usize::from(config.number()))?;
        self.at(*ids.get(&number(id))?)
    }

    /// Returns the server identified by the connection ID of a long header; `None` if the ID is not
    /// routable. The server may be down.
    pub fn by_long_id(&self, id: &[u8]) -> Option<(ServerKey, &Server)> {
        let codec = self.codec(*id.first()?)?;
        self.decode(codec, id).filter(|_| id.len() == codec.id_len())
    }

    /// Returns whether the connection ID of a long header identifies a server and is encrypted, and
    /// is therefore hard to guess for anyone who has not received it.
    pub(crate) fn is_encrypted_id(&self, id: &[u8]) -> bool {
        let codec = id.first().and_then(|first| self.codec(*first));
        codec.is_some_and(IdCodec::is_encrypted) && self.by_long_id(id).is_some()
    }

    /// Returns the server identified by the connection ID of a short header; `octets` is everything
    /// after the first octet of the packet. `None` if the ID is not routable. The server may be
    /// down.
    pub fn by_short_id(&self, octets: &[u8]) -> Option<(ServerKey, &Server)> {
        let codec = self.codec(*octets.first()?)?;
        self.decode(codec, octets.get(..codec.id_len())?)
    }

    /// Returns the server for a new client with the address `client` that sends to `local`: the
    /// same in every pool with the same seed and the same servers that [take new
    /// clients](Server::takes_new_clients). `None` if there are none.
    pub fn by_hash(&self, client: SocketAddr, local: SocketAddr) -> Option<(ServerKey, &Server)> {
        let ([a, b, c], [d, e, f]) = (words(client), words(local));
        let hash = siphash24([self.seed, 0], &[a, b, c, d, e, f], &[]);
        self.at(self.maglev.find(hash)?)
    }

    fn at(&self, place: u16) -> Option<(ServerKey, &Server)> {
        self.servers.get(usize::from(place)).map(|(key, server)| (*key, server))
    }

    fn codec(&self, first_octet: u8) -> Option<&IdCodec> {
        let config = ConfigId::of(first_octet)?;
        self.codecs.get(usize::from(config.number()))?.as_ref()
    }

    fn decode(&self, codec: &IdCodec, id: &[u8]) -> Option<(ServerKey, &Server)> {
        let stated = usize::from(id.first()? & 0x1f);
        if codec.states_length() && stated.saturating_add(1) != codec.id_len() {
            return None;
        }
        self.by_id(codec.config(), &codec.decode(id)?)
    }

    fn add_codec(&mut self, codec: IdCodec) -> Result<(), PoolError> {
        let config = codec.config();
        let Some(slot) = self.codecs.get_mut(usize::from(config.number())) else { return Ok(()) };
        match slot.replace(codec) {
            Some(_) => Err(PoolError::ConfigTwice(config)),
            None => Ok(()),
        }
    }

    /// Returns each server with its index.
    fn places(&self) -> impl Iterator<Item = (u16, ServerKey, &Server)> {
        (0..).zip(&self.servers).map(|(place, (key, server))| (place, *key, server))
    }

    fn index_keys(&mut self) -> Result<(), PoolError> {
        self.by_key = self.places().map(|(place, key, _)| (key, place)).collect();
        self.by_key.sort_unstable();
        let twice = self.by_key.windows(2).find_map(|pair| match pair {
            [(one, place), (other, other_place)] if one == other => Some([*place, *other_place]),
            _ => None,
        });
        match twice.map(|places| places.map(|place| self.name(place))) {
            Some([one, other]) if one == other => Err(PoolError::NameTwice(one)),
            Some(names) => Err(PoolError::KeyTwice(names)),
            None => Ok(()),
        }
    }

    fn index_addresses(&mut self) -> Result<(), PoolError> {
        let mut by_address = BTreeMap::new();
        for (place, _, server) in self.places() {
            let address = server.address;
            if AddressFault::of(address).is_some() {
                return Err(PoolError::NoDestination { name: server.name.clone(), address });
            }
            if let Some(other) = by_address.insert(words(address), place) {
                let names = [self.name(other), server.name.clone()];
                return Err(PoolError::AddressTwice { names, address });
            }
        }
        self.by_address = by_address;
        Ok(())
    }

    fn index_ids(&mut self) -> Result<(), PoolError> {
        let mut by_id = [(); ConfigId::COUNT].map(|()| HashMap::new());
        for (place, _, server) in self.places() {
            let name = || server.name.clone();
            if let Some(length) = server.id_len.filter(|length| *length > ConnectionId::MAX_LEN) {
                return Err(PoolError::ConnectionIdLength { name: name(), length });
            }
            for &(config, id) in &server.ids {
                let at = usize::from(config.number());
                let (Some(Some(codec)), Some(ids)) = (self.codecs.get(at), by_id.get_mut(at))
                else {
                    return Err(PoolError::NoConfig { name: name(), config });
                };
                let expected = codec.server_id_len();
                if id.as_bytes().len() != expected {
                    return Err(PoolError::IdLength { name: name(), id, expected });
                }
                if let Some(other) = ids.insert(number(&id), place) {
                    let names = [self.name(other), name()];
                    return Err(PoolError::IdTwice { names, config, id });
                }
            }
        }
        self.by_id = by_id;
        Ok(())
    }

    fn name(&self, place: u16) -> String {
        self.at(place).map(|(_, server)| server.name.clone()).unwrap_or_default()
    }

    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let takes = |(_, _, server): &(u16, ServerKey, &Server)| server.takes_new_clients();
        self.places().filter(takes).map(|(place, key, server)| Candidate {
            key,
            weight: server.weight,
            index: place,
        })
    }
}

/// Returns a server ID as a number that is unique among IDs of its length.
fn number(id: &ServerId) -> u128 {
    id.as_bytes().iter().fold(0, |number, octet| number << 8 | u128::from(*octet))
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
