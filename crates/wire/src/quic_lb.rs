//! Connection IDs from which a load balancer reads the server (draft-ietf-quic-load-balancers, QUIC-LB).
//!
//! ```text
//! First Octet (8)    config rotation (3), length of what follows or random bits (5)
//! Server ID (8..)    who issued the ID
//! Nonce (32..)       what tells two IDs of a server apart
//! Further (..)       what the server adds for itself
//! ```
//!
//! With a key, server ID and nonce are encrypted: in one pass of AES if they have 16 octets together, else in four. The
//! further octets are not.

mod cipher;

use core::fmt;

use crate::ConnectionId;
use cipher::Cipher;

/// The shortest nonce.
pub const MIN_NONCE_LEN: usize = 4;
/// How many octets server ID and nonce have together at most.
pub const MAX_BLOCK_LEN: usize = 19;
/// The longest server ID.
pub const MAX_SERVER_ID_LEN: usize = MAX_BLOCK_LEN.saturating_sub(MIN_NONCE_LEN);

/// Which configuration a connection ID follows: the three bits of its first octet (§3.1), 0 to 6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConfigId(u8);

impl ConfigId {
    /// How many configurations there can be at a time.
    pub const COUNT: usize = 7;

    /// The configuration `number`; `None` if there is none of that number. 7 says that an ID cannot be routed (§3.2).
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT as u8 { Some(Self(number)) } else { None }
    }

    /// That which an ID with this first octet follows.
    pub const fn of(first_octet: u8) -> Option<Self> {
        Self::new(first_octet >> 5)
    }

    /// 0 to 6.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// Which server an ID is of: 1 to 15 octets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    length: u8,
    bytes: [u8; MAX_SERVER_ID_LEN],
}

impl ServerId {
    /// A server ID of these bytes; `None` if there are none, or more than 15.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { length: u8::try_from(bytes.len()).ok()?, bytes: Default::default() };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(id)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerId({self})")
    }
}

