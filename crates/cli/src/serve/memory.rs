//! Limits on the content in memory, for all clients together and for each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A client may hold one part in this many of the memory that is free. So a few clients that read nothing cannot
/// exhaust the memory, however much they request: the free part shrinks, but some of it is always left for others.
const PART: u64 = 8;

/// The memory that all clients hold.
#[derive(Debug)]
pub(super) struct Memory {
    limit: u64,
    clients: Mutex<Clients>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Clients {
    held: u64,
    by_address: BTreeMap<SocketAddr, Account>,
}

/// The memory that one client holds, and the number of [`Share`]s of the client.
#[derive(Debug, Default)]
struct Account {
    held: u64,
    shares: usize,
}

impl Memory {
    /// A memory of which at most `limit` bytes are held.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        let clients = Mutex::new(Clients::default());
        Arc::new(Self { limit, clients, released: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The share of the client at this address.
    pub(super) fn share(self: &Arc<Self>, client: SocketAddr) -> Share {
        self.lock().by_address.entry(client).or_default().shares += 1;
        Share { memory: self.clone(), client }
    }

    fn try_hold(&self, client: SocketAddr, bytes: u64) -> bool {
        let clients = &mut *self.lock();
        let free = self.limit.saturating_sub(clients.held);
        let Some(account) = clients.by_address.get_mut(&client) else { return false };
        let may_hold = account.held + bytes <= free / PART;
        if may_hold {
            account.held += bytes;
            clients.held += bytes;
        }
        may_hold
    }

    fn release(&self, client: SocketAddr, bytes: u64, shares: usize) {
        let clients = &mut *self.lock();
        clients.held -= bytes;
        if let Some(account) = clients.by_address.get_mut(&client) {
            account.held -= bytes;
            account.shares -= shares;
            if account.held == 0 && account.shares == 0 {
                clients.by_address.remove(&client);
            }
        }
    }
}

/// The part of the memory that one client may hold.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    client: SocketAddr,
}

impl Share {
    /// Whether this client may hold `bytes` more now.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.try_hold(bytes).is_some()
    }

    fn try_hold(&self, bytes: u64) -> Option<Held> {
        let held = self.memory.try_hold(self.client, bytes);
        held.then(|| Held { memory: self.memory.clone(), client: self.client, bytes })
    }

    /// Waits until this client may hold `bytes` more, and reserves them.
    pub(super) async fn hold(&self, bytes: u64) -> Held {
        loop {
            let released = self.memory.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            match self.try_hold(bytes) {
                Some(held) => return held,
                None => released.await,
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.release(self.client, 0, 1);
    }
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    memory: Arc<Memory>,
    client: SocketAddr,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.release(self.client, self.bytes, 0);
        self.memory.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], number))
    }

    #[tokio::test]
    async fn clients_that_read_nothing_leave_memory_for_others() {
        let memory = Memory::new(256 << 20);
        let piece = 64 << 10;
        let mut held = Vec::new();
        for number in 1..=100 {
            let share = memory.share(client(number));
            while held.len() < 1_000_000
                && let Some(more) = share.try_hold(piece)
            {
                held.push(more);
            }
        }
        // After a hundred clients that took all they could get, the next one is still served.
        let share = memory.share(client(1000));
        let before = memory.lock().held;
        assert!(before < 256 << 20);
        assert!(!share.has_room(256 << 20));
        let other = memory.share(client(1));
        {
            let mut waiting = Box::pin(other.hold(8 << 20));
            let timeout = std::time::Duration::ZERO;
            assert!(tokio::time::timeout(timeout, &mut waiting).await.is_err());
            held.clear();
            drop(waiting.await);
        }
        drop((share, other));
        let clients = memory.lock();
        assert_eq!((clients.held, clients.by_address.len()), (0, 0));
    }
}
