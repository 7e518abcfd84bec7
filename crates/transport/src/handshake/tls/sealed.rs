//! Session tickets that contain the session, sealed with a key that several processes may share
//! (RFC 8446 §4.6.1, §8), and the keys of address validation tokens and stateless resets, which are
//! derived from the same secret.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use clearway_wire::Reader;
use rustls::crypto::SecureRandom;
use rustls::server::StoresServerSessions;
use rustls::time_provider::TimeProvider;

use crate::crypto::sealing::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use crate::crypto::sealing::hmac;

/// The keys with which a server seals session tickets and address validation tokens: the current
/// one, and the previous one, whose tickets and tokens are still accepted. Clones share the keys.
/// Processes with the same keys accept each other's tickets, and each other's tokens if their
/// endpoints have [`SharedTokens`](crate::SharedTokens).
///
/// While early data is on, a process accepts each ticket only once within the time in which a
/// replayed ClientHello could be taken for a new one; see
/// [`TlsServerConfig::ticket_keys`](crate::TlsServerConfig::ticket_keys).
#[derive(Clone)]
pub struct TicketKeys(Arc<SharedKeys>);

struct SharedKeys {
    ring: RwLock<Ring>,
    used: Mutex<UsedTickets>,
}

struct Ring {
    current: TicketKey,
    previous: Option<TicketKey>,
    /// The number of key changes.
    generation: u64,
}

struct TicketKey {
    /// The key name at the start of each ticket, by which the key is found.
    name: [u8; NAME_LEN],
    aead: Option<LessSafeKey>,
    /// The key of address validation tokens.
    tokens: Option<Arc<LessSafeKey>>,
    /// The key from which stateless reset keys are derived.
    resets: hmac::Key,
}

const NAME_LEN: usize = 4;
const NONCE_LEN: usize = 12;
/// The lifetime of a ticket: the lifetime that rustls advertises to clients.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The minimum time for which the use of a ticket is recorded. TLS considers a ClientHello new
/// while its stated ticket age differs from the true one by less than a minute, in either
/// direction.
const WINDOW: Duration = Duration::from_secs(2 * 60);
/// The maximum number of used tickets that are recorded in each of two windows.
const MAX_USED: usize = 1 << 16;

/// HKDF-Extract (RFC 5869 §2.2).
fn keyed(salt: &[u8], secret: &[u8; 32]) -> hmac::Key {
    let extracted = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), secret);
    hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref())
}

impl TicketKey {
    fn new(secret: &[u8; 32]) -> Self {
        let derive = |label: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), label);
        let name = derive(b"clearway ticket name").as_ref().first_chunk().copied();
        let aead = |label| UnboundKey::new(&AES_256_GCM, derive(label).as_ref()).ok();
        Self {
            name: name.unwrap_or_default(),
            aead: aead(b"clearway ticket").map(LessSafeKey::new),
            tokens: aead(b"clearway address validation token").map(LessSafeKey::new).map(Arc::new),
            resets: keyed(b"clearway stateless reset", secret),
        }
    }

    /// Returns the stateless reset key of the endpoint `identity`: HKDF-Expand of one block (RFC
    /// 5869 §2.3).
    fn of_resets(&self, identity: &[u8]) -> hmac::Key {
        let block = hmac::sign(&self.resets, &[identity, &[1]].concat());
        hmac::Key::new(hmac::HMAC_SHA256, block.as_ref())
    }
}

impl TicketKeys {
    /// Derives keys from 32 secret, random bytes.
    pub fn new(secret: &[u8; 32]) -> Self {
        let ring = Ring { current: TicketKey::new(secret), previous: None, generation: 0 };
        let ring = RwLock::new(ring);
        Self(Arc::new(SharedKeys { ring, used: Mutex::default() }))
    }

    /// Seals new tickets and tokens with another key from now on. Those of the current key are
    /// accepted until the next call. A no-op if this key is already in use.
    pub fn rotate(&self, secret: &[u8; 32]) {
        let mut ring = self.0.ring.write().unwrap_or_else(PoisonError::into_inner);
        let new = TicketKey::new(secret);
        if new.name != ring.current.name {
            ring.previous = Some(core::mem::replace(&mut ring.current, new));
            ring.generation = ring.generation.wrapping_add(1);
        }
    }

