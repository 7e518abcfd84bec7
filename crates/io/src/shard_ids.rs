//! Connection IDs that encode which shard of a group issued them.
//!
//! ```text
//! First Octet (8)    0b111 00111   config rotation, and how many octets follow (QUIC-LB, sections 3.1 and 3.3)
//! Shard Octet (8)    slot + slots * random, at most 255
//! Random (48)
//! ```
//!
//! The slot is the number of the shard, and there are as many slots as shards. With hot restart
//! (`restart.rs`), there are twice as many slots: the slot is the number of the shard, plus the
//! number of shards in every second generation of processes. So a process can distinguish its
//! connections from those of the previous process. The slot modulo the number of shards is the
//! shard in either case, so steering programs do not need the generation.
//!
//! The first octet follows QUIC-LB (draft-ietf-quic-load-balancers): the config rotation 0b111
//! marks the ID as unroutable for balancers. Since the shard is a remainder of the second octet,
//! the rest of that octet is random, too: IDs collide no more often than with seven random octets,
//! which QUIC-LB requires for such IDs, and the octet does not reveal the number of shards. An
//! observer who knows the number of shards learns the shard, and thus that two IDs of different
//! shards belong to different connections.
//!
//! A server behind a QUIC-LB balancer issues other IDs (`quic_lb.rs`). The shard octet of those IDs
//! is the last one, and their first octet contains the configuration ID.

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use clearway_wire::ConnectionId;

/// Maximum number of shards at one port: the number of values of an octet of a connection ID.
pub const MAX_SHARDS: usize = 256;
/// Maximum number of shards at one port with hot restart, which has two processes with that many
/// shards each.
pub const MAX_SHARDS_WITH_HOT_RESTART: usize = MAX_SHARDS / 2;
/// The length of the IDs, which equals that of [`RandomIds`](clearway_transport::RandomIds).
pub(crate) const ID_LEN: usize = 8;
/// The first octet of the IDs.
pub(crate) const FIRST_OCTET: u8 = unroutable_first_octet(ID_LEN);

/// Returns the first octet of an unroutable ID of `id_len` octets: config rotation 0b111, and the
/// number of octets that follow.
pub(crate) const fn unroutable_first_octet(id_len: usize) -> u8 {
    0b1110_0000 | (id_len as u8).saturating_sub(1)
}

/// Identifies which of two processes in a hot restart issued an ID; alternates with each successor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Generation {
    /// The first process, the third, and so on.
    #[default]
    Even,
    Odd,
}

impl Generation {
    /// Returns the other generation, which is that of both the previous and the next process.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Even => Self::Odd,
            Self::Odd => Self::Even,
        }
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Even => 0,
            Self::Odd => 1,
        }
    }

    pub(crate) const fn from_number(number: u8) -> Self {
        if number & 1 == 0 { Self::Even } else { Self::Odd }
    }
}

/// The issuer of an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Issuer {
    pub(crate) shard: usize,
    pub(crate) generation: Generation,
}

/// Position of the shard octet within an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The length of the IDs, 1 to 20.
    id_len: u8,
    /// The position of the octet that encodes the shard.
    shard_octet: u8,
    /// The first octet, if it is always the same.
    first_octet: Option<u8>,
}

impl Layout {
    /// The layout of [`ShardIds`].
    pub(crate) const OWN: Self =
        Self { id_len: ID_LEN as u8, shard_octet: 1, first_octet: Some(FIRST_OCTET) };

    /// Returns the layout of QUIC-LB IDs with `id_len` octets.
    pub(crate) const fn quic_lb(id_len: u8) -> Self {
        Self { id_len, shard_octet: id_len.saturating_sub(1), first_octet: None }
    }

    /// Returns the length of the IDs, if they are QUIC-LB IDs.
    pub(crate) const fn quic_lb_len(self) -> Option<u8> {
        match self.first_octet {
            Some(_) => None,
            None => Some(self.id_len),
        }
    }

    /// Returns the layout [`quic_lb`](Self::quic_lb) for IDs of this length, or [`OWN`](Self::OWN)
    /// if there is no length.
    pub(crate) const fn from_quic_lb_len(id_len: Option<u8>) -> Self {
        match id_len {
            Some(id_len) => Self::quic_lb(id_len),
            None => Self::OWN,
        }
    }

