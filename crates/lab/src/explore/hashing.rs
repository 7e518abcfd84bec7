//! Hashes of many small numbers, and hash tables whose keys are already hashes.

use std::hash::{BuildHasherDefault, Hasher};

/// A hasher that returns its keys unchanged, because they are already hashes.
pub(super) type Plain = BuildHasherDefault<Key>;

/// The hasher's state: a `u64` that is returned unchanged.
#[derive(Default)]
pub(super) struct Key(u64);

impl Hasher for Key {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A hash that identifies states: among 10^7 states, the probability of a collision is 10^-5.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded(u64);

impl Folded {
    /// The multiplier, 2^64 divided by the golden ratio: odd, with half of its bits set.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(super) const fn new() -> Self {
        Self(Self::FACTOR)
    }

    pub(super) fn number(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(Self::FACTOR);
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded.rotate_left(29) ^ Self::FACTOR;
    }

    pub(super) fn word(&mut self, word: &str) {
        for part in word.as_bytes().chunks(8) {
            let number = part.iter().fold(1, |sum, byte| sum << 8 | u64::from(*byte));
            self.number(number);
        }
    }

    /// Returns the hash. Numbers that differ in a bit have hashes that differ in half of their
    /// bits.
    pub(super) const fn finish(self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 31).wrapping_mul(Self::FACTOR);
        mixed ^ mixed >> 32
    }
}
