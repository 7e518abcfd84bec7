use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::shard_ids::{Issuer, Layout};

fn config(number: u8, server_id: &[u8], nonce_len: usize, key: Option<[u8; 16]>) -> QuicLb {
    let config = ConfigId::new(number).unwrap();
    QuicLb::new(config, ServerId::new(server_id).unwrap(), nonce_len, key).unwrap()
}

fn layout(config: &QuicLb) -> Layout {
    Layout::quic_lb(config.id_len() as u8)
}

fn shared(config: QuicLb, count: usize, generation: Generation) -> Arc<SharedQuicLb> {
    let format = IdFormat::with_generations(layout(&config), count);
    Arc::new(SharedQuicLb::new(config, format, generation).unwrap())
}

/// Returns the server ID that a balancer reads from a connection ID.
fn server_of(config: &QuicLb, id: &ConnectionId) -> Option<ServerId> {
    let server_id_len = config.server_id.as_bytes().len();
    let codec = IdCodec::new(config.config(), server_id_len, config.nonce_len(), config.key);
    codec.unwrap().decode(id.as_bytes())
}

#[test]
fn without_a_key_an_id_has_the_octets_of_the_configuration() {
    // The format that AWS uses: eight octets of server ID and seven of nonce.
    let config = config(0, &[1, 2, 3, 4, 5, 6, 7, 8], 7, None);
    assert_eq!(config.id_len(), 16);
    let ids = BalancedIds::new(shared(config, 3, Generation::Odd), 1);
    let mut random = Random::from_number(1);
    let all: BTreeSet<_> = (0..1000).map(|_| ids.generate(&mut random)).collect();
    assert_eq!(all.len(), 1000);
    for id in all {
        assert_eq!((id.len(), id.as_bytes()[0] >> 5), (16, 0));
        assert_eq!(id.as_bytes()[1..9], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(id.as_bytes()[15] % 6, 4, "shard 1 of three, of the odd generation");
    }
}

#[test]
fn with_a_key_the_shard_is_one_octet_more() {
    let config = config(5, &[9], 7, Some([3; 16])).stating_length(true);
    assert_eq!(config.id_len(), 10);
    let ids = BalancedIds::new(shared(config.clone(), 3, Generation::Even), 2);
    let id = ids.generate(&mut Random::from_number(1));
    assert_eq!((id.len(), ids.len(), id.as_bytes()[0]), (10, 10, 5 << 5 | 9));
    assert_ne!(id.as_bytes()[1], 9, "encrypted");
    assert_eq!(server_of(&config, &id), Some(config.server_id()));
    assert!(!format!("{config:?}").contains("3, 3"), "the key is secret");
}

#[test]
fn what_cannot_be_is_refused() {
    let of = |server_id_len, nonce_len, key| {
        let server_id = ServerId::new(&vec![1; server_id_len]).unwrap();
        QuicLb::new(ConfigId::new(1).unwrap(), server_id, nonce_len, key).map(|it| it.id_len())
    };
    assert_eq!(of(1, 3, None), Err(ConfigError::NonceLength(3)));
    assert_eq!(of(15, 5, None), Err(ConfigError::BlockLength(20)));
    assert_eq!(of(15, 4, None), Ok(20));
    assert_eq!(of(15, 4, Some([0; 16])), Err(ConfigError::IdLength(21)));
    assert_eq!(of(14, 4, Some([0; 16])), Ok(20));
}

/// The shards of both processes use each nonce of a small space exactly once.
#[test]
fn shards_share_the_nonces_out() {
    let format = IdFormat::with_generations(Layout::OWN, 3);
    let mut random = Random::from_number(1);
    let mut all = BTreeSet::new();
    for slot in 0..6 {
        let nonces = Nonces::new(1, format, slot, &mut random);
        let mut nonce = [0];
        for _ in 0..42 {
            assert_eq!(nonces.write_next(&mut nonce), Some(()));
            assert_eq!(u16::from(nonce[0]) % 6, slot);
            assert!(all.insert(nonce));
        }
        assert_eq!(nonces.write_next(&mut nonce), None);
        assert_eq!(nonces.write_next(&mut nonce), None);
    }
    assert_eq!(all.len(), 252);
}

#[test]
fn a_shard_counts_in_the_last_octets_of_a_long_nonce() {
    for len in [4, 7, 8, 9, 17] {
        for slots in [1, 256] {
            let format = IdFormat::new(Layout::OWN, slots);
            let nonces = Nonces::new(len, format, 0, &mut Random::from_number(7));
            let mut seen = BTreeSet::new();
            for _ in 0..100 {
                let mut nonce = vec![0; len];
                nonces.write_next(&mut nonce).unwrap();
                assert!(slots == 1 || nonce[len - 1] == 0);
                assert!(seen.insert(nonce));
            }
        }
    }
}

/// When nonces run out, IDs use the codepoint for routing by addresses until the next configuration
/// (section "Connection ID Entropy").
#[test]
fn ids_without_a_nonce_cannot_be_routed() {
    let first = config(2, &[1, 2], 4, Some([5; 16]));
    let shared = shared(first.clone(), 3, Generation::Even);
    let ids = BalancedIds::new(shared.clone(), 1);
    let active = shared.current.load_full();
    let nonces = &active.nonces[1];
    nonces.used.store(nonces.count - 1, Ordering::Relaxed);
    let mut random = Random::from_number(1);
    assert_eq!(ids.generate(&mut random).as_bytes()[0] >> 5, 2, "the last");
    for _ in 0..3 {
        let id = ids.generate(&mut random);
        assert_eq!(id.as_bytes()[0], 0b1110_0000 | 7, "it states its length");
        assert_eq!(id.len(), ids.len());
        let issuer = Issuer { shard: 1, generation: Generation::Even };
        assert_eq!(shared.format.issuer(id.as_bytes()), Some(issuer));
    }
    let others = BalancedIds::new(shared.clone(), 0);
    assert_eq!(others.generate(&mut random).as_bytes()[0] >> 5, 2);
    assert!(shared.rotate(config(3, &[1, 2], 4, Some([6; 16]))).unwrap());
    assert_eq!(ids.generate(&mut random).as_bytes()[0] >> 5, 3);
}

#[test]
fn a_configuration_is_replaced_by_one_of_the_same_length_only() {
    let mut random = Random::from_number(1);
    let first = config(0, &[7, 7], 6, None);
    let shared = shared(first.clone(), 2, Generation::Even);
    let ids = BalancedIds::new(shared.clone(), 0);
    assert_eq!(ids.rotation(), 0);
    for wrong in [config(1, &[7, 7], 7, None), config(1, &[7, 7], 6, Some([1; 16]))] {
        let error = shared.rotate(wrong).unwrap_err();
        assert!(matches!(error, RotateQuicLbError::IdLength { present: 9, asked: 10 }), "{error}");
        assert!(error.to_string().contains("10 octets"), "{error}");
    }
    assert!(!shared.rotate(first).unwrap(), "the same");
    assert_eq!(ids.rotation(), 0);
    // The first change is another server ID; the second adds a key, which takes an octet of the
    // nonce.
    let next = [config(0, &[7, 8], 6, None), config(1, &[7, 8], 5, Some([1; 16]))];
    for (rotation, next) in (1..).zip(next) {
        assert!(shared.rotate(next.clone()).unwrap());
        assert_eq!(ids.rotation(), rotation);
        let id = ids.generate(&mut random);
        assert_eq!(server_of(&next, &id), Some(next.server_id()));
        assert_eq!(id.len(), ids.len());
    }
}

#[test]
fn a_configuration_that_is_given_again_goes_on_with_its_nonces() {
    let first = config(1, &[1], 4, Some([1; 16]));
    let shared = shared(first.clone(), 1, Generation::Even);
    let ids = BalancedIds::new(shared.clone(), 0);
    let mut random = Random::from_number(1);
    let mut all = BTreeSet::new();
    for _ in 0..100 {
        assert!(all.insert(ids.generate(&mut random).as_bytes()[1..6].to_vec()));
        assert!(!shared.rotate(first.clone()).unwrap());
    }
    assert_eq!(shared.current.load().nonces[0].used.load(Ordering::Relaxed), 100);
}

proptest! {
    /// Checks for any configuration that a balancer reads the server ID, that this process reads
    /// the shard and the generation, and that no ID is issued twice by any shard.
    #[test]
    fn both_find_their_way(
        number in 0..7_u8,
        server_id in proptest::collection::vec(any::<u8>(), 1..=8),
        nonce_len in 4..=10_usize,
        key in any::<Option<[u8; 16]>>(),
        states_length in any::<bool>(),
        count in 1..=128_usize,
        seed in any::<u64>(),
    ) {
        let config = config(number, &server_id, nonce_len, key).stating_length(states_length);
        let mut random = Random::from_number(seed);
        let mut all = BTreeSet::new();
        for generation in [Generation::Even, Generation::Odd] {
            let shared = shared(config.clone(), count, generation);
            for shard in [0, count / 2, count - 1] {
                let ids = BalancedIds::new(shared.clone(), shard);
                for _ in 0..3 {
                    let id = ids.generate(&mut random);
                    prop_assert_eq!(id.len(), config.id_len());
                    prop_assert_eq!(server_of(&config, &id), Some(config.server_id()));
                    let issuer = shared.format.issuer(id.as_bytes());
                    prop_assert_eq!(issuer, Some(Issuer { shard, generation }));
                    let first = id.as_bytes()[0];
                    prop_assert!(!states_length || usize::from(first & 0x1f) == id.len() - 1);
                    prop_assert!(all.insert(id.as_bytes()[1..].to_vec()) || key.is_none());
                }
            }
        }
    }
}
