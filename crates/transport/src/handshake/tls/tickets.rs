//! Session tickets, each of which belongs to the version of the connection that it was issued on (RFC 9369 §5).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_wire::Version;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::{ClientConfig, NamedGroup};

use super::super::early_limits::EarlyLimits;
use super::revive::revive;
use super::saved::{LiveSession, SessionStore};

/// How many servers a client keeps sessions of, in each version; rustls's default.
const SERVERS: usize = 256;

/// The session tickets of a client, by version.
#[derive(Clone, Debug)]
pub(super) struct ClientTickets {
    version_1: Arc<dyn ClientSessionStore>,
    version_2: Arc<dyn ClientSessionStore>,
    /// The application's store. Then the others keep only the groups of earlier key exchanges.
    pub(super) store: Option<Arc<dyn SessionStore>>,
}

impl ClientTickets {
    /// Tickets that are kept in memory.
    pub(super) fn in_memory() -> Self {
        let store = || Arc::new(ClientSessionMemoryCache::new(SERVERS));
        Self { version_1: store(), version_2: store(), store: None }
    }

    fn of(&self, version: Version) -> &dyn ClientSessionStore {
        if version == Version::V2 { &*self.version_2 } else { &*self.version_1 }
    }
}

/// The tickets of one client connection: those that it may use, and where those that it receives are kept.
#[derive(Debug)]
pub(super) struct ConnectionTickets {
    tickets: ClientTickets,
    /// The version of the first flight.
    first: Version,
    /// Whether the connection goes on in version 2.
    is_version_2: AtomicBool,
    /// The configuration with which sessions are revived.
    config: Arc<ClientConfig>,
    /// The session of the last ticket that came, until the application's store has it.
    last: Mutex<Option<Tls13ClientSessionValue>>,
}

impl ConnectionTickets {
    pub(super) fn new(tickets: ClientTickets, first: Version, config: Arc<ClientConfig>) -> Self {
        let is_version_2 = AtomicBool::new(first == Version::V2);
        Self { tickets, first, is_version_2, config, last: Mutex::new(None) }
    }

    /// The application's store.
    pub(super) fn store(&self) -> Option<&Arc<dyn SessionStore>> {
        self.tickets.store.as_ref()
    }

    /// The session of the last ticket, if it has not been taken yet, and goes to the application's store.
    pub(super) fn take_last(&self) -> LiveSession {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        last.map_or_else(LiveSession::default, |session| LiveSession::new(&self.config, session))
    }

    /// The connection goes on in `version`, and so do the tickets that come on it.
    pub(super) fn change_version(&self, version: Version) {
        self.is_version_2.store(version == Version::V2, Ordering::Relaxed);
    }

    fn negotiated(&self) -> &dyn ClientSessionStore {
        let is_version_2 = self.is_version_2.load(Ordering::Relaxed);
        self.tickets.of(if is_version_2 { Version::V2 } else { Version::V1 })
    }
}

impl ClientSessionStore for ConnectionTickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.tickets.of(self.first).set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.of(self.first).kx_hint(server_name)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        ticket: Tls13ClientSessionValue,
    ) {
        if self.tickets.store.is_none() {
            self.negotiated().insert_tls13_ticket(server_name, ticket);
        } else {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
        }
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        let Some(store) = &self.tickets.store else {
            return self.tickets.of(self.first).take_tls13_ticket(server_name);
        };
        let saved = store.take_session(&server_name.to_str(), self.first)?;
        if saved.version() != self.first {
            return None;
        }
        // Making a session anew costs more than a full handshake.
        let live = saved.live.take(&self.config);
        live.or_else(|| revive(&self.config, &saved, server_name))
    }
}

/// The byte behind the content of a server's ticket or session that names its version.
fn mark(version: Version) -> u8 {
    if version == Version::V2 { 2 } else { 1 }
}

fn marked(mut content: Vec<u8>, version: Version) -> Vec<u8> {
    content.push(mark(version));
    content
}

fn unmarked(mut content: Vec<u8>, version: Version) -> Option<Vec<u8>> {
    (content.pop()? == mark(version)).then_some(content)
}

/// A server's ticketer on connections of two versions: it issues tickets of the negotiated one, and accepts those of the
/// version of the first flight.
#[derive(Debug)]
pub(super) struct VersionedTicketer {
    pub(super) inner: Arc<dyn ProducesTickets>,
    pub(super) original: Version,
    pub(super) negotiated: Version,
}

impl ProducesTickets for VersionedTicketer {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&marked(plain.to_vec(), self.negotiated))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        unmarked(self.inner.decrypt(cipher)?, self.original)
    }
}

/// A server's table of sessions on connections of two versions, like [`VersionedTicketer`].
#[derive(Debug)]
pub(super) struct VersionedSessions {
    pub(super) inner: Arc<dyn StoresServerSessions>,
    /// A session that is resumed leaves the table.
    pub(super) is_used_once: bool,
    pub(super) original: Version,
    pub(super) negotiated: Version,
    /// Of a server that accepts early data: the limits of this connection. Sessions that permitted more are not resumed
    /// (RFC 9000 §7.4.1).
    pub(super) limits: Option<EarlyLimits>,
}

impl VersionedSessions {
    fn noted(&self, mut value: Vec<u8>) -> Vec<u8> {
        if let Some(limits) = &self.limits {
            limits.encode(&mut value);
        }
        value.push(u8::from(self.limits.is_some()));
        marked(value, self.negotiated)
    }

    fn fitting(&self, value: Vec<u8>) -> Option<Vec<u8>> {
        let mut value = unmarked(value, self.original)?;
        if value.pop()? == 0 {
            return Some(value);
        }
        let limits = value.split_off(value.len().checked_sub(EarlyLimits::LEN)?);
        let before = EarlyLimits::decode(&limits)?;
        let is_fitting = self.limits.is_none_or(|limits| limits.permit(&before));
        is_fitting.then_some(value)
    }
}

impl StoresServerSessions for VersionedSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, self.noted(value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fitting(self.inner.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let value = if self.is_used_once { self.inner.take(key)? } else { self.inner.get(key)? };
        self.fitting(value)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}
