//! Reassembly of a stream's data in order (RFC 9000 §2.2).
//!
//! Received bytes are copied once, out of the packet, into chunks, and the application gets slices
//! of these chunks. In-order bytes are appended to one growing chunk, so that a bulk transfer
//! allocates once per chunk. Bytes beyond a gap are stored in pieces that grow in the same way, and
//! become chunks without another copy when the gap closes.
//!
//! The memory that a peer can use is bounded: bytes by flow control, pieces by [`MAX_PIECES`] and
//! their size. A stream of tiny fragments therefore costs no more than a small multiple of its
//! data.

use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;

use bytes::{Buf, Bytes, BytesMut};

use clearway_units::memory::{OnDemand, Unused};

/// The size up to which chunks and pieces grow, in bytes.
const MAX_CHUNK: usize = 32 << 10;

/// Pieces of up to this many bytes are copied to a neighbor instead of being kept separately.
const COPY_LIMIT: usize = 4 << 10;

/// The number of pieces that may be kept, regardless of how small they are.
const MAX_PIECES: usize = 1024;

/// The number of bytes beyond gaps for which one additional piece may be kept. A path that loses
/// every other packet leaves packet-sized pieces, which are much larger.
const BYTES_PER_PIECE: usize = 512;

/// The peer has left more gaps than a network would cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooManyGaps;

/// The received, unread bytes of one stream.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The offset of the next byte to read.
    read_offset: u64,
    /// The offset of the first missing byte.
    end: u64,
    held: OnDemand<UnreadData>,
}

/// Data that the application has not read.
#[derive(Debug, Default)]
struct UnreadData {
    /// In-order data before `tail`. No chunk is empty.
    chunks: VecDeque<Bytes>,
    /// The last in-order data, with room for more.
    tail: BytesMut,
    /// Data beyond `end`, by offset. The pieces never overlap, and no piece is empty.
    pieces: BTreeMap<u64, BytesMut>,
    piece_bytes: usize,
}

impl Unused for UnreadData {
    fn unused() -> &'static Self {
        static UNUSED: LazyLock<UnreadData> = LazyLock::new(UnreadData::default);
        &UNUSED
    }
}

impl Reassembly {
    /// Creates a stream on which everything below `offset` was read and nothing beyond it was
    /// received.
    pub(super) fn at(offset: u64) -> Self {
        Self { read_offset: offset, end: offset, held: OnDemand::default() }
    }

    /// Returns whether there is nothing to read, no data beyond a gap, and no memory allocated for
    /// data.
    pub(super) const fn is_empty(&self) -> bool {
        self.readable() == 0 && !self.held.is_used()
    }

    /// Returns the offset of the first missing byte. Everything below has been received.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Returns the offset of the next byte to read. Everything below was read or discarded.
    pub(super) const fn read_offset(&self) -> u64 {
        self.read_offset
    }

    /// Returns how many bytes can be read.
    pub(super) const fn readable(&self) -> u64 {
        self.end.saturating_sub(self.read_offset)
    }

    /// Frees unused capacity.
    pub(super) fn compact(&mut self) {
        if self.readable() == 0 && self.held.pieces.is_empty() {
            self.held.release();
        }
    }

    /// Discards all data, but keeps a little memory for reuse by another stream.
    pub(super) fn empty(&mut self) {
        let Some(UnreadData { chunks, tail, pieces, .. }) = self.held.used() else { return };
        if chunks.capacity() > 0 || !pieces.is_empty() {
            self.held.release();
        } else {
            *tail = BytesMut::new();
        }
    }

    /// Starts another stream after a call to [`Self::empty`].
    pub(super) fn restart(&mut self) {
        (self.read_offset, self.end) = (0, 0);
    }

    /// Discards all data.
    pub(super) fn clear(&mut self) {
        *self = Self { read_offset: self.end, end: self.end, ..Self::default() };
    }

