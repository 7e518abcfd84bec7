//! QUIC-LB connection IDs (draft-ietf-quic-load-balancers), from which a balancer reads the server
//! ID, and this process reads the shard.
//!
//! ```text
//! without a key                              with a key
//! First Octet (8)  config rotation           First Octet (8)
//! Server ID (8..)                            Server ID (8..)   encrypted with the nonce
//! Nonce (32..)     random, except its        Nonce (32..)      a counter
//!                  last octet
//! Shard Octet (8)  which is this             Shard Octet (8)   after the ciphertext (section 5.4)
//! ```
//!
//! The shard octet is described in `shard_ids.rs`. All configurations have IDs of the same length,
//! since short headers do not state the length.

use core::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use clearway_wire::ConnectionId;
use clearway_wire::quic_lb::{ConfigError, ConfigId, IdCodec, ServerId};

use crate::shard_ids::{Generation, IdFormat, unroutable_first_octet};
use crate::system::random::seed;

/// A server's QUIC-LB configuration. Balancers with the same configuration read the server ID from
/// connection IDs, so routing works no matter which address a client migrates to. Pass it to a
/// group with [`GroupOptions::quic_lb`](crate::GroupOptions::quic_lb), and replace it with
/// [`ShardGroup::rotate_quic_lb`](crate::ShardGroup::rotate_quic_lb).
///
/// **Length.** An ID consists of one octet, the server ID, the nonce and, if there is a key, one
/// more octet from which this process and the kernel read the shard. Without a key, the shard is in
/// the last octet of the nonce, so that an ID has exactly the octets of the configuration. Both are
/// transparent to balancers.
///
/// **Nonces with a key.** The server counts up from a random nonce; shards, and the two processes
/// of a hot restart, use disjoint nonces. A nonce must not be used twice with one key (section
/// "Connection ID Entropy"): switch to a configuration with another key before the nonces are used
/// up. A warning is logged when an eighth of them remains. When none remain, IDs are marked as
/// unroutable, and balancers route by addresses (§3.2). A connection uses about five nonces, and
/// each Retry packet uses one. With four octets, which give 2^32 nonces, a busy server runs out in
/// days; with seven, never. A restarted process begins at another random nonce, which with four or
/// five octets may already have been used.
///
/// **Nonces without a key** are random. With n octets, two of a server's connections have the same
/// ID after about 2^(4n) IDs, and the first connection then receives no more packets. Use seven
/// octets or more.
///
/// **Without a key** everyone can read the server ID. The draft then advises servers against
/// issuing additional IDs, which clients might assume to be unlinkable (section "Security
/// Considerations"). This server issues them nevertheless: without them, a client cannot migrate
/// (RFC 9000 §9.5), and the server ID that two of them share is not a secret anyway.
#[derive(Clone)]
pub struct QuicLb {
    server_id: ServerId,
    key: Option<[u8; 16]>,
    states_length: bool,
    codec: IdCodec,
}

impl QuicLb {
    /// Creates a configuration with the ID `config` for the server `server_id`, with nonces of
    /// `nonce_len` octets. If there is a `key`, the server ID and the nonce are encrypted.
    ///
    /// # Errors
    /// Fails if the nonce has fewer than 4 octets, the nonce and the server ID together have more
    /// than 19, or the connection ID has more than 20.
    pub fn new(
        config: ConfigId,
        server_id: ServerId,
        nonce_len: usize,
        key: Option<[u8; 16]>,
    ) -> Result<Self, ConfigError> {
        let codec = IdCodec::new(config, server_id.as_bytes().len(), nonce_len, key)?;
        let codec = codec.with_extra(usize::from(key.is_some()))?;
        Ok(Self { server_id, key, states_length: false, codec })
    }

    /// Sets whether the first octet states how many octets follow, for hardware that needs the
    /// length (§3.3). By default its lower five bits are random.
    #[must_use]
    pub fn stating_length(mut self, states_length: bool) -> Self {
        self.states_length = states_length;
        self.codec = self.codec.stating_length(states_length);
        self
    }

    /// Returns the configuration ID, which is in the first three bits of a connection ID.
    pub fn config(&self) -> ConfigId {
        self.codec.config()
    }

    /// Returns the server ID.
    pub fn server_id(&self) -> ServerId {
        self.server_id
    }

