//! QUIC-LB connection IDs, from which a load balancer reads the server ID
//! (draft-ietf-quic-load-balancers).
//!
//! ```text
//! First Octet (8)    config rotation (3), length of the rest or random bits (5)
//! Server ID (8..)    the server that issued the ID
//! Nonce (32..)       distinguishes the IDs of a server
//! Additional (..)    octets for the server's own use
//! ```
//!
//! With a key, the server ID and nonce are encrypted, in one AES pass if they have 16 octets in
//! total, and otherwise in four passes. Additional octets are not encrypted.

mod cipher;

use core::fmt;

use crate::ConnectionId;
use cipher::Cipher;

/// The minimum length of a nonce in octets.
pub const MIN_NONCE_LEN: usize = 4;
/// The maximum total length of the server ID and the nonce in octets.
pub const MAX_BLOCK_LEN: usize = 19;
/// The maximum length of a server ID in octets.
pub const MAX_SERVER_ID_LEN: usize = MAX_BLOCK_LEN.saturating_sub(MIN_NONCE_LEN);

/// The configuration of a connection ID: the three high bits of its first octet (§3.1), 0 to 6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConfigId(u8);

impl ConfigId {
    /// The maximum number of concurrent configurations.
    pub const COUNT: usize = 7;

    /// Returns the configuration ID with this number; `None` if the number is invalid. 7 marks a
    /// connection ID that cannot be routed (§3.2).
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT as u8 { Some(Self(number)) } else { None }
    }

    /// Returns the configuration of an ID with this first octet.
    pub const fn of(first_octet: u8) -> Option<Self> {
        Self::new(first_octet >> 5)
    }

    /// Returns the number, 0 to 6.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A server ID of 1 to 15 octets, which identifies the server that issued a connection ID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    length: u8,
    bytes: [u8; MAX_SERVER_ID_LEN],
}

impl ServerId {
    /// Creates a server ID from `bytes`; `None` if there are no bytes, or more than 15.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { length: u8::try_from(bytes.len()).ok()?, bytes: Default::default() };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(id)
    }

    /// Returns the bytes of the server ID.
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

/// The reason why a configuration is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The server ID would be empty, or longer than 15 octets.
    ServerIdLength(usize),
    /// The nonce would be shorter than 4 octets.
    NonceLength(usize),
    /// The server ID and the nonce together would be longer than 19 octets.
    BlockLength(usize),
    /// The connection ID would be longer than the 20 octets that QUIC version 1 allows.
    IdLength(usize),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServerIdLength(length) => {
                write!(
                    f,
                    "invalid server ID length {length}: expected 1 to {MAX_SERVER_ID_LEN} octets"
                )
            }
            Self::NonceLength(length) => {
                write!(f, "invalid nonce length {length}: expected at least {MIN_NONCE_LEN} octets")
            }
            Self::BlockLength(length) => write!(
                f,
                "server ID and nonce have {length} octets in total: expected at most {MAX_BLOCK_LEN}"
            ),
            Self::IdLength(length) => {
                write!(
                    f,
                    "invalid connection ID length {length}: expected at most {} octets",
                    ConnectionId::MAX_LEN
                )
            }
        }
    }
}

impl core::error::Error for ConfigError {}

/// Encodes and decodes connection IDs with the field lengths and the key of one configuration.
#[derive(Clone, Debug)]
pub struct IdCodec {
    config: ConfigId,
    server_id_len: usize,
    nonce_len: usize,
    /// The number of additional octets that the server appends.
    extra_len: usize,
    states_length: bool,
    cipher: Option<Cipher>,
}

impl IdCodec {
    /// Creates a codec for `config` with the given lengths of the server ID and the nonce, in
    /// octets. Without a key, anyone can read the server ID.
    ///
    /// # Errors
    /// Returns an error if the draft does not allow the lengths (§5.3).
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
        Ok(Self { config, server_id_len, nonce_len, extra_len: 0, states_length: false, cipher })
    }

    /// Sets whether the first octet states how many octets follow (§3.3). If not, its five low bits
    /// are random.
    #[must_use]
    pub fn stating_length(mut self, states_length: bool) -> Self {
        self.states_length = states_length;
        self
    }

    /// Sets the number of octets after the nonce, which are not encrypted (§5.4).
    ///
    /// # Errors
    /// Returns an error if IDs would be longer than 20 octets.
    pub fn with_extra(mut self, extra_len: usize) -> Result<Self, ConfigError> {
        self.extra_len = extra_len;
        match self.id_len() {
            length if length > ConnectionId::MAX_LEN => Err(ConfigError::IdLength(length)),
            _ => Ok(self),
        }
    }

    /// Returns the configuration.
    pub const fn config(&self) -> ConfigId {
        self.config
    }

    /// Returns the length of a server ID in octets.
    pub const fn server_id_len(&self) -> usize {
        self.server_id_len
    }

    /// Returns the length of a nonce in octets.
    pub const fn nonce_len(&self) -> usize {
        self.nonce_len
    }

    /// Returns the number of octets after the nonce.
    pub const fn extra_len(&self) -> usize {
        self.extra_len
    }

    /// Returns whether the first octet states how many octets follow.
    pub const fn states_length(&self) -> bool {
        self.states_length
    }

    /// Returns whether the server ID and the nonce are encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// Returns the length of an ID in octets.
    pub const fn id_len(&self) -> usize {
        self.block_len().saturating_add(1).saturating_add(self.extra_len)
    }

    const fn block_len(&self) -> usize {
        self.server_id_len.saturating_add(self.nonce_len)
    }

    /// Encodes a connection ID of `server`. `random` provides the low five bits of the first octet,
    /// unless they state the length. Returns `None` if a length does not match the configuration.
    pub fn encode(
        &self,
        server: &ServerId,
        nonce: &[u8],
        further: &[u8],
        random: u8,
    ) -> Option<ConnectionId> {
        let lengths = (server.as_bytes().len(), nonce.len(), further.len());
        if lengths != (self.server_id_len, self.nonce_len, self.extra_len) {
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

    /// Returns the server ID in a connection ID, which may be followed by other octets, since a
    /// short header does not state the length. `None` if the ID is too short or belongs to another
    /// configuration.
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