    /// Adds `data` at `offset`. Bytes that are already stored are skipped.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8]) -> Result<(), TooManyGaps> {
        if offset > self.end {
            return self.insert_beyond_gap(offset, data);
        }
        let held = length(self.end.saturating_sub(offset));
        let fresh = data.get(held..).unwrap_or_default();
        if !fresh.is_empty() {
            self.append(fresh);
            self.absorb_pieces();
        }
        Ok(())
    }

    /// Removes and returns up to `max` bytes, as one slice of a chunk; empty if there are none.
    pub(super) fn read(&mut self, max: usize) -> Bytes {
        let Some(UnreadData { chunks, tail, .. }) = self.held.used() else { return Bytes::new() };
        let data = match chunks.front_mut() {
            Some(chunk) => {
                let data = chunk.split_to(max.min(chunk.len()));
                if chunk.is_empty() {
                    chunks.pop_front();
                }
                data
            }
            // The tail is full and completely read, so it need not be shared.
            None if max >= tail.len() && tail.len() == tail.capacity() => {
                core::mem::take(tail).freeze()
            }
            None => tail.split_to(max.min(tail.len())).freeze(),
        };
        self.read_offset = self.read_offset.saturating_add(data.len() as u64);
        data
    }

    /// Checks that the cached lengths agree with the data.
    ///
    /// # Panics
    /// If a length does not agree, which is a bug in this crate.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check_caches(&self) {
        let UnreadData { chunks, tail, pieces, piece_bytes } = &*self.held;
        let held = chunks.iter().map(Bytes::len).sum::<usize>().saturating_add(tail.len());
        assert_eq!(self.readable(), held as u64, "bytes in order");
        assert_eq!(*piece_bytes, pieces.values().map(BytesMut::len).sum(), "bytes beyond gaps");
        let mut end = self.end;
        for (start, piece) in pieces {
            assert!(*start > self.end && *start >= end && !piece.is_empty(), "a piece at {start}");
            end = piece_end(*start, piece);
        }
        assert!(chunks.iter().all(|chunk| !chunk.is_empty()), "no chunk is empty");
    }

    fn append(&mut self, mut data: &[u8]) {
        self.end = self.end.saturating_add(data.len() as u64);
        while !data.is_empty() {
            let tail = &mut self.held.tail;
            let room = tail.capacity().saturating_sub(tail.len());
            if room == 0 {
                self.renew_tail(data.len());
                continue;
            }
            let (fits, rest) = data.split_at(room.min(data.len()));
            tail.extend_from_slice(fits);
            data = rest;
        }
    }

    /// Moves the tail to the chunks and allocates another, as large as the data that the stream has
    /// carried so far: a short stream takes little memory, and a long one allocates rarely.
    fn renew_tail(&mut self, at_least: usize) {
        self.flush_tail();
        let size = length(self.end).min(MAX_CHUNK).max(at_least);
        self.held.tail.reserve(size);
    }

    fn flush_tail(&mut self) {
        let UnreadData { chunks, tail, .. } = &mut *self.held;
        if !tail.is_empty() {
            chunks.push_back(tail.split().freeze());
        }
    }

    /// Moves pieces that are no longer beyond a gap to the chunks.
    fn absorb_pieces(&mut self) {
        while let Some(first) = self.held.pieces.first_entry()
            && *first.key() <= self.end
        {
            let (offset, mut piece) = first.remove_entry();
            self.held.piece_bytes = self.held.piece_bytes.saturating_sub(piece.len());
            let held = length(self.end.saturating_sub(offset));
            if held >= piece.len() {
                continue;
            }
            piece.advance(held);
            if piece.len() <= COPY_LIMIT {
                self.append(&piece);
            } else {
                self.flush_tail();
                self.end = self.end.saturating_add(piece.len() as u64);
                self.held.tail = piece;
            }
        }
    }

    /// Stores the parts of `data` that are in gaps.
    fn insert_beyond_gap(&mut self, mut offset: u64, mut data: &[u8]) -> Result<(), TooManyGaps> {
        // Each iteration fills one gap, or skips the bytes of one piece (including one that filled a gap).
        while !data.is_empty() {
            let before = self.held.pieces.range(..=offset).next_back();
            let held_to = before.map_or(0, |(start, piece)| piece_end(*start, piece));
            if held_to > offset {
                let held = length(held_to.saturating_sub(offset)).min(data.len());
                offset = offset.saturating_add(held as u64);
                data = data.get(held..).unwrap_or_default();
                continue;
            }
            let next = self.held.pieces.range(offset..).next().map(|(start, _)| *start);
            let gap = next.map_or(data.len(), |start| length(start.saturating_sub(offset)));
            let (fits, _) = data.split_at(gap.min(data.len()));
            self.fill_gap(offset, fits);
        }
        let permitted = MAX_PIECES.saturating_add(self.held.piece_bytes / BYTES_PER_PIECE);
        if self.held.pieces.len() > permitted { Err(TooManyGaps) } else { Ok(()) }
    }

    /// Stores `data`, which does not overlap any piece, at `offset`: in the piece before it if that
    /// has room to grow, and merged with the piece after it if that is small.
    fn fill_gap(&mut self, offset: u64, data: &[u8]) {
        self.held.piece_bytes = self.held.piece_bytes.saturating_add(data.len());
        let end = offset.saturating_add(data.len() as u64);
        let follows = match self.held.pieces.get(&end) {
            Some(piece) if piece.len() <= COPY_LIMIT => self.held.pieces.remove(&end),
            _ => None,
        };
        let follows = follows.unwrap_or_default();
        let added = data.len().saturating_add(follows.len());
        let before = self.held.pieces.range_mut(..offset).next_back().filter(|(start, piece)| {
            piece_end(**start, piece) == offset && piece.len().saturating_add(added) <= MAX_CHUNK
        });
        match before {
            Some((_, piece)) => {
                piece.extend_from_slice(data);
                piece.extend_from_slice(&follows);
            }
            None => {
                let mut piece = BytesMut::with_capacity(added);
                piece.extend_from_slice(data);
                piece.extend_from_slice(&follows);
                self.held.pieces.insert(offset, piece);
            }
        }
    }
}

fn piece_end(start: u64, piece: &BytesMut) -> u64 {
    start.saturating_add(piece.len() as u64)
}

/// Converts a difference of offsets to a length in memory. A value that does not fit exceeds any
/// data in memory.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[path = "reassembly_tests.rs"]
mod tests;