    /// Returns the length of a nonce in octets.
    pub fn nonce_len(&self) -> usize {
        self.codec.nonce_len()
    }

    /// Returns whether the server ID and the nonce are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the length of a connection ID in octets.
    pub fn id_len(&self) -> usize {
        self.codec.id_len()
    }
}

impl PartialEq for QuicLb {
    fn eq(&self, other: &Self) -> bool {
        (self.config(), self.server_id, self.nonce_len(), self.key, self.states_length)
            == (other.config(), other.server_id, other.nonce_len(), other.key, other.states_length)
    }
}

impl Eq for QuicLb {}

/// Omits the key from the output.
impl fmt::Debug for QuicLb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicLb")
            .field("config", &self.config())
            .field("server_id", &self.server_id)
            .field("nonce_len", &self.nonce_len())
            .field("is_encrypted", &self.is_encrypted())
            .field("states_length", &self.states_length)
            .finish()
    }
}

/// The reason why a QUIC-LB configuration cannot replace a group's current one, which remains in
/// use.
#[derive(Debug)]
#[non_exhaustive]
pub enum RotateQuicLbError {
    /// The group was started without QUIC-LB, and has connections whose IDs have another format.
    NotConfigured,
    /// The length of IDs would change, which is impossible, since short headers do not state the
    /// length.
    IdLength {
        /// The current length in octets.
        present: usize,
        /// The requested length in octets.
        asked: usize,
    },
    /// The operating system cannot provide a random seed.
    NoSeed(io::Error),
}

impl fmt::Display for RotateQuicLbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConfigured => f.write_str("the server was started without QUIC-LB"),
            Self::IdLength { present, asked } => write!(
                f,
                "connection IDs would have {asked} octets instead of {present}, but their length \
                 cannot change while the server runs"
            ),
            Self::NoSeed(error) => {
                write!(f, "the operating system cannot provide a random seed: {error}")
            }
        }
    }
}

impl core::error::Error for RotateQuicLbError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NoSeed(error) => error.source(),
            Self::NotConfigured | Self::IdLength { .. } => None,
        }
    }
}

/// The configuration shared by all shards of a group.
#[derive(Debug)]
pub(crate) struct SharedQuicLb {
    format: IdFormat,
    generation: Generation,
    current: ArcSwap<Active>,
}

/// The configuration in use.
#[derive(Debug)]
struct Active {
    config: QuicLb,
    /// Number of previous configurations.
    rotation: u64,
    /// The nonce counters of each shard, if IDs are encrypted.
    nonces: Box<[Nonces]>,
}

impl SharedQuicLb {
    /// Creates the shared configuration for shards whose IDs have this format and generation.
    pub(crate) fn new(
        config: QuicLb,
        format: IdFormat,
        generation: Generation,
    ) -> io::Result<Self> {
        let current = Active::new(config, 0, format, generation)?;
        Ok(Self { format, generation, current: ArcSwap::from_pointee(current) })
    }

    /// Switches to `config`. Returns whether it differs from the previous one; if not, the nonces
    /// continue.
    pub(crate) fn rotate(&self, config: QuicLb) -> Result<bool, RotateQuicLbError> {
        let (present, asked) = (self.format.layout().id_len(), config.id_len());
        if asked != present {
            return Err(RotateQuicLbError::IdLength { present, asked });
        }
        loop {
            let current = self.current.load_full();
            if current.config == config {
                return Ok(false);
            }
            let rotation = current.rotation + 1;
            let next = Active::new(config.clone(), rotation, self.format, self.generation)
                .map_err(RotateQuicLbError::NoSeed)?;
            // Another thread may have switched the configuration in the meantime.
            let found = self.current.compare_and_swap(&current, Arc::new(next));
            if Arc::ptr_eq(&found, &current) {
                return Ok(true);
            }
        }
    }
}

impl Active {
    fn new(
        config: QuicLb,
        rotation: u64,
        format: IdFormat,
        generation: Generation,
    ) -> io::Result<Self> {
        let mut random = Random::from_seed(seed()?);
        let shards = if config.is_encrypted() { usize::from(format.count()) } else { 0 };
        let slots = (0..shards).map(|shard| format.slot(shard, generation));
        let nonces = slots.map(|slot| Nonces::new(config.nonce_len(), format, slot, &mut random));
        Ok(Self { nonces: nonces.collect(), config, rotation })
    }

