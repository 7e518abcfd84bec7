//! How much waits between tasks and the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes of a stream wait between task and transport, each way. One piece more may go over it.
pub(crate) const STREAM_BUFFER: usize = 1 << 20;

/// How many bytes of all streams that share a [`Total`] wait between task and transport. A stream of which
/// nothing waits gets room for a piece whatever the others hold, so that none waits for another.
pub(crate) const CONNECTION_BUFFER: usize = 2 << 20;

/// What a piece counts beside its bytes, so that tiny pieces are bounded too.
pub(super) const PIECE_OVERHEAD: usize = 64;

/// What streams hold together. It is only read and changed under the lock.
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

/// What one stream holds, one way. Dropping it takes that away from the total.
pub(super) struct Held {
    own: usize,
    total: Option<Total>,
}

impl Held {
    /// A part of `total`; without one, the stream is limited for itself.
    pub(super) fn new(total: Option<&Total>) -> Self {
        Self { own: 0, total: total.cloned() }
    }

    /// How many bytes it holds, with what their pieces count.
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

    /// It holds nothing.
    pub(super) fn clear(&mut self) {
        self.remove(self.own);
    }

    /// How many bytes more it may hold; at least one piece if it holds nothing.
    pub(super) fn room(&self) -> usize {
        let is_shut = self.total.as_ref().is_some_and(|total| total.bytes() >= CONNECTION_BUFFER);
        if is_shut && self.own > 0 { 0 } else { STREAM_BUFFER.saturating_sub(self.own) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}
