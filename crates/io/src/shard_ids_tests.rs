use std::collections::BTreeSet;

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;

use super::{
    FIRST_OCTET, Generation, ID_LEN, IdFormat, Issuer, Layout, MAX_SHARDS,
    MAX_SHARDS_WITH_HOT_RESTART, ShardIds,
};

fn own(count: usize) -> IdFormat {
    IdFormat::new(Layout::OWN, count)
}

fn own_with_generations(count: usize) -> IdFormat {
    IdFormat::with_generations(Layout::OWN, count)
}

/// Returns the shard that issued `id`.
fn shard(format: IdFormat, id: &[u8]) -> Option<usize> {
    format.issuer(id).map(|issuer| issuer.shard)
}

#[test]
fn an_id_names_its_shard_whatever_the_number_of_shards() {
    let mut random = Random::from_number(1);
    for count in 1..=MAX_SHARDS {
        let format = own(count);
        for number in 0..count {
            let ids = ShardIds::new(format, number, Generation::Even);
            let id = ids.generate(&mut random);
            assert_eq!(shard(format, id.as_bytes()), Some(number), "{count} shards");
            assert_eq!(id.as_bytes()[0] >> 5, 0b111, "unroutable for a balancer");
            assert_eq!(usize::from(id.as_bytes()[0] & 0b1_1111) + 1, id.len());
            assert_eq!(ids.len(), id.len());
        }
    }
}

#[test]
fn an_id_names_its_shard_and_its_generation() {
    let mut random = Random::from_number(3);
    for count in 1..=MAX_SHARDS_WITH_HOT_RESTART {
        let format = own_with_generations(count);
        assert_eq!(usize::from(format.limit()) % (2 * count), 0, "all have as many IDs");
        for shard in 0..count {
            for generation in [Generation::Even, Generation::Odd] {
                let ids = ShardIds::new(format, shard, generation);
                for _ in 0..4 {
                    let id = ids.generate(&mut random);
                    let issuer = Issuer { shard, generation };
                    assert_eq!(format.issuer(id.as_bytes()), Some(issuer), "{count} shards");
                    // Steering programs use only this rule.
                    assert_eq!(usize::from(id.as_bytes()[1]) % count, shard);
                }
            }
        }
    }
}

#[test]
fn generations_take_turns() {
    for generation in [Generation::Even, Generation::Odd] {
        assert_ne!(generation.other(), generation);
        assert_eq!(generation.other().other(), generation);
        assert_eq!(Generation::from_number(generation.number()), generation);
    }
}

#[test]
fn other_ids_name_no_shard() {
    let format = own(3);
    let mut id = [FIRST_OCTET, 254, 0, 0, 0, 0, 0, 0];
    assert_eq!(shard(format, &id), Some(2));
    // 255 would be an additional octet for shard 0, which would then have more IDs than other
    // shards.
    id[1] = 255;
    assert_eq!(shard(format, &id), None);
    assert_eq!(shard(format, &[FIRST_OCTET, 1, 0, 0, 0, 0, 0]), None);
    assert_eq!(shard(format, &[FIRST_OCTET, 1, 0, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(shard(format, &[FIRST_OCTET ^ 0x20, 1, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(shard(format, &[]), None);
    // The largest multiple of six is 252.
    assert_eq!(shard(own_with_generations(3), &[FIRST_OCTET, 251, 0, 0, 0, 0, 0, 0]), Some(2));
    assert_eq!(shard(own_with_generations(3), &[FIRST_OCTET, 252, 0, 0, 0, 0, 0, 0]), None);
}

#[test]
fn all_octets_of_a_shard_are_used() {
    let mut random = Random::from_number(2);
    let ids = ShardIds::new(own(4), 1, Generation::Even);
    let octets: BTreeSet<u8> = (0..2000).map(|_| ids.generate(&mut random).as_bytes()[1]).collect();
    assert_eq!(octets, (0..64).map(|multiple| 1 + 4 * multiple).collect());
    assert_eq!(ids.generate(&mut random).len(), ID_LEN);
}

/// The first octet can have any value: the configuration of an ID does not matter here.
#[test]
fn an_id_of_quic_lb_names_its_shard_in_its_last_octet() {
    for id_len in 6..=20 {
        let layout = Layout::quic_lb(id_len);
        assert_eq!(Layout::from_quic_lb_len(layout.quic_lb_len()), layout);
        let format = IdFormat::with_generations(layout, 3);
        for first in 0..=255 {
            let mut id = vec![first; usize::from(id_len)];
            id[usize::from(id_len) - 1] = 6 + 4;
            let issuer = Issuer { shard: 1, generation: Generation::Odd };
            assert_eq!(format.issuer(&id), Some(issuer));
            id[usize::from(id_len) - 1] = 252;
            assert_eq!(format.issuer(&id), None);
            assert_eq!(format.issuer(&id[1..]), None);
        }
    }
    assert_eq!(Layout::from_quic_lb_len(Layout::OWN.quic_lb_len()), Layout::OWN);
}
