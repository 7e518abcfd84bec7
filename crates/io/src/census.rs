//! The connection count of a group of shards.

use core::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

type Callback = Box<dyn Fn() + Send + Sync>;

/// Counts the connections of a group of shards.
#[derive(Default)]
pub(crate) struct Census {
    count: AtomicUsize,
    /// Called when the count falls to zero.
    on_empty: OnceLock<Callback>,
}

impl Census {
    /// Counts one additional connection until the returned value is dropped.
    pub(crate) fn count_one(self: &Arc<Self>) -> Counted {
        self.count.fetch_add(1, Ordering::SeqCst);
        Counted(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Sets the callback for when the last connection is gone. Only the first callback takes
    /// effect.
    pub(crate) fn on_empty(&self, callback: Callback) {
        let _ = self.on_empty.set(callback);
    }
}

impl fmt::Debug for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Census").field("count", &self.count()).finish_non_exhaustive()
    }
}

/// A counted connection, from the request to start it until it is completely gone.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Census>);

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1
            && let Some(callback) = self.0.on_empty.get()
        {
            callback();
        }
    }
}