    /// Generates an ID with the shard's next nonce; `None` if no nonce is left.
    fn generate(&self, shard: usize, octet: u8, random: &mut Random) -> Option<ConnectionId> {
        let QuicLb { codec, server_id, .. } = &self.config;
        let mut nonce = [0; ConnectionId::MAX_LEN];
        let nonce = nonce.get_mut(..codec.nonce_len())?;
        if self.config.is_encrypted() {
            self.nonces.get(shard)?.write_next(nonce)?;
        } else {
            random.fill(nonce);
            *nonce.last_mut()? = octet;
        }
        let [first] = random.array();
        codec.encode(server_id, nonce, &[octet][..codec.extra_len()], first)
    }
}

/// The nonces of one shard: those that are congruent to its slot modulo the number of slots.
#[derive(Debug)]
struct Nonces {
    /// The octets before the counter, which takes the last eight octets.
    before: [u8; ConnectionId::MAX_LEN],
    slot: u16,
    slots: u16,
    /// The number of nonces.
    count: u64,
    /// The index of the first nonce.
    start: u64,
    used: AtomicU64,
}

/// Maximum number of octets that the counter takes in a nonce.
const COUNTED: usize = 8;

impl Nonces {
    fn new(len: usize, format: IdFormat, slot: u16, random: &mut Random) -> Self {
        let slots = format.slots();
        let all = 1_u128 << (8 * len.min(COUNTED));
        let count = u64::try_from(all / u128::from(slots)).unwrap_or(u64::MAX);
        let start = random.below(count);
        Self { before: random.array(), slot, slots, count, start, used: AtomicU64::new(0) }
    }

    /// Writes the next nonce; `None` if no nonce is left.
    fn write_next(&self, nonce: &mut [u8]) -> Option<()> {
        let more = |used: u64| (used < self.count).then_some(used + 1);
        // Only this thread counts here, so the ordering does not matter.
        let used = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        if used == self.count - self.count / 8 {
            tracing::warn!(
                "QUIC-LB nonces are running out (one eighth of a shard's nonces is left): replace \
                 the configuration with one that has a different key"
            );
        }
        if used == self.count - 1 {
            tracing::error!(
                "QUIC-LB nonces are used up: balancers cannot route new connection IDs; replace \
                 the configuration with one that has a different key"
            );
        }
        let place = (u128::from(self.start) + u128::from(used)) % u128::from(self.count);
        let counted = place * u128::from(self.slots) + u128::from(self.slot);
        // A shorter nonce consists of the last octets of the counter.
        let counted = &counted.to_be_bytes()[16 - nonce.len().min(COUNTED)..];
        let (before, last) = nonce.split_at_mut_checked(nonce.len() - counted.len())?;
        before.copy_from_slice(self.before.get(..before.len())?);
        last.copy_from_slice(counted);
        Some(())
    }
}

/// Generates the IDs of one shard.
#[derive(Debug)]
pub(crate) struct BalancedIds {
    shared: Arc<SharedQuicLb>,
    shard: usize,
    slot: u16,
}

impl BalancedIds {
    /// Creates a generator for `shard`, counted from 0.
    pub(crate) fn new(shared: Arc<SharedQuicLb>, shard: usize) -> Self {
        let slot = shared.format.slot(shard, shared.generation);
        Self { shared, shard, slot }
    }

    /// Generates an ID that balancers cannot route. The ID states its length (§3.2).
    fn unroutable(&self, octet: u8, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<{ ConnectionId::MAX_LEN }>();
        let id = &mut id[..self.len()];
        id[0] = unroutable_first_octet(self.len());
        id[self.len() - 1] = octet;
        ConnectionId::new(id).unwrap_or_default()
    }
}

impl ConnectionIdGenerator for BalancedIds {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let octet = self.shared.format.shard_octet(self.slot, random);
        let active = self.shared.current.load();
        active.generate(self.shard, octet, random).unwrap_or_else(|| self.unroutable(octet, random))
    }

    fn len(&self) -> usize {
        self.shared.format.layout().id_len()
    }

    fn rotation(&self) -> u64 {
        self.shared.current.load().rotation
    }
}

#[cfg(test)]
#[path = "quic_lb_tests.rs"]
mod tests;