    /// Also accepts the tickets and tokens of this previous key.
    pub fn accept_previous(&self, secret: &[u8; 32]) {
        let mut ring = self.0.ring.write().unwrap_or_else(PoisonError::into_inner);
        ring.previous = Some(TicketKey::new(secret));
        ring.generation = ring.generation.wrapping_add(1);
    }

    /// Returns a number that changes with the keys.
    pub(crate) fn generation(&self) -> u64 {
        self.0.ring.read().unwrap_or_else(PoisonError::into_inner).generation
    }

    /// Returns the generation of the keys, and the stateless reset keys of the endpoint `identity`:
    /// derived from the current ticket key and from the previous one.
    pub(crate) fn of_resets(&self, identity: &[u8]) -> (u64, hmac::Key, Option<hmac::Key>) {
        let ring = self.0.ring.read().unwrap_or_else(PoisonError::into_inner);
        let previous = ring.previous.as_ref().map(|key| key.of_resets(identity));
        (ring.generation, ring.current.of_resets(identity), previous)
    }

    /// Returns the keys of address validation tokens: the current one and the previous one.
    pub(crate) fn of_tokens(&self) -> [Option<Arc<LessSafeKey>>; 2] {
        let ring = self.0.ring.read().unwrap_or_else(PoisonError::into_inner);
        let previous = ring.previous.as_ref().and_then(|key| key.tokens.clone());
        [ring.current.tokens.clone(), previous]
    }

    fn seal(&self, now: Duration, session: &[u8], nonce: [u8; NONCE_LEN]) -> Option<Vec<u8>> {
        let issuer = self.used().issue(now, nonce);
        let ring = self.0.ring.read().unwrap_or_else(PoisonError::into_inner);
        let key = &ring.current;
        let mut sealed = now.as_secs().to_be_bytes().to_vec();
        sealed.extend_from_slice(&issuer);
        sealed.extend_from_slice(session);
        let once = Nonce::assume_unique_for_key(nonce);
        key.aead.as_ref()?.seal_in_place_append_tag(once, Aad::from(key.name), &mut sealed).ok()?;
        Some([&key.name[..], &nonce, &sealed].concat())
    }

    /// Returns the origin of a ticket, and the session in it.
    fn open(&self, now: Duration, ticket: &[u8]) -> Option<(Origin, Vec<u8>)> {
        let mut reader = Reader::new(ticket);
        let name = reader.array::<NAME_LEN>("name").ok()?;
        let nonce = reader.array::<NONCE_LEN>("nonce").ok()?;
        let mut sealed = reader.take_rest().to_vec();
        let ring = self.0.ring.read().unwrap_or_else(PoisonError::into_inner);
        let mut keys = core::iter::once(&ring.current).chain(&ring.previous);
        let key = keys.find(|key| key.name == name)?.aead.as_ref()?;
        let once = Nonce::assume_unique_for_key(nonce);
        let plain = key.open_in_place(once, Aad::from(name), &mut sealed).ok()?;
        let (issued, rest) = plain.split_first_chunk()?;
        let (issuer, session) = rest.split_first_chunk()?;
        let origin =
            Origin { issued: Duration::from_secs(u64::from_be_bytes(*issued)), issuer: *issuer };
        let is_valid = now.saturating_sub(origin.issued) <= LIFETIME;
        is_valid.then(|| (origin, session.to_vec()))
    }

    /// Records the use of a ticket. Returns whether it was certainly not used before.
    fn use_once(&self, now: Duration, origin: Origin, ticket: &[u8]) -> bool {
        // The tag at its end is unique to a ticket.
        let Some(tag) = ticket.last_chunk() else { return false };
        self.used().insert(now, origin, *tag)
    }

    fn used(&self) -> MutexGuard<'_, UsedTickets> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys(..)")
    }
}

type Tag = [u8; 16];