/// A configuration that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The server ID would have no octet, or more than 15.
    ServerIdLength(usize),
    /// The nonce would have less than 4 octets.
    NonceLength(usize),
    /// Server ID and nonce would have more than 19 octets together.
    BlockLength(usize),
    /// The whole ID would be longer than the 20 octets of QUIC version 1.
    IdLength(usize),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerIdLength(length) => {
                write!(f, "a server ID has 1 to {MAX_SERVER_ID_LEN} octets, not {length}")
            }
            Self::NonceLength(length) => {
                write!(f, "a nonce has at least {MIN_NONCE_LEN} octets, not {length}")
            }
            Self::BlockLength(length) => write!(
                f,
                "server ID and nonce have at most {MAX_BLOCK_LEN} octets together, not {length}"
            ),
            Self::IdLength(length) => {
                write!(
                    f,
                    "a connection ID has at most {} octets, not {length}",
                    ConnectionId::MAX_LEN
                )
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// The lengths and the key of the IDs of one configuration.
#[derive(Clone, Debug)]
pub struct IdCodec {
    config: ConfigId,
    server_id_len: usize,
    nonce_len: usize,
    /// How many octets follow that the server adds for itself.
    further_len: usize,
    states_length: bool,
    cipher: Option<Cipher>,
}

impl IdCodec {
    /// IDs of `config` with a server ID and a nonce of these lengths in octets. Without a key everyone can read the server ID.
    ///
    /// # Errors
    /// If the lengths are not those that the draft permits (§5.3).
    pub fn new(
        config: ConfigId,
        server_id_len: usize,
        nonce_len: usize,
        key: Option<[u8; 16]>,
    ) -> Result<Self, ConfigError> {
        let block_len = server_id_len.saturating_add(nonce_len);
        if !(1..=MAX_SERVER_ID_LEN).contains(&server_id_len) {
            return Err(ConfigError::ServerIdLength(server_id_len));
        }
        if nonce_len < MIN_NONCE_LEN {
            return Err(ConfigError::NonceLength(nonce_len));
        }
        if block_len > MAX_BLOCK_LEN {
            return Err(ConfigError::BlockLength(block_len));
        }
        let cipher = key.map(|key| Cipher::new(&key, server_id_len, block_len));
        Ok(Self { config, server_id_len, nonce_len, further_len: 0, states_length: false, cipher })
    }

    /// IDs whose first octet states how many octets follow (§3.3). Otherwise its five bits are random.
    #[must_use]
    pub fn stating_length(mut self, states_length: bool) -> Self {
        self.states_length = states_length;
        self
    }

    /// IDs with so many octets after the nonce, which are not encrypted (§5.4).
    ///
    /// # Errors
    /// If they would be longer than 20 octets.
    pub fn with_further(mut self, further_len: usize) -> Result<Self, ConfigError> {
        self.further_len = further_len;
        match self.id_len() {
            length if length > ConnectionId::MAX_LEN => Err(ConfigError::IdLength(length)),
            _ => Ok(self),
        }
    }

    /// Which configuration this is.
    pub const fn config(&self) -> ConfigId {
        self.config
    }

    /// The length of a server ID in octets.
    pub const fn server_id_len(&self) -> usize {
        self.server_id_len
    }

    /// The length of a nonce in octets.
    pub const fn nonce_len(&self) -> usize {
        self.nonce_len
    }

    /// How many octets follow the nonce.
    pub const fn further_len(&self) -> usize {
        self.further_len
    }

    /// Whether the first octet states how many octets follow.
    pub const fn states_length(&self) -> bool {
        self.states_length
    }

    /// Whether server ID and nonce are encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// The length of an ID in octets.
    pub const fn id_len(&self) -> usize {
        self.block_len().saturating_add(1).saturating_add(self.further_len)
    }

    const fn block_len(&self) -> usize {
        self.server_id_len.saturating_add(self.nonce_len)
    }

    /// An ID of `server`. `random` gives the lower five bits of the first octet unless this states the length there. `None`
    /// if a length is not that of the configuration.
    pub fn encode(
        &self,
        server: &ServerId,
        nonce: &[u8],
        further: &[u8],
        random: u8,
    ) -> Option<ConnectionId> {
        let lengths = (server.as_bytes().len(), nonce.len(), further.len());
        if lengths != (self.server_id_len, self.nonce_len, self.further_len) {
            return None;
        }
        let mut id = [0; ConnectionId::MAX_LEN];
        let id = id.get_mut(..self.id_len())?;
        let (first, rest) = id.split_first_mut()?;
        let length = rest.len() as u8;
        *first =
            self.config.number() << 5 | (if self.states_length { length } else { random } & 0x1f);
        let (block, added) = rest.split_at_mut_checked(self.block_len())?;
        added.copy_from_slice(further);
        let (server_id, nonce_octets) = block.split_at_mut_checked(self.server_id_len)?;
        server_id.copy_from_slice(server.as_bytes());
        nonce_octets.copy_from_slice(nonce);
        if let Some(cipher) = &self.cipher {
            cipher.encrypt(block);
        }
        ConnectionId::new(id).ok()
    }

    /// The server of an ID, of which more octets may follow: a short header does not state the length. `None` if the ID is too
    /// short or of another configuration.
    pub fn decode(&self, id: &[u8]) -> Option<ServerId> {
        let (first, rest) = id.split_first()?;
        if ConfigId::of(*first) != Some(self.config) {
            return None;
        }
        let block = rest.get(..self.block_len())?;
        match &self.cipher {
            None => ServerId::new(block.get(..self.server_id_len)?),
            Some(cipher) => {
                ServerId::new(cipher.decrypt_server_id(block).get(..self.server_id_len)?)
            }
        }
    }
}

#[cfg(test)]
#[path = "quic_lb_tests.rs"]
mod tests;
