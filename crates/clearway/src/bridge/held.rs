//! Limits on the data that is buffered between tasks and the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of bytes of a stream to buffer between task and transport, in each direction. The
/// last buffered piece may exceed the limit.
pub(crate) const STREAM_BUFFER: usize = 1 << 20;

/// Maximum number of bytes to buffer between task and transport for all streams that share a
/// [`Total`]. A stream with an empty buffer always has room for one piece, no matter how much other
/// streams have buffered, so that no stream waits for another.
pub(crate) const CONNECTION_BUFFER: usize = 2 << 20;

/// Number of bytes charged for each buffered piece in addition to its length, so that the number of
/// tiny pieces is bounded too.
pub(super) const PIECE_OVERHEAD: usize = 64;

/// Total number of bytes that several streams buffer. Changed only under the lock.
#[derive(Clone, Default)]
pub(crate) struct Total(Arc<Sums>);

#[derive(Default)]
struct Sums {
    bytes: AtomicUsize,
    /// Number of bytes that were granted to tasks and that the transport has not accepted yet.
    granted: AtomicUsize,
    /// Number of additional bytes that tasks may be granted under the peer's connection-level flow
    /// control limit.
    credit: AtomicUsize,
    /// Set when a stream has ended without using its entire grant.
    is_returned: AtomicBool,
}

fn change(sum: &AtomicUsize, change: impl FnOnce(usize) -> usize) {
    sum.store(change(sum.load(Ordering::Relaxed)), Ordering::Relaxed);
}

impl Total {
    /// Returns the total number of bytes that all streams buffer. May be called without the lock.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        change(&self.0.bytes, |sum| sum.saturating_add(bytes));
    }

    fn remove(&self, bytes: usize) {
        change(&self.0.bytes, |sum| sum.saturating_sub(bytes));
    }

    /// Sets the peer's connection-level flow control credit to `credit` bytes beyond the data that
    /// the transport has accepted.
    fn set_credit(&self, credit: usize) {
        let granted = self.0.granted.load(Ordering::Relaxed);
        self.0.credit.store(credit.saturating_sub(granted), Ordering::Relaxed);
    }

    fn credit(&self) -> usize {
        self.0.credit.load(Ordering::Relaxed)
    }

    /// Returns whether streams have ended since the last call without using their entire grant.
    pub(crate) fn take_returned(&self) -> bool {
        self.0.is_returned.swap(false, Ordering::Relaxed)
    }
}

/// The number of bytes that one stream buffers in one direction. Dropping it subtracts them from
/// the total.
pub(crate) struct Held {
    own: usize,
    total: Option<Total>,
    /// Set if the stream's bytes count toward the total but are not limited by it.
    only_counts: bool,
    /// Number of bytes that were granted to the task and that the transport has not accepted yet.
    granted: usize,
}

impl Held {
    /// Creates a count that contributes to `total`; without a total, only the stream's own limit
    /// applies.
    pub(super) fn new(total: Option<&Total>) -> Self {
        Self { own: 0, total: total.cloned(), only_counts: false, granted: 0 }
    }

    /// Creates a count that contributes to `total`, but is limited only by the stream's own limit.
    pub(crate) fn counted(total: &Total) -> Self {
        let mut held = Self::new(Some(total));
        held.only_counts = true;
        held
    }

    /// Grants the task permission to send at most `bytes`, limited by the connection-level credit.
    /// Returns the number of bytes granted.
    pub(super) fn grant(&mut self, bytes: usize) -> usize {
        let Some(Total(sums)) = &self.total else { return bytes };
        let bytes = bytes.min(sums.credit.load(Ordering::Relaxed));
        change(&sums.credit, |sum| sum.saturating_sub(bytes));
        change(&sums.granted, |sum| sum.saturating_add(bytes));
        self.granted = self.granted.saturating_add(bytes);
        bytes
    }

    /// Returns the number of bytes that were granted to the task and that the transport has not
    /// accepted yet.
    pub(super) const fn granted(&self) -> usize {
        self.granted
    }

    /// Deducts the `bytes` that the transport has accepted from the grant.
    pub(super) fn use_grant(&mut self, bytes: usize) {
        let bytes = bytes.min(self.granted);
        self.granted -= bytes;
        if let Some(Total(sums)) = self.total.as_ref().filter(|_| bytes > 0) {
            change(&sums.granted, |sum| sum.saturating_sub(bytes));
        }
    }

    /// Sets the peer's connection-level flow control credit to `credit` bytes beyond the data that
    /// the transport has accepted. Returns the part of this credit that has not been granted to
    /// tasks yet.
    pub(super) fn set_connection_credit(&self, credit: usize) -> usize {
        let Some(total) = &self.total else { return credit };
        total.set_credit(credit);
        total.credit()
    }

    /// Returns the number of buffered bytes, including the overhead per piece.
    pub(crate) const fn bytes(&self) -> usize {
        self.own
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.own = self.own.saturating_add(bytes);
        if let Some(total) = &self.total {
            total.add(bytes);
        }
    }

    pub(crate) fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.own);
        self.own -= bytes;
        if let Some(total) = &self.total {
            total.remove(bytes);
        }
    }

    /// Releases all buffered bytes and the grant.
    pub(super) fn clear(&mut self) {
        self.remove(self.own);
        if self.granted > 0 {
            self.use_grant(self.granted);
            if let Some(Total(sums)) = &self.total {
                sums.is_returned.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of additional bytes that the stream may buffer; an empty buffer always
    /// has room.
    pub(super) fn room(&self) -> usize {
        self.room_of(STREAM_BUFFER, CONNECTION_BUFFER)
    }

    /// Like [`room`](Self::room), but with lower limits for the stream (`own`) and for all streams
    /// that share its total (`all`). The usual limits still apply.
    pub(super) fn room_of(&self, own: usize, all: usize) -> usize {
        if self.own == 0 {
            return STREAM_BUFFER;
        }
        let all = all.min(CONNECTION_BUFFER);
        let limiting = self.total.as_ref().filter(|_| !self.only_counts);
        let is_full = limiting.is_some_and(|total| total.bytes() >= all);
        if is_full { 0 } else { own.min(STREAM_BUFFER).saturating_sub(self.own) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}
