use bytes::Bytes;

use crate::{PATTERN, PERIOD};

/// The pieces of a generated body, which are not copied.
#[derive(Debug)]
pub struct Source {
    left: u64,
    piece: usize,
}

impl Source {
    /// Creates a body of `length` bytes, in pieces that are as large as possible.
    pub fn new(length: u64) -> Self {
        Self { left: length, piece: PATTERN.len() }
    }

    /// Creates a body of `length` bytes, in pieces of at most `limit` bytes, which must be at least
    /// [`PERIOD`].
    pub fn in_pieces(length: u64, limit: usize) -> Self {
        Self { left: length, piece: (limit / PERIOD * PERIOD).clamp(PERIOD, PATTERN.len()) }
    }

    /// Returns whether no pieces are left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl Iterator for Source {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let length = self.left.min(self.piece as u64);
        self.left -= length;
        (length > 0).then(|| Bytes::from_static(&PATTERN[..length as usize]))
    }
}
