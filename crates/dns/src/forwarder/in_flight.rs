//! Identical questions that are outstanding at the same time share one query to the upstream
//! servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::question::Key;

/// The outstanding work, by its key.
#[derive(Debug)]
pub(crate) struct InFlight<T: Clone> {
    table: Arc<Mutex<Table<T>>>,
}

#[derive(Debug)]
struct Table<T: Clone> {
    next: u64,
    /// Each entry has a number, which distinguishes it from a later entry with the same key.
    entries: BTreeMap<Key, (u64, WeakShared<BoxFuture<'static, T>>)>,
}

fn lock<T: Clone>(table: &Mutex<Table<T>>) -> MutexGuard<'_, Table<T>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone + Send + Sync + 'static> InFlight<T> {
    pub(crate) fn new() -> Self {
        let table = Table { next: 0, entries: BTreeMap::new() };
        Self { table: Arc::new(Mutex::new(table)) }
    }

    /// Returns the work that is outstanding for `key`, and whether it is shared with an earlier
    /// caller; starts `work` if there is none. The work is dropped when no caller waits for it any
    /// more.
    pub(crate) fn join<F>(
        &self,
        key: Key,
        work: impl FnOnce() -> F,
    ) -> (Shared<BoxFuture<'static, T>>, bool)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut table = lock(&self.table);
        if let Some((_, weak)) = table.entries.get(&key)
            && let Some(shared) = weak.upgrade()
        {
            return (shared, true);
        }
        let number = table.next;
        table.next = table.next.wrapping_add(1);
        let entry = Registered { table: self.table.clone(), key: key.clone(), number };
        let work = work();
        let whole = async move {
            let outcome = work.await;
            drop(entry);
            outcome
        };
        let shared = whole.boxed().shared();
        if let Some(weak) = shared.downgrade() {
            table.entries.insert(key, (number, weak));
        }
        (shared, false)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).entries.len()
    }
}

/// Removes an entry when its work is done or dropped.
struct Registered<T: Clone> {
    table: Arc<Mutex<Table<T>>>,
    key: Key,
    number: u64,
}

impl<T: Clone> Drop for Registered<T> {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        if table.entries.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            table.entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn equal_keys_share_the_work() {
        let in_flight = InFlight::new();
        let (sender, receiver) = oneshot::channel::<u32>();
        let (first, is_shared) = in_flight.join(Key::from([1]), || async { receiver.await.ok() });
        assert!(!is_shared);
        let (second, is_shared) = in_flight.join(Key::from([1]), pending);
        assert!(is_shared);
        let (other, is_shared) = in_flight.join(Key::from([2]), || async { Some(9) });
        assert!(!is_shared);
        assert_eq!(other.await, Some(9));
        // The first caller goes away; the others still get the outcome.
        drop(first);
        sender.send(7).unwrap();
        assert_eq!(second.await, Some(7));
        assert_eq!(in_flight.len(), 0);
    }

    #[tokio::test]
    async fn work_ends_when_nobody_waits_for_it() {
        let in_flight = InFlight::<()>::new();
        let (mut sender, receiver) = oneshot::channel::<()>();
        let work = || async { receiver.await.unwrap_or_default() };
        let (first, _) = in_flight.join(Key::from([1]), work);
        assert_eq!(in_flight.len(), 1);
        drop(first);
        sender.closed().await;
        assert_eq!(in_flight.len(), 0);
    }
}
