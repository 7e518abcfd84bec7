//! SipHash, for two purposes. With a fixed key, every balancer computes the same: the keys of servers, and rows of the table
//! of Maglev hashing. With a secret key, nobody who chooses what is hashed can choose where it lies in a table.
//!
//! The standard library's hasher takes no key (`DefaultHasher`) or a random one that cannot be passed in (`RandomState`),
//! and which algorithm it is may change with every release.

/// SipHash-C-D of `words`, each of eight octets with the lowest first, and of `tail` after them.
pub(crate) fn siphash<const C: usize, const D: usize>(
    key: [u64; 2],
    words: &[u64],
    tail: &[u8],
) -> u64 {
    let [low, high] = key;
    let mut state = State([
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ]);
    words.iter().for_each(|word| state.absorb::<C>(*word));
    let (whole, rest) = tail.as_chunks::<8>();
    whole.iter().for_each(|octets| state.absorb::<C>(u64::from_le_bytes(*octets)));
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, octet)| *to = *octet);
    // The last octet is the length of all.
    let length = words.len().wrapping_mul(8).wrapping_add(tail.len()) as u64;
    state.absorb::<C>(u64::from_le_bytes(last) | length << 56);
    state.finish::<D>()
}

struct State([u64; 4]);

impl State {
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32).wrapping_add(*d);
        *c = c.wrapping_add(*b);
        *d = d.rotate_left(21) ^ *a;
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    fn absorb<const C: usize>(&mut self, word: u64) {
        self.0[3] ^= word;
        (0..C).for_each(|_| self.round());
        self.0[0] ^= word;
    }

    fn finish<const D: usize>(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..D).for_each(|_| self.round());
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }
}

#[cfg(test)]
#[expect(deprecated, reason = "the standard library's SipHash-2-4 takes a key")]
mod tests {
    use std::hash::{Hasher, SipHasher};

    use proptest::prelude::*;

    use super::*;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    /// The example of appendix A of the paper by Aumasson and Bernstein.
    #[test]
    fn the_published_example() {
        let octets: Vec<u8> = (0..15).collect();
        assert_eq!(siphash::<2, 4>(KEY, &[], &octets), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash::<2, 4>(KEY, &[KEY[0]], &octets[8..]), 0xa129_ca61_49be_45e5);
    }

    proptest! {
        #[test]
        fn the_same_as_the_standard_library_computes(
            key in any::<[u64; 2]>(),
            words in prop::collection::vec(any::<u64>(), 0..4),
            tail in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            let mut expected = SipHasher::new_with_keys(key[0], key[1]);
            words.iter().for_each(|word| expected.write(&word.to_le_bytes()));
            expected.write(&tail);
            prop_assert_eq!(siphash::<2, 4>(key, &words, &tail), expected.finish());
        }
    }
}
