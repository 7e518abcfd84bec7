//! Stateless reset keys derived from ticket keys, so that a server which has lost its connections
//! can still end them (RFC 9000 §10.3.2).

use std::sync::{Arc, Mutex, PoisonError};

use crate::crypto::sealing::hmac;
use crate::handshake::TicketKeys;
use crate::ids::{ResetKey, ResetKeySource};

impl ResetKey {
    /// Derives a key from the current ticket keys (HKDF, RFC 5869); the derived key changes when
    /// they do. Tokens of connections that began before the last change can be derived for as long
    /// as the previous ticket key is kept, even after a restart with the same keys.
    ///
    /// `identity` distinguishes this endpoint from all others with the same ticket keys. If two
    /// endpoints share an identity, anyone can make one endpoint terminate the other's connections
    /// by sending it one of the other's packets (RFC 9000 §21.11).
    pub fn from_ticket_keys(keys: TicketKeys, identity: &[u8]) -> Self {
        Self::following(Arc::new(TicketResetKeys {
            identity: identity.into(),
            derived: Mutex::new(Derived::new(&keys, identity)),
            keys,
        }))
    }
}

struct TicketResetKeys {
    keys: TicketKeys,
    identity: Box<[u8]>,
    /// The derived keys, which are derived again when the ticket keys change. Cached because a key
    /// takes more than a kilobyte and every connection has one.
    derived: Mutex<Derived>,
}

struct Derived {
    generation: u64,
    current: Arc<hmac::Key>,
    previous: Option<Arc<hmac::Key>>,
}

impl Derived {
    fn new(keys: &TicketKeys, identity: &[u8]) -> Self {
        let (generation, current, previous) = keys.of_resets(identity);
        Self { generation, current: Arc::new(current), previous: previous.map(Arc::new) }
    }
}

impl ResetKeySource for TicketResetKeys {
    fn keys(&self) -> (Arc<hmac::Key>, Option<Arc<hmac::Key>>) {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if derived.generation != self.keys.generation() {
            *derived = Derived::new(&self.keys, &self.identity);
        }
        (derived.current.clone(), derived.previous.clone())
    }
}
