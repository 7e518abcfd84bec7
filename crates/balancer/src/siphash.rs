//! SipHash, for two purposes. With a fixed key, all balancers compute the same server keys and rows
//! of the Maglev table. With a secret key, an attacker who chooses the input cannot choose its slot
//! in a table.
//!
//! The standard library's hashers have no key (`DefaultHasher`) or a random one that cannot be
//! passed in (`RandomState`), and their algorithm may change with every release.

use core::hash::Hasher;

use siphasher::sip::{SipHasher13, SipHasher24};

/// Returns SipHash-1-3 of `words`, as eight little-endian octets each, followed by `tail`.
pub(crate) fn siphash13([low, high]: [u64; 2], words: &[u64], tail: &[u8]) -> u64 {
    hash(SipHasher13::new_with_keys(low, high), words, tail)
}

/// Returns SipHash-2-4 of the same input.
pub(crate) fn siphash24([low, high]: [u64; 2], words: &[u64], tail: &[u8]) -> u64 {
    hash(SipHasher24::new_with_keys(low, high), words, tail)
}

fn hash(mut hasher: impl Hasher, words: &[u64], tail: &[u8]) -> u64 {
    words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
    hasher.write(tail);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    /// This is the example in appendix A of the paper by Aumasson and Bernstein.
    #[test]
    fn words_are_hashed_with_the_lowest_octet_first() {
        let octets: Vec<u8> = (0..15).collect();
        let hasher = || SipHasher24::new_with_keys(KEY[0], KEY[1]);
        assert_eq!(hash(hasher(), &[], &octets), 0xa129_ca61_49be_45e5);
        assert_eq!(hash(hasher(), &[KEY[0]], &octets[8..]), 0xa129_ca61_49be_45e5);
    }
}
