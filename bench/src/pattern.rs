//! The content of transfers, where byte `i` is `i mod 251`, so that lost and misplaced bytes are
//! detected.

use std::sync::LazyLock;

use bytes::Bytes;

const PERIOD: usize = 251;
/// Size of the pattern in memory, a whole number of periods close to one mebibyte.
const CHUNK: usize = PERIOD * 4096;

/// A generator of the pattern that copies no data.
pub(crate) struct Source {
    chunk: Bytes,
    sent: u64,
    size: u64,
}

impl Source {
    pub(crate) fn new(size: u64) -> Self {
        Self { chunk: chunk(), sent: 0, size }
    }

    /// Returns the next bytes of the pattern; empty at the end.
    pub(crate) fn peek(&self) -> Bytes {
        let start = (self.sent % CHUNK as u64) as usize;
        let left = (self.size - self.sent).min((CHUNK - start) as u64) as usize;
        self.chunk.slice(start..start + left)
    }

    /// Skips the next `bytes` bytes.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Returns at most `wanted` of the next bytes and skips them; `None` at the end.
    pub(crate) fn take(&mut self, wanted: usize) -> Option<Bytes> {
        let mut next = self.peek();
        next.truncate(wanted);
        self.advance(next.len());
        (!next.is_empty()).then_some(next)
    }

    /// Returns the number of remaining bytes.
    pub(crate) fn left(&self) -> u64 {
        self.size - self.sent
    }
}

/// A receiver that compares received bytes with the pattern.
pub(crate) struct Sink {
    chunk: Bytes,
    pub(crate) received: u64,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self { chunk: chunk(), received: 0 }
    }

    /// Returns whether `bytes` continue the pattern correctly.
    pub(crate) fn accept(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let start = (self.received % CHUNK as u64) as usize;
            let length = bytes.len().min(CHUNK - start);
            if bytes[..length] != self.chunk[start..start + length] {
                return false;
            }
            self.received += length as u64;
            bytes = &bytes[length..];
        }
        true
    }
}

/// Returns the pattern in memory, which is generated only once.
fn chunk() -> Bytes {
    static MADE: LazyLock<Bytes> =
        LazyLock::new(|| (0..CHUNK).map(|i| (i % PERIOD) as u8).collect::<Vec<u8>>().into());
    MADE.clone()
}
