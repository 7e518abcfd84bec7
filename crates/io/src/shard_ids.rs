//! Connection IDs from which the shard of a group can be read that issued them.
//!
//! ```text
//! First Octet (8)    0b111 00111   config rotation, and how many octets follow (QUIC-LB, sections 3.1 and 3.3)
//! Shard Octet (8)    slot + slots * random, at most 255
//! Random (48)
//! ```
//!
//! The slot is the number of the shard, and there are as many as shards. With hot restart (`restart.rs`) there are twice as
//! many: the slot is the shard, plus the number of shards in every second generation of processes. So a process can tell
//! the connections of the one before, and the remainder by the number of shards is the shard either way: what steers
//! datagrams need not know the generation.
//!
//! The first octet is that of QUIC-LB (draft-ietf-quic-load-balancers): the config rotation 0b111 tells balancers that the
//! ID says nothing to them, and the other seven are left to a generator of IDs that does speak to them. Since the shard is
//! a remainder of the second octet, the rest of that octet is random, too: an ID collides no more often than seven random
//! octets do, which QUIC-LB asks of such IDs, and the octet does not count shards for everyone to read. Who knows how many
//! shards there are learns the shard, and so that two IDs of different shards are not of one connection.

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use clearway_wire::ConnectionId;

/// How many shards a port can have: as many as an octet of a connection ID can tell apart.
pub const MAX_SHARDS: usize = 256;
/// How many a port can have with hot restart, which has two processes with as many shards each.
pub const MAX_SHARDS_WITH_HOT_RESTART: usize = MAX_SHARDS / 2;
/// The length of the IDs, which is that of [`RandomIds`](clearway_transport::RandomIds).
pub(crate) const ID_LEN: usize = 8;
/// Config rotation 0b111, and the number of octets that follow.
pub(crate) const FIRST_OCTET: u8 = 0b1110_0000 | (ID_LEN as u8 - 1);

/// Which of two processes that replace each other issued an ID: it is the other one in each process that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Generation {
    /// The first process, the third, and so on.
    #[default]
    Even,
    Odd,
}

impl Generation {
    /// That of the process before, and of the one after.
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

/// Who issued an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Issuer {
    pub(crate) shard: usize,
    pub(crate) generation: Generation,
}

/// How the IDs of one group of shards name their shard, and its generation if there are two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdFormat {
    /// How many shards there are: 1 to [`MAX_SHARDS`].
    count: u16,
    /// What an ID tells apart: as many as shards, or twice as many; at most [`MAX_SHARDS`].
    slots: u16,
}

impl IdFormat {
    /// For `count` shards, of which there may be [`MAX_SHARDS`].
    pub(crate) fn new(count: usize) -> Self {
        let count = count.clamp(1, MAX_SHARDS) as u16;
        Self { count, slots: count }
    }

    /// For `count` shards of two generations; there may be [`MAX_SHARDS_WITH_HOT_RESTART`].
    pub(crate) fn with_generations(count: usize) -> Self {
        let count = count.clamp(1, MAX_SHARDS_WITH_HOT_RESTART) as u16;
        Self { count, slots: 2 * count }
    }

    /// How many shards there are.
    pub(crate) const fn count(self) -> u16 {
        self.count
    }

    /// What second octets are below: the largest multiple of the number of slots that an octet has room for.
    pub(crate) const fn limit(self) -> u16 {
        256 - 256 % self.slots
    }

    /// Who issued `id`, unless it is none of the group's IDs.
    pub(crate) fn issuer(self, id: &[u8]) -> Option<Issuer> {
        let [FIRST_OCTET, octet, ..] = *id else { return None };
        let octet = u16::from(octet);
        if id.len() != ID_LEN || octet >= self.limit() {
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
    /// IDs of `shard`, counted from 0. The generation has a meaning only if the format has two.
    pub(crate) fn new(format: IdFormat, shard: usize, generation: Generation) -> Self {
        let shard = (shard as u16).min(format.count - 1);
        let slot = shard + format.count * u16::from(generation.number());
        Self { format, slot: slot % format.slots }
    }
}

impl ConnectionIdGenerator for ShardIds {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<ID_LEN>();
        let slots = self.format.slots;
        let multiple = random.below(u64::from(self.format.limit() / slots)) as u16;
        id[0] = FIRST_OCTET;
        // Below the limit, which an octet has room for.
        id[1] = (self.slot + multiple * slots) as u8;
        ConnectionId::new(&id).unwrap_or_default()
    }

    fn len(&self) -> usize {
        ID_LEN
    }
}

#[cfg(test)]
#[path = "shard_ids_tests.rs"]
mod tests;
