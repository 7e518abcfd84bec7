//! Limits on the data that is buffered between tasks and the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes of a stream are buffered between task and transport, in each direction. The last piece may exceed
/// this.
pub(crate) const STREAM_BUFFER: usize = 1 << 20;

/// How many bytes of all streams that share a [`Total`] are buffered between task and transport. A stream that holds
/// nothing always gets room for a piece, whatever the others hold, so that no stream waits for another.
pub(crate) const CONNECTION_BUFFER: usize = 2 << 20;

/// How many bytes each piece counts in addition to its length, so that tiny pieces are bounded too.
pub(super) const PIECE_OVERHEAD: usize = 64;

/// The bytes that several streams hold together. It is read and changed only under the lock.
#[derive(Clone, Default)]
pub(crate) struct Total(Arc<AtomicUsize>);

impl Total {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.store(self.bytes().saturating_add(bytes), Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.0.store(self.bytes().saturating_sub(bytes), Ordering::Relaxed);
    }
}

/// The bytes that one stream holds in one direction. Dropping it subtracts them from the total.
pub(super) struct Held {
    own: usize,
    total: Option<Total>,
}

impl Held {
    /// Counts as a part of `total`; without one, only the stream's own limit applies.
    pub(super) fn new(total: Option<&Total>) -> Self {
        Self { own: 0, total: total.cloned() }
    }

    /// How many bytes it holds, including the overhead of pieces.
    pub(super) const fn bytes(&self) -> usize {
        self.own
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.own = self.own.saturating_add(bytes);
        if let Some(total) = &self.total {
            total.add(bytes);
        }
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.own);
        self.own -= bytes;
        if let Some(total) = &self.total {
            total.remove(bytes);
        }
    }

    /// From now on it holds nothing.
    pub(super) fn clear(&mut self) {
        self.remove(self.own);
    }

    /// How many more bytes it may hold; there is always room if it holds nothing.
    pub(super) fn room(&self) -> usize {
        self.room_of(STREAM_BUFFER, CONNECTION_BUFFER)
    }

    /// The same with limits of its own, for the stream and for all that share its total; they are never more than the usual ones.
    pub(super) fn room_of(&self, own: usize, all: usize) -> usize {
        if self.own == 0 {
            return STREAM_BUFFER;
        }
        let all = all.min(CONNECTION_BUFFER);
        let is_full = self.total.as_ref().is_some_and(|total| total.bytes() >= all);
        if is_full { 0 } else { own.min(STREAM_BUFFER).saturating_sub(self.own) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}
