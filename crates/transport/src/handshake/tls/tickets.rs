//! Session tickets, each of which belongs to the version of the connection that it was issued on
//! (RFC 9369 §5).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_wire::Version;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::{ClientConfig, NamedGroup};

use super::super::early_limits::EarlyLimits;
use super::binding::SessionBinding;
use super::context::{CurrentContext, SessionContext};
use super::memory::{MemorySessionStore, Servers};
use super::revive::{RevivingVerifier, StandInKey, revive};
use super::saved::{LiveSession, SessionStore};
use super::session_trust::{ClientSide, SessionTrust};
use super::verifier::Verifier;

/// The maximum number of tickets per server that a client keeps in memory; the same as in rustls.
const PER_SERVER: usize = 8;

/// A client's session tickets, by version.
#[derive(Clone, Debug)]
pub(super) struct ClientTickets {
    version_1: Arc<InMemory>,
    version_2: Arc<InMemory>,
    /// The trust settings of the configuration.
    side: ClientSide,
    /// The application's store. If present, the other fields keep only the groups of earlier key
    /// exchanges.
    store: Option<Store>,
}

/// An application's session store.
#[derive(Clone, Debug)]
struct Store {
    sessions: Arc<dyn SessionStore>,
    /// The key with which stored sessions are revived.
    stand_in: Arc<StandInKey>,
}

impl ClientTickets {
    /// Creates a set of tickets kept in memory.
    pub(super) fn in_memory(side: ClientSide) -> Self {
        Self { version_1: Arc::default(), version_2: Arc::default(), side, store: None }
    }

    /// Stores the sessions in `sessions`, whose servers are verified by `verifier`. Returns the
    /// configuration's verifier, which is able to revive them.
    pub(super) fn keep_in(
        &mut self,
        sessions: Arc<dyn SessionStore>,
        verifier: Arc<Verifier>,
    ) -> Arc<RevivingVerifier> {
        let stand_in = Arc::<StandInKey>::default();
        self.store = Some(Store { sessions, stand_in: stand_in.clone() });
        Arc::new(RevivingVerifier::new(verifier, stand_in))
    }

    fn of(&self, version: Version) -> &InMemory {
        if version == Version::V2 { &self.version_2 } else { &self.version_1 }
    }
}

/// In-memory state for connections of one version.
#[derive(Debug)]
struct InMemory {
    /// The groups of earlier key exchanges.
    groups: ClientSessionMemoryCache,
    /// The tickets by server, the newest last.
    tickets: Mutex<Servers<VecDeque<Ticket>>>,
}

/// A ticket with its session's context and the time of the full handshake that it descends from.
type Ticket = (Tls13ClientSessionValue, SessionContext, u64);

impl Default for InMemory {
    fn default() -> Self {
        let groups = ClientSessionMemoryCache::new(MemorySessionStore::SERVERS);
        Self { groups, tickets: Mutex::default() }
    }
}

