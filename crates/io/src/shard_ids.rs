//! Connection IDs from which the shard of a group can be read that issued them.
//!
//! ```text
//! First Octet (8)    0b111 00111   config rotation, and how many octets follow (QUIC-LB, sections 3.1 and 3.3)
//! Shard Octet (8)    shard + count * random, at most 255
//! Random (48)
//! ```
//!
//! The first octet is that of QUIC-LB (draft-ietf-quic-load-balancers): the config rotation 0b111 tells balancers that the
//! ID says nothing to them, and the other seven are left to a generator of IDs that does speak to them. Since the shard is
//! the remainder of the second octet, the rest of that octet is random, too: an ID collides no more often than seven random
//! octets do, which QUIC-LB asks of such IDs, and the octet does not count shards for everyone to read. Who knows how many
//! shards there are learns the shard, and so that two IDs of different shards are not of one connection.

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use clearway_wire::ConnectionId;

/// How many shards a port can have: as many as an octet of a connection ID can tell apart.
pub const MAX_SHARDS: usize = 256;
/// The length of the IDs, which is that of [`RandomIds`](clearway_transport::RandomIds).
pub(crate) const ID_LEN: usize = 8;
/// Config rotation 0b111, and the number of octets that follow.
pub(crate) const FIRST_OCTET: u8 = 0b1110_0000 | (ID_LEN as u8 - 1);

/// How the IDs of one group of shards name their shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdFormat {
    /// How many shards there are: 1 to [`MAX_SHARDS`].
    count: u16,
}

impl IdFormat {
    /// For `count` shards, of which there may be [`MAX_SHARDS`].
    pub(crate) fn new(count: usize) -> Self {
        Self { count: count.clamp(1, MAX_SHARDS) as u16 }
    }

    /// How many shards there are.
    pub(crate) const fn count(self) -> u16 {
        self.count
    }

    /// What second octets are below: the largest multiple of the count that an octet has room for.
    pub(crate) const fn limit(self) -> u16 {
        256 - 256 % self.count
    }

    /// The shard that issued `id`, unless it is none of the group's IDs.
    pub(crate) fn shard(self, id: &[u8]) -> Option<usize> {
        let [FIRST_OCTET, octet, ..] = *id else { return None };
        let octet = u16::from(octet);
        (id.len() == ID_LEN && octet < self.limit()).then(|| usize::from(octet % self.count))
    }
}

/// Generates the IDs of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardIds {
    format: IdFormat,
    shard: u16,
}

impl ShardIds {
    /// IDs of `shard`, counted from 0.
    pub(crate) fn new(format: IdFormat, shard: usize) -> Self {
        Self { format, shard: (shard as u16).min(format.count - 1) }
    }
}

impl ConnectionIdGenerator for ShardIds {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<ID_LEN>();
        let multiple = random.below(u64::from(self.format.limit() / self.format.count)) as u16;
        id[0] = FIRST_OCTET;
        // Below the limit, which an octet has room for.
        id[1] = (self.shard + multiple * self.format.count) as u8;
        ConnectionId::new(&id).unwrap_or_default()
    }

    fn len(&self) -> usize {
        ID_LEN
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clearway_transport::ConnectionIdGenerator;
    use clearway_units::Random;

    use super::{FIRST_OCTET, ID_LEN, IdFormat, MAX_SHARDS, ShardIds};

    #[test]
    fn an_id_names_its_shard_whatever_the_number_of_shards() {
        let mut random = Random::from_number(1);
        for count in 1..=MAX_SHARDS {
            let format = IdFormat::new(count);
            for shard in 0..count {
                let ids = ShardIds::new(format, shard);
                let id = ids.generate(&mut random);
                assert_eq!(format.shard(id.as_bytes()), Some(shard), "{count} shards");
                assert_eq!(id.as_bytes()[0] >> 5, 0b111, "unroutable for a balancer");
                assert_eq!(usize::from(id.as_bytes()[0] & 0b1_1111) + 1, id.len());
                assert_eq!(ids.len(), id.len());
            }
        }
    }

    #[test]
    fn other_ids_name_no_shard() {
        let format = IdFormat::new(3);
        let mut id = [FIRST_OCTET, 254, 0, 0, 0, 0, 0, 0];
        assert_eq!(format.shard(&id), Some(2));
        // 255 would be another one of shard 0, so that shard 0 had more IDs than the others.
        id[1] = 255;
        assert_eq!(format.shard(&id), None);
        assert_eq!(format.shard(&[FIRST_OCTET, 1, 0, 0, 0, 0, 0]), None);
        assert_eq!(format.shard(&[FIRST_OCTET, 1, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(format.shard(&[FIRST_OCTET ^ 0x20, 1, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(format.shard(&[]), None);
    }

    #[test]
    fn all_octets_of_a_shard_are_used() {
        let mut random = Random::from_number(2);
        let ids = ShardIds::new(IdFormat::new(4), 1);
        let octets: BTreeSet<u8> =
            (0..2000).map(|_| ids.generate(&mut random).as_bytes()[1]).collect();
        assert_eq!(octets, (0..64).map(|multiple| 1 + 4 * multiple).collect());
        assert_eq!(ids.generate(&mut random).len(), ID_LEN);
    }
}
