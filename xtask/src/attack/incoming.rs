//! The reassembled content of a stream.

use std::collections::BTreeMap;

/// Maximum number of bytes to keep per stream; bytes beyond that are only counted.
const MAX_KEPT: usize = 1 << 16;

/// The received part of a stream.
#[derive(Default)]
pub(super) struct Incoming {
    /// The first bytes of the stream, in order.
    pub(super) data: Vec<u8>,
    /// Number of bytes received on the stream, including duplicates.
    pub(super) bytes: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
    next: u64,
    end: Option<u64>,
    /// The error code of a received RESET_STREAM frame.
    pub(super) reset: Option<u64>,
}

impl Incoming {
    /// Returns whether all content of the stream has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Adds the data of a STREAM or CRYPTO frame.
    pub(super) fn add(&mut self, offset: u64, data: &[u8], fin: bool) {
        self.bytes += data.len() as u64;
        let end = offset + data.len() as u64;
        if fin {
            self.end = Some(end);
        }
        if end > self.next {
            self.pieces.insert(offset, data.to_vec());
        }
        while let Some((&offset, _)) = self.pieces.first_key_value()
            && offset <= self.next
            && let Some((_, piece)) = self.pieces.pop_first()
        {
            let known = (self.next - offset) as usize;
            if let Some(new) = piece.get(known..).filter(|new| !new.is_empty()) {
                self.next += new.len() as u64;
                let room = MAX_KEPT.saturating_sub(self.data.len());
                self.data.extend(&new[..new.len().min(room)]);
            }
        }
    }
}
