//! Content in which each byte indicates its position in the message.

use std::sync::OnceLock;

use bytes::Bytes;

/// The pattern's period: a prime, so that a shift by a power of two never maps the pattern onto
/// itself.
const PERIOD: usize = 251;
/// The maximum number of bytes that are returned per call.
pub(super) const BLOCK: usize = 64 << 10;

fn block() -> &'static Bytes {
    static BLOCKS: OnceLock<Bytes> = OnceLock::new();
    BLOCKS.get_or_init(|| {
        let period: Vec<u8> = (0..PERIOD).map(|position| position as u8).collect();
        Bytes::from(period.repeat(BLOCK / PERIOD + 2))
    })
}

fn phase(offset: u64) -> usize {
    (offset % PERIOD as u64) as usize
}

/// Returns the content starting at `offset`, at most `length` bytes.
pub(super) fn content(offset: u64, length: u64) -> Bytes {
    let length = length.min(BLOCK as u64) as usize;
    block().slice(phase(offset)..phase(offset) + length)
}

/// Returns whether `bytes` match the content starting at `offset`.
pub(super) fn is_content(offset: u64, bytes: &[u8]) -> bool {
    let mut at = offset;
    bytes.chunks(BLOCK).all(|chunk| {
        let expected = &block()[phase(at)..phase(at) + chunk.len()];
        at += chunk.len() as u64;
        chunk == expected
    })
}