impl InMemory {
    fn lock(&self) -> MutexGuard<'_, Servers<VecDeque<Ticket>>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, server_name: &ServerName<'_>, ticket: Ticket) {
        let mut servers = self.lock();
        let tickets = servers.of(&server_name.to_str());
        if tickets.len() >= PER_SERVER {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    fn take(&self, server_name: &ServerName<'_>) -> Option<Ticket> {
        self.lock().get_mut(&server_name.to_str())?.pop_back()
    }
}

/// The tickets of one client connection: those that it may use, and the destination of those that
/// it receives.
#[derive(Debug)]
pub(super) struct ConnectionTickets {
    tickets: ClientTickets,
    /// The version of the first flight.
    first: Version,
    /// Whether the negotiated version is 2.
    is_version_2: AtomicBool,
    /// The configuration with which sessions are revived.
    config: Arc<ClientConfig>,
    /// The session of the last received ticket, until the application's store has it.
    last: Mutex<Option<Tls13ClientSessionValue>>,
    /// The context of the sessions received on this connection.
    context: SessionContext,
    /// The context of the session that this connection resumes.
    resumed: Mutex<SessionContext>,
    /// The time of the full handshake that this connection descends from, in seconds since 1970.
    began: Mutex<u64>,
}

impl ConnectionTickets {
    pub(super) fn new(tickets: ClientTickets, first: Version, config: Arc<ClientConfig>) -> Self {
        let is_version_2 = AtomicBool::new(first == Version::V2);
        Self {
            tickets,
            first,
            is_version_2,
            config,
            last: Mutex::new(None),
            context: SessionContext::default(),
            resumed: Mutex::default(),
            began: Mutex::new(0),
        }
    }

    /// Returns the current time, in seconds since 1970. If there is no clock, the time is 0, and no
    /// session is too old.
    fn now(&self) -> u64 {
        self.config.time_provider.current_time().map_or(0, |now| now.as_secs())
    }

    /// Notes that the connection has not resumed a session: the server has just shown its
    /// certificate.
    pub(super) fn begin_now(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    /// Returns the trust of the sessions received on this connection.
    pub(super) fn trust(&self) -> SessionTrust {
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        SessionTrust { side: self.tickets.side, began }
    }

    /// Returns the context of the sessions received on this connection.
    pub(super) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Returns the context of the session that this connection resumes.
    pub(super) fn resumed_context(&self) -> SessionContext {
        self.resumed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the ticket with which this connection starts, from memory or from the application's
    /// store.
    fn take(&self, server_name: &ServerName<'static>) -> Option<Ticket> {
        let side = self.tickets.side;
        let permits = |trust: SessionTrust| trust.permits(&side, self.now());
        let Some(store) = &self.tickets.store else {
            let ticket = self.tickets.of(self.first).take(server_name)?;
            return Some(ticket)
                .filter(|(_, _, began)| permits(SessionTrust { side, began: *began }));
        };
        let saved = store.sessions.take_session(&server_name.to_str(), self.first)?;
        if saved.version() != self.first || !permits(saved.trust) {
            return None;
        }
        // Reviving a session costs more than a full handshake.
        let live = saved.live.take(&self.config);
        let session =
            live.or_else(|| revive(&self.config, &store.stand_in, &saved, server_name))?;
        Some((session, saved.context, saved.trust.began))
    }

    /// Returns the application's store.
    pub(super) fn store(&self) -> Option<&Arc<dyn SessionStore>> {
        self.tickets.store.as_ref().map(|store| &store.sessions)
    }

    /// Takes the session of the last ticket for the application's store, if it has not been taken
    /// yet.
    pub(super) fn take_last(&self) -> LiveSession {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        last.map_or_else(LiveSession::default, |session| LiveSession::new(&self.config, session))
    }

    /// Switches the connection, and the tickets received on it, to `version`.
    pub(super) fn change_version(&self, version: Version) {
        self.is_version_2.store(version == Version::V2, Ordering::Relaxed);
    }

    fn negotiated(&self) -> &InMemory {
        let is_version_2 = self.is_version_2.load(Ordering::Relaxed);
        self.tickets.of(if is_version_2 { Version::V2 } else { Version::V1 })
    }
}

impl ClientSessionStore for ConnectionTickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.tickets.of(self.first).groups.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.tickets.of(self.first).groups.kx_hint(server_name)
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
            let ticket = (ticket, self.context.clone(), self.trust().began);
            self.negotiated().put(&server_name, ticket);
        } else {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
        }
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        let (session, context, began) = self.take(server_name)?;
        *self.resumed.lock().unwrap_or_else(PoisonError::into_inner) = context;
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = began;
        Some(session)
    }
}

/// Returns the byte appended to a server's ticket or session to mark its version.
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

/// A server's ticketer for connections that may have two versions: it issues tickets of the
/// negotiated version, and accepts tickets of the first flight's version.
#[derive(Debug)]
pub(super) struct VersionedTicketer {
    pub(super) inner: Arc<dyn ProducesTickets>,
    pub(super) original: Version,
    pub(super) negotiated: Version,
    pub(super) binding: Arc<SessionBinding>,
}

