//! Tables of what is a hash already.

use std::hash::{BuildHasherDefault, Hasher};

/// For keys that are hashes: they are not hashed once more.
pub(super) type Plain = BuildHasherDefault<Key>;

/// A `u64` as it is.
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