    /// Returns the length of the IDs.
    pub(crate) const fn id_len(self) -> usize {
        self.id_len as usize
    }

    /// Returns the position of the octet that encodes the shard.
    pub(crate) const fn shard_octet(self) -> usize {
        self.shard_octet as usize
    }

    /// Returns the first octet of all IDs, if it is always the same.
    pub(crate) const fn first_octet(self) -> Option<u8> {
        self.first_octet
    }
}

/// Encoding of the shard in a group's IDs, and of the generation if there are two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdFormat {
    layout: Layout,
    /// The number of shards: 1 to [`MAX_SHARDS`].
    count: u16,
    /// The number of issuers that an ID distinguishes: one or two per shard; at most
    /// [`MAX_SHARDS`].
    slots: u16,
}

impl IdFormat {
    /// Creates the format for `count` shards, at most [`MAX_SHARDS`].
    pub(crate) fn new(layout: Layout, count: usize) -> Self {
        let count = count.clamp(1, MAX_SHARDS) as u16;
        Self { layout, count, slots: count }
    }

    /// Creates the format for `count` shards in two generations, at most
    /// [`MAX_SHARDS_WITH_HOT_RESTART`].
    pub(crate) fn with_generations(layout: Layout, count: usize) -> Self {
        let count = count.clamp(1, MAX_SHARDS_WITH_HOT_RESTART) as u16;
        Self { layout, count, slots: 2 * count }
    }

    pub(crate) const fn layout(self) -> Layout {
        self.layout
    }

    /// Returns the number of shards.
    pub(crate) const fn count(self) -> u16 {
        self.count
    }

    /// Returns the number of issuers of IDs: the number of shards, times the number of generations.
    #[cfg(feature = "quic-lb")]
    pub(crate) const fn slots(self) -> u16 {
        self.slots
    }

    /// Returns the exclusive upper bound of shard octets: the largest multiple of the number of
    /// slots that is at most 256.
    pub(crate) const fn limit(self) -> u16 {
        256 - 256 % self.slots
    }

    /// Returns the number of an issuer; `shard` is counted from 0. The generation matters only if
    /// there are two.
    pub(crate) fn slot(self, shard: usize, generation: Generation) -> u16 {
        let shard = (shard as u16).min(self.count - 1);
        (shard + self.count * u16::from(generation.number())) % self.slots
    }

    /// Returns a random shard octet for IDs of `slot`.
    pub(crate) fn shard_octet(self, slot: u16, random: &mut Random) -> u8 {
        let multiple = random.below(u64::from(self.limit() / self.slots)) as u16;
        // The value is below the limit, so it fits into an octet.
        (slot + multiple * self.slots) as u8
    }

    /// Returns the issuer of `id`; `None` if the group did not issue it.
    pub(crate) fn issuer(self, id: &[u8]) -> Option<Issuer> {
        let Layout { first_octet, .. } = self.layout;
        if id.len() != self.layout.id_len() || first_octet.is_some_and(|it| id[0] != it) {
            return None;
        }
        let octet = u16::from(*id.get(self.layout.shard_octet())?);
        if octet >= self.limit() {
            return None;
        }
        let is_even = octet % self.slots < self.count;
        let generation = if is_even { Generation::Even } else { Generation::Odd };
        Some(Issuer { shard: usize::from(octet % self.count), generation })
    }
}

/// Generates the IDs of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardIds {
    format: IdFormat,
    slot: u16,
}

impl ShardIds {
    /// Creates a generator for `shard`, counted from 0. The format must have [`Layout::OWN`].
    pub(crate) fn new(format: IdFormat, shard: usize, generation: Generation) -> Self {
        Self { format, slot: format.slot(shard, generation) }
    }
}

impl ConnectionIdGenerator for ShardIds {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<ID_LEN>();
        id[1] = self.format.shard_octet(self.slot, random);
        id[0] = FIRST_OCTET;
        ConnectionId::new(&id).unwrap_or_default()
    }

    fn len(&self) -> usize {
        ID_LEN
    }
}

#[cfg(test)]
#[path = "shard_ids_tests.rs"]
mod tests;