impl ProducesTickets for VersionedTicketer {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut bound = plain.to_vec();
        self.binding.note(&mut bound)?;
        self.inner.encrypt(&marked(bound, self.negotiated))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.binding.accept(unmarked(self.inner.decrypt(cipher)?, self.original)?)
    }
}

/// A server's session table for connections that may have two versions, like [`VersionedTicketer`].
#[derive(Debug)]
pub(super) struct VersionedSessions {
    pub(super) inner: Arc<dyn StoresServerSessions>,
    /// Whether a resumed session is removed from the table.
    pub(super) is_used_once: bool,
    pub(super) original: Version,
    pub(super) negotiated: Version,
    /// The conditions for resuming a session, on a server that accepts early data (RFC 9000 §7.4.1,
    /// RFC 9001 §4.6.3).
    pub(super) early: Option<EarlyDataConditions>,
    pub(super) binding: Arc<SessionBinding>,
}

/// The conditions under which a server's connection accepts early data.
#[derive(Debug)]
pub(super) struct EarlyDataConditions {
    /// The limits of this connection.
    pub(super) limits: EarlyLimits,
    /// The application's settings.
    pub(super) context: Option<CurrentContext>,
}

/// The byte appended to a session to mark its early data record: nothing, the limits, or the
/// context, its length and the limits.
const NOTHING: u8 = 0;
const LIMITS: u8 = 1;
const LIMITS_AND_CONTEXT: u8 = 2;

impl EarlyDataConditions {
    /// Appends the early data record of a session; `None` if no session can be issued.
    fn note(&self, value: &mut Vec<u8>) -> Option<()> {
        let Some(context) = &self.context else {
            self.limits.encode(value);
            value.push(LIMITS);
            return Some(());
        };
        let current = context.encoded()?;
        value.extend_from_slice(current);
        value.extend_from_slice(&u16::try_from(current.len()).ok()?.to_be_bytes());
        self.limits.encode(value);
        value.push(LIMITS_AND_CONTEXT);
        Some(())
    }

    /// Returns whether early data sent under a session's recorded limits and context is acceptable.
    fn permit(&self, limits: &EarlyLimits, context: Option<&[u8]>) -> bool {
        let context_permits = match (&self.context, context) {
            (None, None) => true,
            (Some(current), Some(remembered)) => current.permits(remembered),
            // The settings that the client complies with are unknown.
            (Some(_), None) | (None, Some(_)) => false,
        };
        context_permits && self.limits.permit(limits)
    }
}

/// Removes the last `length` bytes of `value` and returns them.
fn split_end(value: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    Some(value.split_off(value.len().checked_sub(length)?))
}

impl VersionedSessions {
    fn noted(&self, mut value: Vec<u8>) -> Option<Vec<u8>> {
        self.binding.note(&mut value)?;
        match &self.early {
            Some(terms) => terms.note(&mut value)?,
            None => value.push(NOTHING),
        }
        Some(marked(value, self.negotiated))
    }

    fn fitting(&self, value: Vec<u8>) -> Option<Vec<u8>> {
        let mut value = unmarked(value, self.original)?;
        let noted = value.pop()?;
        if noted == NOTHING {
            return self.binding.accept(value);
        }
        let limits = EarlyLimits::decode(&split_end(&mut value, EarlyLimits::LEN)?)?;
        let context = match noted {
            LIMITS => None,
            LIMITS_AND_CONTEXT => {
                let length = u16::from_be_bytes(*split_end(&mut value, 2)?.first_chunk()?);
                Some(split_end(&mut value, usize::from(length))?)
            }
            _ => return None,
        };
        let terms = self.early.as_ref();
        let is_fitting = terms.is_none_or(|terms| terms.permit(&limits, context.as_deref()));
        if is_fitting { self.binding.accept(value) } else { None }
    }
}

impl StoresServerSessions for VersionedSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.noted(value).is_some_and(|value| self.inner.put(key, value))
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
