//! In-memory stores.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clearway_wire::Version;

use super::saved::{SavedSession, SessionStore};

/// Stores sessions and tokens in memory, for at most [`SERVERS`](Self::SERVERS) servers: the newest
/// [`PER_SERVER`](Self::PER_SERVER) sessions per server, and the same number of tokens.
#[derive(Debug, Default)]
pub struct MemorySessionStore(Mutex<Servers<Kept>>);

/// The entries of the newest [`MemorySessionStore::SERVERS`] servers.
#[derive(Debug, Default)]
pub(super) struct Servers<T> {
    by_name: BTreeMap<String, T>,
    /// The names in insertion order.
    order: VecDeque<String>,
}

/// The entries of one server, the newest last.
#[derive(Debug, Default)]
struct Kept {
    sessions: VecDeque<SavedSession>,
    tokens: VecDeque<Vec<u8>>,
}

/// The maximum length of a stored token, in bytes; a token has to fit into an Initial packet.
const MAX_TOKEN: usize = 1024;

impl MemorySessionStore {
    /// The maximum number of servers.
    pub const SERVERS: usize = 256;
    /// The maximum number of sessions, and the maximum number of tokens, per server.
    pub const PER_SERVER: usize = 4;

    fn lock(&self) -> MutexGuard<'_, Servers<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all entries: the server's name, its sessions and its tokens, the newest last.
    pub fn contents(&self) -> Vec<(String, Vec<SavedSession>, Vec<Vec<u8>>)> {
        let servers = self.lock();
        let kept = servers.order.iter().filter_map(|name| {
            let kept = servers.by_name.get(name)?;
            let sessions = kept.sessions.iter().cloned().collect();
            Some((name.clone(), sessions, kept.tokens.iter().cloned().collect()))
        });
        kept.collect()
    }
}

impl<T: Default> Servers<T> {
    /// Returns the entry of this server, inserting it and evicting the oldest server if there are
    /// too many.
    pub(super) fn of(&mut self, name: &str) -> &mut T {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= MemorySessionStore::SERVERS
                && let Some(oldest) = self.order.pop_front()
            {
                self.by_name.remove(&oldest);
            }
            self.order.push_back(name.to_owned());
        }
        self.by_name.entry(name.to_owned()).or_default()
    }

    /// Returns the entry of this server.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.by_name.get_mut(name)
    }
}

fn push<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() >= MemorySessionStore::PER_SERVER {
        kept.pop_front();
    }
    kept.push_back(new);
}

impl SessionStore for MemorySessionStore {
    fn put_session(&self, server_name: &str, session: SavedSession) {
        push(&mut self.lock().of(server_name).sessions, session);
    }

    fn take_session(&self, server_name: &str, version: Version) -> Option<SavedSession> {
        let mut servers = self.lock();
        let sessions = &mut servers.get_mut(server_name)?.sessions;
        let place = sessions.iter().rposition(|session| session.version() == version)?;
        sessions.remove(place)
    }

    fn put_token(&self, server_name: &str, token: &[u8]) {
        if token.len() <= MAX_TOKEN {
            push(&mut self.lock().of(server_name).tokens, token.to_vec());
        }
    }

    fn take_token(&self, server_name: &str) -> Option<Vec<u8>> {
        self.lock().get_mut(server_name)?.tokens.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_given_out_once_and_the_newest_are_kept() {
        let store = MemorySessionStore::default();
        for number in 0..10 {
            store.put_token("a", &[number]);
        }
        store.put_token("a", &[0; MAX_TOKEN + 1]);
        let taken: Vec<_> = std::iter::from_fn(|| store.take_token("a")).collect();
        assert_eq!(taken, [[9], [8], [7], [6]]);
        assert_eq!(store.take_token("b"), None);
    }

    #[test]
    fn the_servers_that_came_first_are_forgotten() {
        let store = MemorySessionStore::default();
        for number in 0..MemorySessionStore::SERVERS + 10 {
            store.put_token(&number.to_string(), b"token");
        }
        assert_eq!(store.contents().len(), MemorySessionStore::SERVERS);
        assert_eq!(store.take_token("9"), None);
        assert_eq!(store.take_token("10"), Some(b"token".to_vec()));
    }
}