/// The time at which a ticket was issued, and an identifier of the record of used tickets that was
/// active then: the nonce of the first ticket issued under that record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Origin {
    issued: Duration,
    issuer: [u8; NONCE_LEN],
}

/// The tickets used in this window and the previous one (RFC 8446 §8.2).
#[derive(Debug, Default)]
struct UsedTickets {
    /// The start of the record: the time when the first ticket was sealed or used. `None` before.
    since: Option<Duration>,
    /// The identifier of this record in the tickets issued under it; `None` before the first.
    issuer: Option<[u8; NONCE_LEN]>,
    window_began: Duration,
    recent: BTreeSet<Tag>,
    earlier: BTreeSet<Tag>,
}

impl UsedTickets {
    /// Starts the record, unless it has started. Returns when it started.
    fn begin(&mut self, now: Duration) -> Duration {
        *self.since.get_or_insert(now)
    }

    /// Handles the issuing of a ticket with this nonce. Returns the identifier of the record.
    fn issue(&mut self, now: Duration, nonce: [u8; NONCE_LEN]) -> [u8; NONCE_LEN] {
        self.begin(now);
        *self.issuer.get_or_insert(nonce)
    }

    /// Records a ticket. Returns whether the ticket was certainly not used within the last
    /// [`WINDOW`]. This requires that it is not recorded yet, that there is room to record it, and
    /// that this record would contain any earlier use: because it has the same issuer as the ticket,
    /// started before the ticket was issued, or started at least [`WINDOW`] ago. Times are
    /// in whole seconds: a ticket from the second in which the record started may be older than the
    /// record.
    fn insert(&mut self, now: Duration, origin: Origin, tag: Tag) -> bool {
        let since = self.begin(now);
        if now.saturating_sub(self.window_began) >= WINDOW {
            let is_next = now.saturating_sub(self.window_began) < WINDOW.saturating_mul(2);
            let last = core::mem::take(&mut self.recent);
            self.earlier = if is_next { last } else { BTreeSet::new() };
            self.window_began = now;
        }
        if self.earlier.contains(&tag) || self.recent.contains(&tag) {
            return false;
        }
        let is_own = self.issuer == Some(origin.issuer);
        let may_be_used_before =
            !is_own && origin.issued <= since && now.saturating_sub(since) < WINDOW;
        if may_be_used_before || self.recent.len() >= MAX_USED {
            return false;
        }
        self.recent.insert(tag)
    }
}

/// The sessions of one server connection, stored in tickets. rustls accepts early data only with
/// sessions from a table; the name that it issues for a session in its table is replaced by the
/// sealed session.
#[derive(Debug)]
pub(super) struct SealedSessions {
    pub(super) keys: TicketKeys,
    pub(super) time: Arc<dyn TimeProvider>,
    pub(super) random: &'static dyn SecureRandom,
    /// Whether early data is accepted, in which case a ticket must not be used twice.
    pub(super) is_used_once: bool,
    /// The names that rustls has given to sessions whose tickets have not been sent yet, and the
    /// tickets.
    pub(super) unsent: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl SealedSessions {
    fn now(&self) -> Option<Duration> {
        let now = self.time.current_time()?;
        Some(Duration::from_secs(now.as_secs()))
    }

    /// Returns the ticket that replaces the session's name.
    pub(super) fn take_ticket(&self, name: &[u8]) -> Option<Vec<u8>> {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        let place = unsent.iter().position(|(of, _)| of == name)?;
        Some(unsent.swap_remove(place).1)
    }
}

impl StoresServerSessions for SealedSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut nonce = [0; NONCE_LEN];
        let sealed = self.now().filter(|_| self.random.fill(&mut nonce).is_ok());
        let Some(ticket) = sealed.and_then(|now| self.keys.seal(now, &value, nonce)) else {
            return false;
        };
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner).push((key, ticket));
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.take(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let now = self.now()?;
        let (origin, session) = self.keys.open(now, key)?;
        let is_usable = !self.is_used_once || self.keys.use_once(now, origin, key);
        is_usable.then_some(session)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "sealed_tests.rs"]
mod tests;
