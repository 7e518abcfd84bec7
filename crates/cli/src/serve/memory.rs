//! How much content is in memory, for all clients and for each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A client may hold this part of what is not held by anybody. So a few that take nothing cannot use up everything,
/// however much they ask for: what they leave shrinks, but a part of it is always left to others.
const PART: u64 = 8;

/// What all clients hold.
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

/// What one client holds, and how many hands its account is in.
#[derive(Debug, Default)]
struct Account {
    held: u64,
    hands: usize,
}

impl Memory {
    /// At most `limit` bytes are held.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        let clients = Mutex::new(Clients::default());
        Arc::new(Self { limit, clients, released: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client at this address may hold.
    pub(super) fn share(self: &Arc<Self>, client: SocketAddr) -> Share {
        self.lock().by_address.entry(client).or_default().hands += 1;
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

    fn let_go(&self, client: SocketAddr, bytes: u64, hands: usize) {
        let clients = &mut *self.lock();
        clients.held -= bytes;
        if let Some(account) = clients.by_address.get_mut(&client) {
            account.held -= bytes;
            account.hands -= hands;
            if account.held == 0 && account.hands == 0 {
                clients.by_address.remove(&client);
            }
        }
    }
}

/// What one client may hold.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    client: SocketAddr,
}

impl Share {
    /// Whether there is anything left for this client.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.try_hold(bytes).is_some()
    }

    fn try_hold(&self, bytes: u64) -> Option<Held> {
        let held = self.memory.try_hold(self.client, bytes);
        held.then(|| Held { memory: self.memory.clone(), client: self.client, bytes })
    }

    /// Waits until `bytes` more may be held.
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
        self.memory.let_go(self.client, 0, 1);
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
        self.memory.let_go(self.client, self.bytes, 0);
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
    async fn clients_that_take_nothing_leave_something_to_others() {
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
        // A hundred that took all they got: the next is still served.
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
