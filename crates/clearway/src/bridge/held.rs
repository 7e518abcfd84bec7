//! Limits on the data that is buffered between tasks and the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many bytes of a stream are buffered between task and transport, in each direction. The last piece may exceed
/// this.
pub(crate) const STREAM_BUFFER: usize = 1 << 20;

/// How many bytes of all streams that share a [`Total`] are buffered between task and transport. A stream that holds
/// nothing always gets room for a piece, whatever the others hold, so that no stream waits for another.
pub(crate) const CONNECTION_BUFFER: usize = 2 << 20;

/// How many bytes each piece counts in addition to its length, so that tiny pieces are bounded too.
pub(super) const PIECE_OVERHEAD: usize = 64;

/// The bytes that several streams hold together. It is changed only under the lock.
#[derive(Clone, Default)]
pub(crate) struct Total(Arc<Sums>);

#[derive(Default)]
struct Sums {
    bytes: AtomicUsize,
    /// What tasks were permitted to write and the transport has not taken.
    granted: AtomicUsize,
    /// How much more tasks may be permitted to write, by the peer's limit on all streams together.
    credit: AtomicUsize,
    /// A stream has ended without having used what its task was permitted to write.
    is_returned: AtomicBool,
}

fn change(sum: &AtomicUsize, change: impl FnOnce(usize) -> usize) {
    sum.store(change(sum.load(Ordering::Relaxed)), Ordering::Relaxed);
}

impl Total {
    /// How many bytes all streams hold. May be called without the lock.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        change(&self.0.bytes, |sum| sum.saturating_add(bytes));
    }

    fn remove(&self, bytes: usize) {
        change(&self.0.bytes, |sum| sum.saturating_sub(bytes));
    }

    /// The peer permits to send `credit` bytes more than the transport has, on all streams together.
    fn set_credit(&self, credit: usize) {
        let granted = self.0.granted.load(Ordering::Relaxed);
        self.0.credit.store(credit.saturating_sub(granted), Ordering::Relaxed);
    }

    fn credit(&self) -> usize {
        self.0.credit.load(Ordering::Relaxed)
    }

    /// Whether streams have ended since the last call without having used what their tasks were permitted to write.
    pub(crate) fn take_returned(&self) -> bool {
        self.0.is_returned.swap(false, Ordering::Relaxed)
    }
}

/// The bytes that one stream holds in one direction. Dropping it subtracts them from the total.
pub(super) struct Held {
    own: usize,
    total: Option<Total>,
    /// The total counts, but does not limit.
    only_counts: bool,
    /// How many bytes the task was permitted to write and the transport has not taken.
    granted: usize,
}

impl Held {
    /// Counts as a part of `total`; without one, only the stream's own limit applies.
    pub(super) fn new(total: Option<&Total>) -> Self {
        Self { own: 0, total: total.cloned(), only_counts: false, granted: 0 }
    }

    /// Counts as a part of `total`, but only the stream's own limit applies.
    pub(super) fn counted(total: &Total) -> Self {
        let mut held = Self::new(Some(total));
        held.only_counts = true;
        held
    }

    /// Permits the task to write at most `bytes`, as far as the connection's credit goes. Returns how many.
    pub(super) fn grant(&mut self, bytes: usize) -> usize {
        let Some(Total(sums)) = &self.total else { return bytes };
        let bytes = bytes.min(sums.credit.load(Ordering::Relaxed));
        change(&sums.credit, |sum| sum.saturating_sub(bytes));
        change(&sums.granted, |sum| sum.saturating_add(bytes));
        self.granted = self.granted.saturating_add(bytes);
        bytes
    }

    /// How many bytes the task was permitted to write and the transport has not taken.
    pub(super) const fn granted(&self) -> usize {
        self.granted
    }

    /// The transport has taken `bytes`.
    pub(super) fn use_grant(&mut self, bytes: usize) {
        let bytes = bytes.min(self.granted);
        self.granted -= bytes;
        if let Some(Total(sums)) = self.total.as_ref().filter(|_| bytes > 0) {
            change(&sums.granted, |sum| sum.saturating_sub(bytes));
        }
    }

    /// The peer permits to send `credit` bytes more than the transport has, on all streams together. Returns how many of them no
    /// task was permitted to write.
    pub(super) fn set_connection_credit(&self, credit: usize) -> usize {
        let Some(total) = &self.total else { return credit };
        total.set_credit(credit);
        total.credit()
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
        if self.granted > 0 {
            self.use_grant(self.granted);
            if let Some(Total(sums)) = &self.total {
                sums.is_returned.store(true, Ordering::Relaxed);
            }
        }
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
